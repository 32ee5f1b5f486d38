"""Fetch a file from the first address that gives a good one, and place it whole or not at all."""

from __future__ import annotations

import os
import shutil
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fgw_jax.errors import DataError
from fgw_jax.runtime import files

T = TypeVar("T")
_LARGEST = 4 << 30  # bytes, far beyond any dataset of the registry


class _Bounded:
    """A file that takes only so much, for servers that never end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        """Append, up to the bound."""
        if self._file.tell() + len(data) > _LARGEST:
            raise DataError(f"more than {_LARGEST} bytes, which no dataset has")
        return self._file.write(data)

    def flush(self) -> None:
        """Hand on."""
        self._file.flush()


def fetch(
    urls: Sequence[str],
    destination: Path,
    check: Callable[[Path], T],
    *,
    timeout: float = 30.0,
    attempts: int = 3,
) -> T:
    """Download to ``destination`` and return what ``check`` made of the file.

    Each address is tried ``attempts`` times. The file is written under a temporary name in the
    folder of ``destination`` and moved into place, in one step, only after ``check`` (which raises
    a :class:`DataError`) has passed it; so another process sees the whole file or none, and two
    that download at once both end well. When no address helps, nothing is left behind.

    Args:
      urls: addresses to try in order, ``https``, ``http`` or ``file``.
      destination: where the file is to be.
      check: reads the downloaded file; its result is returned.
      timeout: seconds without a byte after which an attempt is given up.
      attempts: tries an address gets, the second after 1 s, the third after 2 s more.
    """
    failures = []
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with files.scratch(destination.parent) as folder:
            part = folder / destination.name
            for url in urls:
                try:
                    _retry(url, part, timeout, attempts)
                    result = check(part)
                except DataError as error:
                    failures.append(f"{url}: {str(error).replace(f'{folder}{os.sep}', '')}")
                    continue
                os.replace(part, destination)
                return result
    except OSError as error:
        raise DataError(
            f"{destination.parent}: cannot be written to ({error}); make room there, pass a "
            "data_dir of your own, or set FGW_JAX_CACHE"
        ) from error
    raise DataError(
        f"{destination.name}: no address gave a good copy:\n  "
        + "\n  ".join(failures)
        + f"\nCheck the network, or put {destination.name} into {destination.parent} yourself"
    )


def cache_dir() -> Path:
    """The folder downloads go to: ``FGW_JAX_CACHE``, or the platform's cache folder."""
    if os.environ.get("FGW_JAX_CACHE"):
        return Path(os.environ["FGW_JAX_CACHE"])
    return Path(_pooch().os_cache("fgw_jax"))


def _retry(url: str, part: Path, timeout: float, attempts: int) -> None:
    for attempt in range(1, attempts + 1):
        try:
            return _get(url, part, timeout)
        except (OSError, ValueError) as error:  # every error of requests is an OSError
            if getattr(error, "errno", None) in files.OF_THE_DISK:
                raise  # not the fault of the address
            status = getattr(getattr(error, "response", None), "status_code", 0)
            # The server's "no" (404, 403) stands; only its troubles (5xx) and the network's pass.
            if attempt == attempts or 400 <= status < 500:
                raise DataError(f"{type(error).__name__}: {error}") from error
            time.sleep(attempt)


def _get(url: str, part: Path, timeout: float) -> None:
    if url.startswith("file:"):
        shutil.copyfile(urllib.request.url2pathname(urllib.parse.urlparse(url).path), part)
        return
    with part.open("wb") as file:
        _pooch().HTTPDownloader(timeout=timeout)(url, _Bounded(file), None)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise DataError(
            "downloading needs pooch: pip install 'fgw_jax[experiments]', or pass a data_dir that "
            "holds the dataset"
        ) from error
    return pooch
