"""Command lines as getopt_long reads them: grouped letters, long names that may be shortened, options anywhere.

GNU addr2line and elfutils' read theirs so. A table names each option once:

    {"exe": Option("e", NEEDS_VALUE, ...), "inlines": Option("i", FLAG, ...)}
"""

from __future__ import annotations

from whence._base.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLAG = "flag"
NEEDS_VALUE = "needs a value"
MAY_HAVE_VALUE = "may have a value"  # behind "=", or in the same word as the letter
MAY_HAVE_VALUE_IF_LONG = "may have a value if long"  # behind "="; the letter is a flag


class Option(NamedTuple):
    """The letters of an option ("" for none), whether it has a value, and what `--help` says."""

    letters: str
    value: str
    help: str


class Refused(Exception):
    """A command line that getopt_long refuses, in its words."""


def parsed(words: list[str], table: Mapping[str, Option]) -> Iterator[tuple[str, str | None]]:
    """The long name and the value of each option, in order; ("", word) for a word that is none. Raises Refused.

    >>> table = {"exe": Option("e", NEEDS_VALUE, ""), "inlines": Option("i", FLAG, "")}
    >>> list(parsed(["-ie", "a.out", "--inl", "0x10"], table))
    [('inlines', None), ('exe', 'a.out'), ('inlines', None), ('', '0x10')]
    """
    words = list(words)
    while words:
        word = words.pop(0)
        if word == "--":
            yield from (("", rest) for rest in words)
            return
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            name = full_name(given, word, table)
            kind = table[name].value
            if kind == FLAG and equals:
                raise Refused(f"option '--{name}' doesn't allow an argument")
            if kind == NEEDS_VALUE and not equals:
                if not words:
                    raise Refused(f"option '--{name}' requires an argument")
                value, equals = words.pop(0), "="
            yield name, value if equals else None
        elif word.startswith("-") and len(word) > 1:
            yield from group(word[1:], words, table)
        else:
            yield "", word


def full_name(given: str, word: str, table: Mapping[str, Option]) -> str:
    """The long option that a word begins with, whole or shortened."""
    if given in table:
        return given
    names = [name for name in table if name.startswith(given)]
    if len(names) == 1:
        return names[0]
    if names:
        could_be = "".join(f" '--{name}'" for name in names)
        raise Refused(f"option '--{given}' is ambiguous; possibilities:{could_be}")
    raise Refused(f"unrecognized option '{word}'")


def group(letters: str, words: list[str], table: Mapping[str, Option]) -> Iterator[tuple[str, str | None]]:
    """The options of a group like -Cfpe; the rest of it, or the next word, is the value of one that needs one."""
    for at, letter in enumerate(letters, 1):
        name = next((name for name, option in table.items() if letter in option.letters), None)
        if name is None:
            raise Refused(f"invalid option -- '{letter}'")
        kind, rest = table[name].value, letters[at:]
        if kind == NEEDS_VALUE and not rest:
            if not words:
                raise Refused(f"option requires an argument -- '{letter}'")
            rest = words.pop(0)
        if kind in (NEEDS_VALUE, MAY_HAVE_VALUE):
            yield name, rest if rest or kind == NEEDS_VALUE else None
            return
        yield name, None
