"""The page of a demonstration: it serves the device and its study to this machine, and nothing else."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tacit.errors import NotSupported
from tacit.service import demo as demo_page
from tacit.service.demo import POLICY, device_files, serve_page


def test_the_page_and_all_that_it_loads_are_served_under_a_strict_policy():
    with serve_page() as page, httpx.Client(base_url=page.origin, trust_env=False) as client:
        first = client.get("/demo/")
        assert first.status_code == 200
        assert first.text == device_files()["/demo/index.html"].read_text("utf-8")
        assert first.headers["content-type"] == "text/html; charset=utf-8"
        for name in device_files():
            reply = client.get(name)
            assert reply.status_code == 200
            assert reply.headers["content-security-policy"] == POLICY
            assert reply.headers["x-content-type-options"] == "nosniff"
        loaded = re.findall(r'(?:href|src)="([^"]+)"', first.text)
        assert {f"/demo/{name}" for name in loaded} <= set(device_files())
        assert page.url == f"{page.origin}/demo/"
    with pytest.raises(httpx.ConnectError):
        httpx.get(page.url, trust_env=False)


def test_every_module_that_is_imported_is_served():
    files = device_files()
    for name, path in files.items():
        for imported in re.findall(r'^(?:import|export)\b[^;]*\bfrom "([^"]+)"', path.read_text("utf-8"), flags=re.M):
            assert str(httpx.URL(f"http://page{name}").join(imported).path) in files, (name, imported)


def test_nothing_else_is_found_and_the_study_comes_when_it_is_told():
    with serve_page() as page, httpx.Client(base_url=page.origin, trust_env=False) as client:
        for path in ("/demo/study.json", "/test/run.js", "/README.md", "/package.json", "/demo", "/../pyproject.toml"):
            assert client.get(path).status_code == 404, path
        for path in ("//etc/passwd", "/%2e%2e/pyproject.toml", "/demo/..%2findex.js"):
            assert client.get(path).status_code == 404, path
        assert client.post("/demo/study.json", content=b"{}").status_code == 501
        page.tell(shuffler="http://127.0.0.1:1", pins={"learner": "PEM"}, cap=2.0, floor=9)
        told = json.loads(client.get("/demo/study.json").content)
    assert told == {"shuffler": "http://127.0.0.1:1", "pins": {"learner": "PEM"}, "cap": 2.0, "floor": 9}


def test_an_installation_without_the_device_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(demo_page, "PLACES", (tmp_path,))
    with pytest.raises(NotSupported, match="no device for browsers"), serve_page():
        pass
