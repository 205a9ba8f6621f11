"""The dashboard without a browser: who may see and do what, what pages hold, and what they never hold."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import stat

import numpy as np
import pytest
from dashboard_tools import HTML, Board, begun, person, report
from device_tools import design_of

from tacit.accounting.people import PeopleLedger
from tacit.cli import main
from tacit.errors import InvalidInput
from tacit.features import Features
from tacit.pages.page import ASSETS, SERVED_POLICY, asset
from tacit.service import web
from tacit.service.dashboard import views
from tacit.service.dashboard.app import Access, Tokens
from tacit.service.dashboard.views import Rate, certificate_entries
from tacit.service.dashboard.watched import watch
from tacit.service.web import Refused
from tacit.study.collector import Collector
from tacit.study.design import plan_study
from tacit.study.store import Lease
from tacit.study.study import Study
from tacit.study.wire import Report, sha256

VIEWS = ("/operator", "/officer", "/learner")
READING = (*VIEWS, "/", "/events", "/v1/status", "/officer/ledger.json", "/officer/certificate.json")
READING += ("/officer/releases/0/0",)
POSTS = ("/leave", "/officer/verify", "/act/close", "/act/void", "/act/kill")
LARGEST = 300_000


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A study that tests copy."""
    place = tmp_path_factory.mktemp("kept")
    begun(place)
    return place


@pytest.fixture
def place(kept, tmp_path):
    shutil.copytree(kept, tmp_path / "ward")
    return tmp_path / "ward"


@pytest.fixture
def board(place, tmp_path):
    return Board(tmp_path / "tokens", place)


# who


def test_tokens_are_two_and_private_and_stay(tmp_path):
    first = Tokens.at(tmp_path / "tokens")
    assert first.made
    assert not Tokens.at(tmp_path / "tokens").made
    assert first.reader != first.writer
    assert len(first.reader) >= 43, "32 random bytes"
    for path in (tmp_path / "tokens").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert repr(first).count(first.reader.decode()) == 0
    (tmp_path / "tokens" / "reader.token").chmod(0o644)
    with pytest.raises(InvalidInput, match="owner only"):
        Tokens.at(tmp_path / "tokens")


def test_without_a_token_or_with_a_wrong_one_nothing_is_shown_or_done(board, place):
    async def visit(it):
        for token in (None, "", "x" * 43, board.reader[:-1], board.reader + "x"):
            for path in READING:
                assert (await it.get(path, token)).status_code == 401, path
            for path in POSTS:
                assert (await it.post(path, {"stage": "1", "sure": "yes"}, token)).status_code == 401, path
        basic = await it.get("/operator", authorization=f"Basic {board.reader}")
        assert basic.status_code == 401
        assert basic.headers["www-authenticate"] == "Bearer"
        wrong = await it.post("/session", {"token": "x" * 43}, **HTML)
        assert wrong.status_code == 401
        assert "set-cookie" not in wrong.headers
        page = await it.get("/operator", **HTML)
        assert (page.status_code, "stage" in page.text) == (401, False)
        for path in ("/enter", "/healthz"):
            assert (await it.get(path)).status_code == 200

    board.run(visit)
    assert Collector(place / "collector").status()["stages"][-1]["state"] == "open"
    assert Study(place / "study").status()["state"] == "open"


def test_a_reader_reads_and_cannot_write(board, place):
    async def visit(it):
        for path in READING:
            if path != "/events":
                assert (await it.get(path, board.reader)).status_code in (200, 303), path
        for path in POSTS[2:]:
            assert (await it.post(path, {"stage": "1", "sure": "yes"}, board.reader)).status_code == 403, path
        form = await it.enter(board.reader)
        for path in POSTS[2:]:
            reply = await it.post(path, {"form": form, "stage": "1", "sure": "yes"}, **HTML)
            assert reply.status_code == 403, path
        assert "writing token" in (await it.get("/operator", **HTML)).text

    board.run(visit)
    assert Collector(place / "collector").status()["stages"][-1]["state"] == "open"
    assert Study(place / "study").status()["state"] == "open"


