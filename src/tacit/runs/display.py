"""Results where people look at them: as pandas frames, and as HTML in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tacit.errors import NotSupported, install_hint
from tacit.notebook import block, facts, grid
from tacit.runs.returns_report import RETURN_HEAD, return_cells

if TYPE_CHECKING:
    from tacit.runs.comparison import Comparison
    from tacit.runs.result import Result


def frame_of(results: Sequence[Result]) -> Any:
    """The rows of these results as one pandas DataFrame, with the columns of results.parquet.

    `frame.attrs["simulation_only"]` lists the columns that take the true world to compute.
    """
    if find_spec("pandas") is None:
        raise NotSupported(f"to_pandas needs pandas: {install_hint('pandas')}")
    import pyarrow as pa

    from tacit.runs.run_facts import make_labels
    from tacit.runs.storage import seed_rows

    tables = []
    for result in results:
        names = {"experiment": result.experiment, "label": result.label}
        labels = make_labels(result.config, result.resolved, result.claim, **names)
        tables += [seed_rows(run, labels) for run in result.seed_runs()]
    # Live worlds have a column `return` where others have `regret`.
    frame = pa.concat_tables(tables, promote_options="default").to_pandas()
    frame.attrs["simulation_only"] = [name for name in ("regret", "return") if name in frame.columns]
    return frame


def result_html(result: Result) -> str:
    """A result in a few lines: what ran, what it cost and who is protected."""
    config, spread, relative = result.config, result.spread(), result.relative_regret
    rows = [
        ("environment", config.environment_name, False),
        ("learner", "; ".join(config.choices) or config.learner, False),
        ("episodes, seeds", f"{config.episodes:,}, {len(result.seeds)}", False),
        *(
            zip(RETURN_HEAD, return_cells(result), [True] * len(RETURN_HEAD), strict=True)
            if result.returns
            else [("regret", f"{spread.mean:,.1f} ± {spread.std:,.1f} [{spread.min:,.1f}, {spread.max:,.1f}]", True)]
        ),
        *([] if relative is None else [("share of the uniform policy's regret", f"{relative:.3f}", True)]),
        ("privacy", result.privacy_words, False),
    ]
    return block(result.label, facts(rows))


def comparison_html(comparison: Comparison) -> str:
    """The table of a comparison."""
    from tacit.accounting.wording import shown_up

    rows = []
    for result in comparison.results:
        spread, relative = result.spread(), result.relative_regret
        certified = "-" if result.claim.trust == "none" else shown_up(result.certificate.epsilon)
        live = bool(result.returns)
        judgement = return_cells(result)[0] if live else f"{spread.mean:,.1f} ± {spread.std:,.1f}"
        share = "-" if relative is None else f"{relative:.3f}"
        rows.append([result.label, result.config.environment_name, result.claim.trust, certified, judgement, share])
    lives = {bool(result.returns) for result in comparison.results}
    judged = {True: "return per user", False: "regret"}[lives.pop()] if len(lives) == 1 else "regret or return per user"
    head = ["run", "environment", "trust", "certified ε", judged, "share of uniform's"]
    return block(comparison.name, grid(head, rows, simulated=(4, 5)))
