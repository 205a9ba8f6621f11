"""How a command fails: one line on stderr, one exit code, and under --json one object on stdout.

    {"error": {"kind": "unknown-name", "message": "unknown environment 'riverswin': did you mean ...", "exit": 2,
               "anchor": "errors.html#unknown-name"}}

kind is `usage` (no such command or option), the class of a refusal (`invalid-input`, `unknown-name`,
`privacy-budget-exceeded`, `not-supported`, `privacy-violation`), `seed-failed`, `row-failed` (of an audit),
`interrupted` or `output` (a file could not be read or the answer could not be written). docs/errors.md has a section
for each, which `anchor` names. Verdicts are answers, not failures: `tacit verify` ends with 1 and prints its verdict.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

from tacit.errors import TacitError, nearest

USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[2]
"""Click's own base of errors, from whichever copy of click this typer uses."""
INTERRUPTED: Final = 130
"""The exit code of what Ctrl-C ended, as shells and typer have it."""
FLAG: Final = "--json"
EXAMPLES: Final = {
    "--environment": "--environment riverswim (see 'tacit list environments')",
    "--episodes": "--episodes 20000",
    "--mapping": "--mapping mapping.json",
    "--users": "--users 2000",
    "--epsilon": "--epsilon 1",
    "--delta": "--delta 1e-6",
    "file": "runs.toml (its format: 'tacit compare --schema')",
    "log": "log.csv",
}
"""What to write where an option or argument is missing."""


class Failed(Exception):
    """A command ends with this exit code; `line` is what people read."""

    def __init__(self, message: str, *, kind: str, exit_code: int, line: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.exit_code = kind, exit_code
        self.line = f"error: {message}" if line is None else line


def tell(line: str) -> None:
    """A line beside the answer, on stderr; where that is lost (a full disk), the answer need not be."""
    with contextlib.suppress(OSError):
        typer.echo(line, err=True)


def explain(error: Exception, words: Sequence[str]) -> int:
    """Say what went wrong, for people and, where the words ask for JSON, for programs; returns the exit code."""
    failed = error if isinstance(error, Failed) else _failed(error)
    tell(" ".join(failed.line.split()))
    if FLAG in words:
        message = " ".join(str(failed).split())
        anchor = f"errors.html#{failed.kind}"
        content: dict[str, Any] = {
            "error": {"kind": failed.kind, "message": message, "exit": failed.exit_code, "anchor": anchor}
        }
        try:
            typer.echo(as_json(content))
        except OSError:
            _give_up_stdout()
    return failed.exit_code


def as_json(content: Mapping[str, Any]) -> str:
    """The content as valid JSON (no NaN, no Infinity), with letters as they are where stdout can write them."""
    text = json.dumps(content, allow_nan=False, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(content, allow_nan=False)
    return text


def open_output() -> None:
    """What was closed before goes nowhere, and letters that cannot be written are written by number."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  as long as the program
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def explain_lost_output(error: OSError, words: Sequence[str]) -> int:
    """A reader that went away (`| head`) needs no word; a full disk does. Nothing is flushed again at the end."""
    gone = error.errno == errno.EPIPE
    if error.filename is None:
        _give_up_stdout()
    if gone:
        return 1
    where = "the answer could not be written" if error.filename is None else f"{error.filename} could not be used"
    message = f"{where}: {error.strerror or error}"
    said = [] if error.filename is None else words
    return explain(Failed(message, kind="output", exit_code=1), said)


def _failed(error: Exception) -> Failed:
    if isinstance(error, USAGE_ERROR):
        return Failed(_usage(error), kind="usage", exit_code=2)
    kind = type(error) if isinstance(error, TacitError) else TacitError
    return Failed(str(error), kind=re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower(), exit_code=2)


def _usage(error: Any) -> str:
    """The words of typer; an option that there is not comes with the one that was probably meant, one that is missing
    with an example.
    """
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    missing = getattr(getattr(error, "param", None), "opts", [""])[-1]
    if missing in EXAMPLES and hasattr(error, "param_type"):
        return f"{str(error.format_message()).rstrip('.')}, for instance {EXAMPLES[missing]}"
    if not option or context is None or not hasattr(error, "possibilities"):
        return str(error.format_message())
    known = [name.lstrip("-") for item in context.command.params for name in (*item.opts, *item.secondary_opts)]
    near = nearest(option.lstrip("-"), known)
    return str(error.message) + ("" if near is None else f". Did you mean '--{near}'?")


def _give_up_stdout() -> None:
    """Send whatever is still to be flushed nowhere, so that the interpreter ends in silence."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # no file behind it: there is nothing to flush
        return