def test_a_session_is_a_strict_cookie_that_ends(board):
    async def visit(it):
        reply = await it.post("/session", {"token": board.writer}, **HTML)
        cookie = reply.headers["set-cookie"]
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"))
        assert board.writer not in cookie
        form = await it.enter(board.writer)
        assert (await it.post("/leave", {"form": form}, **HTML)).headers["location"] == "/enter"
        return (await it.get("/operator")).status_code

    assert board.run(visit) == 401


def test_sessions_end_with_time_and_are_cookies_for_https_behind_tls():
    tokens, now = Tokens(reader=b"r" * 43, writer=b"w" * 43, made=False), [0.0]
    access = Access(tokens, "ab" * 32, secure=True, clock=lambda: now[0])
    name, _ = access.enter("r" * 43)
    assert access.header(name).endswith("; Secure")

    class Request:
        headers: dict[str, str] = {}  # noqa: RUF012
        cookies = {access.cookie: name}  # noqa: RUF012

    assert access.reading(Request()).role == "reader"
    now[0] = 12 * 3600.0
    with pytest.raises(Refused, match="unauthorized"):
        access.reading(Request())


def test_a_form_of_another_page_does_nothing(board, place):
    async def visit(it):
        form = await it.enter(board.writer)
        wanted = {"stage": "1", "reason": "forged"}
        forged = [
            ({**wanted}, {}),
            ({**wanted, "form": "x" * len(form)}, {}),
            ({**wanted, "form": form}, {"origin": "http://evil.example"}),
            ({**wanted, "form": form}, {"origin": "null"}),
            ({**wanted, "form": form}, {"sec-fetch-site": "cross-site"}),
            ({**wanted, "form": form}, {"sec-fetch-site": "same-site"}),
        ]
        for data, headers in forged:
            assert (await it.post("/act/void", data, **HTML, **headers)).status_code == 403, (data, headers)
        assert (await it.post("/session", {"token": board.writer}, origin="http://evil.example")).status_code == 403
        assert Collector(place / "collector").status()["stages"][-1]["state"] == "open"
        own = {"origin": "http://127.0.0.1", "sec-fetch-site": "same-origin"}
        return (await it.post("/act/void", {**wanted, "form": form}, **HTML, **own)).status_code

    assert board.run(visit) == 200
    assert Collector(place / "collector").status()["stages"][-1]["state"] == "void"


# acts


def test_a_stage_is_closed_when_enough_reports_are_in_and_it_is_the_one_that_was_shown(board, place):
    study, collector = Study(place / "study"), Collector(place / "collector")

    async def visit(it):
        few = await it.post("/act/close", {"stage": "1"}, board.writer)
        assert (few.status_code, few.json()["title"]) == (409, "The state of the study does not allow this.")
        assert "at least 8 reports" in few.json()["detail"]
        report(study, collector, range(5, 10))
        old = await it.post("/act/close", {"stage": "0"}, board.writer, **HTML)
        assert old.status_code == 409
        assert "the last stage must be this one" in old.text
        for bad in ({}, {"stage": "one"}, {"stage": "²"}, {"stage": "1" * 10}):
            assert (await it.post("/act/close", bad, board.writer)).status_code == 400, bad
        assert (await it.post("/act/else", {"stage": "1"}, board.writer)).status_code == 404
        assert collector.status()["stages"][-1]["state"] == "open"
        done = await it.post("/act/close", {"stage": "1"}, board.writer, **HTML)
        assert "stage 1 is closed with 10 reports" in done.text

    board.run(visit)
    assert collector.status()["stages"][-1]["state"] == "closed"


