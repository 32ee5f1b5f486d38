"""Import rules and module sizes of the package, read with `ast`."""

import ast
import itertools
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAX_LINES = 350

#: module or package -> what it must not import, directly or through others, when it is imported
SOLVERS = ("graphs", "structure", "fgw", "midpoint")
ABOVE_SOLVERS = ("datasets", "augment", "backbones", "training", "protocol")
#: larger modules that are still to be split; a name may only be removed
TO_SPLIT: set[str] = set()


def modules(package):
    """Dotted name -> file, of a package of the checkout."""
    found = {}
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules("fgw_jax")


def imports(path, package, *, lazy=True):
    """Absolute names a file imports; without ``lazy``, only those at import time.

    ``from a import b`` counts as ``a.b``, and imports for type checkers do not count.
    """
    found = set()

    def visit(node):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not lazy:
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            base = package.split(".")[: -node.level + 1 or None] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            found.update(f"{name}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text()))
    return found


def inside(name, package):
    return name == package or name.startswith(package + ".")


def in_package(package):
    return [name for name in MODULES if inside(name, f"fgw_jax.{package}")]


def imported_by(name, *, lazy=True):
    path = MODULES[name]
    return imports(path, name if path.name == "__init__.py" else name.rpartition(".")[0], lazy=lazy)


def closure(name):
    """What importing a module imports: other modules of fgw_jax, and names from elsewhere."""
    seen, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one not in MODULES:
            # ``from module import name``: the module, if the name is none.
            parent = one.rpartition(".")[0]
            if parent in MODULES:
                todo.append(parent)
            continue
        todo += imported_by(one, lazy=False)
        parents = itertools.accumulate(one.split("."), "{}.{}".format)
        todo += [parent for parent in parents if parent != one]
    return seen


def violations(names, forbidden, found=imported_by):
    return [
        f"{name} imports {imported}"
        for name in names
        for imported in sorted(found(name))
        if any(inside(imported, other) for other in forbidden)
    ]


@pytest.mark.parametrize("package", SOLVERS)
def test_solvers_need_no_disk(package):
    forbidden = ["fcntl", *(f"fgw_jax.runtime.{name}" for name in ("files", "program_cache"))]
    assert violations(in_package(package), forbidden, closure) == []


@pytest.mark.parametrize("package", SOLVERS)
def test_solvers_know_nothing_of_learning(package):
    names = in_package(package)
    assert names
    forbidden = [*(f"fgw_jax.{other}" for other in ABOVE_SOLVERS), "flax", "optax", "absl"]
    assert violations(names, forbidden) == []
    # Nor does importing them, through any module in between.
    assert violations(names, forbidden, closure) == []


def test_backbones_know_nothing_of_transport():
    forbidden = ("fgw", "midpoint", "augment", "datasets", "training", "protocol")
    assert violations(in_package("backbones"), [f"fgw_jax.{f}" for f in forbidden]) == []


def test_nothing_below_imports_cross_validation():
    names = [name for name in MODULES if not inside(name, "fgw_jax.protocol")]
    names.remove("fgw_jax")  # whose names are imported when first used
    assert violations(names, ["fgw_jax.protocol"]) == []


def test_only_experiments_know_absl():
    assert violations(MODULES, ["absl", "experiments", "tests"]) == []


def test_experiments_import_nothing_from_tests():
    for name, path in modules("experiments").items():
        assert not [i for i in imports(path, name.rpartition(".")[0]) if inside(i, "tests")], name


def test_no_module_is_large():
    sizes = {
        str(path.relative_to(ROOT / "fgw_jax")): len(path.read_text().splitlines())
        for path in MODULES.values()
    }
    assert {name for name, size in sizes.items() if size > MAX_LINES} <= TO_SPLIT


def test_imports_are_found(tmp_path):
    """The reader itself: every spelling of an import, and what does not count."""
    path = tmp_path / "module.py"
    path.write_text(
        "import a.b\nfrom c import d\nfrom . import e\nfrom .f import g\nfrom ..h import i\n"
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import j\n"
        "def function():\n    import k\n"
    )
    found = imports(path, "one.two")
    assert found == {
        "a.b", "c.d", "one.two.e", "one.two.f.g", "one.h.i", "typing.TYPE_CHECKING", "k",
    }  # fmt: skip
    assert imports(path, "one.two", lazy=False) == found - {"k"}
    assert "fgw_jax.errors.check" in closure("fgw_jax.inputs") | imported_by("fgw_jax.inputs")
    assert {"fgw_jax.errors", "jax", "fgw_jax"} <= closure("fgw_jax.graphs")


#: Files that define solvers: they alone may know which class one is.
SOLVERS = ("strict", "relaxed", "conditional_gradient", "mirror_descent", "reference", "options")
CLASSES = {
    "ConditionalGradient", "MirrorDescent", "ScheduledMirror", "AlternatingMirror", "Reference",
    "Strict", "Relaxed",
}  # fmt: skip


def type_tests(tree):
    """Lines that ask for the class or the method of a solver."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            names = {x.id for x in ast.walk(node.args[1]) if isinstance(x, ast.Name)}
            names |= {x.attr for x in ast.walk(node.args[1]) if isinstance(x, ast.Attribute)}
            if names & CLASSES:
                yield node.lineno
        named = isinstance(node, ast.Attribute) and node.attr in ("method", "schedule")
        if named and "solver" in ast.unparse(node.value):
            yield node.lineno


def test_type_tests_are_found():
    code = "isinstance(s, fgw.MirrorDescent)\nself.solver.method\nisinstance(s, type)\nx.method"
    assert list(type_tests(ast.parse(code))) == [1, 2]


def test_no_module_asks_what_class_a_solver_is():
    found = {}
    for name, file in {**modules("fgw_jax"), **modules("experiments")}.items():
        lines = list(type_tests(ast.parse(file.read_text())))
        if lines and name.rsplit(".", 1)[-1] not in SOLVERS:
            found[name] = lines
    assert not found
