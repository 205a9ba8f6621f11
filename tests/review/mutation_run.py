"""The full mutation run of `tacit verify`, resumable: how many damaged files of every kind it finds.

    python tests/review/mutation_run.py [--rounds 3] [--honest 200] [--edits 60] [--out FILE]

Every kind of directory and document is damaged in every file and every class of bytes, in every row of a database, and
in the structure of its JSON with digests and manifests that fit, by `tests/runs/test_runs_mutations.py`, whose quick
tests are the same with fewer rounds. A kind that stands in the result with the same version and rounds is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "reference"), str(ROOT / "tests" / "runs")]
SEED = 7
OUT = ROOT / "results" / "verification" / "mutations.json"


def main() -> int:
    """Run what is missing and write the result after every kind."""
    import test_runs_mutations as tests

    import tacit
    from tacit.runs.signature import new_keys
    from tacit.runs.storage_paths import json_bytes

    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--honest", type=int, default=200)
    parser.add_argument("--edits", type=int, default=60)
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    head = {
        "command": f"python tests/review/mutation_run.py --rounds {asked.rounds} --honest {asked.honest} "
        f"--edits {asked.edits}",
        "version": tacit.__version__,
        "rounds": asked.rounds,
    }
    done = json.loads(asked.out.read_text()) if asked.out.exists() else {}
    found = done if {name: done.get(name) for name in head} == head else {**head, "kinds": {}, "honest": None}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        place, keys = Path(scratch), Path(scratch) / "keys"
        new_keys(keys)
        (place / "kinds").mkdir()
        with contextlib.redirect_stdout(io.StringIO()):
            kinds = tests.every_kind(place / "kinds", keys)
            (place / "more").mkdir()
            kinds |= tests.more_kinds(place / "more", keys)
        for number, (kind, path) in enumerate(kinds.items()):
            if kind in found["kinds"]:
                continue
            rng = random.Random(SEED + number)  # noqa: S311 - places of mutations
            key = tests.key_of(kind, keys)
            choice = kind.startswith("design")  # another design is another document: it has no digest inside
            tried, missed = (0, []) if choice else tests.missed(path, rng, asked.rounds, key)
            edits = tests.missed_edits(kind, path, rng, asked.edits, key)
            tables = {"study": tests.TABLES, "collector": tests.COLLECTED}.get(kind, ())
            rows = tests.missed_rows(path, [], tables) if tables else (0, [])
            stated = [name for name in rows[1] if name in tests.STATED_ROWS]
            tried += edits[0] + rows[0] - len(stated)
            missed += edits[1] + sorted({*rows[1]} - {*stated})
            found["kinds"][kind] = {"mutations": tried, "missed": missed, "true as it was": tests.passes(path, key)}
            asked.out.write_bytes(json_bytes(found))
            print(kind, tried, len(missed), flush=True)
        if found["honest"] is None or found["honest"]["directories"] < asked.honest:
            (place / "honest").mkdir()
            made = tests.honest(place / "honest", asked.honest)
            alarms = tests.not_passing(place / "honest", made)
            found["honest"] = {"directories": len(made), "false alarms": alarms}
    total = sum(one["mutations"] for one in found["kinds"].values())
    found["total"] = {"mutations": total, "missed": sum(len(one["missed"]) for one in found["kinds"].values())}
    asked.out.write_bytes(json_bytes(found))
    print(found["total"], found["honest"])
    return int(found["total"]["missed"] > 0 or bool(found["honest"]["false alarms"]))


if __name__ == "__main__":
    sys.exit(main())