def test_a_void_stage_is_void_for_both(board, place):
    async def visit(it):
        return await it.post("/act/void", {"stage": "1", "reason": "a leak"}, board.writer)

    assert board.run(visit).json() == {"done": "stage 1 is void"}
    for party in (Collector(place / "collector"), Study(place / "study")):
        assert [party.status()["stages"][-1][name] for name in ("state", "reason")] == ["void", "a leak"]


def test_the_kill_switch_is_final_and_asks_twice(board, place):
    async def visit(it):
        assert (await it.post("/act/kill", {"reason": "enough"}, board.writer)).status_code == 400
        assert Study(place / "study").status()["state"] == "open"
        done = await it.post("/act/kill", {"reason": "enough", "sure": "yes"}, board.writer, **HTML)
        assert "the study is ended" in done.text
        return (await it.get("/v1/status", board.reader)).json()["study"]["state"]

    assert board.run(visit) == "ended"
    assert Study(place / "study").status()["state"] == "ended"


# pages


def test_pages_hold_what_their_readers_ask_for(board, place):
    collector = Collector(place / "collector")

    async def visit(it):
        return [(await it.get(view, board.reader, **HTML)).text for view in VIEWS]

    operator, officer, learner = board.run(visit)
    words = (
        "Reports per minute",
        "malformed",
        "id taken",
        "Flow conservation",
        ">allowed<",
        "Keys",
        "reading token",
        "MiB",
    )
    for word in (*words, "5 of 12 reports; 8 are needed", "Participation is not hidden"):
        assert word in operator, word
    digest = sha256(collector.stored(0)).hex()
    for word in (digest, "ε 2 ", "Forecast", "export the ledger", "Verify now", "replace-one", "unsigned"):
        assert word in officer, word
    for word in ("95% interval", "From stage 0 to stage 1", "Step 1", '<th scope="row">high</th>', "was "):
        assert word in learner, word
    assert "simulation only" not in operator + officer + learner


def test_nobody_is_on_any_page_and_nothing_that_was_not_released(board, place, monkeypatch):
    study, collector = Study(place / "study"), Collector(place / "collector")

    async def visit(it):
        found = [(await it.get(path, board.reader, **HTML)).content for path in READING if path != "/events"]
        before = (await it.get("/v1/status", board.reader)).json()
        made = report(study, collector, range(5, 8))
        await it.post("/officer/verify", {}, board.reader)
        soon = (await it.get("/v1/status", board.reader)).json()
        monkeypatch.setattr(web, "STILL_SECONDS", 0.0)  # a minute later
        await it.post("/officer/verify", {}, board.reader)
        after = (await it.get("/v1/status", board.reader)).json()
        found += [(await it.get(path, board.reader, **HTML)).content for path in VIEWS]
        return b"".join(found), before, soon, after, made

    text, before, soon, after, made = board.run(visit)
    names = [person(stage, number) for stage in range(2) for number in range(12)]
    secrets = [name.encode() for name in names] + [collector.pseudonyms.of(name) for name in names]
    secrets += [Report.parse(one).id for one in made] + [Report.parse(one).body[:24] for one in made]
    for secret in secrets:
        assert secret not in text
        assert secret.hex().encode() not in text
    assert collector.pseudonyms.key.hex().encode() not in text
    assert board.reader.encode() not in text
    assert board.writer.encode() not in text
    # Three more people have reported: the number of reports has changed, and nothing that was learned or vouched for.
    # That is seen by the minute: whoever watches does not see the moment of a report.
    assert [row["operator"]["stages"][-1]["reports"] for row in (before, soon, after)] == [5, 5, 8]
    assert [row["operator"]["rate"][-1][1] for row in (before, soon, after)] == [0, 0, 3]
    after["officer"]["verdicts"] = before["officer"]["verdicts"]
    assert before["officer"] == after["officer"]
    assert before["learner"] == after["learner"]


