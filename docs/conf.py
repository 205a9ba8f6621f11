"""Sphinx configuration: Markdown pages, one theme, nothing generated from code that the tests do not run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

project = "tacit"
author = "The tacit authors"
copyright = "The tacit authors"
_version = (ROOT / "src" / "tacit" / "_version.py").read_text(encoding="utf-8")
release = re.search(r'__version__ = "([^"]+)"', _version)[1]  # type: ignore[index]

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
suppress_warnings = [
    # Pages link to files of the repository (LICENSE, benchmarks/README.md), which are not part of the site.
    "myst.xref_missing",
]

html_theme = "furo"
html_title = "tacit"
