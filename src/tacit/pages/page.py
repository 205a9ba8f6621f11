"""One HTML file per page: templates that escape by default, and a policy that allows what is inlined and nothing else.

G1  Every value is escaped unless a template of this package says otherwise; a name that is missing is an error.
G2  Scripts and styles are inlined and named in the Content-Security-Policy by their SHA-256; nothing else may run, load
    or be sent, whatever the values hold.
G3  Pages that a server hands out (`render_served`) have nothing inline: their scripts and styles are files of this
    package (`asset`), named with their digest, and `SERVED_POLICY` allows those and nothing else.
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

STYLES: Final = ("static/page.css",)
CURVE_STYLES: Final = ("vendor/uPlot.min.css",)
CURVE_SCRIPTS: Final = ("vendor/uPlot.iife.min.js", "static/curves.js")
LICENCES: Final = {"vendor/uPlot.iife.min.js": "vendor/LICENSE-uPlot.txt"}
"""What must travel with every copy of a script."""
ASSETS: Final = {
    "page.css": ("static/page.css", "text/css"),
    "dashboard.css": ("static/dashboard.css", "text/css"),
    "uPlot.css": ("vendor/uPlot.min.css", "text/css"),
    "uPlot.js": ("vendor/uPlot.iife.min.js", "text/javascript"),
    "dashboard.js": ("static/dashboard.js", "text/javascript"),
    "enter.js": ("static/enter.js", "text/javascript"),
    "icon.svg": ("static/icon.svg", "image/svg+xml"),
}
"""Files that served pages load, by the name under which they are served: where they are, and their type."""
SERVED_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def render(template: str, *, curves: bool = False, **values: Any) -> str:
    """The text of a page: a template filled with values, with its styles and, for interactive curves, its scripts.

    >>> page = render("base.html", title="<b>", version="0")
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


def render_served(template: str, **values: Any) -> str:
    """The text of a page that a server hands out under `SERVED_POLICY` (G3).

    >>> page = render_served("enter.html", title="<b>", version="0", wrong=False)
    >>> "<title>&lt;b&gt; - tacit</title>" in page, "<style" in page
    (True, False)
    """
    return _environment().get_template(template).render(asset=_address, **values)


@cache
def asset(name: str) -> tuple[bytes, str]:
    """A file that served pages load, and its type; an unknown name is a `KeyError`."""
    path, kind = ASSETS[name]
    return _inlined(path).encode(), kind


def _address(name: str) -> str:
    """Where a file is served: its digest is in the address, so that browsers may keep it."""
    return f"/static/{hashlib.sha256(asset(name)[0]).hexdigest()[:16]}/{name}"


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
    made = Environment(
        loader=PackageLoader("tacit.pages", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["digest"] = lambda text: hashlib.sha256(str(text).encode()).hexdigest()[:16]
    return made
