"""Learning from a log: one release that certifies what it says, a policy worth having, refusals that cost nothing."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import math

import log_tools as log
import numpy as np
import pytest

import tacit
from tacit.accounting.certificate import Certificate
from tacit.accounting.events import GaussianEvent
from tacit.accounting.ledger import Ledger
from tacit.cli import main
from tacit.data.trajectories import prepare_world, roll_out
from tacit.documents import vouched
from tacit.errors import InvalidInput, PrivacyViolation
from tacit.policies import uniform_policy
from tacit.protocol import TOTALS
from tacit.randomness import SecureNoise, SimulationNoise
from tacit.release import curator
from tacit.study import learning
from tacit.study.episodes import read_episodes
from tacit.study.learn_files import save_learned, verify_learned
from tacit.study.learning import LearnRequest, deal, learn, learn_from

WORLD = "riverswim:states=4,horizon=6"
RIVER = {
    "states": [{"column": "place", "categories": ["s0", "s1", "s2", "s3"]}],
    "actions": {"column": "stroke", "categories": ["left", "right"]},
    "reward": {"low": 0, "high": 1},
    "horizon": 6,
}


def simulated(seed=0):
    return SimulationNoise(np.random.default_rng(seed))


def river_log(path, people, *, each=1, seed=5):
    """A log of riverswim under a policy that tosses a fair coin at every step."""
    drawn = roll_out(
        prepare_world(tacit.make_environment(WORLD)),
        uniform_policy(6, 4, 2),
        people * each,
        np.random.default_rng(seed),
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["person", "episode", "step", "place", "stroke", "reward"])
        for i in range(people * each):
            for h in range(6):
                stroke = ("left", "right")[drawn.actions[i, h]]
                writer.writerow([f"p{i // each}", i, h, f"s{drawn.states[i, h]}", stroke, drawn.rewards[i, h]])
    return path


def value_of(table):
    """The exact value of a policy in riverswim, in NumPy."""
    mdp = tacit.make_environment(WORLD)
    V = np.zeros(mdp.num_states)
    for h in range(mdp.horizon - 1, -1, -1):
        P, r = mdp.stage_P[min(h, len(mdp.stage_P) - 1)], mdp.stage_r[min(h, len(mdp.stage_r) - 1)]
        V = (table[h] * (r + P @ V)).sum(axis=1)
    return float(mdp.rho @ V)


@pytest.fixture(scope="module")
def river(tmp_path_factory):
    return river_log(tmp_path_factory.mktemp("river") / "log.csv", 20_000)


def test_a_log_of_coin_tosses_teaches_to_swim(river):
    """People have a fixed seed, noise is secure: of 200 simulated noises the worst policy had 0.474 (best: 0.476)."""
    found = learn(river, RIVER, epsilon=3.0, delta=1e-6, behaviour="known")
    uniform = value_of(uniform_policy(6, 4, 2).table)
    assert uniform < 0.04
    assert value_of(found.policy.to_numpy()) > 10 * uniform
    certificate = found.certificate
    assert certificate.release
    assert certificate.holds
    assert certificate.terms is not None
    assert certificate.terms.noise == "secure"
    assert certificate.claim.trust == "central"
    assert found.summary["pessimistic_return"] < found.summary["estimated_return"]


def test_what_nobody_did_is_named_as_unsupported(river):
    """Everybody begins at the left: the first step supports one state, in every simulated noise of five."""
    episodes = read_episodes(river, RIVER)
    for seed in range(5):
        request = LearnRequest(mapping=episodes.mapping, epsilon=3.0, delta=1e-6, people=20_000)
        channel = request.channels[0]
        _, payload = channel.simulate(channel.begin_secret(), episodes.trajectories, TOTALS, simulated(seed))
        found = request.planned((payload,), request.certificate("simulation"))
        first = [state for step, state in found.summary["unsupported"] if step == 0]
        assert first == ["s1", "s2", "s3"]
        assert not [step for step, state in found.summary["unsupported"] if state == "s0"]
        assert abs(found.summary["estimated_return"] - value_of(found.policy.to_numpy())) < 0.1


@pytest.fixture
def small(tmp_path):
    return log.write(tmp_path / "log.csv")


def learned_small(path, **changes):
    asked = {"epsilon": 1.0, "delta": 1e-6, "behaviour": "known", "noise": simulated(), **changes}
    return learn(path, log.mapping(), **asked)


@pytest.mark.parametrize("reports", [1, 2, 5])
def test_the_certificate_is_that_of_a_person_with_all_reports(small, reports):
    found = learned_small(small, reports_per_person=reports, noise=SecureNoise())
    again = Certificate.from_dict(json.loads(json.dumps(found.certificate.to_dict()))).derived()
    assert again == found.certificate
    assert found.certificate.epsilon <= 1.0
    assert found.certificate.epsilon > 0.99
    assert (found.certificate.claim.unit.reports, found.certificate.claim.unit.per_stage) == (reports, 1)
    assert len(found.payloads) == reports
    # One episode of H = 3 steps moves 4H - 2 = 10 counters; g of them in g stages cost μ = √(10 g)/σ.
    std = found.request.basis.noise_std()["rewards"]
    one = learned_small(small).request.basis.noise_std()["rewards"]
    assert std == pytest.approx(reports * one, rel=1e-6)


class NoNoise:
    """The channel's noise, hooked to be nothing, for black-box sensitivities."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(curator, "draw_noise", lambda size, variance, noise: np.zeros(size, dtype=np.int64))

    @staticmethod
    def vector(found):
        return np.concatenate([np.frombuffer(payload, dtype="<i8") for payload in found.payloads])