def test_the_policy_allows_no_inline_script_or_style_and_pages_have_none(board):
    async def visit(it):
        pages = [await it.get(path, board.writer, **HTML) for path in (*VIEWS, "/enter")]
        return [*pages, await it.get("/nowhere", board.reader, **HTML)]

    for reply in board.run(visit):
        assert reply.headers["content-security-policy"] == SERVED_POLICY
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", reply.text)
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", reply.text))
        assert not re.search(r"(src|href|action)=\"(?!/)", reply.text), "everything is from here"
    wanted = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'"
    assert SERVED_POLICY.startswith(wanted)


def test_a_page_with_all_its_files_is_small(board):
    async def visit(it):
        sizes = {}
        for view in VIEWS:
            page = (await it.get(view, board.writer, **HTML)).text
            files = [await it.get(path) for path in re.findall(r"/static/[0-9a-f]{16}/[\w.]+", page)]
            assert all(reply.status_code == 200 for reply in files)
            assert len(files) >= 5
            sizes[view] = len(page.encode()) + sum(len(reply.content) for reply in files)
        assert (await it.get("/static/0000000000000000/page.py")).status_code == 404
        return sizes

    assert max(board.run(visit).values()) < LARGEST
    assert sum(len(asset(name)[0]) for name in ASSETS) < LARGEST / 2


def test_the_largest_policy_that_is_shown_is_small_and_names_are_escaped(tmp_path):
    evil = "<script>alert(1)</script>"
    design = plan_study(
        name=evil,
        states=(evil, *(f"a state with a rather long name, {i}" for i in range(70))),
        actions=("wait\"'>", "act"),
        horizon=30,
        trust="local",
        epsilon=2.0,
        delta=0.0,
        stages=1,
        target=20,
    )
    Study.new(tmp_path / "study", design, seed=0).plan()

    async def visit(it):
        return (await it.get("/learner", it.board.reader, **HTML)).text

    page = Board(tmp_path / "tokens", tmp_path / "study").run(visit)
    assert evil not in page
    assert "&lt;script&gt;" in page
    assert "11 more states and 6 more steps" in page
    assert len(page.encode()) + sum(len(asset(name)[0]) for name in ASSETS) < LARGEST


@pytest.mark.parametrize(("party", "absent"), [("study", "the collector&#39;s"), ("collector", "the learner&#39;s")])
def test_one_party_alone_says_what_it_does_not_know(place, tmp_path, party, absent):
    async def visit(it):
        found = "".join([(await it.get(view, it.board.writer, **HTML)).text for view in VIEWS])
        ledger = (await it.get("/officer/ledger.json", it.board.reader)).status_code
        kill = await it.post("/act/kill", {"sure": "yes"}, it.board.writer)
        return found, ledger, kill.status_code

    text, ledger, kill = Board(tmp_path / "tokens", place / party).run(visit)
    assert absent in text or absent.replace("&#39;", "'") in text
    assert (ledger, kill) == ((409, 200) if party == "study" else (200, 409))


def test_a_rehearsal_is_marked(tmp_path):
    begun(tmp_path / "ward", trust="central", noise="simulation")

    async def visit(it):
        return [(await it.get(view, it.board.reader, **HTML)).text for view in VIEWS]

    for page in Board(tmp_path / "tokens", tmp_path / "ward").run(visit):
        assert "simulation only" in page
        assert "protects nobody" in page


