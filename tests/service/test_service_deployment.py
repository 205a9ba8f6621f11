"""The files for deployment: what they configure is what the services read, and who reaches whom is what is promised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tacit.service.config import PARTIES, read_party

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
SERVICES = COMPOSE["services"]


@pytest.mark.parametrize("party", PARTIES)
def test_the_configurations_are_read_and_say_nothing_of_secrets(party):
    assert read_party(DEPLOY / "config" / f"{party}.toml", party)
    text = (DEPLOY / "config" / f"{party}.toml").read_text("utf-8")
    assert re.search(r'^bearer = \{ file = "/run/secrets/', text, flags=re.MULTILINE)
    assert "postgresql://" not in text.replace("postgresql://...", "")


@pytest.mark.parametrize("party", PARTIES)
def test_units_run_the_command_that_exists_under_their_own_user(party):
    unit = (DEPLOY / "systemd" / f"tacit-{party}.service").read_text("utf-8")
    assert f"ExecStart=/opt/tacit/bin/tacit serve {party} /etc/tacit/{party}.toml\n" in unit
    assert f"ExecStartPre=/opt/tacit/bin/tacit doctor {party} /etc/tacit/{party}.toml\n" in unit
    assert f"User=tacit-{party}\n" in unit
    for line in ("UMask=0077", "NoNewPrivileges=yes", "ProtectSystem=strict", "KillSignal=SIGTERM"):
        assert f"{line}\n" in unit


def _networks(service):
    return set(SERVICES[service]["networks"])


def test_the_learner_reaches_neither_devices_nor_the_shufflers_database():
    assert "devices" not in _networks("learner")
    assert not _networks("learner") & _networks("shuffler-postgres")
    assert "ports" not in SERVICES["learner"]
    state = {name: {mount.split(":")[0] for mount in SERVICES[name]["volumes"]} for name in SERVICES}
    assert not {mount for mount in state["learner"] & state["shuffler"] if "state" in mount or "keys" in mount}


def test_a_database_is_reached_by_its_owner_alone():
    for owner in ("shuffler", "learner"):
        beside = {name for name in SERVICES if _networks(name) & _networks(f"{owner}-postgres")}
        assert beside == {owner, f"{owner}-postgres"}


def test_all_networks_but_that_of_devices_have_no_way_out():
    for name, network in COMPOSE["networks"].items():
        assert (network or {}).get("internal", False) == (name != "devices")


def test_every_secret_and_volume_that_is_used_is_declared():
    for service in SERVICES.values():
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        named = {mount.split(":")[0] for mount in service["volumes"]}
        assert {name for name in named if not name.startswith(".")} <= set(COMPOSE["volumes"])


def test_every_test_that_the_threat_model_names_exists():
    root = Path(__file__).parents[2]
    listed = (root / "docs" / "tables" / "threats.csv").read_text("utf-8")
    named = re.findall(r"\b(tests/[^,\n]+)", listed)
    assert len(named) >= 30
    for target in named:
        file, _, test = target.partition("::")
        assert (root / file).is_file(), target
        assert not test or re.search(rf"^def {test}\(", (root / file).read_text("utf-8"), flags=re.MULTILINE), target
