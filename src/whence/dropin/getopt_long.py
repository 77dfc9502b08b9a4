"""A parser of command lines like getopt_long: grouped letters, abbreviated long names, options anywhere.

GNU addr2line and elfutils use getopt_long. A table has each option once:

    {"exe": Option("e", NEEDS_VALUE, ...), "inlines": Option("i", FLAG, ...)}
"""

from __future__ import annotations

from whence._base.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLAG = "flag"
NEEDS_VALUE = "needs a value"
MAY_HAVE_VALUE = "may have a value"  # after "=", or in the same word as the letter
MAY_HAVE_VALUE_IF_LONG = "may have a value if long"  # after "="; the letter is a flag


class Option(NamedTuple):
    """The letters of an option ("" for none), the kind of its value, and its text in `--help`."""

    letters: str
    value: str
    help: str


class OptionError(Exception):
    """An invalid command line, with the message of getopt_long."""


def parsed(arguments: list[str], table: Mapping[str, Option]) -> Iterator[tuple[str, str | None]]:
    """Yield the long name and the value of each option, in order; ("", word) for other words. Raises OptionError.

    >>> table = {"exe": Option("e", NEEDS_VALUE, ""), "inlines": Option("i", FLAG, "")}
    >>> list(parsed(["-ie", "a.out", "--inl", "0x10"], table))
    [('inlines', None), ('exe', 'a.out'), ('inlines', None), ('', '0x10')]
    """
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (("", word) for word in rest)
            return
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            name = full_name(given, word, table)
            kind = table[name].value
            if kind == FLAG and equals:
                raise OptionError(f"option '--{name}' doesn't allow an argument")
            if kind == NEEDS_VALUE and not equals:
                if not rest:
                    raise OptionError(f"option '--{name}' requires an argument")
                value, equals = rest.pop(0), "="
            yield name, value if equals else None
        elif word.startswith("-") and len(word) > 1:
            yield from group(word[1:], rest, table)
        else:
            yield "", word


def full_name(given: str, word: str, table: Mapping[str, Option]) -> str:
    """Return the long option with a name or an abbreviation. Raises OptionError."""
    if given in table:
        return given
    names = [name for name in table if name.startswith(given)]
    if len(names) == 1:
        return names[0]
    if names:
        could_be = "".join(f" '--{name}'" for name in names)
        raise OptionError(f"option '--{given}' is ambiguous; possibilities:{could_be}")
    raise OptionError(f"unrecognized option '{word}'")


def group(letters: str, following: list[str], table: Mapping[str, Option]) -> Iterator[tuple[str, str | None]]:
    """Yield the options of a group like -Cfpe; the value of an option is the rest of the group, or the next word."""
    for end, letter in enumerate(letters, 1):
        name = next((name for name, option in table.items() if letter in option.letters), None)
        if name is None:
            raise OptionError(f"invalid option -- '{letter}'")
        kind, rest = table[name].value, letters[end:]
        if kind == NEEDS_VALUE and not rest:
            if not following:
                raise OptionError(f"option requires an argument -- '{letter}'")
            rest = following.pop(0)
        if kind in (NEEDS_VALUE, MAY_HAVE_VALUE):
            yield name, rest if rest or kind == NEEDS_VALUE else None
            return
        yield name, None
