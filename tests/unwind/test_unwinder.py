"""Stacks of forged threads: each way to a caller, each end, on both machines."""

from __future__ import annotations

import struct

import pytest

from tests.forge.threads import CALL, CODE, FP_X86, OUTERMOST, PUSHED, SP_X86, STACK, Process
from whence.unwind.cfi import Cfa, How, Rule
from whence.unwind.registers import AARCH64, X86_64
from whence.unwind.steps import End, FoundBy, Unwound
from whence.unwind.unwinder import Unwinder


def pcs(found: Unwound) -> list[int]:
    return [frame.pc - CODE for frame in found.frames]


def test_a_caller_is_looked_up_before_its_return_address_and_what_a_signal_interrupted_at_it() -> None:
    """`call abort` ends a function: the return address is the next function's."""
    process = Process()
    process.code[0x1FB:0x200] = CALL
    process.describe(0x000, 0x100, Cfa(SP_X86, 8), r16=PUSHED)
    process.describe(0x100, 0x200, Cfa(SP_X86, 16), r16=PUSHED)
    process.describe(0x200, 0x300, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.describe(0x300, 0x310, Cfa(SP_X86, 0x40), True, r16=Rule(How.OFFSET, -0x10), r7=Rule(How.OFFSET, -8))
    process.words(STACK, CODE + 0x200, 0, CODE + 0x300)
    process.words(STACK + 0x18 + 0x30, CODE + 0x200, STACK + 0x80)
    result = process.unwind(CODE + 0x10)
    assert pcs(result) == [0x10, 0x200, 0x300, 0x200]
    assert [each.found_by for each in result.frames] == [FoundBy.REGISTERS, FoundBy.CFI, FoundBy.CFI, FoundBy.SIGNAL]
    assert [each.lookup - CODE for each in result.frames] == [0x10, 0x1FF, 0x300, 0x200]
    assert [each.is_trampoline for each in result.frames] == [False, False, True, False]
    assert result.end is End.COMPLETE


def test_the_return_code_of_makecontext_is_outermost() -> None:
    """The CFI of __start_context, which makecontext returns to, has a return address in glibc 2.36."""
    process = Process()
    process.code[0x110:0x113] = bytes.fromhex("4889dc")  # mov %rbx, %rsp
    process.describe(0x000, 0x100, Cfa(SP_X86, 8), r16=PUSHED)
    process.describe(0x110, 0x200, Cfa(SP_X86, 8), r16=PUSHED)
    process.words(STACK, CODE + 0x110, 0x123456)
    result = process.unwind(CODE + 0x10)
    assert (pcs(result), result.end, result.detail) == ([0x10, 0x110], End.COMPLETE, "")
    assert result.frames[1].lookup == CODE + 0x110
    process.code[0x10B:0x110] = CALL
    assert process.unwind(CODE + 0x10).end is End.NO_CFI  # called by the function before, of which nothing is known


def test_each_rule_gets_its_register() -> None:
    process = Process()
    rules = {
        "r16": PUSHED,
        "r3": Rule(How.SAME),
        "r6": Rule(How.OFFSET, -16),
        "r12": Rule(How.VAL_OFFSET, 5),
        "r13": Rule(How.REGISTER, 0),
        "r14": Rule(How.EXPRESSION, 0, b"\x38\x1c"),  # CFA - 8
        "r15": Rule(How.VAL_EXPRESSION, 0, b"\x38\x1c"),
    }
    process.describe(0, 0x100, Cfa(0, 0, b"\x77\x20"), **rules)  # CFA: rsp + 32
    process.words(STACK + 16, 0x66, CODE + 0x180)
    result = Unwinder(X86_64, process, process)
    step = result.step(process.unwind(CODE).frames[0], {7: STACK, 0: 0xAA, 3: 0xBB})
    assert step.registers == {
        3: 0xBB, 6: 0x66, 7: STACK + 32, 12: STACK + 37, 13: 0xAA, 14: CODE + 0x180, 15: STACK + 24, 16: CODE + 0x180,
    }  # fmt: skip
    assert step.pc == CODE + 0x180


def test_a_return_address_in_a_register_is_taken_from_it() -> None:
    """As vfork of glibc, which saves it in rdi."""
    process = Process()
    process.describe(0, 0x100, Cfa(SP_X86, 0), r16=Rule(How.REGISTER, 5))
    process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
    assert pcs(process.unwind(CODE + 4, r5=CODE + 0x150)) == [4, 0x150]


def test_trampolines_without_cfi_are_recognized_by_their_bytes() -> None:
    process = Process()
    process.code[0x80:0x89] = bytes.fromhex("48c7c00f0000000f05")
    process.describe(0, 0x40, Cfa(SP_X86, 8), r16=PUSHED)
    process.describe(0x100, 0x200, Cfa(FP_X86, 8), r16=OUTERMOST)
    process.words(STACK, CODE + 0x80)
    process.words(STACK + 8 + 0x78, 0x1234)
    process.words(STACK + 8 + 0xA0, STACK + 0x400, CODE + 0x100)
    result = process.unwind(CODE)
    assert pcs(result) == [0, 0x80, 0x100]
    assert [each.sp - STACK for each in result.frames] == [0, 8, 0x400]
    assert result.frames[2].exact
    process.words(STACK + 8 + 0xA0, STACK + 8, CODE + 0x80)  # it interrupted itself
    assert process.unwind(CODE).end is End.LOOP


def test_cfi_may_lead_to_another_stack_whose_pc_follows_a_call() -> None:
    """As __morestack of gcc, which runs a function on a new stack."""

    class Pieces(Process):
        def region(self, address: int) -> tuple[int, int] | None:
            middle = STACK + 0x800
            return (STACK, middle) if STACK <= address < middle else (middle, STACK + 0x1000)

    process = Pieces()
    process.describe(0, 0x100, Cfa(FP_X86, 16), r16=PUSHED, r6=Rule(How.OFFSET, -16))
    process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK + 0x10, STACK, CODE + 0x150)
    assert process.unwind(CODE + 0x10, STACK + 0x900, r6=STACK + 0x10).end is End.LOOP
    process.code[0x14B:0x150] = CALL
    result = process.unwind(CODE + 0x10, STACK + 0x900, r6=STACK + 0x10)
    assert (pcs(result), result.end) == ([0x10, 0x150], End.COMPLETE)
    assert process.unwind(CODE + 0x10, STACK + 0x700, r6=STACK + 0x10).end is End.LOOP  # on the same piece
    process.code[0x4B:0x50] = CALL
    process.words(STACK + 0x10, STACK + 0x900, CODE + 0x50)
    process.words(STACK + 0x900, STACK + 0x10, CODE + 0x50)  # one leads to the other for ever
    assert process.unwind(CODE + 0x10, STACK + 0x900, r6=STACK + 0x10).end is End.LOOP