def test_an_operator_sees_who_works_and_what_is_quarantined(board, place, monkeypatch):
    study, collector = Study(place / "study"), Collector(place / "collector")
    Lease.take(collector.store, "release", holder="worker 7", seconds=600)
    Lease.take(study.store, "plan", holder="worker 8", seconds=60, clock=lambda: 0.0)  # it slept through its end
    report(study, collector, range(5, 10))
    collector.close()
    monkeypatch.setattr("tacit.study.study.broken_flow", lambda *_: "a made-up contradiction")
    assert study.take(collector.release(study.head)) == "quarantined"

    async def visit(it):
        return (await it.get("/operator", board.reader, **HTML)).text, (await it.get("/v1/status", board.reader)).json()

    page, status = board.run(visit)
    assert "Stage 1 is quarantined: a made-up contradiction." in page
    assert [row["stage"] for row in status["operator"]["quarantined"]] == [1]
    held = {row["job"]: (row["holder"], row["token"], row["minutes"]) for row in status["operator"]["leases"]}
    assert held.pop("release")[:2] == ("worker 7", 1)
    assert held == {"plan": ("nobody", 1, 0)}
    assert '<th scope="row">release <small>collector</small></th><td>worker 7</td>' in page


# officers


def test_verification_in_place_finds_what_was_changed(board, place):
    async def visit(it):
        form = await it.enter(board.reader)
        assert (await it.post("/officer/verify", {"form": form}, **HTML)).headers["location"] == "/officer"
        fine = (await it.get("/officer", **HTML)).text
        collector = Collector(place / "collector")
        with collector.store.connected() as connection:
            (guard,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'outbox_no_update'").fetchone()
            connection.execute("DROP TRIGGER outbox_no_update")
            connection.execute("UPDATE outbox SET digest = ? WHERE stage = 0", ("0" * 64,))
            connection.execute(guard)
        reply = await it.post("/officer/verify", {}, board.reader)
        return fine, reply.json(), (await it.get("/officer", board.reader, **HTML)).text

    fine, found, page = board.run(visit)
    assert fine.count("<strong>True</strong>") == 2
    assert {row["kind"]: row["true"] for row in found["rows"]} == {"study": True, "collector": False}
    assert "FALSE" in page
    assert str(place) not in page, "no path of this machine"


def test_an_officer_takes_ledger_certificate_and_releases_along(board, place):
    collector = Collector(place / "collector")

    async def visit(it):
        paths = ("ledger.json", "certificate.json", "releases/0/0", "releases/9/0", f"releases/{2**40}/0")
        return [await it.get(f"/officer/{path}", board.reader) for path in paths]

    ledger, certificate, release, missing, huge = board.run(visit)
    with collector.store.reading() as connection:
        assert ledger.json() == PeopleLedger.within(connection).export()
    assert certificate.json() == json.loads(json.dumps(collector.certificate().to_dict()))
    assert release.content == collector.stored(0)
    assert [missing.status_code, huge.status_code] == [404, 404]
    for reply in (ledger, certificate, release):
        assert reply.headers["content-disposition"].startswith("attachment")


# live


def test_an_event_comes_after_a_release(place, tmp_path):
    """The stream is read as the server writes it; every wait is bounded."""
    study, collector = Study(place / "study"), Collector(place / "collector")
    board = Board(tmp_path / "tokens", place, tick=0.02)

    async def visit(it):
        sent: asyncio.Queue[bytes] = asyncio.Queue()
        gone = asyncio.Event()

        asked = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive():
            if asked:
                return asked.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            await sent.put(message.get("body", b""))

        async def version() -> int:
            while True:
                part = await asyncio.wait_for(sent.get(), 30)
                if b"event: change" in part:
                    return int(re.search(rb"data: (\d+)", part)[1])

        headers = [(b"authorization", f"Bearer {board.reader}".encode())]
        scope = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1"}
        scope |= {"method": "GET", "path": "/events", "raw_path": b"/events", "query_string": b"", "headers": headers}
        scope |= {"scheme": "http", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1), "root_path": ""}
        stream = asyncio.create_task(board.app(scope, receive, send))
        first = await version()
        report(study, collector, range(5, 9))
        collector.close()
        study.take(collector.release(study.head))
        while len((await it.get("/v1/status", board.reader)).json()["officer"]["releases"]) < 2:
            later = await version()
            assert later > first
        board.party.drain.ask()  # a process that ends lets go of its streams
        await asyncio.wait_for(stream, 30)
        gone.set()

    board.run(visit)


