"""The package as a user installs and imports it."""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import fgw_jax

ROOT = Path(__file__).resolve().parents[1]


def _run(code, cwd, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", fgw_jax.__all__)
def test_every_public_name_can_be_reached(name):
    assert getattr(fgw_jax, name) is not None
    assert name in dir(fgw_jax)


def test_every_module_has_a_test_of_its_name_or_is_said_to_be_covered():
    """A test file of its name, or a line ``Covers fgw_jax.a.b, fgw_jax.c.`` in some docstring."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    said = set()
    for file in files:
        told = re.search(r"^Covers (fgw_jax\.[\w.]+\w,?\s*)+", file.read_text(), re.MULTILINE)
        said |= set(re.findall(r"fgw_jax[\w.]*\w", told[0])) if told else set()
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (ROOT / "fgw_jax").rglob("*.py")
        if path.stem != "__init__"
    }
    own = {
        ".".join(("fgw_jax", *file.relative_to(ROOT / "tests").parent.parts, file.stem[5:]))
        for file in files
    }
    assert said <= modules, "a covered module is gone"
    assert modules - own - said == set(), "write a test file, or say which one covers it"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = fgw_jax.no_such_name


def test_type_checkers_see_every_public_name():
    tree = (ROOT / "fgw_jax" / "__init__.py").read_text()
    checked = tree.split("if TYPE_CHECKING:")[1].split("\ndef ")[0]
    for name in fgw_jax.__all__[1:]:
        assert re.search(rf" as {name}\b", checked)


def test_the_version_is_that_of_the_metadata():
    assert importlib.metadata.version("fgw_jax") == fgw_jax.__version__


def test_importing_is_light_and_changes_no_setting(tmp_path):
    out = _run(
        "import json, sys, warnings, jax\n"
        "before = dict(jax.config.values)\n"
        "import fgw_jax\n"
        "heavy = [m for m in ('flax', 'sklearn', 'matplotlib', 'networkx', 'pooch', 'ott')"
        " if m in sys.modules]\n"
        "from fgw_jax import augment, backbones, datasets, training\n"
        "print(json.dumps([heavy, dict(jax.config.values) == before]))",
        tmp_path,
    )
    assert json.loads(out) == [[], True]


@pytest.mark.slow
def test_a_wheel_works_outside_the_clone(tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "fgw_jax", source / "fgw_jax", ignore=shutil.ignore_patterns("__py*"))
    _run("from setuptools import build_meta as b; b.build_wheel('..')", source)
    (wheel,) = tmp_path.glob("fgw_jax-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(site)
    assert {name.split("/")[0] for name in names} == {
        "fgw_jax",
        f"fgw_jax-{fgw_jax.__version__}.dist-info",
    }
    assert "fgw_jax/py.typed" in names
    rooms = {p.parent.name for p in ROOT.glob("fgw_jax/*/__init__.py")}
    assert rooms == {
        n.split("/")[1] for n in names if n.count("/") > 1 and n.startswith("fgw_jax/")
    }
    out = _run(
        "import fgw_jax; from fgw_jax.datasets import registry;"
        "registry.find('PROTEINS');"
        "print(fgw_jax.__file__, len(fgw_jax.datasets.load('SYNTHETIC')))",
        tmp_path,
        PYTHONPATH=str(site),
    )
    file, count = out.split()
    assert Path(file).is_relative_to(site) and int(count) > 0
