"""The reference of the command line, made from its parser when the documentation is built."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parent / "cli.md"
HEAD: Final = """# Command-line reference: tacit

The command `tacit` has these subcommands. Most take `--json`; exit codes and errors are in the [error
reference](errors.md). The options of each group stand below its commands, with their defaults.
"""


def commands() -> Iterator[tuple[str, str, str, list[tuple[str, str, str]]]]:
    """(path, arguments, help, (option, meaning, default) of each option) of every command."""
    from tacit.cli.app import command

    def walk(found: Any, path: str) -> Iterator[tuple[str, str, str, list[tuple[str, str, str]]]]:
        if hasattr(found, "commands"):
            for name, child in found.commands.items():
                yield from walk(child, f"{path} {name}")
            return
        parts = [item for item in found.params if item.name != "help"]
        words = [str(item.metavar or item.name).upper() for item in parts if item.param_type_name == "argument"]
        options = [
            (
                item.opts[0],
                " ".join((item.help or "").split()),
                "" if item.default in (None, False, ()) else f"{item.default}",
            )
            for item in parts
            if item.param_type_name == "option" and item.opts[0] != "--json"
        ]
        said = " ".join((found.help or "").split("\n\n")[0].split())
        yield path, " ".join(words), said, options

    yield from walk(command(), "tacit")


def page() -> str:
    """The page, as Markdown: a section per group, a table of its commands."""
    groups: dict[str, list[str]] = {}
    meanings: dict[str, dict[tuple[str, str, str], list[str]]] = {}
    for path, arguments, said, options in commands():
        parts = path.split()
        group = f"tacit {parts[1]}" if len(parts) > 2 else "tacit"
        shown = f"`{' '.join([path, arguments]).strip()}`"
        names = " ".join(name for name, _, _ in options)
        groups.setdefault(group, []).append(f"| {shown} | {said} | {f'`{names}`' if options else '-'} |")
        for option in options:
            meanings.setdefault(group, {}).setdefault(option, []).append(parts[-1])
    lines = [HEAD]
    for group, rows in groups.items():
        title = "Commands of tacit" if group == "tacit" else f"Commands of {group}"
        lines += [f"## {title}\n", "| command | description | options |", "|---|---|---|", *rows, ""]
        if group in meanings:
            lines += ["| option | meaning | default |", "|---|---|---|"]
            known = [name for name, _, _ in meanings[group]]
            for (name, said, default), where in sorted(meanings[group].items()):
                told = said.replace("|", "\\|").replace("<", "&lt;") + (
                    f" ({', '.join(f'`{one}`' for one in where)})" if known.count(name) > 1 else ""
                )
                lines += [f"| `{name}` | {told} | {f'`{default}`' if default else '-'} |"]
            lines += [""]
    return "\n".join(lines)


def write() -> None:
    """Write the page, unless it is there already."""
    made = page()
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        PAGE.write_text(made, encoding="utf-8")