def test_cfi_may_read_another_stack_in_the_same_memory_from_this_one() -> None:
    """As Wine's system calls do, which run on a stack above the program's and return to a `syscall` instruction."""
    process = Process()
    process.describe(0, 0x100, Cfa(0, 0, b"\x76\x70\x06"), r16=Rule(How.EXPRESSION, 0, b"\x76\x78"))  # *(rbp - 16)
    process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK + 0x920, STACK + 0x100, CODE + 0x150)
    assert process.unwind(CODE + 0x10, STACK + 0x900, r6=STACK + 0x930).end is End.LOOP  # nothing calls 0x150
    process.code[0x14E:0x150] = b"\x0f\x05"
    result = process.unwind(CODE + 0x10, STACK + 0x900, r6=STACK + 0x930)
    assert (pcs(result), result.end, result.frames[1].sp) == ([0x10, 0x150], End.COMPLETE, STACK + 0x100)


def test_a_call_of_no_code_is_as_a_function_that_did_nothing_yet() -> None:
    process = Process()
    process.describe(0, 0x100, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK, CODE + 0x20)
    for pc in (0, 0x123456):
        result = process.unwind(pc)
        assert [each.pc for each in result.frames] == [pc, CODE + 0x20]
        assert result.frames[1].found_by is FoundBy.CALL


