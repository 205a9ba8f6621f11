"""A device in the browser: exact noise bits and sealed messages in the system's Chromium, against fixed limits.

    3,000 exact noise bits     under 20 ms          as many as a report of a small study draws
    one sealed message         under 2 ms           one label to the learner (HPKE on WebCrypto)

The ratio is the median time over the limit, so that a target of 1 is met below it. Where there is no Chromium, or no
playwright, a row says so and nothing is measured.
"""

from __future__ import annotations

import functools
import os
import shutil
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "js" / "tacit-device"
BITS, LIMIT_BITS = 3000, 20.0
MESSAGES, LIMIT_MESSAGE = 200, 2.0
MEASURE = """async ([bits, messages]) => {
    const { bernoulli } = await import("/exact.js");
    const { sealer } = await import("/hpke.js");
    const median = (values) => values.sort((one, other) => one - other)[values.length >> 1];
    const probability = [5872456067136727n, 36028797018963968n];
    const drawn = [];
    for (let run = 0; run < 50; run += 1) {
        const start = performance.now();
        bernoulli(bits, probability);
        drawn.push(performance.now() - start);
    }
    const pair = await crypto.subtle.generateKey({ name: "X25519" }, false, ["deriveBits"]);
    const key = new Uint8Array(await crypto.subtle.exportKey("raw", pair.publicKey));
    const seal = await sealer(key, new Uint8Array(58));
    const sealed = [];
    for (let run = 0; run < 5; run += 1) {
        const start = performance.now();
        for (let one = 0; one < messages; one += 1) await seal(Uint8Array.of(1, 2));
        sealed.push((performance.now() - start) / messages);
    }
    return { bits: median(drawn), message: median(sealed) };
}"""


class _Quiet(SimpleHTTPRequestHandler):
    extensions_map = {**SimpleHTTPRequestHandler.extensions_map, ".js": "text/javascript"}  # noqa: RUF012

    def log_message(self, *args: object) -> None:
        pass


def run() -> list[dict[str, Any]]:
    """Rows for the table."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return [{"name": "browser", "detail": "not measured: playwright is missing (pip install '.[browser]')"}]
    if path is None:
        return [{"name": "browser", "detail": "not measured: no Chromium on this machine"}]
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(PACKAGE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            with sync_playwright() as driver:
                arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
                browser = driver.chromium.launch(executable_path=path, args=arguments)
                page = browser.new_page()
                page.goto(f"http://127.0.0.1:{server.server_address[1]}/demo/icon.svg")
                found = page.evaluate(MEASURE, [BITS, MESSAGES])
                version = browser.version
                browser.close()
        finally:
            server.shutdown()
    rows = (
        (f"browser: {BITS:,} exact noise bits", found["bits"], LIMIT_BITS),
        ("browser: one sealed message", found["message"], LIMIT_MESSAGE),
    )
    return [
        {
            "name": name,
            "ratio": milliseconds / limit,
            "target": 1.0,
            "better": "lower",
            "detail": f"{milliseconds:.2f} ms of {limit:g} ms allowed, Chromium {version}",
            "milliseconds": milliseconds,
        }
        for name, milliseconds, limit in rows
    ]
