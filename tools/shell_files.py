"""Completion for bash, zsh and fish, and man pages, from the parsers of the commands.

    python -m tools.shell_files [FOLDER]

writes them into FOLDER (the clone): completion into src/whence/cli/shell, which `whence completion` prints, man pages
into share/man/man1. The wheel installs both (`data-files` in pyproject.toml). tests/test_shell_files.py compares the
files with the parsers.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Action, ArgumentParser, _SubParsersAction
from importlib import import_module
from pathlib import Path

import shtab
from argparse_manpage.manpage import Manpage

from whence._version import __version__
from whence.cli.completion import FILES
from whence.cli.main import COMMANDS, parser_of
from whence.cli.parser import Parser

ROOT = Path(__file__).parent.parent
COMPLETION = {shell: f"src/whence/cli/shell/{name}" for shell, name in FILES.items()}
MANUAL = "share/man/man1"
# metavars, or the words of them, whose values are paths
PATHS = {
    "FILE",
    "PATH",
    "IN",
    "OUT",
    "BINARY",
    "ARCHIVE",
    "CORE",
    "SNAPSHOT",
    "OLD",
    "ELF",
    "PROFILE",
    "TRACE",
    "LIDIA",
}
FOLDERS = {"DIR", "FOLDER", "ROOT"}
SECTIONS = """
.SH EXIT STATUS
0: answered. 1: some unknown. 2: wrong use. 3: broken input. 130: interrupted.
.SH SEE ALSO
"""


def command_parser(name: str) -> Parser:
    """Return the parser of a command, as for `whence NAME --help`."""
    return parser_of(name, False, import_module(f"whence.cli.{COMMANDS[name][0]}"))


def actions(parser: ArgumentParser) -> list[Action]:
    """Yield the options and arguments of a parser and of its subparsers."""
    result: list[Action] = []
    for action in parser._actions:
        result.append(action)
        if isinstance(action, _SubParsersAction):
            for each in action.choices.values():
                result += actions(each)
    return result


def whole_parser() -> Parser:
    """One parser of all commands."""
    full = Parser(prog="whence", description="From address to source.", allow_abbrev=False)
    full.add_argument("-V", "--version", action="version", version=__version__)
    full.add_argument("--debug", action="store_true", help="show tracebacks of errors")
    commands = full.add_subparsers(dest="command", metavar="COMMAND")
    for name, (module, line) in COMMANDS.items():
        item = commands.add_parser(name, help=line, description=line, allow_abbrev=False)
        import_module(f"whence.cli.{module}").configure(item)
        item.usage = None
    asked = commands.add_parser("help", help="every command, or a command's options")
    asked.add_argument("about", nargs="?", choices=list(COMMANDS), metavar="COMMAND", help="a command")
    for action in actions(full):
        words = set(re.findall(r"[A-Z]+", action.metavar)) if isinstance(action.metavar, str) else set()
        if action.choices is None and words & (PATHS | FOLDERS):
            action.complete = shtab.FILE if words & PATHS else shtab.DIRECTORY  # type: ignore[attr-defined]
    return full


def completion(shell: str) -> str:
    """Return the completion file of a shell."""
    made = str(shtab.complete(whole_parser(), shell=shell))
    return re.sub(r"[ \t]+$", "", made, flags=re.MULTILINE).rstrip("\n") + "\n"


def usage_of(parser: ArgumentParser) -> str:
    """Return a parser's usage in one line, for a formatter that wraps lines itself."""
    return " ".join(parser.format_usage().split()).removeprefix("usage: ").replace("%", "%%")


def word(text: str) -> str:
    """Text as roff has it: a hyphen is what one types."""
    return text.replace("\\", "\\\\").replace("-", "\\-")


def manual(name: str) -> str:
    """Return the man page of a command, or for "" of whence, with a line for each command."""
    if name:
        parser, page, line = command_parser(name), f"whence-{name}", COMMANDS[name][1]
        others, commands = ["whence"], ""
    else:
        parser, page, line = Parser(prog="whence"), "whence", "from address to source"
        parser.usage = "whence [-V | --version] [--debug] COMMAND ..."
        others = [f"whence-{command}" for command in COMMANDS]
        rows = "".join(f".TP\n\\fBwhence {word(each)}\\fR\n{word(text)}\n" for each, (_, text) in COMMANDS.items())
        commands = f".SH COMMANDS\n{rows}.TP\n\\fBwhence help\\fR COMMAND\nevery command, or a command's options\n"
    for each in parser.subparsers():
        each.usage = usage_of(each)
    parser.man_short_description = line  # type: ignore[attr-defined]
    made = Manpage(
        parser,
        _data={"project_name": "whence", "version": __version__, "manual_title": "whence manual"},
    )
    made.prog, made.date = page, ""
    text = str(made).replace(".SH\nPOSITIONAL ARGUMENTS", ".SH COMMANDS")
    return text + commands + SECTIONS.lstrip("\n") + ",\n".join(f".BR {other} (1)" for other in others) + "\n"


def contents() -> dict[str, str]:
    """Return every file by its path in the clone."""
    os.environ["COLUMNS"] = "80"  # what argparse wraps lines for
    result = {path: completion(shell) for shell, path in COMPLETION.items()}
    for name in ("", *COMMANDS):
        result[f"{MANUAL}/whence{name and '-' + name}.1"] = manual(name)
    return result


def main(folder: Path = ROOT) -> None:
    for path, text in contents().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
