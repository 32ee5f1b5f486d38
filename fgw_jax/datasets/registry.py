"""Where datasets are published and how their content is recognised (``registry.json``)."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.resources
import json
import re
from typing import Any

from fgw_jax.errors import InputError


@dataclasses.dataclass(frozen=True)
class Entry:
    """A dataset that can be loaded by name.

    Attributes:
      name: as published; OGB's with a hyphen.
      kind: the layout of its files, ``"tu"`` or ``"ogb"``.
      folders: names under which its folder or zip may lie in a folder of datasets.
      urls: addresses of its zip, the publisher's first.
      fingerprints: known :meth:`fgw_jax.datasets.raw.Raw.fingerprints`, empty for a dataset that
        the registry does not list.
      loose: parts of the content of which published copies differ, so that an unknown
        fingerprint is a warning there and not an error.
    """

    name: str
    kind: str
    folders: tuple[str, ...]
    urls: tuple[str, ...]
    fingerprints: dict[str, str]
    loose: tuple[str, ...] = ()


def find(name: str) -> Entry:
    """The entry of a name: any TU name as published, or OGB's ``ogbg-mol*`` (``_`` for ``-`` too).

    >>> find("ogbg_molhiv").name, find("REDDIT-BINARY").kind
    ('ogbg-molhiv', 'tu')
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w+-]{0,99}", name, re.ASCII):
        raise InputError(f"name: {name!r} is not a dataset's name; pass one such as 'PROTEINS'")
    registry = _registry()
    kind, short = "tu", name
    if re.match(r"ogbg[-_]", name):
        name = name.replace("_", "-")
        kind, short = "ogb", name.removeprefix("ogbg-mol")
        if short == name:
            raise InputError(
                f"name: of OGB the molecule datasets ogbg-mol* can be read, got {name!r}; "
                "build a Dataset of your own graphs for others"
            )
    known = registry["datasets"].get(name, {})
    if not known:
        _refuse_misspelling(name, list(registry["datasets"]))
    folders = (name,) if kind == "tu" else (name.replace("-", "_"), name, short)
    return Entry(
        name=name,
        kind=kind,
        folders=folders,
        urls=tuple(url.format(name=short) for url in registry["addresses"][kind]),
        fingerprints=known.get("fingerprints", {}),
        loose=tuple(known.get("loose", ())),
    )


def names() -> list[str]:
    """Datasets whose content the registry knows by fingerprint."""
    return list(_registry()["datasets"])


def _refuse_misspelling(name: str, known: list[str]) -> None:
    """A listed name in other case or with ``_`` for ``-`` is a slip, not another dataset."""
    close = {k.lower().replace("-", "_"): k for k in known}.get(name.lower().replace("-", "_"))
    if close is not None:
        raise InputError(f"name: no dataset {name!r}; did you mean {close!r}?")


def suggest(name: str) -> str:
    """A hint for an error message: the listed names most like ``name``."""
    close = difflib.get_close_matches(name, names(), n=2)
    return f" (or did you mean {' or '.join(close)}?)" if close and name not in names() else ""


@functools.cache
def _registry() -> dict[str, Any]:
    text = importlib.resources.files(__package__).joinpath("registry.json").read_text("utf-8")
    return json.loads(text)
