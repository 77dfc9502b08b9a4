"""32-bit ARM without tables: what its instructions say, and where its stacks end."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import whence
from tests.forge.threads import CODE, STACK, Process
from whence.cli.main import main
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind import End, FoundBy
from whence.unwind.arm import ArmPath
from whence.unwind.exidx import ExceptionIndex
from whence.unwind.registers import ARM
from whence.unwind.unwinder import Unwinder

CORES = Path(__file__).parent.parent / "data" / "cores"
LINK, SP, R7, R11 = 14, 13, 7, 11


def read_of(code: bytes, at: int = 0x1000) -> Callable[[int, int], bytes]:
    def read(address: int, size: int) -> bytes:
        if not at <= address <= at + len(code) - size:
            raise LookupError(address)
        return code[address - at : address - at + size]

    return read


@pytest.mark.parametrize(
    ("code", "is_thumb", "goal", "cfa", "saved"),
    [
        # push {r4, lr}; sub sp, #8; bl
        ("10b5 82b0 00f000f8", True, 8, (SP, 16), {4: -8, LINK: -4}),
        # push.w {r4, r5, r6, r7, r8, lr}; vpush {d8}; bl
        ("2de9f041 2ded028b 00f000f8", True, 12, (SP, 32), {4: -24, 5: -20, 6: -16, 7: -12, 8: -8, LINK: -4}),
        # push {r7, lr}; add r7, sp, #0; sub.w sp, sp, r3; bl: the frame pointer alone is known
        ("80b5 00af adeb030d 00f000f8", True, 12, (R7, 8), {7: -8, LINK: -4}),
        # str.w lr, [sp, #-4]!; ldr r3, =-0x1000; add sp, r3; bl; nop; .word
        ("4df804ed 024b 9d44 00f000f8 00bf00bf 00f0ffff", True, 12, (SP, 4100), {LINK: -4}),
        # cbz r0, +6 to the second push; push {r3, lr}; pop {r3, pc}; push {r4, r5, r6, lr}; bl
        ("08b1 08b5 08bd 70b5 00f000f8", True, 12, (SP, 16), {4: -16, 5: -12, 6: -8, LINK: -4}),
        # push {fp, lr}; add fp, sp, #4; sub sp, sp, #8; bl
        ("00482de9 04b08de2 08d04de2 000000eb", False, 16, (SP, 16), {11: -8, LINK: -4}),
    ],
)
def test_the_instructions_from_a_start_say_where_the_caller_is(
    code: str, is_thumb: bool, goal: int, cfa: tuple[int, int], saved: dict[int, int]
) -> None:
    content = bytes.fromhex(code)
    row = ArmPath(read_of(content), is_thumb).from_start(0x1000, 0x1000 + goal, 0x1000 + goal, False)
    assert row is not None
    assert row.cfa is not None
    assert (row.cfa.register, row.cfa.offset) == cfa
    assert {register: rule.number for register, rule in row.rules.items()} == saved


def test_the_instructions_up_to_a_return_say_where_the_caller_is() -> None:
    code = bytes.fromhex("0028 18bf 10bd 02b0 bde8f081")  # cmp; it ne; popne {r4, pc}; add sp, #8; pop.w {..., pc}
    first, second = ArmPath(read_of(code), True).to_return(0x1000, False)
    for row, offset in ((first, 8), (second, 32)):
        assert row.cfa is not None
        assert (row.cfa.offset, row.rules[LINK].number) == (offset, -4)


def test_a_call_hides_the_return_address_of_a_function_that_does_not_keep_it() -> None:
    code = bytes.fromhex("00f000f8 00bf")
    path = ArmPath(read_of(code), True)
    assert path.from_start(0x1000, 0x1006, 0x1004, False) is None
    assert path.from_start(0x1000, 0x1006, 0x1000, True) is not None


@pytest.mark.parametrize("is_thumb", [True, False])
def test_any_bytes_are_walked_within_bounds(is_thumb: bool) -> None:
    generator = random.Random(5)
    for _ in range(300):
        path = ArmPath(read_of(generator.randbytes(256)), is_thumb)
        path.from_start(0x1000, 0x1100, 0x1000 + 2 * generator.randrange(128), bool(generator.getrandbits(1)))
        assert len([*path.to_return(0x1000, True)]) <= 8


def test_cant_unwind_is_not_the_outermost_frame() -> None:
    with ElfFile.open(CORES / "arm-plain") as elf:
        index = ExceptionIndex.of_elf(elf)
        assert index is not None
        assert index.count == 1
        assert index.find(elf.entry & ~1) is None


def test_a_stack_without_tables_ends_in_the_code_that_the_program_is_entered_by() -> None:
    program = CORES / "arm-plain"
    with Symbolizer(locator=Locator(files=[program])) as symbolizer:
        (only,) = whence.Core(CORES / "arm-plain.core", programs=[program]).stacks(symbolizer)
    functions = [frame.place.frames[0].function for frame in only.frames]
    assert functions == ["boom.constprop.0", *["deep"] * 4, "wide", "_start"]
    assert {frame.found_by for frame in only.frames[1:]} == {FoundBy.INSTRUCTIONS}
    assert only.end is End.COMPLETE


@pytest.mark.parametrize("trampoline", ["4ff0770700df", "7770a0e3000000ef"])
def test_a_call_through_a_null_pointer_has_its_caller_in_the_link_register(trampoline: str) -> None:
    process = Process(ARM)
    process.code[0x100 : 0x100 + len(trampoline) // 2] = bytes.fromhex(trampoline)
    process.code[0x1FE:0x200] = bytes.fromhex("9847")  # blx r3
    struct.pack_into("<16I", process.stack, 32, *[0] * 13, STACK + 0x200, CODE + 0x201, 0)
    result = Unwinder(ARM, process, process).unwind(CODE + 0x100, {SP: STACK})
    assert [frame.pc for frame in result.frames] == [CODE + 0x100, 0, CODE + 0x200]
    assert result.end is End.NO_CFI


def test_a_stacks_explanation_uses_the_given_program(capsys: pytest.CaptureFixture[str]) -> None:
    tid = whence.Core(CORES / "arm-plain.core").stacks()[0].tid
    core, program = str(CORES / "arm-plain.core"), str(CORES / "arm-plain")
    assert main(["explain", core, "--stack", str(tid), "--binary", program]) == 0
    assert "complete" in capsys.readouterr().out


def test_a_frame_record_leads_to_what_makecontext_wrote() -> None:
    process = Process()
    process.code[0x100:0x103] = bytes.fromhex("4889dc")  # mov %rbx, %rsp: not after a call
    process.words(STACK + 0x20, 0, CODE + 0x100)
    result = process.unwind(CODE + 0x10, STACK, r6=STACK + 0x20)
    assert [frame.pc for frame in result.frames] == [CODE + 0x10, CODE + 0x100]
    assert result.end is End.COMPLETE