def test_instructions_at_the_ends_of_a_function_tell_what_is_pushed() -> None:
    for code, frame in (("f30f1efa55", 0), ("55", 0), ("4889e5", 1), ("c3", 0)):
        process = Process()
        process.code[: len(code) // 2] = bytes.fromhex(code)
        process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
        process.words(STACK, *([0x66] * frame), CODE + 0x120)
        result = process.unwind(CODE)
        assert pcs(result) == [0, 0x120], code
        assert result.frames[1].found_by is FoundBy.PROLOGUE
        assert result.frames[1].sp == STACK + 8 + 8 * frame


def test_frame_pointers_are_followed_only_within_the_stack_and_to_return_addresses() -> None:
    process = Process()
    process.code[0x200 - 5 : 0x200] = CALL
    process.describe(0x1F0, 0x210, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK + 0x100, STACK + 0x200, CODE + 0x200)
    result = process.unwind(CODE, r6=STACK + 0x100)
    assert pcs(result) == [0, 0x200]
    assert (result.frames[1].found_by, result.frames[1].sp) == (FoundBy.FRAME_POINTER, STACK + 0x110)
    for fp in (STACK + 0x101, STACK - 8, STACK + 0xFF8, 0, 1 << 63, STACK + 0x108):
        ended = process.unwind(CODE, r6=fp)
        assert (ended.end, ended.detail) == (End.NO_CFI, f"nothing for {CODE:#x}"), hex(fp)
    process.code[0x200 - 5] = 0x90
    assert process.unwind(CODE, r6=STACK + 0x100).end is End.NO_CFI


def test_records_of_generated_code_count_without_a_call_if_they_lead_to_a_call_in_a_file() -> None:
    """Java's interpreter returns to code that no call precedes."""
    process = Process()
    process.generated = range(CODE + 0x800, CODE + 0xA00)
    process.code[0x200 - 5 : 0x200] = CALL
    process.describe(0x1F0, 0x210, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK + 0x100, STACK + 0x200, CODE + 0x840)
    process.words(STACK + 0x200, STACK + 0x300, CODE + 0x880)
    process.words(STACK + 0x300, STACK + 0x400, CODE + 0x200)
    result = process.unwind(CODE + 0x810, r6=STACK + 0x100)
    assert (pcs(result), result.end) == ([0x810, 0x840, 0x880, 0x200], End.COMPLETE)
    assert {frame.found_by for frame in result.frames[1:]} == {FoundBy.FRAME_POINTER}
    assert process.unwind(CODE + 0x10, r6=STACK + 0x100).end is End.NO_CFI  # code of a file
    process.code[0x200 - 5] = 0x90
    assert pcs(process.unwind(CODE + 0x810, r6=STACK + 0x100)) == [0x810]
    process.code[0x200 - 5] = CALL[0]
    for record in (
        (STACK + 0x200, CODE + 0x880),  # its own caller
        (STACK + 0x100, CODE + 0x880),  # the chain shrinks
        (STACK + 0x301, CODE + 0x880),
        (STACK + 0x8000, CODE + 0x880),
        (STACK + 0x300, 0x12345678),  # no code
        (STACK + 0x300, CODE + 0x280),  # of a file, after no call
        (0, 0),
    ):
        process.words(STACK + 0x200, *record)
        assert pcs(process.unwind(CODE + 0x810, r6=STACK + 0x100)) == [0x810], record


@pytest.mark.parametrize(("records", "frames"), [(1000, 1001), (1001, 1)])
def test_a_chain_through_generated_code_has_at_most_1000_records(records: int, frames: int) -> None:
    process = Process()
    process.stack = bytearray(0x8000)
    process.generated = range(CODE + 0x800, CODE + 0xA00)
    process.code[0x200 - 5 : 0x200] = CALL
    process.describe(0x1F0, 0x210, Cfa(SP_X86, 8), r16=OUTERMOST)
    for index in range(records):
        process.words(STACK + 16 * index, STACK + 16 * index + 16, CODE + (0x200 if index == records - 1 else 0x840))
    assert len(process.unwind(CODE + 0x810, r6=STACK).frames) == frames


def test_each_end_has_a_reason() -> None:
    process = Process()
    process.describe(0, 0x100, Cfa(SP_X86, 8), r16=PUSHED)
    process.describe(0x100, 0x200, Cfa(SP_X86, 0), r16=Rule(How.REGISTER, 3))
    process.describe(0x200, 0x300, Cfa(2, 8), r16=PUSHED)
    process.words(STACK, 0, 1)
    assert process.unwind(CODE).end is End.COMPLETE
    process.words(STACK, 0x66666666)
    assert (process.unwind(CODE).end, process.unwind(CODE).detail) == (
        End.NOT_CODE,
        "0x66666666 is not in executable memory",
    )
    gone = process.unwind(CODE, sp=0x99990)
    assert (gone.end, gone.detail) == (End.UNREADABLE, "the memory at 0x99990 is not in the dump")
    assert process.unwind(CODE + 0x150, r3=CODE + 0x150).end is End.LOOP
    needs = process.unwind(CODE + 0x250)
    assert (needs.end, "needs register 2" in needs.detail) == (End.DAMAGED, True)
    process.broken.add(CODE + 0x20)
    assert process.unwind(CODE + 0x20).end is End.DAMAGED
    process.describe(0x400, 0x500, Cfa(SP_X86, 8 - 16), r16=Rule(How.OFFSET, 8))
    process.words(STACK + 0x100, CODE + 0x410)
    assert process.unwind(CODE + 0x410, sp=STACK + 0x100).end is End.LOOP


def test_a_return_address_of_0_among_zeros_is_not_the_outermost_frame() -> None:
    """Some dumps have zeros instead of a stack's content."""
    process = Process()
    process.describe(0, 0x100, Cfa(SP_X86, 16), r16=PUSHED)
    zeroed = process.unwind(CODE + 0x10, STACK + 0x100)
    assert (pcs(zeroed), zeroed.end) == ([0x10], End.UNREADABLE)
    assert zeroed.detail == f"the stack at {STACK + 0x108:#x} has only zeros"
    process.words(STACK + 0xF8, CODE + 0x10)  # left by an earlier call: the stack has content
    assert process.unwind(CODE + 0x10, STACK + 0x100).end is End.COMPLETE
    process.words(STACK + 0xF8, 0)
    process.words(STACK + 0xFF8, 1)  # at the end of the page
    assert process.unwind(CODE + 0x10, STACK + 0x100).end is End.COMPLETE


def test_a_return_address_of_0_below_another_is_not_the_outermost_frame() -> None:
    """A function may overwrite it with zeros. The first function of a coroutine is at the end of a stack."""
    process = Process()
    process.code[0x14B:0x150] = CALL
    process.describe(0, 0x100, Cfa(SP_X86, 16), r16=PUSHED)
    process.words(STACK + 0x100, 1, 0, 1, CODE + 0x150)
    result = process.unwind(CODE + 0x10, STACK + 0x100)
    assert (result.end, result.detail) == (
        End.NOT_CODE,
        f"the return address is 0, and a return address follows at {STACK + 0x118:#x}",
    )
    process.words(STACK + 0x118, CODE + 0x151)  # follows no call
    assert process.unwind(CODE + 0x10, STACK + 0x100).end is End.COMPLETE
    process.words(STACK + 0x110 + 128 * 8, CODE + 0x150)  # too far above
    assert process.unwind(CODE + 0x10, STACK + 0x100).end is End.COMPLETE


def test_code_outside_a_complete_table_is_a_leaf_function() -> None:
    """PE files of 64 bits describe all other functions."""

    class Complete(Process):
        def needs_no_table(self, address: int) -> bool:
            return True

    for kind, frames, end in ((Process, [0x300], End.NO_CFI), (Complete, [0x300, 0x150], End.COMPLETE)):
        process = kind()
        process.code[0x14B:0x150] = b"\xe8\0\x10\0\0"  # a call of other code
        process.code[0x300:0x302] = b"\xeb\xfe"  # jmp to itself: it does not return
        process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
        process.words(STACK, CODE + 0x150)
        result = process.unwind(CODE + 0x300)
        assert (pcs(result), result.end) == (frames, end)
        process.words(STACK, CODE + 0x151)  # follows no call
        assert process.unwind(CODE + 0x300).end is End.NO_CFI


def test_stacks_together_take_no_more_steps_than_memory_can_hold() -> None:
    process = Process()
    process.describe(0, 0x100, Cfa(SP_X86, 8), r16=PUSHED)
    process.words(STACK, *[CODE + 0x20] * 100)
    unwinder = Unwinder(X86_64, process, process)
    unwinder.steps_left = 150
    first, second = (unwinder.unwind(CODE, {7: STACK}) for _ in range(2))
    assert (first.end, len(first.frames)) == (End.COMPLETE, 101)
    assert second.end is End.LIMIT


def test_aarch64_has_its_return_address_in_x30_and_perhaps_signed() -> None:
    process = Process(AARCH64)
    signature = 0x2A << 49
    process.describe(0, 0x100, Cfa(31, 0))
    process.describe(0x100, 0x200, Cfa(31, 32), r29=Rule(How.OFFSET, -32), r30=Rule(How.OFFSET, -24))
    process.describe(0x200, 0x300, Cfa(31, 0), r30=OUTERMOST)
    process.words(STACK, 0x2929, CODE + 0x220 | signature)
    result = process.unwind(CODE + 8, r29=1, r30=CODE + 0x120)
    assert pcs(result) == [8, 0x120, 0x220]
    assert [each.sp - STACK for each in result.frames] == [0, 0, 32]
    assert result.end is End.COMPLETE


def test_aarch64_without_cfi_is_unwound_by_x29_and_its_trampoline() -> None:
    process = Process(AARCH64)
    process.code[0x80:0x88] = bytes.fromhex("681180d2010000d4")
    process.code[0x11C:0x120] = (0b100101 << 26).to_bytes(4, "little")  # bl
    process.describe(0x180, 0x300, Cfa(31, 0), r30=OUTERMOST)
    process.words(STACK + 0x10, STACK + 0x100, CODE + 0x120)
    process.words(STACK + 0x100, 0, CODE + 0x80)
    process.code[0x7C:0x80] = (0xD63F0000).to_bytes(4, "little")  # blr x0
    process.words(STACK + 0x110 + 560, STACK + 0x900, CODE + 0x200)
    result = process.unwind(CODE + 0x30, r29=STACK + 0x10, r30=0)
    assert pcs(result) == [0x30, 0x120, 0x80, 0x200]
    assert result.frames[3].sp == STACK + 0x900
    process.code[0x40:0x44] = bytes.fromhex("c0035fd6")  # ret
    assert pcs(process.unwind(CODE + 0x40, r29=STACK + 0x10, r30=CODE + 0x220)) == [0x40, 0x220]


def test_frame_pointers_lead_on_to_a_signals_trampoline() -> None:
    process = Process()
    process.code[0x200:0x209] = bytes.fromhex("48c7c00f0000000f05")
    process.describe(0x300, 0x400, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK + 0x100, STACK + 0x300, CODE + 0x200)
    process.words(STACK + 0x110 + 0xA0, STACK + 0x800, CODE + 0x310)
    result = process.unwind(CODE, r6=STACK + 0x100)
    assert pcs(result) == [0, 0x200, 0x310]
    assert result.end is End.COMPLETE


def test_a_guessed_caller_follows_a_call_of_the_function_or_an_indirect_one_and_is_marked() -> None:
    process = Process()
    process.describe(0x800, 0x900, Cfa(SP_X86, 8), r16=OUTERMOST)
    for offset, target in ((0x820, 0x700), (0x840, 0x10)):  # a call of something else, one of the function itself
        process.code[offset - 5 : offset] = b"\xe8" + struct.pack("<i", target - offset)
    process.words(STACK, 0x1234, CODE + 0x820, CODE + 0x830, CODE + 0x840)
    assert process.unwind(CODE + 0x20).end is End.NO_CFI
    unwinder = Unwinder(X86_64, process, process)
    unwinder.scan = True
    result = unwinder.unwind(CODE + 0x20, {7: STACK})
    assert pcs(result) == [0x20, 0x840]
    assert (result.frames[1].found_by, result.frames[1].sp) == (FoundBy.SCAN, STACK + 32)
    assert result.end is End.COMPLETE
    process.code[0x830 - 2 : 0x830] = b"\xff\xd0"  # call *%rax
    assert pcs(unwinder.unwind(CODE + 0x20, {7: STACK})) == [0x20, 0x830]
    process.words(STACK, 0, 0, 0, 0)
    assert unwinder.unwind(CODE + 0x20, {7: STACK}).end is End.NO_CFI


def test_the_cfa_of_a_plt_counts_by_the_pc() -> None:
    """Linkers write rsp + 8 + 8 * ((rip & 15) >= 11) for stubs."""
    process = Process()
    plt = bytes.fromhex("770880003f1a3b2a332422")
    process.describe(0, 0x100, Cfa(0, 0, plt), r16=PUSHED)
    process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK, CODE + 0x150, CODE + 0x160)
    assert pcs(process.unwind(CODE + 0x10)) == [0x10, 0x150]
    assert pcs(process.unwind(CODE + 0x1B)) == [0x1B, 0x160]


