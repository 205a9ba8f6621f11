"""An issuer that dies at a named edge: prints the signature if it got that far.

python issuer_crashes.py DIRECTORY CREDENTIAL STAGE BLINDED(hex) EDGE
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tacit.service.tokens.admission import Enrolment
from tacit.service.tokens.token_issuer import Issuer


def main(place: str, credential: str, stage: str, blinded: str, edge: str) -> None:
    def die(reached: str) -> None:
        if reached == edge:
            os._exit(7)

    root = Path(place)
    issuer = Issuer(root / "issuer", people=Enrolment(root / "people"), key=root / "keys" / "private.pem", edge=die)
    print(issuer.issue(credential.encode(), int(stage), bytes.fromhex(blinded)).hex())


if __name__ == "__main__":
    main(*sys.argv[1:])
