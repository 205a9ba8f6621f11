"""The golden cases as plain data: learners x options x trust models x mechanisms x calibrations, in small worlds.

`runs()` maps a name to the arguments of a run (those of `tacit.run`) and the speeds at which it exists;
`certificates()` maps a name to a question of `tacit certify`; `directories()` to runs that are kept on disk: the first
goldens. `covered()` maps a name to a subject of `subjects.SUBJECTS` and its arguments: everything else.
Nothing of tacit is imported here: renaming modules cannot change a case.
"""

from __future__ import annotations

from typing import Any

RIVER = "riverswim:states=3,horizon=4"
TINY = "riverswim:states=2,horizon=3"
LAYERS = "layered:layers=3,states=2,actions=2"
TRAP = "layered-trap:layers=3,states=2,actions=2"
SUPPORT = "layered-support:layers=3,states=2,actions=2"
BANDIT = "contextual-bandit"
DOSES = "dose-bandit"

Row = dict[str, Any]

BOTH, COMPILED, INTERPRETED = ("compiled", "interpreted"), ("compiled",), ("interpreted",)
EPISODES = 300
SEEDS = (0, 7)

CENTRAL: Row = {"trust": "central", "epsilon": 1.0, "delta": 1e-6}
CENTRAL_PURE: Row = {"trust": "central", "epsilon": 1.0, "delta": 0.0}
SHUFFLE: Row = {"trust": "shuffle", "epsilon": 1.0, "delta": 1e-6, "batch": 100}
LOCAL: Row = {"trust": "local", "epsilon": 2.0, "delta": 1e-6}
LOCAL_PURE: Row = {"trust": "local", "epsilon": 2.0, "delta": 0.0}
PAPER: Row = {"calibration": "paper"}
THEORY: Row = {"constants": "theory"}

CENTRAL_MECHANISMS = ("factorization", "kary-tree", "laplace-tree", "batched", "batched-factorization")
LOCAL_MECHANISMS = ("subset", "oue", "laplace", "gaussian", "rr", "bounded")
PRINTED_LOCAL = ("laplace", "gaussian", "rr", "bounded")
ADVERSARIES = ("drift", "iid", "sinusoidal", "switching:segments=4", "turning", "worst-of-two")


def runs() -> dict[str, Row]:
    """Every run by its name: `arguments` (of `tacit.run`), `speeds` and `group`."""
    table: dict[str, Row] = {}
    for group, rows in (
        ("options", _options()),
        ("trust", _trust()),
        ("mechanisms", _mechanisms()),
        ("stages", _stages()),
        ("gradients", _gradients()),
        ("losses", _losses()),
    ):
        for speeds, row in rows:
            arguments = {"environment": RIVER, "episodes": EPISODES, "seeds": SEEDS, **row}
            name = _name(group, arguments)
            if name in table:
                raise ValueError(f"every golden case must be there once, got {name} twice")
            table[name] = {"group": group, "speeds": speeds, "arguments": arguments}
    return table


def _name(group: str, arguments: Row) -> str:
    shown = [str(arguments["learner"]), str(arguments["environment"])]
    skipped = ("learner", "environment", "seeds")
    for key, value in arguments.items():
        if key not in skipped:
            shown.append(f"{key}=given" if isinstance(value, list) else f"{key}={value}")
    return f"{group}/{' '.join(shown)}"


Cases = list[tuple[tuple[str, ...], Row]]


