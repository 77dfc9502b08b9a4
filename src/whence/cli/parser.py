"""Parse command lines with argparse, with one-line usage errors and a suggestion for unknown words."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser, HelpFormatter, Namespace, RawDescriptionHelpFormatter, _SubParsersAction
from collections.abc import Iterable, Iterator
from typing import NoReturn

from whence._base.streams import complain, shortened

CHOICE = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
UNKNOWN = "unrecognized arguments: "
WRONG_USE = 2


def formatter(prog: str) -> HelpFormatter:
    """Return a formatter as wide as the terminal that keeps the lines of epilogs."""
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        columns = 80
    return RawDescriptionHelpFormatter(prog, width=max(columns - 2, 40))


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return the choice most similar to an unknown word as a question, "" if none is similar.

    >>> did_you_mean("adr", ["addr", "pid", "core"])
    '; did you mean addr?'
    """
    from difflib import get_close_matches  # only a mistake needs it

    close = get_close_matches(word, list(choices), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


class Parser(ArgumentParser):
    """A parser of one command. Its subcommands have parsers of this class, too."""

    def examples(self, *lines: str) -> None:
        """Add examples to the end of the help; those of a subcommand also to its own help."""
        text = "examples:\n" + "\n".join(f"  {line}" for line in lines)
        self.epilog = f"{self.epilog}\n\n{text}" if self.epilog else text
        for parser in self.subparsers():
            own = [line for line in lines if f"{line} ".startswith(f"{parser.prog} ")]
            if own:
                parser.examples(*own)

    def error(self, message: str) -> NoReturn:
        """Print a usage error in one line and exit."""
        shown = shortened(message)
        if (match := CHOICE.search(message)) and any(self.subparsers()):
            names = match[2].replace("'", "")
            shown = f"no subcommand is named {shortened(match[1])!r}; there are {names}"
        complain(f"{shown}{self._suggestion(message)} (see {self._help_command()})", self.prog)
        sys.exit(WRONG_USE)

    def _help_command(self) -> str:
        program, _, command = self.prog.partition(" ")
        return f"{program} help {command}"

    def _suggestion(self, message: str) -> str:
        if message.startswith(UNKNOWN):
            words = message.removeprefix(UNKNOWN).split()
            option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
            return did_you_mean(option, self._options()) if option else ""
        if match := CHOICE.search(message):
            return did_you_mean(match[1], re.findall(r"[\w.+-]+", match[2]))
        return ""

    def parse_intermixed(self, words: list[str]) -> Namespace:
        """Parse words that have options between arguments, which argparse does for parsers without subcommands."""
        for action in self._actions:
            if isinstance(action, _SubParsersAction):
                if not words or words[0] not in action.choices:
                    return self.parse_args(words)
                options: Namespace = action.choices[words[0]].parse_intermixed_args(words[1:])
                setattr(options, action.dest, words[0])
                return options
        return self.parse_intermixed_args(words)

    def subparsers(self) -> Iterator[Parser]:
        """Yield the parsers of the subcommands."""
        for action in self._actions:
            if isinstance(action, _SubParsersAction):
                yield from action.choices.values()

    def _options(self) -> Iterator[str]:
        for action in self._actions:
            yield from action.option_strings
        for parser in self.subparsers():
            yield from parser._options()