def test_minutes_are_whole_and_the_last_hour_is_kept():
    now = [600.0]
    rate = Rate(lambda: now[0])
    rate.seen(0, 100)  # what was there before is not of this minute
    rate.seen(0, 103)
    now[0] = 725.0
    rate.seen(0, 110)
    rate.seen(1, 4)
    assert rate.rows() == [[2, 3], [1, 0], [0, 11]]
    now[0] += 3600.0
    rate.seen(1, 4)
    assert rate.rows() == [[0, 0]]


# places


def test_what_cannot_be_watched_is_refused(place, tmp_path, capsys):
    for paths in ([], [tmp_path / "missing"], [place / "study", place / "study"], [tmp_path]):
        with pytest.raises(InvalidInput):
            watch(paths)
    (tmp_path / "issuer.toml").write_text('credentials = "people"\n')
    with pytest.raises(InvalidInput, match="learner or a shuffler"):
        watch([tmp_path / "issuer.toml"])
    Study.new(tmp_path / "other", design_of("local"))
    with pytest.raises(InvalidInput, match="same design"):
        watch([place / "collector", tmp_path / "other"])
    assert main(["serve", "dashboard", str(tmp_path / "missing")]) == 2
    assert main(["serve", "dashboard", str(place), "--host", "0.0.0.0"]) == 2  # noqa: S104 - refused
    assert "loopback" in capsys.readouterr().err
    assert not (place / "study" / "dashboard").exists()


def test_configurations_of_services_are_watched_with_their_keys(place, tmp_path):
    secret = tmp_path / "bearer"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    (tmp_path / "sign.pem").write_text("a key")
    common = 'bearer = {file = "bearer"}\nkeys = {sign = "sign.pem"}\n'
    shuffler = f'directory = "{place / "collector"}"\npeople = "open"\nsealed = false\n{common}'
    learner = f'directory = "{place / "study"}"\n{common}'
    learner += 'shuffler = {url = "http://127.0.0.1:9", bearer = {file = "bearer"}}\n'
    (tmp_path / "shuffler.toml").write_text(shuffler)
    (tmp_path / "learner.toml").write_text(learner)
    found = watch([tmp_path / "learner.toml", tmp_path / "shuffler.toml"])
    assert (found.study is None, found.collector is None, found.shuffler) == (False, False, None)
    board = Board(tmp_path / "tokens", tmp_path / "learner.toml")

    async def visit(it):
        page = (await it.get("/operator", board.reader, **HTML)).text
        return page, await it.post("/act/close", {"stage": "1"}, board.writer)

    page, reply = board.run(visit)
    assert "signing key" in page
    assert (reply.status_code, "shuffler must answer" in reply.json()["detail"]) == (409, True)
    (tmp_path / "learner.toml").write_text(learner.replace(str(place / "study"), str(tmp_path / "none")))
    with pytest.raises(InvalidInput, match="must have begun"):
        watch([tmp_path / "learner.toml"])


def test_declarations_stand_on_every_page(tmp_path):
    sees = {"low": "any", "high": "any"}
    design = plan_study(
        states=("low", "high"), actions=("wait", "act"), horizon=2, trust="central", epsilon=2.0, delta=1e-6, stages=2,
        target=12, least=8, learner="bucb", support={"moves": {"high": ["high"]}}, sees=sees,
    )  # fmt: skip
    begun(tmp_path / "ward", design=design)

    async def look(it):
        return [(await it.get(view, it.board.reader, **HTML)).text for view in VIEWS]

    pages = Board(tmp_path / "tokens", tmp_path / "ward").run(look)
    assert all("8 of 10 counters can move" in page and "1 feature of 2 states (any)" in page for page in pages)