def _options() -> Cases:
    """Every learner of counts with each of its options, without privacy; the reference learners."""
    found: Cases = []
    for staged in ("true", "false"):
        for bonus in ("hoeffding", "bernstein"):
            for constants in ("theory", "practical"):
                learner = f"ucbvi:bonus={bonus},staged={staged}"
                found.append((BOTH, {"learner": learner, "constants": constants}))
        for rewards in ("beta", "normal-gamma"):
            found.append((BOTH, {"learner": f"psrl:rewards={rewards},staged={staged}"}))
            for prior in ("printed", "noise-aware"):
                found.append((BOTH, {"learner": f"ldp-psrl:prior={prior},rewards={rewards},staged={staged}"}))
        found += [(BOTH, {"learner": f"ldp-obi:staged={staged}", "constants": c}) for c in ("theory", "practical")]
        found += [
            (INTERPRETED, {"learner": f"{name}:replan=rarely,staged={staged}", "episodes": 1000, **widths})
            for name, widths in (("ucbvi", THEORY), ("psrl", {}), ("ldp-obi", THEORY), ("ldp-psrl", {}))
        ]
    for rows in ("projected", "kept"):
        found += [(BOTH, {"learner": f"dp-ucbvi:rows={rows}", "constants": c}) for c in ("theory", "practical")]
    for name in ("private-ucb-vi", "private-ucb-po", "pucb"):
        found += [(BOTH, {"learner": name, "constants": constants}) for constants in ("theory", "practical")]
    found += [(BOTH, {"learner": "ucbvi", "constants": "practical", "z": 0.5})]
    found += [(COMPILED, {"learner": "ucbvi", "episodes": 2000, **THEORY})]
    found += [(COMPILED, {"learner": "psrl", "episodes": 2000})]
    for name, widths in (("ucbvi", THEORY), ("psrl", {}), ("dp-ucbvi", THEORY), ("pucb", THEORY)):
        found.append((INTERPRETED, {"learner": name, "batch": 50, **widths}))
    found += [(INTERPRETED, {"learner": name}) for name in ("uniform", "optimal")]
    found += [(INTERPRETED, {"learner": "optimal", **CENTRAL}), (INTERPRETED, {"learner": "uniform", **LOCAL})]
    # More episodes than the compiled loop takes at once.
    found.append((COMPILED, {"learner": "ucbvi", "constants": "practical", "environment": TINY, "episodes": 120_000}))
    worlds = ("random-mdp", "treatment-bandit", "hard-tree", "treatment", "recommender", "ev-charging")
    found += [(COMPILED, {"learner": "psrl", "environment": world, "episodes": 100}) for world in worlds]
    return found


def _trust() -> Cases:
    """Every learner of counts under every trust model that takes it, tight and as printed."""
    found: Cases = []
    # Under the practical rule private-ucb-vi and pucb are ucbvi: here they are asked for their own widths.
    for name in ("ucbvi", "psrl", "dp-ucbvi", "private-ucb-vi", "private-ucb-po", "pucb"):
        own: Row = {"constants": "theory"} if name in ("private-ucb-vi", "pucb") else {}
        for asked in (CENTRAL, CENTRAL_PURE, {**CENTRAL, **PAPER}, LOCAL, {**LOCAL, **PAPER}):
            found.append((BOTH, {"learner": name, **own, **asked}))
        for asked in (SHUFFLE, {**SHUFFLE, **PAPER}, {**CENTRAL, "batch": 50}, {**LOCAL, "batch": 50}):
            found.append((INTERPRETED, {"learner": name, **own, **asked}))
    for name in ("dp-ucbvi", "private-ucb-po"):
        for asked in (CENTRAL, LOCAL, {**CENTRAL, **PAPER}, SHUFFLE):
            found.append((INTERPRETED, {"learner": name, "constants": "theory", **asked}))
    for name in ("private-ucb-vi", "pucb", "ldp-obi"):
        found.append((INTERPRETED, {"learner": name, "constants": "practical", **LOCAL}))
    for name, widths in (("ldp-obi", THEORY), ("ldp-psrl", {})):
        for asked in (LOCAL, {**LOCAL, **PAPER}):
            found.append((BOTH, {"learner": name, **widths, **asked}))
    found += [(BOTH, {"learner": "ldp-psrl:rewards=beta", **asked}) for asked in (LOCAL, {**LOCAL, **PAPER})]
    found += [(INTERPRETED, {"learner": "ldp-psrl:prior=noise-aware", **asked}) for asked in (LOCAL, LOCAL_PURE)]
    for name, widths in (("ucbvi", {}), ("psrl", {}), ("ldp-obi", THEORY), ("ldp-psrl", {})):
        found.append((INTERPRETED, {"learner": f"{name}:replan=rarely", "episodes": 1000, **widths, **LOCAL}))
    return found


