"""Eight processes ask one collector for one release at once: prints what each of them was handed, as JSON.

python study_race.py DIRECTORY [postgresql://...]
"""

from __future__ import annotations

import json
import os
import sys

import study_fakes

from tacit.study import contract
from tacit.study.collector import Collector
from tacit.study.wire import sha256

PROCESSES = 8


def main(directory: str, url: str | None) -> None:
    study_fakes.register()
    real = contract.read_design
    contract.read_design = lambda plain: study_fakes.FakeDesign.from_dict(plain) if "labels" in plain else real(plain)
    database = None
    if url is not None:
        from tacit.service.database import PostgresDatabase

        database = PostgresDatabase(url)
    waiting, go = os.pipe()
    answers, answer = os.pipe()
    children = []
    for _ in range(PROCESSES):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(waiting, 1)  # returns when the parent closes its end
            os.write(answer, sha256(Collector(directory, database=database).release(contract.GENESIS_HEAD)))
            os._exit(0)
        children.append(child)
    os.close(go)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(answer)
    found = os.read(answers, 32 * PROCESSES)
    print(json.dumps({"codes": codes, "views": [found[i : i + 32].hex() for i in range(0, len(found), 32)]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
