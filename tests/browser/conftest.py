"""A page in the system's Chromium: loopback serves the package under a strict policy, and every console error fails."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "js" / "tacit-device"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' http://127.0.0.1:*"
)


class Pages(SimpleHTTPRequestHandler):
    """Files of the package, and what a test puts beside them (`extra`: path -> bytes)."""

    extra: dict[str, bytes] = {}  # noqa: RUF012 - one table per server, set below
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012

    def do_GET(self) -> None:
        found = self.extra.get(self.path)
        if found is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("content-type", "application/json" if self.path.endswith(".json") else "text/html")
        self.send_header("content-length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    def do_POST(self) -> None:
        """A shuffler that counts whatever comes."""
        self.rfile.read(int(self.headers["content-length"]))
        answer = b'{"report":"counted"}'
        self.send_response(201)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def end_headers(self) -> None:
        self.send_header("content-security-policy", POLICY)
        self.send_header("x-content-type-options", "nosniff")
        self.send_header("cache-control", "no-store")
        super().end_headers()

    def log_message(self, *args: object) -> None:
        pass


class Site:
    """Where the pages are."""

    def __init__(self, server: ThreadingHTTPServer, extra: dict[str, bytes]) -> None:
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self.extra = extra


@pytest.fixture
def site():
    icon = b'<link rel="icon" href="/demo/icon.svg">'
    extra: dict[str, bytes] = {"/blank": b'<!doctype html><html lang="en"><title>blank</title>' + icon}
    handler = type("Handler", (Pages,), {"extra": extra})
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(PACKAGE))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield Site(server, extra)
        finally:
            server.shutdown()
            thread.join(10)


@pytest.fixture(scope="module")  # while its driver lives, no other event loop can run in this thread
def chromium():
    """The system's Chromium; nothing is ever downloaded."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine: install the system's package to run the tests of browsers")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install '.[browser]'")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium, site):
    """A page of the site; whatever it says on the console as an error, or throws, fails the test."""
    context = chromium.new_context()
    opened = context.new_page()
    opened.set_default_timeout(120_000)
    errors: list[str] = []
    opened.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert errors == []