def _mechanisms() -> Cases:
    """Every mechanism by name, with steps kept apart and pooled, pure and approximate."""
    found: Cases = []
    for staged in ("true", "false"):
        learner = f"ucbvi:staged={staged}"
        for mechanism in CENTRAL_MECHANISMS:
            found.append((BOTH, {"learner": learner, **CENTRAL, "mechanism": mechanism}))
        for mechanism in ("kary-tree", "laplace-tree", "batched"):
            found.append((INTERPRETED, {"learner": learner, **CENTRAL_PURE, "mechanism": mechanism}))
        for mechanism in LOCAL_MECHANISMS:
            found.append((BOTH, {"learner": learner, **LOCAL, "mechanism": mechanism}))
        for mechanism in PRINTED_LOCAL:
            found.append((BOTH, {"learner": learner, **LOCAL, **PAPER, "mechanism": mechanism}))
            learner_obi = f"ldp-obi:staged={staged}"
            found.append((INTERPRETED, {"learner": learner_obi, **THEORY, **LOCAL, **PAPER, "mechanism": mechanism}))
    for mechanism in ("subset", "oue", "laplace", "rr"):
        found.append((INTERPRETED, {"learner": "ucbvi", **LOCAL_PURE, "mechanism": mechanism}))
    for mechanism in CENTRAL_MECHANISMS:
        found.append((INTERPRETED, {"learner": "dp-ucbvi", **CENTRAL, "mechanism": mechanism}))
    for mechanism in LOCAL_MECHANISMS:
        found.append((INTERPRETED, {"learner": "dp-ucbvi", **LOCAL, "mechanism": mechanism}))
        found.append((INTERPRETED, {"learner": "ldp-obi", "constants": "theory", **LOCAL, "mechanism": mechanism}))
    for mechanism in ("laplace", "gaussian"):
        found.append((INTERPRETED, {"learner": "ldp-psrl", **LOCAL, "mechanism": mechanism}))
    found.append((INTERPRETED, {"learner": "ucbvi", **SHUFFLE, "mechanism": "binomial"}))
    found.append((INTERPRETED, {"learner": "ucbvi", **CENTRAL, "batch": 50, "mechanism": "laplace-tree"}))
    found.append((COMPILED, {"learner": "ucbvi", **CENTRAL, "episodes": 2000, "mechanism": "batched"}))
    found.append((INTERPRETED, {"learner": "ucbvi", **CENTRAL, "delta": 0.01, "allow_large_delta": True}))
    return found


def _stages() -> Cases:
    """The learners that plan batches of their own."""
    shuffle: Row = {"trust": "shuffle", "epsilon": 2.0, "delta": 1e-6, "episodes": 20_000}
    trusts: tuple[Row, ...] = ({"episodes": 2000}, shuffle, {**shuffle, **PAPER})
    found: Cases = []
    for asked in trusts:
        for variant in ("2024", "2025"):
            for constants in ("practical", "theory"):
                learner = f"sdp-pe:variant={variant}"
                found.append((INTERPRETED, {"environment": TINY, "learner": learner, "constants": constants, **asked}))
        for name in ("sdp-pe-plus", "bucb"):
            found += [(INTERPRETED, {"learner": name, **more, **asked}) for more in ({}, {"z": 0.5})]
    found.append((INTERPRETED, {"learner": "bucb", **shuffle, "epsilon": 10.0}))  # mirrored bits
    return found


