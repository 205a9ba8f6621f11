"""Sphinx configuration: Markdown pages, one theme, nothing generated from code that the tests do not run."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from docs import command_line  # noqa: E402

command_line.write()

project = "tacit"
author = "The tacit authors"
copyright = "The tacit authors"
_version = (ROOT / "src" / "tacit" / "_version.py").read_text(encoding="utf-8")
release = re.search(r'__version__ = "([^"]+)"', _version)[1]  # type: ignore[index]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_gallery.gen_gallery"]
autodoc_typehints = "signature"
napoleon_google_docstring = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
logging.getLogger("ray").setLevel(logging.ERROR)  # pages show what examples say, not what the cluster says
sphinx_gallery_conf = {
    "examples_dirs": ["lessons", "examples"],
    "gallery_dirs": ["tutorials", "gallery"],
    "reset_modules": ("docs.style.apply",),
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "capture_repr": (),
    "min_reported_time": 60,
    "show_memory": False,
    "download_all_examples": False,
    "show_signature": False,
    "copyfile_regex": r".*\.rst",
}
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "examples", "lessons", "**sg_execution_times.rst"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "tacit"
html_static_path = ["static"]
html_js_files = ["reading.js"]
html_search_scorer = str(Path(__file__).parent / "static" / "scorer.js")
html_css_files = ["reading.css"]
