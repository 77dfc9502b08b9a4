"""The stack machine of CFI's expressions."""

from __future__ import annotations

import random

import pytest

from tests.helpers.survive import survives
from whence._base.errors import DwarfError
from whence.unwind.expressions import evaluate
from whence.unwind.memory import Unreadable

REGISTERS = {6: 0x7000, 7: 0x8000, 16: 0x1D}


class Words:
    """Memory in which each word is its address plus one."""

    def read(self, address: int, size: int) -> bytes:
        if not 0x1000 <= address < 0x100000:
            raise Unreadable(address)
        return (address + 1).to_bytes(8, "little")[:size]

    def region(self, address: int) -> tuple[int, int] | None:
        return None


def value(expression: str, start: int | None = None, bits: int = 64) -> int:
    return evaluate(bytes.fromhex(expression), REGISTERS, Words(), start, bits=bits)


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("77 08 80 00 3f 1a 3b 2a 33 24 22", 0x8008 + 8),  # the linker's for .plt: rsp+8+((rip&15)>=11)*8
        ("92 06 78", 0x6FF8),
        ("77 00 06", 0x8001),
        ("77 00 94 01", 1),
        ("03 8877665544332211", 0x1122334455667788),
        ("08 ff", 255),
        ("09 ff", 2**64 - 1),
        ("0b feff", 2**64 - 2),
        ("0c 01000080", 0x80000001),
        ("0d 01000080", 2**64 - 0x7FFFFFFF),
        ("10 e58e26 11 7f 22", 624484),
        ("31 32 12 22 22", 5),
        ("31 32 13", 1),
        ("31 32 14 1c 1c", 0),
        ("31 32 33 15 02 1c", 2),
        ("31 32 16 1c", 1),
        ("31 32 33 17 1c 1e", (1 - 2) * 3 % 2**64),
        ("09 fb 19", 5),
        ("09 f9 32 1b", 2**64 - 3),
        ("09 f9 32 1d", (2**64 - 7) % 2),
        ("31 1f 20", 0),
        ("33 35 21 36 27", 1),
        ("30 23 8001", 128),
        ("31 08 40 24", 0),
        ("09 f0 32 25", (2**64 - 16) >> 2),
        ("09 f0 32 26", 2**64 - 4),
        ("09 ff 31 2d", 1),
        ("31 31 29 31 2e", 0),
        ("31 32 2b 31 2c", 1),
        ("31 28 0100 35 96 3f", 15),
        ("30 28 0100 35 96", 5),
        ("35 2f 0100 36", 5),
    ],
)
def test_each_operation(expression: str, result: int) -> None:
    assert value(expression) == result


def test_an_initial_value_is_pushed_on_the_stack() -> None:
    assert value("23 10", 0x100) == 0x110


def test_numbers_of_32_bit_machines_wrap_at_32_bits() -> None:
    assert value("09 ff", bits=32) == 2**32 - 1
    assert value("03 44332211", bits=32) == 0x11223344


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "needs more operands than"),
        ("22", "needs more operands than"),
        ("12" * 3, "needs more operands than"),
        ("30" + "12" * 64, "more than 64 values"),
        ("2f fdff", "more than 1000 operations"),
        ("2f 0001", "outside the expression"),
        ("2f 80ff", "outside the expression"),
        ("31 30 1b", "division by zero"),
        ("31 30 1d", "division by zero"),
        ("71 00", "register 1 is unknown"),
        ("97", "operation 0x97 is not allowed"),
        ("31 94 09", "invalid size 9"),
        ("0e 00", "truncated"),
    ],
)
def test_invalid_expressions_are_reported(expression: str, message: str) -> None:
    with pytest.raises(DwarfError, match=message):
        value(expression)


def test_unreadable_memory_is_no_damage() -> None:
    with pytest.raises(Unreadable, match="0x5 "):
        value("35 06")


def test_any_bytes_end() -> None:
    generator = random.Random(3)
    for _ in range(5000):
        data = generator.randbytes(generator.randint(1, 40))
        survives(evaluate, data, REGISTERS, Words(), 0x2000, refused=(DwarfError, Unreadable))
