"""Configuration of the documentation: ``python -m sphinx -W docs FOLDER``."""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fgw_jax

project = "fgw_jax"
release = fgw_jax.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.napoleon"]
html_theme = "alabaster"
html_theme_options = {"description": "FGW distances, midpoints and graph mixup in JAX"}

autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_default_options = {"members": True, "undoc-members": False, "show-inheritance": False}
napoleon_google_docstring = True
napoleon_use_ivar = True
# Fields are described in their class; defaults are shown as written.
autodoc_preserve_defaults = True


def escape_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Escape ``|x - y|`` in docstrings, which uses no substitutions."""
    in_math = False
    for i, line in enumerate(lines):
        if line.strip().startswith(".. math::"):
            in_math = True
        elif line.strip() and not line.startswith(" "):
            in_math = False
        if not in_math:
            parts = re.split(r"(``.*?``|:math:`.*?`)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "".join(parts)


def setup(app: Any) -> None:
    """Called by sphinx."""
    app.connect("autodoc-process-docstring", escape_bars)