def _gradients() -> Cases:
    """Policy gradients: policies, baselines, barriers, clips, epochs, rates; tabular worlds and dose bandits."""
    private: Row = {"trust": "central", "epsilon": 1.0, "delta": 1e-5}
    sizes: Row = {"episodes": 600, "batch": 50}
    found: Cases = []
    for learner in (
        "dp-pg",
        "dp-pg:staged=false",
        "dp-pg:policy=linear",
        "dp-pg:policy=linear,features=4,clip=2",
        "dp-pg:baseline=0.3",
        "dp-pg:baseline=released",
        "dp-pg:barrier=theory",
        "dp-pg:barrier=0.1,step=0.5",
        "dp-npg",
        "dp-npg:damping=0.2,staged=false",
        "dp-npg:policy=linear,features=4",
        "dp-trpo",
        "dp-trpo:kl=0.2,damping=0.001,staged=false",
        "dp-trpo:policy=linear,features=4,step=0.2",
        "dp-pg:policy=neural,hidden=3",
        "dp-trpo:policy=neural,hidden=3,kl=0.2",
        "dp-ppo",
        "dp-ppo:epochs=2,radius=0.1",
        "dp-ppo:epochs=2,rate=0.5",
    ):
        found.append((BOTH, {"learner": learner, **sizes, **private}))
    for learner in ("dp-pg", "dp-npg", "dp-trpo", "dp-ppo"):
        found.append((BOTH, {"learner": learner, **sizes}))
        found.append((BOTH, {"learner": learner, **sizes, "environment": BANDIT, **private}))
    for learner in ("dp-pg", "dp-npg"):
        found.append((BOTH, {"learner": learner, **sizes, "environment": BANDIT, **private, **PAPER}))
        found.append((BOTH, {"learner": learner, **sizes, "constants": "theory", **private}))
    found.append((BOTH, {"learner": "dp-pg", "episodes": 625, "batch": 50, **private}))
    found.append((BOTH, {"learner": "dp-pg", "episodes": 600, **private}))
    found.append((BOTH, {"learner": "dp-pg", **sizes, "epsilon": 2.0, "delta": 1e-5}))
    many: Row = {"environment": "contextual-bandit:contexts=2,actions=2", "episodes": 1_200_000, "batch": 1000}
    found.append((COMPILED, {"learner": "dp-pg", **many, **private}))
    doses: Row = {"environment": DOSES, "episodes": 600, "batch": 50}
    for learner in ("dp-pg:policy=gaussian", "dp-pg:policy=gaussian,baseline=released,clip=2"):
        found.append((COMPILED, {"learner": learner, **doses}))
        found.append((COMPILED, {"learner": learner, **doses, **private}))
    found.append((COMPILED, {"learner": "dp-pg:policy=gaussian", **doses, **private, **PAPER}))
    found.append((COMPILED, {"learner": "dp-pg:policy=gaussian", **doses, **private, "constants": "theory"}))
    return found


def _losses() -> Cases:
    """Adversarial losses: learners, adversaries, estimators, public losses, constants and tuned rates."""
    base: Row = {"environment": LAYERS, "episodes": 200, "adversary": "switching:segments=4"}
    central, local = CENTRAL, {**LOCAL, "epsilon": 4.0}
    found: Cases = []
    for learner in ("uc-o-reps", "uob-lbps"):
        for asked in ({}, central, CENTRAL_PURE, local, LOCAL_PURE, {**central, **PAPER}, {**local, **PAPER}):
            found.append((BOTH, {"learner": learner, **base, **asked}))
        found += [(COMPILED, {"learner": learner, **base, "constants": "theory", **a}) for a in ({}, central, local)]
        found += [(COMPILED, {"learner": f"{learner}:eta=2,cb=0.3,ce=0.1", **base, **a}) for a in ({}, central)]
        found.append((COMPILED, {"learner": learner, **base, "z": 1.0}))
        # So little noise that the confidence sets say something.
        for asked in (central, local, {**central, **PAPER}, {**local, **PAPER}):
            found.append((COMPILED, {"learner": learner, **base, **asked, "epsilon": 200.0, "episodes": 600}))
        found += [(COMPILED, {"learner": learner, **base, "environment": world}) for world in (TRAP, SUPPORT, TINY)]
    for learner in ("o-reps", "uob-reps"):
        found += [(BOTH, {"learner": learner, **base}), (COMPILED, {"learner": f"{learner}:eta=2", **base})]
    for learner in ("o-reps", "uob-lbps:transitions=known", "uob-reps:transitions=known"):
        for asked in (central, CENTRAL_PURE, local, LOCAL_PURE, {**CENTRAL_PURE, **PAPER}):
            found.append((COMPILED, {"learner": learner, **base, **asked}))
    found.append((COMPILED, {"learner": "uob-lbps:transitions=known", **base}))
    for name in ("uc-o-reps", "uob-reps"):
        found += [
            (COMPILED, {"learner": name, **base, "adversary": foe}) for foe in ADVERSARIES if foe != base["adversary"]
        ]
    for estimator in ("centred", "as-written"):
        for asked in ({}, central, local):
            found.append((COMPILED, {"learner": "uob-lbps", **base, "estimator": estimator, **asked}))
    given = [[(3 * episode + 5 * pair) % 11 / 10 for pair in range(10)] for episode in range(200)]
    found.append((COMPILED, {"learner": "uc-o-reps", **base, "adversary": given}))
    # More episodes than there are losses in memory at once.
    found.append((COMPILED, {"learner": "uob-reps", **base, "adversary": "iid", "episodes": 20_500}))
    found.append((COMPILED, {"learner": "uob-lbps:radius=0.5", **base, **local}))
    for asked in (central, local, {**central, **PAPER}, {**local, **PAPER}):
        found.append((BOTH, {"learner": "uc-o-reps", **base, "public_losses": True, **asked}))
    return found


