"""Records behave as dataclasses with slots do."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from whence._base.records import NamedTuple, Record, as_dict, field, replaced


class Point(Record):
    x: int
    y: int = 2
    more: list[int] = field(default_factory=list)


class Fixed(Record, frozen=True):
    name: str
    size: int = 0


def test_fields_are_given_by_place_or_name_and_defaults_are_made_anew() -> None:
    assert (Point(1).y, Point(1, 5).y, Point(x=3).x) == (2, 5, 3)
    assert Point(1).more is not Point(1).more


def test_records_are_equal_when_they_are_of_one_class_and_their_fields_are() -> None:
    assert Fixed("a") == Fixed("a", 0) != Fixed("b")
    assert len({Fixed("a"), Fixed("a"), Fixed("b")}) == 2
    assert Point(1) != Fixed("a")
    with pytest.raises(TypeError):
        hash(Point(1))


def test_a_frozen_record_cannot_be_changed_and_no_record_has_other_fields() -> None:
    item, point = Fixed("a"), Point(1)
    with pytest.raises(AttributeError, match="name of a Fixed cannot be changed"):
        item.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="name of a Fixed"):
        del item.name
    point.x = 7
    with pytest.raises(AttributeError):
        point.z = 1  # type: ignore[attr-defined]
    assert (item.name, point.x) == ("a", 7)


@pytest.mark.parametrize(("values", "named"), [((), {}), ((1, 2, [], 4), {}), ((1,), {"x": 1}), ((1,), {"z": 1})])
def test_fields_that_are_missing_unknown_or_given_twice_are_told(
    values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*values, **named)


def test_records_can_be_pickled_printed_and_matched() -> None:
    assert pickle.loads(pickle.dumps(Fixed("a", 4))) == Fixed("a", 4)
    assert repr(Fixed("a", 4)) == "Fixed(name='a', size=4)"
    match Fixed("a", 4):
        case Fixed(name, size):
            assert (name, size) == ("a", 4)


class Wider(Point):
    unit: str = "m"


def test_a_record_that_inherits_has_the_fields_of_both() -> None:
    assert repr(Wider(1, 2)).startswith("Wider(x=1, y=2")
    assert as_dict(Wider(1))["unit"] == "m"
    assert replaced(Wider(1), unit="n") == Wider(1, unit="n") != Wider(1)
    with pytest.raises(TypeError, match="Wider needs x"):
        Wider()  # type: ignore[call-arg]


class Named(NamedTuple):
    """What typing.NamedTuple makes, too."""

    name: str
    size: int = 0

    @property
    def twice(self) -> int:
        return 2 * self.size


def test_a_named_tuple_is_what_typing_makes() -> None:
    item = Named("a", size=4)
    assert item == ("a", 4) == tuple(item)
    assert (item.twice, item._replace(size=5).size, Named._fields, Named("b").size) == (8, 5, ("name", "size"), 0)
    assert repr(item) == "Named(name='a', size=4)"
    assert (Named.__doc__, Named.__module__) == ("What typing.NamedTuple makes, too.", __name__)
    assert pickle.loads(pickle.dumps(item)) == item
    with pytest.raises(TypeError):
        Named()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        item.name = "b"  # type: ignore[misc]
