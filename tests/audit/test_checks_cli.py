"""`tacit audit`: tables, JSON, exit codes; `python -m papers audit`: resumption, and its page."""

from __future__ import annotations

import json

import pytest

from papers.__main__ import main as papers
from papers.audit import resume, suite
from papers.audit.fingerprints import row_fingerprint
from papers.audit.pages import render_page
from papers.audit.record import AUDIT_FILE, AuditRecord, AuditSettings, finding_table, load_audit
from papers.audit.rows import Row, Subject
from tacit._version import __version__
from tacit.audit.mechanisms import audit_mechanism
from tacit.cli import main
from tacit.errors import InvalidInput


def call(capsys, *words, program=main):
    code = program([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_mechanism_as_a_table_and_as_json(capsys):
    code, out, err = call(capsys, "audit", "--mechanism", "rr", "--delta", "0", "--trials", "20000")
    assert (code, err) == (0, "")
    for word in ("claimed", "certified", "attacked", "holds", "20,000"):
        assert word in out
    code, out, err = call(capsys, "audit", "--mechanism", "rr", "--delta", "0", "--trials", "20000", "--json")
    found = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    (row,) = found["findings"]
    assert (code, row["verdict"], row["claimed"], row["delta"]) == (0, "holds", 1.0, 0.0)
    assert row["attacked"] == audit_mechanism("rr", epsilon=1.0, delta=0.0, trials=20_000).attacked
    assert found["refuted"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "say what to attack"),
        (["--all", "--delta", "1e-6"], "No such option: --all"),
        (["--mechanism", "rr"], "needs a delta, which has no default"),
        (["--mechanism", "laplce", "--delta", "0"], "did you mean 'laplace'"),
        (["--mechanism", "gaussian", "--delta", "0"], "never pure"),
        (["--learner", "ucbvi", "--delta", "0"], "--trust"),
        (["--learner", "ucbvy", "--trust", "central", "--delta", "1e-6"], "did you mean 'ucbvi'"),
        (["--mechanism", "rr", "--delta", "0", "--environment", "riverswim"], "--environment belongs to --learner"),
        (["--mechanism", "rr", "--delta", "0", "--trials", "10"], "trials"),
        (["--mechanism", "rr", "--delta", "0", "--false-alarm", "0"], "false-alarm"),
        (["--mechanism", "rr", "--delta", "0", "--calibration", "loose"], "calibration"),
        (["--mechanism", "rr", "--delta", "0", "--epsilon", "nan"], "epsilon"),
        (["--mechanism", "rr", "--delta", "2"], "delta"),
        (["--mechanism", "oue", "--trust", "central", "--delta", "0"], "unknown mechanism of trust 'central' 'oue'"),
    ],
)
def test_bad_input_is_exit_2_and_one_line(capsys, words, says):
    code, out, err = call(capsys, "audit", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_a_refuted_claim_is_exit_1(capsys):
    words = ["--learner", "uob-lbps", "--trust", "local", "--delta", "0", "--calibration", "paper"]
    code, out, _ = call(capsys, "audit", *words, "--trials", "600000")
    assert code == 1
    assert "claim refuted: learner uob-lbps" in out


def rows_of(calls, words=("rr r1", "oue r1")):
    def row(name, said):
        def attacked(made, trials, alarm, seed):
            calls.append((name, alarm))
            return (audit_mechanism(name, epsilon=1.0, delta=0.0, trials=trials, false_alarm=alarm, seed=seed),)

        return Row(kind="mechanism", subject=lambda: Subject(attacked=name, words=said), attack=attacked)

    return {f"mechanism {name}": row(name, said) for name, said in zip(("rr", "oue"), words, strict=True)}


def test_everything_is_resumable(capsys, monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(suite, "all_rows", lambda epsilon, delta: rows_of(calls))
    monkeypatch.setattr(suite, "PLACES", 4)
    words = ["audit", "--delta", "1e-6", "--trials", "5000", "--out", tmp_path / "audit"]
    code, out, _ = call(capsys, *words, program=papers)
    assert code == 0
    assert "holds" in out
    assert calls == [("rr", 0.0025), ("oue", 0.0025)]  # the false-alarm rate is shared by all places of the table
    # One row is lost: only that one is done again.
    record = load_audit(tmp_path / "audit")
    whole = record.to_dict()
    del record.rows["mechanism oue"], record.made["rows"]["mechanism oue"]
    record.save(tmp_path / "audit")
    assert call(capsys, *words, program=papers)[0] == 0
    assert calls[2:] == [("oue", 0.0025)]
    assert load_audit(tmp_path / "audit").to_dict()["rows"] == whole["rows"]
    assert whole["settings"]["delta"] == 1e-6
    for other in (["--seed", "1"], ["--delta", "1e-7"]):
        code, _, err = call(capsys, *words, *other, program=papers)
        assert code == 2
        assert "other settings" in err
    code, _, err = call(capsys, *words, "--delta", "0", program=papers)
    assert (code, "some of what is attacked cannot be pure" in err) == (2, True)


def test_another_version_repeats_only_what_has_changed(monkeypatch, tmp_path):
    """What is kept says its own version, on the page, too; the false-alarm rate is that of all rows."""
    calls = []
    settings = AuditSettings(epsilon=1.0, delta=1e-6, trials=5000, false_alarm=0.01, seed=0)
    fresh = AuditRecord(settings=settings, command="tacit audit")
    before = resume.run_rows(rows_of(calls), fresh, out=tmp_path)
    monkeypatch.setattr(resume, "__version__", "99.0")
    asked = AuditRecord(settings=settings, command="tacit audit")
    assert resume.run_rows(rows_of(calls), asked, out=tmp_path).to_dict() == before.to_dict()
    assert len(calls) == 2
    after = resume.run_rows(rows_of(calls, ("rr r1", "oue r2")), asked, out=tmp_path)
    assert [name for name, _ in calls[2:]] == ["oue"]
    assert [made.version for made in after.made["rows"].values()] == [__version__, "99.0"]
    assert after.versions == (__version__, "99.0")
    head, rows = finding_table(after, "mechanism")
    assert (head[-1], [row[-1] for row in rows]) == ("by version", [__version__, "99.0"])
    assert f"{__version__} and 99.0; the CSV files say by which" in render_page(after)
    assert "wrong with probability at most 0.01." in render_page(after)
    # Other trials are another fingerprint, even where somebody edits the settings of a file.
    assert row_fingerprint(rows_of(calls)["mechanism rr"], 6000, 0) != before.made["rows"]["mechanism rr"].fingerprint


def test_a_broken_file_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="must hold an audit"):
        load_audit(tmp_path)
    (tmp_path / AUDIT_FILE).write_text('{"rows": {}}')
    with pytest.raises(InvalidInput, match="entries"):
        load_audit(tmp_path)
    with pytest.raises(InvalidInput, match="must be what tacit wrote"):
        AuditRecord.from_dict({"command": "", "settings": {}, "rows": {}, "mutations": {}, "originals": {}})
