"""JSON decoded member by member, with where each value stands in the text.

What was read can be let go before the next value is read, and a text with some values changed is written by cutting it
at their extents: everything else is passed on as it lies.
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
FEW = 16  # entries of a list that may be long themselves
CHUNK = 1000  # entries of a list that are written in one call


def _same(decoded: dict[str, Any]) -> dict[str, Any]:
    """Called for each object, so that decoding is a call of C code no longer than an object: Ctrl-C is noticed."""
    return decoded


def made_of(text: str, part: str, rule: str, make: Callable[[Any, Budget], T], budget: Budget | None = None) -> T:
    """What `make` makes of a text's document, decoded at once and charged to the budget.

    ProfileError of that part: for a text that is no JSON; by `rule`, where the document has another shape than `make`
    expects.
    """
    budget = budget or bounds.reading(len(text))
    budget.charge(bounds.JSON_CHARACTER * len(text))
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(part, None, "it is JSON", str(error)) from error
    try:
        return make(document, budget)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise ProfileError(part, None, rule, f"{type(error).__name__}: {error}") from error


_decode = json.JSONDecoder(object_hook=_same).raw_decode
_encode = json.JSONEncoder(separators=(",", ":")).encode


def written(value: Any) -> str:
    """The text of a value, without blanks. Long lists are written a piece at a time, so that Ctrl-C is noticed."""
    return "".join(_pieces(value))


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and any(isinstance(one, (dict, list)) for one in value.values()):
        between = "{"
        for name, one in value.items():
            yield f"{between}{_encode(name)}:"
            yield from _pieces(one)
            between = ","
        yield "}"
    elif isinstance(value, list) and 0 < len(value) <= FEW:
        between = "["
        for one in value:
            yield between
            yield from _pieces(one)
            between = ","
        yield "]"
    elif isinstance(value, list) and len(value) > CHUNK:
        between = "["
        for offset in range(0, len(value), CHUNK):
            yield between
            yield _encode(value[offset : offset + CHUNK])[1:-1]
            between = ","
        yield "]"
    else:
        yield _encode(value)


def blank(text: str, offset: int) -> int:
    found = BLANK.match(text, offset)
    return found.end() if found else offset


def value(text: str, offset: int) -> tuple[Any, int]:
    """The value at `offset`, and where it ends. ValueError where there is none."""
    return _decode(text, offset)


def members(text: str, offset: int, visit: Callable[[str, int], int]) -> int:
    """Walk the object at `offset`; `visit` is called with each name and where its value starts, and returns its end.

    Returns where the object ends. Raises ValueError where the text is no JSON.
    """
    offset = expect(text, offset, "{")
    if text[offset : offset + 1] == "}":
        return offset + 1
    while True:
        if text[offset : offset + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, offset)
        name, offset = _decode(text, offset)
        offset = blank(text, visit(name, expect(text, blank(text, offset), ":")))
        if text[offset : offset + 1] == "}":
            return offset + 1
        offset = expect(text, offset, ",")


def expect(text: str, offset: int, what: str) -> int:
    """Where the text goes on behind a character and blanks."""
    if text[offset : offset + 1] != what:
        raise json.JSONDecodeError(f"Expecting {what!r}", text, offset)
    return blank(text, offset + 1)


def whole(text: str, visit: Callable[[str, int], int]) -> None:
    """Walk the one object a text is."""
    end = blank(text, members(text, blank(text, 0), visit))
    if end != len(text):
        raise json.JSONDecodeError("Extra data", text, end)
