"""Columns of numbers that kernels fill and Python reads."""

import pickle
from array import array
from collections.abc import Iterable

import pytest

from whence.kernels.columns import Column


def column(typecode: str, numbers: Iterable[int]) -> Column:
    filled = Column(typecode)
    filled.extend(array(typecode, numbers))
    return filled


@pytest.mark.parametrize(("typecode", "largest"), [("B", 2**8 - 1), ("I", 2**32 - 1), ("Q", 2**64 - 1)])
def test_a_column_holds_the_numbers_it_was_given(typecode: str, largest: int) -> None:
    numbers = [0, 1, largest] * 1000
    filled = column(typecode, numbers)
    assert len(filled) == 3000
    assert filled.numbers().tolist() == numbers
    assert filled[2] == largest


def test_a_column_comes_back_from_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(column("Q", [7, 8]))).numbers().tolist() == [7, 8]


def test_a_column_does_not_move_while_a_view_of_it_lives() -> None:
    filled = column("I", range(64))
    view = memoryview(filled)
    with pytest.raises(BufferError):
        filled.extend(array("I", range(4096)))
    assert view.cast("I").tolist() == list(range(64))
    view.release()
    filled.extend(array("I", range(4096)))
    assert len(filled) == 64 + 4096


def test_an_unknown_typecode_is_refused() -> None:
    with pytest.raises(KeyError):
        Column("x")
