"""The command line. `main` turns every refusal into one clear line on stderr and an exit code.

0    done                      2    your input (nothing was written)
1    a seed failed, loudly     130  interrupted (finished seeds are kept)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    from tacit.cli.app import app
    from tacit.cli.common import USAGE_ERROR, complain
    from tacit.errors import TacitError

    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = app(args=words, prog_name="tacit", standalone_mode=False, obj=words)
    except USAGE_ERROR as error:
        complain(error.format_message())  # type: ignore[attr-defined]
        return 2
    except TacitError as error:
        complain(str(error))
        return 2
    return code if isinstance(code, int) else 0