def certificates() -> dict[str, Row]:
    """Questions of `tacit certify` at published sizes, by name."""
    sizes: Row = {"states": 5, "actions": 3, "horizon": 6, "episodes": 100_000, "epsilon": 1.0, "delta": 1e-6}
    asked: list[Row] = []
    for mechanism in CENTRAL_MECHANISMS:
        asked.append({"trust": "central", "mechanism": mechanism, "calibration": "tight"})
    asked.append({"trust": "central", "mechanism": "kary-tree", "calibration": "tight", "pooled": True, "delta": 0.0})
    asked.append({"trust": "central", "calibration": "paper"})
    asked.append({"trust": "central", "calibration": "paper", "batch": 500, "pooled": True})
    for mechanism in LOCAL_MECHANISMS:
        asked.append({"trust": "local", "mechanism": mechanism, "calibration": "tight"})
        asked.append({"trust": "local", "mechanism": mechanism, "calibration": "tight", "pooled": True})
    for mechanism in PRINTED_LOCAL:
        asked.append({"trust": "local", "mechanism": mechanism, "calibration": "paper", "epsilon": 3.0})
    asked.append({"trust": "local", "calibration": "tight", "delta": 0.0, "horizon": 1})
    asked.append({"trust": "local", "calibration": "tight", "epsilon": 30.0})
    for batch in (500, 5000):
        for calibration in ("tight", "paper"):
            asked.append({"trust": "shuffle", "calibration": calibration, "batch": batch})
    for trust in ("central", "local"):
        for feedback in ("full", "bandit"):
            for delta in (0.0, 1e-6):
                for calibration in ("tight", "paper"):
                    asked.append({"trust": trust, "feedback": feedback, "delta": delta, "calibration": calibration})
        asked.append({"trust": trust, "feedback": "full", "public_losses": True, "calibration": "tight"})
    rows = [{**sizes, **row} for row in asked]
    return {" ".join(f"{key}={value}" for key, value in row.items()): row for row in rows}


def directories() -> dict[str, Row]:
    """Runs of each kind that are kept on disk, by name; `model ...` is an environment that is handed over."""
    seeds: Row = {"seeds": (0, 1), "checkpoints": 20, "episodes": 200}
    return {
        "counts": {"environment": RIVER, "learner": "ucbvi", **CENTRAL, **seeds},
        "given": {"environment": f"model {RIVER}", "learner": "psrl", **LOCAL, **seeds},
        "reference": {"environment": RIVER, "learner": "uniform", **seeds},
        "stages": {"environment": RIVER, "learner": "bucb", **seeds},
        "gradients": {"environment": RIVER, "learner": "dp-pg", **CENTRAL, "delta": 1e-5, "batch": 50, **seeds},
        "losses": {"environment": LAYERS, "learner": "uc-o-reps", "adversary": "iid", **LOCAL, **seeds},
    }