@pytest.mark.parametrize(("reports", "keep"), [(1, "random"), (2, "random"), (5, "random"), (2, "first")])
def test_one_person_never_moves_more_than_certified_however_many_episodes_come(tmp_path, monkeypatch, reports, keep):
    """Anna's episodes are replaced by up to 12 others, Bert's stay: a sensitivity that is reached, and never passed."""
    hook = NoNoise(monkeypatch)
    rng = np.random.default_rng(3)

    def one(state, action, reward, episodes):
        return [["A", str(e), str(h), state, action, reward] for e in range(episodes) for h in range(3)]

    def other(episodes):
        return [
            ["A", str(e), str(h), ["QWELL", "QSICK"][rng.integers(2)], ["QNONE", "QPILL"][rng.integers(2)], "-1"]
            for e in range(episodes)
            for h in range(3)
        ]

    annas = [
        *(one("QWELL", "QNONE", "-1", n) for n in (1, reports, 12)),
        *(one("QSICK", "QPILL", "3", n) for n in (1, reports, 12)),
        *(other(n) for n in (1, 3, 12)),
    ]
    vectors = []
    bert = [[*row[:-1], "-1"] for row in log.ROWS[3:]]  # on the grid of rewards: no coins
    for number, rows in enumerate(annas):
        path = log.write(tmp_path / f"{number}.csv", rows + bert)
        found = learned_small(path, reports_per_person=reports, keep=keep)
        vectors.append(hook.vector(found))
    channel = found.request.channels[0]
    certified = sum(
        count * (event.shift / event.sigma) ** 2
        for event, count in channel.exposed(reports)
        if isinstance(event, GaussianEvent)
    )
    moved = [float(((a - b) ** 2).sum()) for a, b in itertools.combinations(vectors, 2)]
    assert max(moved) <= certified * channel.variance
    assert max(moved) >= 0.999 * certified * channel.variance


def test_the_number_of_anybodys_episodes_is_not_public(tmp_path):
    more = [["Qanna", str(e), *row[2:]] for e in range(3) for row in log.ROWS[:3]] + log.ROWS[3:]
    once = learned_small(log.write(tmp_path / "once.csv"), reports_per_person=3)
    often = learned_small(log.write(tmp_path / "often.csv", more), reports_per_person=3)
    assert once.request == often.request
    assert once.certificate == often.certificate
    assert [len(p) for p in once.payloads] == [len(p) for p in often.payloads]


def test_everybody_has_at_most_one_report_per_stage_and_g_in_all(tmp_path):
    rows = [["Qanna", str(e), *row[2:]] for e in range(4) for row in log.ROWS[:3]] + log.ROWS[3:]
    episodes = read_episodes(log.write(tmp_path / "log.csv", rows), log.mapping())
    assert deal(episodes, 2, "first", simulated()).tolist() == [[0, 4], [1, -1]]
    for noise in (simulated(), SecureNoise()):
        dealt = deal(episodes, 3, "random", noise)
        assert dealt.shape == (3, 2)
        assert dealt[:, 1].tolist() == [4, -1, -1]
        assert len(set(dealt[:, 0])) == 3
        assert set(dealt[:, 0]) <= {0, 1, 2, 3}
    assert sorted(deal(episodes, 5, "random", simulated())[:, 0]) == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize("source", [SimulationNoise(np.random.default_rng(1)), SecureNoise()])
