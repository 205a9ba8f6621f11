"""Chromium for the tests of browsers: taken if it is there, installed if it can be, and never a reason to fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "chromium"


@pytest.fixture
def machine(tmp_path):
    """A machine with little on its path; what apt-get was asked for stands in a file."""
    for name in ("bash", "timeout", "chmod", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name))
    program(tmp_path / "id", "echo 0")

    def run(**words):
        asked = [shutil.which("bash"), str(SCRIPT)]
        return subprocess.run(
            asked, env={"PATH": str(tmp_path), **words}, capture_output=True, text=True, timeout=60, check=False
        )

    return tmp_path, run


def program(path: Path, text: str) -> None:
    path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
    path.chmod(0o755)


def apt(place: Path, text: str) -> None:
    program(place / "apt-get", f'echo "$@" >> {place}/asked\n{text}')


def test_what_is_there_is_left_alone(machine):
    place, run = machine
    apt(place, "exit 0")
    program(place / "chromium", "exit 0")
    done = run()
    assert (done.returncode, done.stdout) == (0, "")
    assert not (place / "asked").exists()


def test_it_is_fetched_and_then_installed_once(machine):
    place, run = machine
    # Without lists nothing can be fetched; they are updated, and it is tried again.
    apt(
        place,
        f'case "$*" in update*) echo > {place}/lists;; *--download-only*) [ -e {place}/lists ];; '
        f"*) echo > {place}/chromium; chmod 755 {place}/chromium;; esac",
    )
    done = run()
    assert done.returncode == 0
    assert "installed" in done.stdout
    asked = (place / "asked").read_text().splitlines()
    assert [line.split()[:2] for line in asked] == [
        ["install", "--download-only"],
        ["update", "-qq"],
        ["install", "--download-only"],
        ["install", "--no-download"],
    ]
    assert all("--no-install-recommends" in line for line in asked if line.startswith("install"))


@pytest.mark.parametrize("reason", ["nothing to fetch", "not root", "no apt-get", "told not to"])
def test_where_it_cannot_be_installed_the_run_goes_on_and_says_so(machine, reason):
    place, run = machine
    if reason != "no apt-get":
        apt(place, "exit 100")
    if reason == "not root":
        program(place / "id", "echo 1000")
    done = run(**({"BROWSER": "no"} if reason == "told not to" else {}))
    assert done.returncode == 0
    assert "SKIPPED" in done.stdout
    assert (place / "asked").exists() == (reason == "nothing to fetch")


def test_the_script_can_be_run():
    assert os.access(SCRIPT, os.X_OK)
