"""Stacks of many samples at once: what a core's threads have, taken for samples."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from whence.dumps.core import read_core
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.unwind import End, StackSamples, ThreadStack, core_stacks, stacks
from whence.unwind.modules import CoreCode, Modules
from whence.unwind.registers import MACHINES, X86_64, Machine
from whence.unwind.samples import SampleStacks
from whence.unwind.steps import Unwound
from whence.unwind.unwinder import Unwinder

STACK_BYTES = 1 << 16
ENTERED = r"""
__asm__(".globl _start\n_start: xor %ebp, %ebp\n call outer\n hlt\n"  // without call frame information
        "outer: .cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp, -16\n mov %rsp, %rbp\n"
        " .cfi_def_cfa_register %rbp\n sub $64, %rsp\n call inner\n leave\n .cfi_def_cfa %rsp, 8\n ret\n .cfi_endproc\n"
        "inner: .cfi_startproc\n push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset %rbp, -16\n xor %ebp, %ebp\n"
        " pop %rbp\n .cfi_def_cfa_offset 8\n movb 0, %al\n ret\n .cfi_endproc\n");
"""
PLT = """
__attribute__((noinline)) int inner(int (*f)(void)) { *(volatile int *)0 = f != 0; return 1; }
int getpid(void), getppid(void);
int main(void) { return inner(0) + getpid() + getppid(); }
"""


def sampled(core: Path, most: int = STACK_BYTES, times: int = 1) -> tuple[list[ThreadStack], SampleStacks]:
    """Return the stacks of a core's threads, and the stacks of `times` samples of each thread."""
    with ElfFile.open(core) as elf:
        mappings = read_core(elf)
        expected = core_stacks(elf, mappings, Locator())
        machine: Machine = MACHINES[elf.machine, elf.bits]
        numbers = array("I", machine.names)
        pc, values, start, offset, size = array("Q"), array("Q"), array("Q"), array("Q"), array("Q")
        kept = bytearray()
        loaded = [each for each in elf.segments if each.is_loaded]
        for thread in expected:
            sp = thread.registers[machine.names[machine.sp]]
            segment = next(each for each in loaded if each.vaddr <= sp < each.vaddr + each.file_size)
            begin = segment.file_offset + sp - segment.vaddr
            data = elf.data[begin : min(begin + most, segment.file_end)]
            for _ in range(times):
                pc.append(thread.registers[machine.pc_name])
                values.extend(thread.registers[machine.names[number]] for number in numbers)
                start.append(sp)
                offset.append(len(kept))
                size.append(len(data))
            kept += data
        samples = StackSamples(pc, values, numbers, start, offset, size, bytes(kept))
        modules = Modules(mappings.snapshot, Locator())
        try:
            return expected, stacks(CoreCode(modules), machine, samples)
        finally:
            modules.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("samples"), "-pthread", "-O2", "-g0", source=PROGRAM)


@pytest.mark.parametrize("mode", ["d", "a", "h", "q", "w"])
def test_samples_have_the_stacks_of_their_threads(mode: str, program: Path) -> None:
    expected, result = sampled(core_of(program, mode))
    for index, thread in enumerate(expected):
        assert result.frames(index) == [frame.pc for frame in thread.unwound.frames]
        assert result.why(index) == (thread.unwound.end, thread.unwound.detail)


def test_a_stack_that_is_longer_than_its_copy_ends_where_the_copy_does(program: Path) -> None:
    core = core_of(program, "dc")
    expected, full = sampled(core)
    _, cut = sampled(core, most=256)
    first = expected[0].unwound.frames
    assert len(cut.frames(0)) < len(first) == len(full.frames(0))
    assert cut.why(0)[0] is End.UNREADABLE
    assert cut.frames(0) == [frame.pc for frame in first[: len(cut.frames(0))]]


def test_equal_samples_have_equal_stacks(program: Path) -> None:
    expected, result = sampled(core_of(program, "ht"), times=50)
    assert len(result.end) == 50 * len(expected)
    for index, thread in enumerate(expected):
        pcs = [frame.pc for frame in thread.unwound.frames]
        assert all(result.frames(50 * index + n) == pcs for n in range(50))


def counting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the pcs of threads that the Python unwinder unwinds."""
    asked: list[int] = []
    unwind = Unwinder.unwind

    def noted(self: Unwinder, pc: int, registers: Mapping[int, int], thread_pointer: int = 0) -> Unwound:
        asked.append(pc)
        return unwind(self, pc, registers, thread_pointer)

    monkeypatch.setattr(Unwinder, "unwind", noted)
    return asked


def test_popped_registers_and_entries_are_learned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A register was popped, and CFI says that it is still in its slot, below the stack pointer: LLVM and gcc do so."""
    path = compiled(tmp_path, "-nostdlib", "-static", source=ENTERED)
    core = core_of(path)
    asked = counting(monkeypatch)
    (expected,), result = sampled(core, times=50)
    assert [len(result.frames(index)) for index in range(50)] == [3] * 50
    assert result.frames(0) == [frame.pc for frame in expected.unwound.frames]
    assert {result.why(index)[0] for index in range(50)} == {End.COMPLETE}
    assert len(asked) <= 3  # one of them is the core's own


def test_samples_in_a_plt_are_walked_by_the_kernel_as_python_unwinds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the pc, an expression counts what the code of an entry pushed."""
    path = compiled(tmp_path, "-O1", "-no-pie", "-Wl,-z,lazy", "-fcf-protection=none", source=PLT)
    with ElfFile.open(path) as elf:
        plt = elf.section(".plt")
        assert plt is not None
    with ElfFile.open(core_of(path)) as elf:
        mappings = read_core(elf)
        (thread,) = core_stacks(elf, mappings, Locator())
        caller, sp = thread.unwound.frames[1].pc, thread.unwound.frames[1].sp
        segment = next(
            each for each in elf.segments if each.is_loaded and each.vaddr <= sp < each.vaddr + each.file_size
        )
        begin = segment.file_offset + sp - segment.vaddr
        data = bytes(elf.data[begin : segment.file_end])
        modules = Modules(mappings.snapshot, Locator())
        asked = counting(monkeypatch)
        for into, pushed in ((0, 0), (6, 0), (10, 0), (11, 1), (15, 1)):
            stack = bytes(8 * pushed) + caller.to_bytes(8, "little") + data
            start = sp - 8 - 8 * pushed
            samples = StackSamples(
                array("Q", [plt.vaddr + 16 + into]), array("Q", [start]), array("I", [7]), array("Q", [start]),
                array("Q", [0]), array("Q", [len(stack)]), stack,
            )  # fmt: skip
            result = stacks(CoreCode(modules), X86_64, samples)
            assert result.frames(0)[1:] == [frame.pc for frame in thread.unwound.frames[1:]], into
        modules.close()
    assert all(pc != plt.vaddr + 16 + into for pc in asked for into in (6, 10, 11, 15))