def covered() -> dict[str, tuple[str, Row]]:
    """What users reach: a row's name -> the subject that makes it, and its arguments."""
    found: dict[str, tuple[str, Row]] = {}
    for name, arguments in _everyday().items():
        found[f"run/{name}"] = ("run", arguments)
    for name, arguments in _documents().items():
        found[f"certificate/{name}"] = ("certificate", arguments)
        found[f"asked/{name}"] = ("asked", arguments)
    for name in ("auto none", "auto central", "auto shuffle", "auto local returns", "paper central", "losses bandit"):
        found[f"words/{name}"] = ("words", _everyday()[name])
    for name, arguments in _studies().items():
        # Lots name an arm, and returns a policy: no counts are drawn for them at once.
        whole = ("design", "offer", "exposure", "seeded", "bytes", "simulated")
        for subject in [part for part in whole if part != "simulated" or name in SIMULATED]:
            found[f"study/{name}/{subject}"] = (subject, arguments)
    for name, arguments in _sizes().items():
        found[f"stages/{name}"] = ("stages", arguments)
    for full in (True, False):
        for reports in (1, 3):
            for secure in (False, True):
                kind = f"{'full' if full else 'bandit'} reports={reports} {'bytes' if secure else 'seeded'}"
                found[f"study losses/{kind}"] = ("losses", {"full": full, "reports": reports, "secure": secure})
    for trust, claim in (("central", CENTRAL), ("shuffle", CENTRAL), ("local", LOCAL_PURE)):
        arms: Row = {"policy": "always right", "environment": RIVER, "users": 400, **claim, "trust": trust}
        found[f"trial/{trust}"] = ("trial", {**arms, "against": "always left"})
        found[f"trial/{trust} one arm"] = ("trial", arms)
    for reports in (1, 2):
        asked: Row = {"people": 90, "epsilon": 2.0, "delta": 1e-3, "reports_per_person": reports}
        found[f"learn/reports={reports}"] = ("learn", asked)
    found |= {f"wire/{name}": ("wire", {"vectors": name}) for name in ("device", "sealing", "rfc9474")}
    return found


def _everyday() -> dict[str, Row]:
    """Runs as users ask for them: what `auto` chooses, declarations, budgets, trials, live worlds."""
    shared: Row = {"environment": RIVER, "episodes": 400, "seeds": (0, 7)}
    many: Row = {**shared, "episodes": 4000}
    shuffle: Row = {"trust": "shuffle", "epsilon": 2.0, "delta": 1e-6}
    trusts: dict[str, Row] = {"central": CENTRAL, "shuffle": shuffle, "local": {**LOCAL_PURE, "epsilon": 6.0}}
    found: dict[str, Row] = {
        "auto none": shared,
        "auto central": {**shared, **CENTRAL},
        "auto central pure": {**shared, **CENTRAL_PURE},
        "auto central batch": {**shared, **CENTRAL, "batch": 50},
        "auto shuffle": {**many, **shuffle},
        "auto shuffle batch": {**shared, **shuffle, "batch": 100},
        "auto local small": {**shared, **LOCAL_PURE},
        "auto local returns": {**many, **LOCAL_PURE},
        "auto local above 5": {**shared, **LOCAL, "epsilon": 6.0},
        "auto staged central": {**shared, **CENTRAL, "environment": "random-mdp"},
        "auto staged shuffle": {**many, **shuffle, "environment": "random-mdp"},
        "bucb central": {**many, **CENTRAL, "learner": "bucb"},
        "bucb central batched": {**many, **CENTRAL, "learner": "bucb", "mechanism": "batched"},
        "bucb pooled central": {**many, **CENTRAL, "learner": "bucb:pooled=weighed"},
        "bucb weighed": {**many, **shuffle, "learner": "bucb:pooled=weighed"},
        "ldp-rts": {**many, **LOCAL_PURE, "learner": "ldp-rts"},
        "rlsvi central": {**many, **CENTRAL, "learner": "rlsvi"},
        "rlsvi shuffle": {**many, **shuffle, "learner": "rlsvi"},
        "honest .8": {**many, **shuffle, "learner": "bucb", "honest_fraction": 0.8},
        "mirrored": {**many, **shuffle, "learner": "bucb", "epsilon": 10.0},
        "valid bands": {**many, **CENTRAL, "learner": "bucb", "constants": "valid"},
        "valid bands shuffle": {**many, **shuffle, "learner": "bucb", "constants": "valid"},
        "value users": {**many, **CENTRAL, "value_users": 500, "baseline": "always left"},
        "three questions": {
            **shared,
            **CENTRAL,
            "delta": 1e-5,
            "episodes": 300,
            "batch": 50,
            "learner": "dp-ppo:epochs=3,rate=0.5",
        },
        "released baseline": {**shared, **CENTRAL, "batch": 50, "learner": "dp-pg:baseline=released"},
        "losses full": {**shared, **CENTRAL, "environment": LAYERS, "learner": "uc-o-reps", "adversary": "iid"},
        "losses bandit": {**shared, **CENTRAL, "environment": LAYERS, "learner": "uob-lbps", "adversary": "iid"},
    }
    for learner in ("lin-ucb", "lin-ts", "lin-greedy"):
        found[f"{learner} none"] = {**many, "environment": "linear-bandit", "learner": learner}
    for trust, claim in trusts.items():
        found[f"lin-ucb {trust}"] = {**found["lin-ucb none"], **claim}
        learner = "ldp-obi" if trust == "local" else "bucb"
        pooled = "ldp-obi:staged=false" if trust == "local" else "bucb:pooled=weighed"
        size = shared if trust == "local" else many
        more: Row = {**size, **claim}
        found[f"support {trust}"] = {**more, "learner": learner, "support": "declared"}
        found[f"support pooled {trust}"] = {**more, "learner": pooled, "support": "declared"}
        found[f"support totals {trust}"] = {**shared, **claim, "learner": "ucbvi", "support": "declared", "batch": 100}
        found[f"totals pooled {trust}"] = {**shared, **claim, "learner": "ucbvi:staged=false", "batch": 100}
        found[f"sees {trust}"] = {**more, "learner": learner, "sees": (0, 1, 1)}
        found[f"sees support {trust}"] = {**more, "learner": learner, "sees": (0, 1, 1), "support": "declared"}
        found[f"budget {trust}"] = {**many, **claim, "baseline": "always left", "loss_budget": 0.1}
        found[f"live {trust}"] = {**many, **claim, "environment": "live fuse", "seeds": (0,)}
        found[f"paper {trust}"] = {**shared, **claim, "learner": "ucbvi", **PAPER, "batch": 100}
    for reports in (1, 3):
        found[f"reports={reports} central"] = {**shared, **CENTRAL, "learner": "bucb", "reports_per_person": reports}
        found[f"reports={reports} shuffle"] = {**many, **shuffle, "learner": "bucb", "reports_per_person": reports}
    found["budget stage"] = {**found["budget shuffle"], "stage_loss_budget": 0.2}
    return found