def test_every_episode_is_kept_with_the_same_probability(tmp_path, source):
    """600 people keep one of three: a share outside of 1/3 ± 0.11 has probability below 4e-6 by Hoeffding's bound."""
    rows = [[f"p{p}", str(e), *row[2:]] for p in range(600) for e in range(3) for row in log.ROWS[:3]]
    episodes = read_episodes(log.write(tmp_path / "log.csv", rows), log.mapping())
    kept = deal(episodes, 1, "random", source)[0] % 3
    assert np.abs(np.bincount(kept, minlength=3) / 600 - 1 / 3).max() < 0.11
    first = deal(episodes, 1, "first", source)[0] % 3
    assert (first == 0).all()


def test_what_was_released_is_counts_with_the_stated_noise(tmp_path, monkeypatch):
    """Without noise the totals are the exact counts of the kept episodes, rewards within the coins of the grid."""
    NoNoise(monkeypatch)
    found = learned_small(log.write(tmp_path / "log.csv"))
    counts = learning.released_counts(found.request, found.payloads)
    assert counts.visits[0].tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert counts.visits[2].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert counts.transitions[0, 0, 0].tolist() == [0.0, 1.0]
    assert counts.transitions[1, 1, 1].tolist() == [2.0, 0.0]
    assert counts.rewards[2, 0, 1] == pytest.approx((2.777 + 1) / 4, abs=1 / 16)
    assert counts.variance[0] == pytest.approx(found.request.basis.noise_std()["transitions"] ** 2)


def test_noise_of_another_kind_is_a_type_error(small):
    episodes = read_episodes(small, log.mapping())
    request = learned_small(small).request
    with pytest.raises(InvalidInput, match="SecureNoise"):
        learn_from(request, episodes, np.random.default_rng(0))


def test_simulated_noise_is_never_certified_as_a_release(small):
    found = learned_small(small)
    assert not found.certificate.release
    assert found.certificate.statement.startswith("SIMULATION") or "simulation" in found.certificate.statement.lower()


def test_propensities_must_be_functions_of_step_and_state(tmp_path):
    known = log.mapping(columns={"propensity": "propensity"})
    rows, header = log.with_propensity(["0.5"] * 6)
    fine = learn(log.write(tmp_path / "a.csv", rows, header), known, epsilon=1.0, delta=1e-6, behaviour="known")
    assert fine.certificate.holds
    rows, header = log.with_propensity(["0.5", "0.5", "0.5", "0.5", "0.6", "0.5"])
    with pytest.raises(PrivacyViolation, match="more than step and state"):
        learn(log.write(tmp_path / "b.csv", rows, header), known, epsilon=1.0, delta=1e-6, behaviour="known")


def test_an_unknown_behaviour_is_refused_before_the_log_is_opened(tmp_path):
    with pytest.raises(PrivacyViolation, match="step and state alone"):
        learn(tmp_path / "none.csv", log.mapping(), epsilon=1.0, delta=1e-6, behaviour="unknown")
    with pytest.raises(InvalidInput, match="behaviour must be"):
        learn(tmp_path / "none.csv", log.mapping(), epsilon=1.0, delta=1e-6, behaviour="random")


def files_of(tmp_path):
    return {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}


@pytest.fixture
def command(tmp_path):
    path = log.write(tmp_path / "log.csv")
    (tmp_path / "mapping.json").write_text(json.dumps(log.mapping()), encoding="utf-8")
    return ["learn", str(path), "--mapping", str(tmp_path / "mapping.json")]


GOOD = ["--epsilon", "1", "--delta", "1e-6", "--behaviour", "known"]


