"""What leads nowhere within a built site: `python docs/links.py SITE` lists it, and fails if there is anything."""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit


def broken_links(site: Path) -> list[tuple[str, str]]:
    """(page, address) of what leads nowhere within a site: files and places on pages."""
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    places = {path: set(map(unescape, re.findall(r'\b(?:id|name)="([^"]+)"', text))) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for address in sorted(set(re.findall(r'\b(?:href|src)="([^"]*)"', text))):
            asked = urlsplit(unescape(address))
            if asked.scheme or asked.netloc:  # elsewhere: nothing outside is asked
                continue
            target = (path.parent / unquote(asked.path)).resolve() if asked.path else path
            place = unquote(asked.fragment)
            if not target.is_file() or (place and target in places and place not in places[target]):
                broken.append((str(path.relative_to(site)), address))
    return sorted(broken)


if __name__ == "__main__":
    site = Path(sys.argv[1]).resolve()
    if not (site / "index.html").exists():
        sys.exit(f"{site} is not the documentation: it has no index.html")
    found = broken_links(site)
    for page, address in found:
        sys.stdout.write(f"{page} links to {address}, which is not there\n")
    sys.exit(bool(found))
