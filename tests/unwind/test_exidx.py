"""ARM's exception tables: each instruction, and what is refused."""

from __future__ import annotations

import random

import pytest

from tests.helpers.survive import survives
from whence._base.errors import DwarfError
from whence.unwind.cfi import Cfa
from whence.unwind.exidx import unwound

SP, LINK = 13, 14


@pytest.mark.parametrize(
    ("code", "cfa", "saved"),
    [
        ("b0", (SP, 0), {}),
        ("00b0", (SP, 4), {}),
        ("3f3fb0", (SP, 512), {}),
        ("3f40b0", (SP, 252), {}),
        ("8400b0", (SP, 4), {LINK: -4}),
        ("8800b0", (SP, 4), {LINK: -4}),  # the pc itself
        ("808fb0", (SP, 20), {4: -20, 5: -16, 6: -12, 7: -8, 11: -4}),
        ("97b0", (7, 0), {}),
        ("9b41a8b0", (11, 0), {4: -8, LINK: -4}),
        ("a3b0", (SP, 16), {4: -16, 5: -12, 6: -8, 7: -4}),
        ("abb0", (SP, 20), {4: -20, 5: -16, 6: -12, 7: -8, LINK: -4}),
        ("b103b0", (SP, 8), {0: -8, 1: -4}),
        ("b20ab0", (SP, 0x204 + 40), {}),
        ("b28101b0", (SP, 0x204 + 4 * 129), {}),
        ("b381b0", (SP, 20), {}),
        ("b4b5b0", (SP, 4), {}),
        ("b9b0", (SP, 20), {}),
        ("c1d1b0", (SP, 32), {}),
        ("c601c703c801c901b0", (SP, 56), {}),
    ],
)
def test_each_instruction(code: str, cfa: tuple[int, int], saved: dict[int, int]) -> None:
    result, rules = unwound(bytes.fromhex(code))
    assert result == Cfa(*cfa)
    assert {register: rule.number for register, rule in rules.items()} == saved


@pytest.mark.parametrize(
    "code", ["8000b0", "9db0", "9fb0", "b100b0", "b110b0", "b6", "caff", "d8", "a09bb0", "80", "b2ffffffffff"]
)
def test_an_invalid_instruction_is_refused(code: str) -> None:
    with pytest.raises(DwarfError):
        unwound(bytes.fromhex(code))


def test_any_bytes_give_errors_or_rules() -> None:
    generator = random.Random(3)
    for _ in range(5000):
        code = generator.randbytes(generator.randint(0, 12))
        survives(lambda code=code: unwound(code), refused=DwarfError)
