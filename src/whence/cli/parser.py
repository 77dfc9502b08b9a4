"""Command lines as argparse reads them, with a guess at what was meant where a word is unknown."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, HelpFormatter, _SubParsersAction
from collections.abc import Iterable, Iterator
from typing import NoReturn

from whence._base.streams import shortened

CHOICE = re.compile(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
UNKNOWN = "unrecognized arguments: "


def formatter(prog: str) -> HelpFormatter:
    """As wide as the terminal. Left to itself argparse asks shutil, which costs milliseconds to import."""
    try:
        columns = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        columns = 80
    return HelpFormatter(prog, width=max(columns - 2, 40))


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The known word that an unknown one is most like, as a question; "" when none is.

    >>> did_you_mean("adr", ["addr", "pid", "core"])
    '; did you mean addr?'
    """
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {close[0]}?" if close else ""


class Parser(ArgumentParser):
    """A parser of one command; its subcommands' parsers are of this class, too."""

    def error(self, message: str) -> NoReturn:
        super().error(shortened(message) + self._guess(message))

    def _guess(self, message: str) -> str:
        if message.startswith(UNKNOWN):
            words = message.removeprefix(UNKNOWN).split()
            option = next((word.partition("=")[0] for word in words if word.startswith("-")), "")
            return did_you_mean(option, self._options()) if option else ""
        if found := CHOICE.search(message):
            return did_you_mean(found[1], re.findall(r"[\w.+-]+", found[2]))
        return ""

    def subparsers(self) -> Iterator[Parser]:
        """The parsers of its subcommands."""
        for action in self._actions:
            if isinstance(action, _SubParsersAction):
                yield from action.choices.values()

    def _options(self) -> Iterator[str]:
        for action in self._actions:
            yield from action.option_strings
        for parser in self.subparsers():
            yield from parser._options()