def test_learn_show_act_and_verify_on_the_command_line(tmp_path, command, capsys):
    from tacit.runs.signature import new_keys

    private, public = new_keys(tmp_path / "keys")
    out = tmp_path / "out"
    args = [*GOOD, "--reports-per-person", "2", "--fallback", "none", "--out", str(out), "--key", str(private)]
    assert main([*command, *args]) == 0
    shown = capsys.readouterr().out
    assert "certified" in shown
    files = ["certificate.json", "digests.json", "learned.json", "policy.json"]
    assert sorted(path.name for path in out.iterdir()) == [*files, "signatures"]
    for name in ("policy.json", "learned.json"):
        assert main(["policy", "show", str(out / name)]) == 0
        assert "signed by key" in capsys.readouterr().out
        assert main(["policy", "act", str(out / name), "--step", "2", "--state", "sick"]) == 0
        assert capsys.readouterr().out.strip() in ("none", "pill")
    for path in (out, out / "learned.json", out / "certificate.json"):
        assert main(["verify", str(path), "--key", str(public)]) == 0
        assert capsys.readouterr().out.startswith("true")
    written = shown + "".join(path.read_text(encoding="utf-8") for path in out.iterdir() if path.is_file())
    private_values = {value for value in log.values_of(tmp_path / "log.csv") if value not in str(log.mapping())}
    assert private_values
    assert not [value for value in private_values if value in written]


