"""`tacit certify`: the numbers to meet, both calibrations side by side, and clear refusals."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time

import pytest

from tacit.cli import main
from tacit.release.request import PrivacyRequest
from tacit.release.shuffle.labels import least_bit_noise
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape
from tacit.statistics.count_spec import ReleaseSpec

SIZES = "--states 4 --actions 2 --horizon 6 --episodes 20000 --epsilon 1 --delta 0"
SHUFFLE = f"--trust shuffle {SIZES} --batch 1000 --delta 1e-6"
CLAIM = {"epsilon": 1.0, "delta": 1e-6, "users": 1000}
MDP = {"num_states": 4, "num_actions": 2, "horizon": 6}


def certify(capsys, words: str) -> dict:
    code = main(["certify", *words.split(), "--json"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return json.loads(out)


def refused(capsys, words: str) -> str:
    """The one line of the refusal; nothing else is printed."""
    code = main(["certify", *words.split()])
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


# Numbers to meet: H=6, S=4, A=2, epsilon 1, delta 1e-6, replace-one.


def test_shuffle_meets_its_numbers(capsys):
    found = certify(capsys, SHUFFLE)
    assert found["claim"]["neighbours"] == "replace-one"
    assert found["claim"]["unit"] == {"reports": 1, "per_stage": 1}
    assert found["certificate"]["epsilon"] <= 1.0
    assert found["certificate"]["delta"] == 1e-6
    assert found["certificate"]["method"].startswith("PLD")
    assert found["noise_std"]["transitions"] <= 19.9  # the 4H-2 encoding
    assert found["noise_std"]["rewards"] <= 19.9
    assert found["paper"]["noise_std"]["visits"] == pytest.approx(378.0, abs=0.5)
    assert found["paper_2024"]["noise_std"]["visits"] == pytest.approx(336.0, abs=0.5)
    assert found["paper"]["certificate"]["epsilon"] == pytest.approx(0.055, abs=0.0005)
    assert found["paper_2024"]["certificate"]["epsilon"] == pytest.approx(0.063, abs=0.0005)
    assert found["ratio"]["transitions"] == pytest.approx(378.15 / 19.82, rel=1e-3)
    for side in ("tight", "paper", "paper_2024"):
        assert found[side]["holds"]
        assert 0 < found[side]["messages_per_user"] < found[side]["bytes_per_user"]
    assert found["tight"]["bytes_per_user"] < found["paper"]["bytes_per_user"] / 100


def test_shuffle_with_other_releases_meets_its_numbers():
    def std(spec, **more):
        return least_bit_noise(spec.families(), **{**CLAIM, **more}).total.std

    assert std(ReleaseSpec.fine(**MDP, last_transition=True)) <= 25.5
    assert std(ReleaseSpec.crude(**MDP, layer=2)) <= 8.6
    # With visits, too: 8.49 by fair bits; a thousand users have one bit each, which must be biased, and that is skewed.
    with_visits = ReleaseSpec.crude(**MDP, layer=2, visits=True)
    assert std(with_visits, users=100) <= 8.6
    assert std(with_visits) <= 8.62


def test_central_meets_its_numbers(capsys):
    ten_thousand = SIZES.replace("20000", "10000")
    found = certify(capsys, f"--trust central {ten_thousand} --delta 1e-6")
    assert found["noise_std"]["transitions"] <= 100.0
    assert found["certificate"]["epsilon"] <= 1.0
    # Printed counts are not padded: at most 13 nodes add up, where a padded tree has 14 (1333).
    assert found["paper"]["noise_std"]["transitions"] == pytest.approx(1285.0, abs=1.0)
    printed = found["paper"]["certificate"]["printed"]
    # 2.00 if the last step had a successor, too; tacit does not release it: (6H-2)/3H.
    assert (printed["delta"], printed["certified"]) == (0.0, pytest.approx(34 / 18))
    assert "FALSE" in found["paper"]["certificate"]["verdict"]


def test_local_meets_its_numbers(capsys):
    found = certify(capsys, f"--trust local {SIZES} --mechanism laplace")
    assert found["claim"]["delta"] == 0.0
    assert found["certificate"]["method"] == "pure composition"
    assert found["noise_std"]["rewards"] <= 31.2
    assert found["noise_std"]["transitions"] <= 31.2
    assert found["paper"]["noise_std"]["rewards"] == pytest.approx(50.9, abs=0.05)
    assert found["paper"]["certificate"]["epsilon"] == pytest.approx(34 / 36)
    for kind, pooled in itertools.product(("oue", "subset"), ("", "--pooled")):
        slot = certify(capsys, f"--trust local {SIZES} --mechanism {kind} {pooled}")
        assert slot["noise_std"]["transitions"] <= 20.0
        assert slot["noise_std"]["rewards"] <= 20.0
        assert slot["certificate"]["epsilon"] == 1.0
        assert slot["tight"]["sampling_std"]["rewards"] > 0.0  # stated beside it


@pytest.mark.parametrize(
    "words",
    [
        f"--trust shuffle {SIZES} --batch 1000 --delta 1e-6",
        f"--trust central {SIZES} --delta 1e-6",
        f"--trust central {SIZES}",
        f"--trust central {SIZES} --delta 1e-6 --mechanism laplace-tree",
        f"--trust local {SIZES}",
        f"--trust local {SIZES} --mechanism laplace --delta 1e-6",
        f"--trust local {SIZES} --mechanism gaussian --delta 1e-6",
        f"--trust local {SIZES} --mechanism rr --delta 1e-6",
        f"--trust local {SIZES} --mechanism bounded --delta 1e-6",
        f"--trust local {SIZES} --mechanism bounded --delta 1e-6 --pooled",
    ],
)
def test_a_call_takes_less_than_five_seconds_of_cpu(words, capsys):
    start = time.process_time()
    found = certify(capsys, f"{words} --epsilon 1.003")  # no other test has asked for it: nothing is cached yet
    assert time.process_time() - start < 5.0
    assert found["tight"]["certificate"]["holds"]


@pytest.mark.parametrize(("trust", "users"), [("central", 1), ("shuffle", 1000), ("local", 1)])
def test_calibrations_are_cached(trust, users):
    shape = CountShape(horizon=6, num_states=4, num_actions=2, staged=True)
    requests = [
        PrivacyRequest(
            trust=trust,
            shape=shape,
            episodes=20_000,
            epsilon=epsilon,
            delta=1e-6,
            calibration="tight",
            mechanism=None,
            users_per_batch=users,
        )
        for epsilon in (1.0, 1.0, 2.0)
    ]
    first, same, other = map(make_privatizer, requests)
    assert first is same
    assert other.noise_std()["rewards"] < first.noise_std()["rewards"]


def test_both_calibrations_stand_beside_the_chosen_one(capsys):
    tight = certify(capsys, f"--trust local {SIZES} --mechanism gaussian --delta 1e-5 --pooled")
    paper = certify(capsys, f"--trust local {SIZES} --mechanism gaussian --delta 1e-5 --pooled --calibration paper")
    assert tight["certificate"] == tight["tight"]["certificate"]
    assert paper["certificate"] == paper["paper"]["certificate"]
    assert paper["noise_std"] == paper["paper"]["noise_std"]
    assert (tight["tight"], tight["paper"], tight["ratio"]) == (paper["tight"], paper["paper"], paper["ratio"])
    assert not paper["paper"]["holds"]
    assert paper["certificate"]["epsilon"] == pytest.approx(1.144, abs=1e-3)
    for name, ratio in tight["ratio"].items():
        assert ratio == tight["paper"]["noise_std"][name] / tight["tight"]["noise_std"][name]


def test_statistics_are_stage_dependent_unless_pooled(capsys):
    staged = certify(capsys, f"--trust local {SIZES} --mechanism gaussian --delta 1e-6")
    pooled = certify(capsys, f"--trust local {SIZES} --mechanism gaussian --delta 1e-6 --pooled")
    assert staged["configuration"]["statistics"] == "stage-dependent"
    assert pooled["configuration"]["statistics"] == "pooled"
    # √22/μ against √(2·5² + 2·6²)/μ
    assert pooled["noise_std"]["rewards"] / staged["noise_std"]["rewards"] == pytest.approx((122 / 22) ** 0.5, rel=1e-6)


def test_what_no_paper_prints_is_said_so(capsys):
    found = certify(capsys, f"--trust local {SIZES} --mechanism oue")
    assert found["paper"] is None
    assert found["ratio"] is None
    assert "no paper" in found["note"]
    assert "paper" in refused(capsys, f"--trust local {SIZES} --mechanism oue --calibration paper")


def test_one_step_has_no_transitions(capsys):
    short = SIZES.replace("--horizon 6", "--horizon 1")
    for words in (f"--trust shuffle {short} --delta 1e-6", f"--trust central {short}", f"--trust local {short}"):
        found = certify(capsys, words)
        assert found["tight"]["noise_std"]["transitions"] is None
        assert found["tight"]["noise_std"]["visits"] > 0.0
        assert found["certificate"]["holds"]
        if found["ratio"] is not None:
            assert found["ratio"]["transitions"] is None


def test_the_text_says_everything(capsys):
    assert main(["certify", *SHUFFLE.split()]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for words in (
        "stage-dependent",
        "A party that sees all shuffled messages",
        "certified epsilon 1 at delta 1e-06",
        "If learner and shuffler collude, nothing is protected",
        "noise standard deviation",
        "paper/tight",
        "messages per user",
        "bytes per user",
        "bai2024shuffle",
    ):
        assert words in out
    assert main(["certify", *f"--trust local {SIZES} --mechanism oue --pooled".split()]) == 0
    out = capsys.readouterr().out
    assert "pooled over the steps" in out
    assert "choosing one slot" in out
    assert "no paper sends one slot" in out
    assert main(["certify", *f"--trust local {SIZES} --mechanism bounded --pooled --delta 1e-5".split()]) == 0
    assert "is FALSE" in capsys.readouterr().out


def test_certified_numbers_are_printed_rounded_up(capsys):
    assert main(["certify", *SHUFFLE.split()]) == 0
    shown = capsys.readouterr().out.split("certified ε at δ = 1e-06")[1].split("\n")[0].split()
    found = certify(capsys, SHUFFLE)
    exact = [found[side]["certificate"]["epsilon"] for side in ("tight", "paper", "paper_2024")]
    assert all(float(text) >= value for text, value in zip(shown, exact, strict=True))
    assert [float(text) for text in shown] == pytest.approx(exact, rel=2e-3)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (f"--trust shuffle {SIZES} --delta 1e-6 --epsilon 0", "epsilon"),
        (f"--trust shuffle {SIZES} --delta 1e-6 --epsilon -1", "epsilon"),
        (f"--trust shuffle {SIZES} --delta 1e-6 --epsilon nan", "epsilon"),
        (f"--trust shuffle {SIZES} --delta 1e-6 --epsilon inf", "epsilon"),
        (f"--trust shuffle {SIZES} --delta 1e-6 --epsilon much", "--epsilon"),
        (f"--trust shuffle {SIZES} --delta -1e-9", "delta"),
        (f"--trust shuffle {SIZES} --delta nan", "delta"),
        (f"--trust shuffle {SIZES} --delta inf", "delta"),
        (f"--trust shuffle {SIZES} --delta 0.01", "1e-3|0.001"),
        (f"--trust shuffle {SIZES} --delta 1 --allow-large-delta", "delta"),
        (f"--trust shuffle {SIZES}", "pure .* choose trust central or local"),
        (f"--trust local {SIZES} --mechanism gaussian", "never pure .* use subset"),
        (f"--trust local {SIZES} --mechanism bounded --delta 0", "never pure .* use subset"),
        (f"--trust central {SIZES} --mechanism factorization", "never pure .* use kary-tree"),
        (f"--trust central {SIZES} --mechanism lapalce-tree", "did you mean 'laplace-tree'"),
        (f"--trust shufle {SIZES} --delta 1e-6", "did you mean 'shuffle'"),
        (f"--trust none {SIZES}", "central, shuffle or local"),
        (f"--trust local {SIZES} --calibration loose", "'tight' or 'paper'"),
        (f"--trust local {SIZES} --horizon 0", "horizon must be a whole number of at least 1"),
        (f"--trust local {SIZES} --episodes 0", "episodes must be a whole number of at least 1"),
        (f"--trust local {SIZES} --states 0", "states must"),
        (f"--trust local {SIZES} --actions -2", "actions must"),
        (f"--trust shuffle {SIZES} --delta 1e-6 --batch 1", "more than one user"),
        (f"--trust shuffle {SIZES} --delta 1e-6 --batch 0", "batch must"),
        (f"--trust shuffle {SIZES} --delta 1e-6 --batch 20001", "20000"),
        ("--trust local --states 4", "(?i)missing option"),
    ],
)
def test_bad_input_is_refused_in_one_line(words, says, capsys):
    assert re.search(says, refused(capsys, words))


def test_a_large_delta_takes_an_override(capsys):
    found = certify(capsys, f"--trust local {SIZES} --mechanism gaussian --delta 0.01 --allow-large-delta")
    assert found["certificate"]["delta"] == 0.01


def test_the_installed_command_refuses_with_exit_code_two():
    words = [sys.executable, "-m", "tacit", "certify", *f"--trust local {SIZES} --epsilon nan".split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
