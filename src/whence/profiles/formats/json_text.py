"""JSON decoded member by member, with the extent of each value in the text.

A value can be released before the next one is read. A text with some values changed is written by replacing their
extents; everything else is copied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence.samples import bounds

T = TypeVar("T")

BLANK = re.compile(r"[ \t\n\r]*")
SHORT_LIST = 16  # entries, which may be long themselves
CHUNK = 1000  # entries of a list that are encoded in one call


def _same(decoded: dict[str, Any]) -> dict[str, Any]:
    """Return the object: a hook in Python code, which lets Ctrl-C interrupt the decoder."""
    return decoded


def parsed(text: str, part: str, make: Callable[[Any, Budget], T], budget: Budget | None = None) -> T:
    """Decode a document, charge it to the budget, and return `make(document, budget)`.

    Raises ProfileError of `part` for text that is not JSON, and for a document that `make` does not accept.
    """
    budget = budget or bounds.reading(len(text))
    budget.charge(bounds.JSON_CHARACTER * len(text))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(part, None, f"invalid JSON: {error}") from error
    try:
        return make(document, budget)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else f"invalid document: {error}"
        raise ProfileError(part, None, problem) from error


_decode = json.JSONDecoder(object_hook=_same).raw_decode
_encode = json.JSONEncoder(separators=(",", ":")).encode


def encoded(value: Any) -> str:
    """Return the text of a value, without blanks. Long lists are encoded in pieces, which lets Ctrl-C interrupt it."""
    return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and any(isinstance(item, (dict, list)) for item in value.values()):
        separator = "{"
        for name, item in value.items():
            yield f"{separator}{_encode(name)}:"
            yield from _pieces(item)
            separator = ","
        yield "}"
    elif isinstance(value, list) and 0 < len(value) <= SHORT_LIST:
        separator = "["
        for item in value:
            yield separator
            yield from _pieces(item)
            separator = ","
        yield "]"
    elif isinstance(value, list) and len(value) > CHUNK:
        separator = "["
        for offset in range(0, len(value), CHUNK):
            yield separator
            yield _encode(value[offset : offset + CHUNK])[1:-1]
            separator = ","
        yield "]"
    else:
        yield _encode(value)


def skip_blanks(text: str, offset: int) -> int:
    match = BLANK.match(text, offset)
    return match.end() if match else offset


def value(text: str, offset: int) -> tuple[Any, int]:
    """Return the value at `offset`, and its end. Raises ValueError."""
    return _decode(text, offset)


def members(text: str, offset: int, visit: Callable[[str, int], int]) -> int:
    """Walk the object at `offset`, and return its end.

    `visit` is called with each name and the offset of its value, and returns the value's end. Raises ValueError.
    """
    offset = expect(text, offset, "{")
    if text[offset : offset + 1] == "}":
        return offset + 1
    while True:
        if text[offset : offset + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, offset)
        name, offset = _decode(text, offset)
        offset = skip_blanks(text, visit(name, expect(text, skip_blanks(text, offset), ":")))
        if text[offset : offset + 1] == "}":
            return offset + 1
        offset = expect(text, offset, ",")


def expect(text: str, offset: int, character: str) -> int:
    """Return the offset after a character and blanks. Raises ValueError for another character."""
    if text[offset : offset + 1] != character:
        raise json.JSONDecodeError(f"Expecting {character!r}", text, offset)
    return skip_blanks(text, offset + 1)


def walk(text: str, visit: Callable[[str, int], int]) -> None:
    """Walk a text that is one object, as `members` does."""
    end = skip_blanks(text, members(text, skip_blanks(text, 0), visit))
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
