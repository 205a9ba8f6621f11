"""LDP-OBI with the printed c_k: the formulas of Props. 8, 11, 13 and 15, written anew from the text, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import InvalidInput, NotSupported
from tacit.learners.ldp_obi import LDPOBI
from tacit.release.request import PrivacyRequest
from tacit.release.table import make_privatizer
from tacit.released.counts import CountShape
from tacit.released.precision import printed_radii, printed_radius
from tacit.runs.assemble import assemble
from tacit.runs.config import RunConfig

S, A, H = 3, 2, 4
SHAPE = CountShape(horizon=H, num_states=S, num_actions=A, staged=False)
DELTA0 = 1e-3


def local(mechanism, epsilon, *, calibration="paper", shape=SHAPE, delta=None):
    approximate = mechanism.split(":")[0] in ("gaussian", "bounded")
    return make_privatizer(
        PrivacyRequest(
            trust="local",
            shape=shape,
            episodes=1000,
            epsilon=epsilon,
            delta=(DELTA0 if approximate else 0.0) if delta is None else delta,
            calibration=calibration,
            mechanism=mechanism,
            users_per_batch=1,
        )
    )


def prop8(epsilon, k, delta):
    """max{√k, ln(6SA/δ)} √(8 ln(6SA/δ)) / (ε/6H) and its relatives."""
    row, cell = math.log(6 * S * A / delta), math.log(6 * S**2 * A / delta)
    first = max(math.sqrt(k), row) * math.sqrt(8 * row) / (epsilon / (6 * H))
    third = max(math.sqrt(k * S), cell) * math.sqrt(8 * cell) / (epsilon / (6 * H))
    return first, first, third, third / math.sqrt(S)


def prop11(c):
    def radii(epsilon, k, delta):
        """max{cH/ε √((k-1) ln(6SA/δ)), 1}."""
        row = math.log(6 * S * A / delta)
        one = max(c * H / epsilon * math.sqrt((k - 1) * row), 1)
        return one, one, max(c * H / epsilon * math.sqrt((k - 1) * S * row), 1), one

    return radii


def prop13(epsilon, k, delta):
    """max{1, (2e^ε₀-1)/(e^ε₀-1) √((k-1)H/2 ln(4SA/δ))} with ε₀ = ε/6H."""
    e = math.exp(epsilon / (6 * H))
    g = (2 * e - 1) / (e - 1)
    root, cell = (math.sqrt((k - 1) * H / 2 * math.log(4 * n / delta)) for n in (S * A, S**2 * A))
    return max(1, g * root), max(1, g * root), max(1, S * g * root), max(1, g * cell)


def prop15(C):
    def radii(epsilon, k, delta):
        """R √(2(k-1) ln(6SA/δ)) with R = C/ε₀ √(SA ln(1/δ₀)), R₂ = CS/ε₀ √(A ln(1/δ₀)) and ε₀ = ε/3H."""
        small = epsilon / (3 * H)
        R = C / small * math.sqrt(S * A * math.log(1 / DELTA0))
        R2 = C * S / small * math.sqrt(A * math.log(1 / DELTA0))
        row, cell = math.log(6 * S * A / delta), math.log(6 * S**2 * A / delta)
        first = R * math.sqrt(2 * (k - 1) * row)
        return first, first, R2 * math.sqrt(2 * S * (k - 1) * cell), R2 * math.sqrt(2 * (k - 1) * cell)

    return radii


PROPOSITIONS = {
    "laplace": prop8,
    "gaussian": prop11(math.sqrt(4 * math.log(24 / DELTA0))),  # the proof of Prop. 10, and Prop. 11
    "gaussian:c=proof": prop11(math.sqrt(4 * math.log(24 / DELTA0))),
    "gaussian:c=statement": prop11(4 * math.log(24 / DELTA0)),  # Prop. 10 as stated
    "rr": prop13,
    "bounded": prop15(1.0),
    "bounded:C=2.5": prop15(2.5),
}


@pytest.mark.parametrize("mechanism", PROPOSITIONS)
@pytest.mark.parametrize("k", [1, 2, 1000, 10**8])
@pytest.mark.parametrize("epsilon", [0.2, 20.0])
def test_radii_are_the_printed_ones(mechanism, k, epsilon):
    radii = printed_radii(local(mechanism, epsilon))
    delta = 0.05 * 3 / (2 * math.pi**2 * k**2)  # Alg. 2: c_k at 3δ/(2π²k²)
    found = [printed_radius(radii, i, float(k), -math.log(delta)) for i in range(4)]
    np.testing.assert_allclose(found, PROPOSITIONS[mechanism](epsilon, k, delta), rtol=1e-12)


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "rr", "bounded"])
@pytest.mark.parametrize(("alpha", "failure_prob"), [(2.0, 0.05), (1.5, 0.2)])
def test_the_model_is_that_of_eq_4_at_the_printed_radii(mechanism, alpha, failure_prob):
    # 10⁸ users of the hand-made counts below; Prop. 4 written anew.
    privatizer = local(mechanism, 20.0)
    k = 10**8 + 1
    released = privatizer.begin().released
    rng = np.random.default_rng(0)
    released.visits[:] = rng.integers(10**7, 10**8, released.visits.shape)
    released.rewards[:] = 0.3 * released.visits
    released.transitions[:] = rng.integers(10**6, 10**7, released.transitions.shape)
    released.users[0] = k - 1
    learner = LDPOBI(shape=SHAPE, precision=printed_radii(privatizer), alpha=alpha, failure_prob=failure_prob)
    belief = learner.begin()
    learner.kernels.update(learner.parameters, belief, released)
    c1, c2, c3, c4 = PROPOSITIONS[mechanism](20.0, k, 3 * failure_prob / (2 * math.pi**2 * k**2))
    ell = math.log(4 * math.pi**2 * S * A * H * float(k) ** 3 / (3 * failure_prob))
    n_r, n_p = released.visits + alpha * c2, released.transitions.sum(-1) + alpha * c3
    np.testing.assert_allclose(belief.r_tilde, released.rewards / n_r, rtol=1e-12)
    np.testing.assert_allclose(belief.P_tilde, released.transitions / n_p[..., None], rtol=1e-12)
    np.testing.assert_allclose(belief.bonus_r, np.sqrt(2 * ell / n_r) + ((alpha + 1) * c2 + c1) / n_r, rtol=1e-12)
    np.testing.assert_allclose(
        belief.bonus_p, np.sqrt(14 * S * ell / n_p) + (S * c4 + (alpha + 1) * c3) / n_p, rtol=1e-12
    )
    assert learner.constants == "printed"


def test_both_readings_of_the_gaussian_constant_differ_by_its_square():
    sigmas = {c: local(f"gaussian:c={c}", 2.0).outcome.sigma for c in ("proof", "statement")}
    c = sigmas["proof"] * 2.0 / H
    assert sigmas["statement"] * 2.0 / H == pytest.approx(c**2)
    assert local("gaussian", 2.0).outcome.sigma == sigmas["proof"]


def run(**changed):
    options = {
        "environment": "random-mdp:seed=3",
        "learner": "ldp-obi:time_homogeneous=true",
        "episodes": 200,
        "seeds": (0,),
        "constants": "printed",
        "trust": "local",
        "epsilon": 2.0,
        "delta": 0.0,
        "calibration": "paper",
        "mechanism": "laplace",
    }
    return RunConfig(**{**options, **changed})


def test_a_run_reads_the_options_of_the_learner():
    learner = assemble(run(learner="ldp-obi:time_homogeneous=true,alpha=3,failure_prob=0.1")).learner
    assert learner.parameters.alpha == 3.0
    assert learner.parameters.log_failure == pytest.approx(math.log(2 * math.pi**2 / 0.3))
    assert learner.constants == "printed"


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"calibration": "tight"}, NotSupported, "calibration 'paper'"),
        (
            {"trust": "none", "epsilon": None, "delta": None, "calibration": "tight", "mechanism": None},
            NotSupported,
            "trust 'local'",
        ),
        ({"mechanism": "gaussian:c=square", "delta": 1e-3}, InvalidInput, "'proof' or 'statement'"),
        ({"mechanism": "gaussian:C=2", "delta": 1e-3}, InvalidInput, "gaussian:c="),
        ({"mechanism": "laplace:c=proof"}, InvalidInput, "gaussian:c="),
        ({"mechanism": "bounded:C=none", "delta": 1e-3}, InvalidInput, "must be a number"),
        ({"mechanism": "bounded:C=0", "delta": 1e-3}, InvalidInput, "finite number in"),
        (
            {"mechanism": "gaussian:c=proof", "delta": 1e-3, "calibration": "tight", "constants": "theory"},
            InvalidInput,
            "use 'paper'",
        ),
        ({"learner": "ldp-obi:alpha=1"}, InvalidInput, "alpha must exceed 1"),
        ({"learner": "ldp-obi:alpha=many"}, InvalidInput, "must be a finite number"),
        ({"learner": "ldp-obi:alpha=3", "constants": "practical"}, InvalidInput, "practical rule has no alpha"),
        ({"z": 1.0}, InvalidInput, "z belongs to the practical rule"),
        ({"learner": "ucbvi"}, InvalidInput, "exist for ldp-obi"),
        ({"learner": "private-ucb-vi"}, InvalidInput, "exist for ldp-obi"),
        ({"learner": "ldp-psrl"}, InvalidInput, "exist for ldp-obi"),
    ],
)
def test_what_is_not_printed_is_refused(changed, error, words):
    with pytest.raises(error, match=words):
        assemble(run(**changed))


def test_the_scale_of_the_adversarial_paper_is_half_as_large_and_its_claim_is_false():
    asked = {"trust": "local", "epsilon": 1.0, "delta": 0.0, "calibration": "paper", "users_per_batch": 1}
    made = {
        scale: make_privatizer(PrivacyRequest(shape=SHAPE, episodes=100, mechanism=f"laplace:scale={scale}", **asked))
        for scale in ("6H", "3H")
    }
    H = SHAPE.horizon
    assert made["6H"].outcome.scale == 2 * made["3H"].outcome.scale == 6 * H
    # One transition fewer than steps: (6H - 2)/(3H) instead of 1
    assert made["3H"].certificate().epsilon == pytest.approx((6 * H - 2) / (3 * H), rel=1e-9)
    with pytest.raises(InvalidInput, match="'6H' or '3H'"):
        make_privatizer(PrivacyRequest(shape=SHAPE, episodes=100, mechanism="laplace:scale=2H", **asked))