def _documents() -> dict[str, Row]:
    """Runs of each kind, for their certificates and the numbers that learners ask."""
    wanted = (
        *("auto none", "auto central", "auto shuffle", "auto local returns", "auto local above 5", "bucb central"),
        *("bucb central batched", "auto central batch", "auto shuffle batch", "honest .8", "mirrored", "paper central"),
        *("paper shuffle", "paper local", "three questions", "released baseline", "losses full", "losses bandit"),
        *("support central", "support shuffle", "support local", "support pooled shuffle", "support totals central"),
        *("sees central", "reports=3 central", "reports=3 shuffle", "budget local", "totals pooled local"),
    )
    known = _everyday()
    return {name: known[name] for name in wanted}


SLOW = tuple(f"{subject}/{n}" for subject in ("run", "certificate", "asked") for n in ("mirrored", "reports=3 shuffle"))
"""Rows that take seconds each; studies of the same kinds are quick."""
SIMULATED = (
    *("central totals", "central batches", "central batches pooled", "shuffle batches", "shuffle totals"),
    *("shuffle mirrored", "local counts", "gradients"),
)
"""The studies that are also simulated, in a world of their sizes."""


def _studies() -> dict[str, Row]:
    """A study of each kind of channel, small."""
    river = "riverswim:states=3,horizon=3"
    sizes: Row = {"states": 3, "actions": 2, "horizon": 3, "stages": 3, "target": 24, "least": 20}
    central: Row = {**sizes, "trust": "central", "epsilon": 2.0, "delta": 1e-6}
    shuffle: Row = {**sizes, "trust": "shuffle", "epsilon": 4.0, "delta": 1e-4}
    local: Row = {**sizes, "trust": "local", "epsilon": 2.0, "delta": 1e-6, "least": 1}
    returns: Row = {**local, "delta": 0.0, "target": 400}
    found: dict[str, Row] = {
        "auto central": {**central, "target": 60, "least": 50, "stationary": True},
        "auto shuffle": {**shuffle, "stationary": True},
        "auto local": {**returns, "stationary": True},
        "central totals": {**central, "learner": "ucbvi"},
        "central totals pooled": {**central, "learner": "ucbvi:staged=false"},
        "central totals support": {**central, "learner": "ucbvi", "support": river},
        "central totals reports=3": {**central, "learner": "ucbvi", "reports_per_person": 3},
        "central totals batched": {**central, "learner": "ucbvi", "mechanism": "batched"},
        "central batches": {**central, "learner": "bucb"},
        "central batches pooled": {**central, "learner": "bucb:pooled=weighed"},
        "central batches support": {**central, "learner": "bucb", "support": river},
        "central batches support pooled": {**central, "learner": "bucb:pooled=weighed", "support": river},
        "central batches reports=3": {**central, "learner": "bucb", "reports_per_person": 3},
        "central sees": {**central, "learner": "bucb", "sees": [0, 1, 1]},
        "central ladder": {**central, "learner": "bucb", "ladder": [20, 22, 24]},
        "central budget": {**central, "learner": "bucb", "baseline": "always 0", "loss_budget": 0.2},
        "gradients": {**central, "learner": "dp-pg"},
        "gradients baseline released": {**central, "learner": "dp-pg:baseline=released"},
        "gradients three questions": {**central, "learner": "dp-ppo:epochs=3,rate=0.5"},
        "shuffle batches": {**shuffle, "learner": "bucb"},
        "shuffle batches pooled": {**shuffle, "learner": "bucb:pooled=weighed"},
        "shuffle batches support": {**shuffle, "learner": "bucb", "support": river},
        "shuffle batches support pooled": {**shuffle, "learner": "bucb:pooled=weighed", "support": river},
        "shuffle batches reports=3": {**shuffle, "learner": "bucb", "reports_per_person": 3},
        "shuffle honest": {**shuffle, "learner": "bucb", "honest_fraction": 0.8},
        "shuffle mirrored": {**shuffle, "learner": "bucb", "epsilon": 10.0},
        "shuffle sees support": {**shuffle, "learner": "bucb", "support": river, "sees": [0, 1, 1]},
        "shuffle layers": {**shuffle, "learner": "sdp-pe", "target": 200, "least": 180},
        "shuffle totals": {**shuffle, "learner": "ucbvi"},
        "shuffle totals pooled": {**shuffle, "learner": "ucbvi:staged=false"},
        "shuffle totals support": {**shuffle, "learner": "ucbvi", "support": river},
        "local counts": {**local, "learner": "psrl"},
        "local counts pooled": {**local, "learner": "psrl:staged=false"},
        "local counts support": {**local, "learner": "psrl", "support": river},
        "local counts support pooled": {**local, "learner": "psrl:staged=false", "support": river},
        "local counts reports=3": {**local, "learner": "psrl", "reports_per_person": 3},
        "local sees": {**local, "learner": "psrl", "sees": [0, 1, 1]},
        "local squares": {**local, "learner": "ldp-psrl"},
        "local returns": {**returns, "learner": "ldp-rts"},
        "local returns reports=3": {**returns, "learner": "ldp-rts", "reports_per_person": 3},
        "local budget": {**returns, "learner": "ldp-rts", "baseline": "always 0", "loss_budget": 0.2},
    }
    for mechanism in ("subset", "oue", "rr"):
        found[f"local {mechanism}"] = {**local, "delta": 0.0, "learner": "psrl", "mechanism": mechanism}
    for trust, epsilon, delta in (("central", 1.0, 1e-6), ("shuffle", 4.0, 1e-4), ("local", 1.0, 0.0)):
        arms: Row = {"arms": ["careful", "new"], "people": 60, "epsilon": epsilon, "delta": delta}
        found[f"trial {trust}"] = {"trial": True, "trust": trust, **arms}
    return found


def _sizes() -> dict[str, Row]:
    """Stages of two sizes from one noise, for people with one report and with three; blocks that overflow."""
    studies, two = _studies(), [[24, 20], [48, 40]]
    found: dict[str, Row] = {}
    for name in ("central batches", "shuffle batches", "local counts"):
        for reports in (1, 3):
            found[f"{name} reports={reports}"] = {**studies[name], "sizes": two, "reports": reports}
    overflow: Row = {**studies["shuffle batches"], "sizes": two, "reports": 1}
    found["shuffle overflow"] = {**overflow, "overflow": 1e-6}
    found["shuffle mirrored overflow"] = {**overflow, "epsilon": 10.0, "overflow": 1e-10}
    found["shuffle no overflow"] = {**overflow, "overflow": 0.0}
    return found
