"""The command line. `main` turns every refusal into one clear line on stderr and an exit code.

0    done                      2    your input (nothing was written)
1    a seed failed, loudly,    130  interrupted (finished seeds are kept)
     or stdout is full

Under --json a failure is one JSON object on stdout, too (`failures`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, *, program: Any = None, name: str = "tacit") -> int:
    """Run the command line and return its exit code; as a program (no `argv`) it also tells of compilation.

    `program` is another command line that fails in the same way; None: that of tacit.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _main(words, program, name, told=argv is None)
    except KeyboardInterrupt:  # before a command is at work: loading what it needs takes a second
        return _interrupted(words)


def _main(words: list[str], program: Any, name: str, *, told: bool) -> int:
    from tacit.cli.app import command
    from tacit.cli.failures import INTERRUPTED, USAGE_ERROR, Failed, explain, explain_lost_output, open_output, tell
    from tacit.errors import TacitError, require
    from tacit.jit_progress import set_listener

    if told:
        open_output()
        set_listener(tell)
    try:
        empty = [before for before, word in pairwise(["tacit", *words]) if word == ""]
        require(not empty, f"no word of a command may be empty, got one behind {empty[:1]}", "")
        code = (program or command())(args=words, prog_name=name, standalone_mode=False, obj=words)
        sys.stdout.flush()
    except (USAGE_ERROR, Failed, TacitError) as error:
        return explain(error, words)
    except OSError as error:
        return explain_lost_output(error, words)
    if code == INTERRUPTED:
        return _interrupted(words)
    return code if isinstance(code, int) else 0


def _interrupted(words: list[str]) -> int:
    from tacit.cli.failures import INTERRUPTED, Failed, explain

    said = "the command did not finish"
    return explain(Failed(said, kind="interrupted", exit_code=INTERRUPTED, line=f"interrupted: {said}"), words)
