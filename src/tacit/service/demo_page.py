"""The page of a demonstration, on loopback: a person plays RiverSwim in a browser and takes part in the study.

The page is the device of `js/tacit-device` as it stands there. It comes from a party of its own, which neither shuffles
nor learns, under a policy that lets it load its own files and talk to the shuffler.

P1  Only files of the device are served, by their names; whatever else is asked for is not found.
P2  The page answers nobody but this machine, and keeps nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from tacit.errors import NotSupported

TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
STUDY: Final = "/demo/study.json"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self' http://127.0.0.1:*; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HERE: Final = Path(__file__).parents[1]
PLACES: Final = (HERE / "pages" / "device", HERE.parents[1] / "js" / "tacit-device")
"""The device in an installed package, and in a checkout."""


def device_files() -> dict[str, Path]:
    """The files of the device in the browser, by the addresses at which they are served (P1).

    >>> {"/index.js", "/demo/index.html", "/demo/page.js"} <= set(device_files())
    True
    """
    for place in PLACES:
        if (place / "index.js").is_file():
            found = (path for path in sorted(place.rglob("*")) if path.suffix in TYPES)
            named = {f"/{path.relative_to(place).as_posix()}": path for path in found}
            return {name: path for name, path in named.items() if not name.startswith("/test/")}
    raise NotSupported("this installation has no device for browsers: take js/tacit-device from the repository")


class DemoPage:
    """Where the page is, and the study that it asks for."""

    def __init__(self, port: int) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.url = f"{self.origin}/demo/"
        self.study: bytes | None = None

    def tell(self, *, shuffler: str, pins: Mapping[str, str], cap: float, floor: int) -> None:
        """Where the study is and whom it trusts; `cap` and `floor` are the person's own limits."""
        self.study = json.dumps({"shuffler": shuffler, "pins": dict(pins), "cap": cap, "floor": floor}).encode()


@contextmanager
def serve_page() -> Iterator[DemoPage]:
    """Serve the page until the block ends, at a port that the kernel chooses (P2)."""
    files = device_files()

    class Handler(BaseHTTPRequestHandler):
        """Answers GET, and nothing else."""

        def do_GET(self) -> None:
            """A file of the device, or the study."""
            asked = "/demo/index.html" if self.path in ("/", "/demo/") else self.path
            if asked == STUDY and page.study is not None:
                self._answer(200, "application/json", page.study)
            elif asked in files:
                self._answer(200, TYPES[files[asked].suffix], files[asked].read_bytes())
            else:
                self._answer(404, "text/plain", b"not found")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", f"{kind}; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.send_header("content-security-policy", POLICY)
            self.send_header("x-content-type-options", "nosniff")
            self.send_header("referrer-policy", "no-referrer")
            self.send_header("cache-control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            """Nobody is written down."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page = DemoPage(int(server.server_address[1]))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join(10)
