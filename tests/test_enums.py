"""Enums of ours are what enum makes."""

from __future__ import annotations

import copy
import enum
import json
import pickle
from typing import Any

import pytest

from whence import enums
from whence.enums import StrEnum


class Word(StrEnum):
    """A word with a number beside it, as whence.Source has."""

    number: int

    def __new__(cls, text: str, number: int = 0) -> Word:
        word = str.__new__(cls, text)
        word._value_ = text
        word.number = number
        return word

    NONE = "", 0
    ONE = "one", 1

    @property
    def twice(self) -> int:
        return 2 * self.number


@pytest.mark.parametrize(("kind", "values"), [("Enum", "a b"), ("StrEnum", "a b"), ("IntEnum", (1, 2))])
def test_an_enum_is_what_enum_makes(kind: str, values: Any) -> None:
    body = dict(zip(("ONE", "TWO"), values.split() if isinstance(values, str) else values))
    theirs: Any = getattr(enum, kind)("Number", body)
    ours: Any = type(getattr(enums, kind))("Number", (getattr(enums, kind),), body)
    for one, other in zip(ours, theirs, strict=True):
        assert (one.name, one.value, repr(one), str(one), f"{one}") == (
            other.name, other.value, repr(other), str(other), f"{other}"
        )  # fmt: skip
        assert (one == one.value, bool(one)) == (other == other.value, bool(other))
        assert ours(one.value) is ours(one) is ours[one.name] is getattr(ours, one.name) is copy.deepcopy(one)
        assert one in ours
        assert {one: 1}[one] == 1
    assert len(ours) == len(theirs) == 2
    assert ours.ONE != ours.TWO
    for made in (ours, theirs):
        with pytest.raises(ValueError, match="'c' is not a valid Number"):
            made("c")
        with pytest.raises(AttributeError):
            made.ONE = 3


def test_a_member_may_have_more_than_its_value() -> None:
    one: str = Word.ONE
    assert (one == "one", Word.ONE.number, Word.ONE.twice, bool(Word.NONE)) == (True, 1, 2, False)
    assert pickle.loads(pickle.dumps(Word.ONE)) is Word.ONE
    assert json.dumps([*Word]) == '["", "one"]'
