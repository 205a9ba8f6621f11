"""What axe-core finds on a page."""

from __future__ import annotations

import pytest


def serious(page) -> list[tuple[str, str]]:
    """What axe-core finds and calls serious or worse."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-core is missing: pip install '.[browser]'"
    )
    # Style sheets of files on the disk cannot be asked for a second time.
    found = axe.Axe().run(page, options={"preload": False}).response["violations"]
    return [(each["id"], each["impact"]) for each in found if each["impact"] in ("serious", "critical")]