def test_the_standing_against_the_baseline_is_shown(tmp_path, capsys):
    shared = {"states": ("low", "high"), "actions": ("wait", "act"), "horizon": 2, "trust": "shuffle", "epsilon": 2.0}
    shared |= {"delta": 1e-6, "stages": 2, "target": 12, "least": 8, "baseline": "always wait"}
    for name, budget in (("free", None), ("careful", 0.4)):
        design = plan_study(**shared, **({} if budget is None else {"loss_budget": budget}))
        study = Study.new(tmp_path / name / "study", design, seed=0)
        collector = Collector.new(tmp_path / name / "collector", design, noise="simulation", seed=0)
        collector.open(study.plan())
        report(study, collector, range(10))
        collector.close()
        assert study.take(collector.release(study.head)) == "taken"
        board = Board(tmp_path / f"{name} tokens", tmp_path / name)
        page = board.run(lambda it, token=board.reader: it.get("/learner", token, **HTML)).text
        assert "Against what people do already" in page
        assert ("of the loss budget" in page) == (budget is not None)
        assert ("it has no loss budget" in page) == (budget is None)
        assert main(["study", "status", str(tmp_path / name / "study")]) == 0
        assert ("lost so far: at most" in capsys.readouterr().out) == (budget is not None)
    study.plan()
    found = study.standing()
    assert 0.0 <= found.baseline[0] <= found.baseline[1] <= 1.0
    assert (found.lost, found.budget) == (0.0, 0.4)


def test_coefficients_of_features_with_intervals(tmp_path, monkeypatch):
    """What the releases of a study over rows say of every action and feature, and nothing before there is one."""
    space = Features(age=(18, 90), ward=["<a>", "b"])
    design = plan_study(
        features=space, actions=("wait", "walk"), trust="central", epsilon=2.0, delta=1e-6, stages=2, target=10,
        least=8, rewards=(0, 10), learner="lin-ts",
    )  # fmt: skip
    lived = {"states": [{"age": 40, "ward": "b"}], "actions": ["walk"], "rewards": [10]}
    Study.new(tmp_path / "new" / "study", design, seed=0)
    study, _ = begun(tmp_path / "ward", design=design, lived=lived)

    async def look(it):
        return (await it.get("/learner", it.board.reader, **HTML)).text

    empty, page = (Board(tmp_path / f"{name}-tokens", tmp_path / name).run(look) for name in ("new", "ward"))
    assert "Coefficients of features" in empty
    assert "Nothing was released yet" in empty.partition("Coefficients of features")[2][:400]
    shown = page.partition("Coefficients of features")[2]
    assert all(name in shown for name in ("intercept", "age", "ward=&lt;a&gt;", "ward=b", "wait", "walk"))
    assert "ward=<a>" not in page
    means, ends = study.coefficients(1.96)
    for value in (10.0 * means.T).ravel():
        assert f">{value:.3f}<small>" in shown
    # Ten people: noise hides all of it.
    assert np.isnan(ends).all()
    assert shown.count("<small>not told apart from noise</small>") == means.size
    monkeypatch.setattr(Study, "coefficients", lambda self, z: (means, np.stack([means - 0.01 * z, means + 1], axis=2)))
    told = views.coefficients(study)["rows"][0]["cells"][0]
    assert told == pytest.approx([10 * means[0, 0], 10 * means[0, 0] - 0.1 * 1.96, 10 * (means[0, 0] + 1)], abs=1e-4)
    assert "Policy by name" not in page


def test_the_page_has_the_words_of_the_certificate_and_wraps_them_anew(board, place):
    text = Collector(place / "collector").certificate().describe()
    entries = certificate_entries(text)
    assert " ".join(entries).split() == text.split()
    assert len(entries) < len(text.splitlines())
    (promise,) = [entry for entry in entries if entry.startswith("promise")]
    assert promise.endswith(".")

    async def visit(it):
        return await it.get("/officer", board.reader)

    assert f"<span>{promise}</span>" in board.run(visit).text