def test_a_threads_first_frame_has_no_caller() -> None:
    """The next FDE, of the child, begins two instructions later; the stack has no return address yet."""
    process = Process()
    process.describe(0, 0x17, Cfa(SP_X86, 8), r16=PUSHED)
    process.describe(0x17, 0x40, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.code[0x10:0x12] = bytes.fromhex("0f05")
    process.words(STACK, CODE + 0x150)
    for pc in (0x12, 0x15):
        assert pcs(process.unwind(CODE + pc, r0=0)) == [pc]
        assert process.unwind(CODE + pc, r0=0).end is End.COMPLETE
        assert pcs(process.unwind(CODE + pc, r0=77)) == [pc, 0x150]  # the parent
    assert pcs(process.unwind(CODE + 8, r0=0)) == [8, 0x150]


def test_a_threads_first_frame_has_no_caller_without_cfi_either() -> None:
    """By the number of the call; what fork made at such a place has a copy of its parent's stack."""
    process = Process()
    call = bytes.fromhex("b8b30100000f05")  # mov $__NR_clone3, %eax; syscall
    process.code[0x10 : 0x10 + len(call)] = call
    process.code[0x17] = 0xF4  # hlt
    assert process.unwind(CODE + 0x17, r0=0).end is End.COMPLETE
    assert process.unwind(CODE + 0x17, r0=77).end is End.NO_CFI
    process.code[0x17] = 0xC3
    process.describe(0x100, 0x200, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.code[0x14B:0x150] = b"\xe8" + struct.pack("<i", 0x10 - 0x150)
    process.words(STACK, CODE + 0x150)
    assert pcs(process.unwind(CODE + 0x17, r0=0)) == [0x17, 0x150]


def test_a_popped_register_has_its_value_though_its_slot_is_dead() -> None:
    """Copies of a stack end at the stack pointer; the code up to the return shows that the slot is not needed."""
    process = Process()
    process.describe(0x000, 0x100, Cfa(SP_X86, 8), r16=PUSHED, r6=Rule(How.OFFSET, -16))
    process.describe(0x100, 0x200, Cfa(FP_X86, 16), r16=PUSHED)
    process.describe(0x200, 0x300, Cfa(SP_X86, 8), r16=OUTERMOST)
    process.words(STACK, CODE + 0x150)
    process.words(STACK + 0x48, CODE + 0x250)
    process.code[0x10:0x13] = bytes.fromhex("31c0c3")  # xor %eax, %eax; ret
    process.code[0x20:0x26] = bytes.fromhex("488b6c24f8c3")  # mov -8(%rsp), %rbp; ret
    result = process.unwind(CODE + 0x10, r6=STACK + 0x40)
    assert (pcs(result), result.end) == ([0x10, 0x150, 0x250], End.COMPLETE)
    result = process.unwind(CODE + 0x20, r6=STACK + 0x40)
    assert (pcs(result), result.end) == ([0x20, 0x150], End.DAMAGED)
