"""Classes of other packages: their certificates name the package until conformance has passed on this machine."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import jsonschema
import pytest

from tacit.accounting.certificate import Certificate, certificate_schema, certify
from tacit.accounting.claims import OUTPUTS, PrivacyClaim, PrivacyUnit
from tacit.accounting.events import PureEvent, event_class
from tacit.accounting.provenance import record_pass, unchecked
from tacit.audit.conformance import NonConformant, check_privatizer
from tacit.release.arms import composed
from tacit.runs.verify import check_certificate

CLAIM = PrivacyClaim(
    trust="central",
    epsilon=1.0,
    delta=0.0,
    unit=PrivacyUnit(reports=1, per_stage=1),
    neighbours="replace-one",
    output=OUTPUTS["central"][0],
)
NAME = "events_of_a_stranger"
SOURCE = """
    from dataclasses import dataclass
    from tacit.accounting.events import PureEvent

    class Coin(PureEvent):
        NAME = "strange-coin"

    class Other(PureEvent):
        NAME = "strange-other"
"""
WORDS = "Noise or events by stranger 1.0, not checked by tacit."


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Another package with two events, on a machine where nothing was checked."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / "site"
    info = place / "stranger-1.0.dist-info"
    info.mkdir(parents=True)
    (place / f"{NAME}.py").write_text(textwrap.dedent(SOURCE), encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n", encoding="utf-8")
    points = f"[tacit.events]\nstrange-coin = {NAME}:Coin\nstrange-other = {NAME}:Other\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(place))
    importlib.invalidate_caches()
    event_class.cache_clear()
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)
    event_class.cache_clear()


def certificate(event: object) -> Certificate:
    return certify(((event, 1),), (), CLAIM, calibration="tight")


def test_a_certificate_names_the_package_of_its_events_everywhere(stranger: ModuleType) -> None:
    found = certificate(stranger.Coin(epsilon=0.5))
    assert found.unchecked == ("stranger 1.0",)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["unchecked"] == ["stranger 1.0"]
    assert WORDS in plain["warnings"]
    for shown in (found.statement, found.words, found._repr_html_(), plain["statement"]):
        assert WORDS in shown
    assert Certificate.from_dict(plain) == found
    jsonschema.validate(plain, certificate_schema())
    assert found.derived().unchecked == found.unchecked
    own = certificate(PureEvent(epsilon=0.5))
    assert own.unchecked == ()
    assert "unchecked" not in own.to_dict()
    assert composed(own, found).unchecked == composed(found, own).unchecked == found.unchecked


def test_a_pass_is_for_one_class_one_version_and_one_content(stranger: ModuleType, tmp_path: Path) -> None:
    coin, other = stranger.Coin(epsilon=0.5), stranger.Other(epsilon=0.5)
    record_pass(coin)
    assert unchecked(coin) == ()
    assert unchecked(coin, other) == ("stranger 1.0",)
    file, metadata = tmp_path / "site" / f"{NAME}.py", tmp_path / "site" / "stranger-1.0.dist-info" / "METADATA"
    content = file.read_text(encoding="utf-8")
    file.write_text(content + "# another line\n", encoding="utf-8")
    assert unchecked(coin) == ("stranger 1.0",)
    file.write_text(content, encoding="utf-8")
    assert unchecked(coin) == ()
    metadata.write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.1\n", encoding="utf-8")
    assert unchecked(coin) == ("stranger 1.1",)


def test_a_marker_is_believed_only_if_it_says_what_it_must(stranger: ModuleType, tmp_path: Path) -> None:
    coin = stranger.Coin(epsilon=0.5)
    record_pass(coin)
    [marker] = (tmp_path / "state" / "tacit" / "conformance").iterdir()
    for wrong in ("", "[]", "true", marker.read_text(encoding="utf-8").replace("1.0", "1.1")):
        marker.write_text(wrong, encoding="utf-8")
        assert unchecked(coin) == ("stranger 1.0",)
    marker.unlink()
    assert unchecked(coin) == ("stranger 1.0",)


def test_where_no_state_can_be_kept_nothing_counts_as_checked(stranger: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file stands where the directory would be", encoding="utf-8")
    coin = stranger.Coin(epsilon=0.5)
    record_pass(coin)
    assert unchecked(coin) == ("stranger 1.0",)


def test_what_has_no_files_is_never_checked(stranger: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typed_in_by_hand", SimpleNamespace())
    coin = type("Coin", (stranger.Coin,), {"__module__": "typed_in_by_hand"})(epsilon=0.5)
    record_pass(coin)
    assert unchecked(coin) == ("typed_in_by_hand",)


def test_who_fails_or_promises_nothing_is_not_recorded(stranger: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A privatizer that breaks a rule, and one of trust none, which is asked for manners only."""
    from tacit.release.none import Unprotected
    from tacit.released.counts import CountShape

    shape = CountShape(horizon=2, num_states=2, num_actions=2, staged=True)
    mine = type("Mine", (Unprotected,), {"__module__": NAME})
    setattr(stranger, "Mine", mine)  # noqa: B010
    check_privatizer(mine(shape=shape))
    assert unchecked(mine(shape=shape)) == ("stranger 1.0",)
    broken = type("Broken", (Unprotected,), {"__module__": NAME, "claim": CLAIM})
    with pytest.raises(NonConformant):
        check_privatizer(broken(shape=shape))
    assert unchecked(broken(shape=shape)) == ("stranger 1.0",)


def test_a_verifier_may_know_more_and_never_less(stranger: ModuleType) -> None:
    """Checked here and not there: true. Said to be checked, and not checked here: the certificate says too little."""
    coin = stranger.Coin(epsilon=0.5)
    cautious = certificate(coin)
    silent = replace(cautious, unchecked=())
    assert any("unchecked" in wrong for wrong in doubts(silent, certificate(coin)))
    record_pass(coin)
    assert doubts(cautious, certificate(coin)) == []
    assert doubts(silent, certificate(coin)) == []


def doubts(stated: Certificate, derived: Certificate) -> list[str]:
    from tacit._version import __version__

    plain = json.loads(json.dumps(stated.to_dict()))
    return [wrong for wrong in check_certificate(plain, derived, __version__) if "terms" not in wrong]


def test_classes_are_found_wherever_a_part_holds_them(stranger: ModuleType) -> None:
    class Holder:
        __slots__ = ("kept",)

        def __init__(self, kept: object) -> None:
            self.kept = kept

    plain = type("Plain", (), {"__module__": NAME})
    Holder.__module__ = "tacit.holders"
    for part in (plain(), {"mechanism": plain()}, Holder(plain()), Holder({"kind": plain}), [Holder((plain(),))]):
        assert unchecked(part) == ("stranger 1.0",), part
    around = Holder(None)
    around.kept = around
    assert unchecked(around, 1.5, "text", len, textwrap) == ()
