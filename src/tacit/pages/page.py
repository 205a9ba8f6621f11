"""One HTML file per page: templates that escape by default, and a policy that allows what is inlined and nothing else.

G1  Every value is escaped unless a template of this package says otherwise; a name that is missing is an error.
G2  Scripts and styles are inlined and named in the Content-Security-Policy by their SHA-256; nothing else may run, load
    or be sent, whatever the values hold.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

__all__ = ["content_policy", "render"]

STYLES: Final = ("static/page.css",)
CURVE_STYLES: Final = ("vendor/uPlot.min.css",)
CURVE_SCRIPTS: Final = ("vendor/uPlot.iife.min.js", "static/curves.js")
LICENCES: Final = {"vendor/uPlot.iife.min.js": "vendor/LICENSE-uPlot.txt"}
"""What must travel with every copy of a script."""


def render(template: str, *, curves: bool = False, **values: Any) -> str:
    """The text of a page: a template filled with values, with its styles and, for interactive curves, its scripts.

    >>> page = render("audit.html", title="<b>", version="0", note="", sections=(), command="tacit audit")
    >>> "<title>&lt;b&gt; - tacit</title>" in page, "<script" in page
    (True, False)
    """
    styles = [_inlined(name) for name in (*CURVE_STYLES, *STYLES)] if curves else [_inlined(name) for name in STYLES]
    scripts = [_inlined(name) for name in CURVE_SCRIPTS] if curves else []
    found = _environment().get_template(template)
    return found.render(
        styles=[Markup(text) for text in styles],  # noqa: S704 - files of this package, never values
        scripts=[Markup(text) for text in scripts],  # noqa: S704
        policy=content_policy(scripts=scripts, styles=styles),
        **values,
    )


def content_policy(*, scripts: Sequence[str], styles: Sequence[str]) -> str:
    """The Content-Security-Policy of a page with these texts between its tags.

    >>> content_policy(scripts=[], styles=[])
    "default-src 'none'; script-src 'none'; style-src 'none'; img-src data:; base-uri 'none'; form-action 'none'"
    """
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Sequence[str]) -> str:
    found = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{each}'" for each in found) or "'none'"


@cache
def _inlined(name: str) -> str:
    """A file of this package as it stands between two tags, with the licence that must travel with it."""
    text = _file(name)
    return f"/*\n{_file(LICENCES[name]).strip()}\n*/\n{text}" if name in LICENCES else text


def _file(name: str) -> str:
    return resources.files(__package__ or "tacit.pages").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("tacit.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