def test_learn_prints_one_json_object(tmp_path, command, capsys):
    assert main([*command, *GOOD, "--json", "--out", str(tmp_path / "out")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"certificate", "policy", "summary", "written", "ledger", "digest"}
    assert found["certificate"]["release"] is True


def test_without_a_place_to_write_nothing_is_released(command, capsys, monkeypatch):
    monkeypatch.setattr(curator, "draw_noise", None)
    assert main([*command, *GOOD]) == 2
    assert capsys.readouterr().err.startswith("error: --out must be given")


def test_every_release_is_charged_to_the_ledger_beside_it(tmp_path, command, capsys):
    """A second release from the same log costs its people again, and a new ledger has room for one."""
    assert main([*command, *GOOD, "--out", str(tmp_path / "one")]) == 0
    ledger = Ledger.load(tmp_path / "log.ledger.db")
    (entry,) = ledger.entries()
    certificate = json.loads((tmp_path / "one" / "certificate.json").read_text())
    assert (entry.users, entry.noise, entry.committed) == (range(2), "secure", True)
    assert entry.claim.to_dict() == certificate["claim"] == ledger.budget.to_dict()
    assert [[event.to_dict(), count] for event, count in entry.events] == certificate["events"]
    assert ledger.spent(0) == ledger.spent(1) == (1.0, 1e-6)
    before = files_of(tmp_path)
    assert main([*command, *GOOD, "--out", str(tmp_path / "two")]) == 2
    assert "over the budget" in capsys.readouterr().err
    assert files_of(tmp_path) == before
    # With a ledger that has room for two, two are released, and the third is not.
    wide = ["--ledger", str(tmp_path / "wide.db"), "--budget", "2,2e-6"]
    codes = [main([*command, *GOOD, *wide, "--out", str(tmp_path / name)]) for name in "abc"]
    assert codes == [0, 0, 2]
    assert len(Ledger.load(tmp_path / "wide.db").entries()) == 2
    assert [(tmp_path / name).exists() for name in "abc"] == [True, True, False]


@pytest.mark.parametrize("at", ["release", "write"])
def test_a_release_that_fails_is_not_charged_and_leaves_nothing(tmp_path, command, monkeypatch, at):
    import tacit.study.learn_files as files

    def fails(*args, **kwargs):
        raise OSError(28, "no space left on device", "learned.json")

    if at == "release":
        monkeypatch.setattr(curator, "draw_noise", fails)
    else:
        monkeypatch.setattr(files, "write_manifest", fails)
    args = [*command, *GOOD, "--out", str(tmp_path / "out")]
    before = files_of(tmp_path)
    with contextlib.suppress(OSError):
        assert main(args) != 0
    assert files_of(tmp_path) == before
    assert not list(tmp_path.glob(".out*"))
    monkeypatch.undo()
    assert main(args) == 0
    assert len(Ledger.load(tmp_path / "log.ledger.db").entries()) == 1


def test_check_only_prints_the_check_and_releases_nothing(tmp_path, command, capsys):
    before = files_of(tmp_path)
    before = files_of(tmp_path)
    assert main([*command, "--check-only", "--json", "--out", str(tmp_path / "out")]) == 0
    assert files_of(tmp_path) == before
    assert json.loads(capsys.readouterr().out) == {
        "ok": True, "rows": 6, "episodes": 2, "people": 2, "bad": {}, "notes": {}, "where": []
    }  # fmt: skip
    rows, header = log.with_propensity(["0.5", "0.5", "0.5", "0.5", "0.6", "0.5"])
    log.write(tmp_path / "log.csv", rows, header)
    (tmp_path / "mapping.json").write_text(json.dumps(log.mapping(columns={"propensity": "propensity"})))
    assert main([*command, "--check-only"]) == 2
    assert "the log is refused" in capsys.readouterr().out
    log.write(tmp_path / "log.csv", log.changed(1, "ward", "QELSE"))
    (tmp_path / "mapping.json").write_text(json.dumps(log.mapping()))
    assert main([*command, "--check-only"]) == 2
    shown = capsys.readouterr()
    assert "unknown state" in shown.out
    assert "QELSE" not in shown.out + shown.err
    assert set(files_of(tmp_path)) == set(before)


REFUSED = {
    "no epsilon": (["--delta", "1e-6", "--behaviour", "known"], {}),
    "no delta": (["--epsilon", "1", "--behaviour", "known"], {}),
    "no behaviour": (["--epsilon", "1", "--delta", "1e-6"], {}),
    "behaviour unknown": (["--epsilon", "1", "--delta", "1e-6", "--behaviour", "unknown"], {}),
    "behaviour misspelt": (["--epsilon", "1", "--delta", "1e-6", "--behaviour", "knwn"], {}),
    "epsilon zero": (["--epsilon", "0", "--delta", "1e-6", "--behaviour", "known"], {}),
    "epsilon negative": (["--epsilon=-1", "--delta", "1e-6", "--behaviour", "known"], {}),
    "epsilon NaN": (["--epsilon", "nan", "--delta", "1e-6", "--behaviour", "known"], {}),
    "epsilon infinite": (["--epsilon", "inf", "--delta", "1e-6", "--behaviour", "known"], {}),
    "delta zero": (["--epsilon", "1", "--delta", "0", "--behaviour", "known"], {}),
    "delta large": (["--epsilon", "1", "--delta", "0.1", "--behaviour", "known"], {}),
    "no reports": ([*GOOD, "--reports-per-person", "0"], {}),
    "keep what": ([*GOOD, "--keep", "last"], {}),
    "unknown fall-back": ([*GOOD, "--fallback", "QPILL"], {}),
    "key without out": ([*GOOD, "--key", "none.pem"], {}),
    "no such key": ([*GOOD, "--out", "{out}", "--key", "none.pem"], {}),
    "out is not empty": ([*GOOD, "--out", "{here}"], {}),
    "out is a file": ([*GOOD, "--out", "{here}/log.csv"], {}),
    "unknown option": ([*GOOD, "--trust", "local"], {}),
    "no such log": (GOOD, {"log.csv": None}),
    "no such mapping": (GOOD, {"mapping.json": None}),
    "mapping is no JSON": (GOOD, {"mapping.json": "{"}),
    "mapping without a horizon": (GOOD, {"mapping.json": json.dumps({**log.MAPPING, "horizon": None})}),
    "empty log": (GOOD, {"log.csv": ""}),
    "log of binary": (GOOD, {"log.csv": "\x00\x01Qsecret"}),
    "log without a column": (GOOD, {"log.csv": "person,episode,step,ward,drug\nQanna,Q71,0,QWELL,QNONE\n"}),
    "one bad row": (GOOD, {"log.csv": log.changed(3, "points", "Qseven")}),
    "a short episode": (GOOD, {"log.csv": log.ROWS[:5]}),
    "a gap": (GOOD, {"log.csv": [*log.ROWS[:4], log.ROWS[5]]}),
    "a reward outside": (GOOD, {"log.csv": log.changed(3, "points", "3.5777")}),
}


@pytest.mark.parametrize(("args", "files"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_changes_nothing_and_quotes_nobody(tmp_path, command, capsys, monkeypatch, args, files):
    def never(*args, **kwargs):
        raise AssertionError("noise was drawn before the refusal")

    monkeypatch.setattr(curator, "draw_noise", never)
    values = set(log.values_of(tmp_path / "log.csv")) | {"Qsecret", "Qseven", "3.5777"}
    for name, content in files.items():
        if content is None:
            (tmp_path / name).unlink()
        elif isinstance(content, str):
            (tmp_path / name).write_text(content, encoding="utf-8")
        else:
            log.write(tmp_path / name, content)
    before = files_of(tmp_path)
    kept = args if "--out" in args else [*args, "--out", "{out}"]
    places = [word.format(out=tmp_path / "out", here=tmp_path) for word in kept]
    assert main([*command, *places]) == 2
    assert files_of(tmp_path) == before
    assert not (tmp_path / "out").exists()
    shown = capsys.readouterr()
    assert shown.out == ""
    typed = " ".join(places)
    assert not [value for value in values if value in shown.err and value not in typed]


def flipped(actions):
    return [[1 - actions[0][0], *actions[0][1:]], *actions[1:]]


TAMPERED = {
    "epsilon": lambda plain: plain["certificate"].update(epsilon=0.5),
    "claim": lambda plain: plain["request"].update(epsilon=0.5),
    "reports": lambda plain: plain["request"].update(reports_per_person=1),
    "policy": lambda plain: plain["policy"]["policy"].update(actions=flipped(plain["policy"]["policy"]["actions"])),
    "summary": lambda plain: plain["summary"].update(estimated_return=7.0),
    "payload": lambda plain: plain["payloads"].__setitem__(0, plain["payloads"][0][:-8]),
    "one payload": lambda plain: plain["payloads"].pop(),
    "an entry": lambda plain: plain.pop("summary"),
    "noise": lambda plain: plain["certificate"]["terms"].update(noise="none"),
}  # fmt: skip


def test_what_was_learned_is_derived_again_and_a_change_is_found(small, tmp_path):
    from tacit.documents import digest

    found = learned_small(small, reports_per_person=2, noise=SecureNoise())
    path = save_learned(found, tmp_path / "out")
    assert verify_learned(path).true
    content = json.loads(path.read_text(encoding="utf-8"))
    for name, change in TAMPERED.items():
        plain = json.loads(json.dumps(content))
        change(plain)
        changed = tmp_path / "changed.json"
        changed.write_text(json.dumps({**plain, "digest": digest(plain)}), encoding="utf-8")
        assert not verify_learned(changed).true, name
        changed.write_text(json.dumps(plain), encoding="utf-8")
        assert not verify_learned(changed).true, f"{name} with the old digest"
    with pytest.raises(InvalidInput, match="new or empty"):
        save_learned(found, tmp_path / "out")


def test_a_request_says_what_it_needs(small):
    request = learned_small(small).request
    assert LearnRequest.from_dict(json.loads(json.dumps(request.to_dict()))) == request
    assert math.isclose(request.claim.epsilon, 1.0)
    with pytest.raises(InvalidInput):
        LearnRequest.from_dict({**request.to_dict(), "seed": 1})


def test_every_decision_is_marked_learned_or_default(river):
    """The first step supports one state; what supports it is its visits over the deviation of their noise."""
    found = learn(river, RIVER, epsilon=3.0, delta=1e-6, behaviour="known", noise=simulated())
    support = found.policy.support
    np.testing.assert_array_equal(support.learned[0], [True, False, False, False])
    action = found.plan.actions[0, 0]
    visits = learning.released_counts(found.request, found.payloads).visits[0, 0, action]
    assert support.noise_units[0, 0] == pytest.approx(visits / found.request.basis.noise_std()["visits"], abs=1e-3)
    assert (support.noise_units[support.learned] > support.threshold).all()
    assert support.noise_units[0, 1:].max() < support.threshold
    assert [["default" in word for word in row[1:2]] for row in found.policy.table()] == [[False]] + 3 * [[True]]
    again = tacit.NamedPolicy.from_json(found.policy.to_json())
    assert again.to_dict() == found.policy.to_dict()
    assert found.policy.to_dict()["format_version"] == 2
    assert "default" not in str(tacit.NamedPolicy.from_dict(found.policy.to_dict()).table()[0])
    for name, value in (("learned", [[True]]), ("noise_units", [["x"] * 4] * 6), ("threshold", math.inf)):
        broken = {**found.policy.to_dict(), "support": {**support.to_dict(), name: value}}
        with pytest.raises(InvalidInput, match=r"support|noise_units|threshold"):
            tacit.NamedPolicy.from_dict(broken)


def test_pooled_steps_know_what_single_steps_do_not(river):
    """Stationary: state s3 is met in late steps only, and has a learned action in every step then."""
    asked = {"epsilon": 3.0, "delta": 1e-6, "behaviour": "known"}
    apart = learn(river, RIVER, **asked, noise=simulated())
    pooled = learn(river, RIVER, **asked, stationary=True, noise=simulated())
    assert pooled.policy.support.learned.all()
    assert not apart.policy.support.learned.all()
    assert value_of(pooled.policy.to_numpy()) > 0.45
    assert pooled.request.to_dict()["stationary"] is True
    assert "stationary" not in apart.request.to_dict()
    assert LearnRequest.from_dict(apart.request.to_dict()) == apart.request
    counts = learning.released_counts(apart.request, apart.payloads)
    from tacit.planning.pessimism import pooled_steps

    together = pooled_steps(counts)
    np.testing.assert_allclose(together.visits[3], counts.visits.sum(axis=0))
    np.testing.assert_allclose(together.variance, counts.variance * [5, 6, 6])


def test_a_person_teaches_or_compares_and_never_both(river, monkeypatch):
    """Two releases about disjoint people, each with the whole claim; the interval is about the policy that came out."""
    from tacit.study import split as splitting

    taught, compared = [], []
    monkeypatch.setattr(splitting, "learn_from", lambda r, e, n: taught.append(e) or learn_from(r, e, n))
    evaluate = splitting.evaluate_episodes
    monkeypatch.setattr(splitting, "evaluate_episodes", lambda r, e, n: compared.append(e) or evaluate(r, e, n))
    rows = np.arange(20_000)
    monkeypatch.setattr(learning, "check_log", lambda *a, **k: tagged(rows, river))
    found = learn(
        river, RIVER, epsilon=3.0, delta=1e-6, behaviour="known", compare=0.25, stationary=True, noise=simulated()
    )
    assert (found.request.people, found.comparison.request.people) == (15_000, 5_000)
    both = np.concatenate([e.propensities[:, 0] for e in (*taught, *compared)])
    np.testing.assert_array_equal(np.sort(both), (1 + rows) / 30_000)
    one = found.comparison["learned"]
    assert one.low <= value_of(found.policy.to_numpy()) <= one.high
    assert one.gain[0] == pytest.approx(one.value - found.comparison["log"].value)
    assert found.comparison.certificate.claim.epsilon == found.certificate.claim.epsilon == 3.0


def tagged(rows, river):
    """The episodes, each with a propensity that tells whose it is."""
    from dataclasses import replace

    from tacit.study.episodes import check_log

    check, episodes = check_log(river, RIVER)
    return check, replace(episodes, propensities=np.repeat((1 + rows[episodes.persons])[:, None] / 30_000, 6, axis=1))


def test_learn_compares_and_verifies_and_a_dry_run_releases_nothing(tmp_path, capsys, monkeypatch):
    path = river_log(tmp_path / "log.csv", 300)
    (tmp_path / "mapping.json").write_text(json.dumps(RIVER), encoding="utf-8")
    command = ["learn", str(path), "--mapping", str(tmp_path / "mapping.json"), *GOOD]
    before = files_of(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(curator, "draw_noise", None)
        assert main([*command, "--dry-run", "--json", "--stationary"]) == 0
    outlook = json.loads(capsys.readouterr().out)["outlook"]
    assert files_of(tmp_path) == before
    assert outlook["even_visits"] == 300 * 6 / 8
    needed = outlook["told_apart"]
    # Two rows with N visits: the difference has variance 2 (1/(4N) + v/(2N²)), of pooled noise v = 6 σ².
    N, v = needed[1]["visits"], 6.0 * outlook["noise_std"]["rewards"] ** 2
    assert math.sqrt(2.0 * (0.25 / N + v / 2.0 / N**2)) * 2.801585 == pytest.approx(0.1, rel=1e-3)
    out = tmp_path / "out"
    assert main([*command, "--compare", "0.3", "--out", str(out)]) == 0
    assert "the rule of the log" in capsys.readouterr().out
    (entry,) = Ledger.load(tmp_path / "log.ledger.db").entries()
    assert entry.users == range(300)
    assert main(["verify", str(out)]) == 0
    content = json.loads((out / "learned.json").read_text())
    assert content["request"]["people"] == 210
    content["comparison"]["request"]["policies"]["learned"]["policy"]["actions"][0][0] ^= 1
    content.pop("digest")
    (out / "learned.json").write_text(json.dumps(vouched(content)))
    capsys.readouterr()
    assert main(["verify", str(out)]) == 1
    assert main(["policy", "act", str(out / "policy.json"), "--step", "0", "--state", "s3", "--json"]) != 0
    assert main([*command, "--compare", "0.001", "--out", str(tmp_path / "never")]) == 2
    assert "both groups must have a person" in capsys.readouterr().err
