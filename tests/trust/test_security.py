"""No pickle, no eval, no shell, no plain http: what SECURITY.md promises, read from the sources."""

import ast
import json
import tomllib
from pathlib import Path

import pytest

from fgw_jax.datasets import registry

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path for room in ("fgw_jax", "experiments") for path in (ROOT / room).rglob("*.py")
)
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve",
           "yaml", "pty", "commands", "telnetlib", "ftplib"}  # fmt: skip
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
ATTRIBUTES = {
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput",
    "tempfile.mktemp", "shutil.unpack_archive", "pd.read_pickle", "np.fromregex",
}  # fmt: skip
#: calls of these names would unpack an archive onto the disk
UNPACKING = {"extractall", "extract", "unpack_archive"}


def findings(source):
    """What a source does that it must not, line by line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
            for name in names:
                if name.split(".")[0] in MODULES:
                    yield f"line {node.lineno}: imports {name}"
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if called in CALLS or called in ATTRIBUTES or called.startswith(("os.spawn", "os.exec")):
            yield f"line {node.lineno}: calls {called}"
        if called.split(".")[-1] in UNPACKING:
            yield f"line {node.lineno}: unpacks onto the disk by {called}"
        if keywords.get("shell", "False") != "False":
            yield f"line {node.lineno}: starts a shell"
        if keywords.get("verify", "True") == "False":
            yield f"line {node.lineno}: does not verify"
        if called in ("np.load", "numpy.load") and keywords.get("allow_pickle") != "False":
            yield f"line {node.lineno}: np.load without allow_pickle=False"
        if called in ("np.save", "numpy.save") and keywords.get("allow_pickle") != "False":
            yield f"line {node.lineno}: np.save without allow_pickle=False"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_source_can_run_what_it_reads(path):
    assert list(findings(path.read_text())) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle", "from pickle import loads", "import yaml", "eval('1')", "exec('1')",
        "import os\nos.system('ls')", "subprocess.run('ls', shell=True)", "np.load('a.npy')",
        "np.load('a', allow_pickle=True)", "archive.extractall()", "requests.get(u, verify=False)",
        "tempfile.mktemp()",
    ],
)  # fmt: skip
def test_the_search_finds_what_it_looks_for(source):
    assert list(findings(source))


def test_addresses_are_https_and_listed_datasets_have_fingerprints():
    known = json.loads((ROOT / "fgw_jax" / "datasets" / "registry.json").read_text())
    for urls in known["addresses"].values():
        assert urls and all(url.startswith("https://") for url in urls)
    assert len(registry.names()) >= 5
    for name in registry.names():
        entry = registry.find(name)
        assert all(url.startswith("https://") for url in entry.urls)
        assert len(entry.fingerprints["content"]) == 64
        assert "content" not in entry.loose


def test_the_linter_watches_package_and_experiments():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "S" in lint["select"]
    assert not any(rule.startswith("S") and rule[1:].isdigit() for rule in lint["ignore"])
    ignored = lint["per-file-ignores"]
    loosened = [place for place, rules in ignored.items() if any(r[0] == "S" for r in rules)]
    assert loosened == ["tests/**"]


def test_the_way_to_report_is_told():
    text = (ROOT / "SECURITY.md").read_text()
    assert "private advisory" in text and "@" not in text
