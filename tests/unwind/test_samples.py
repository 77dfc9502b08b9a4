"""Stacks of many samples at once: what a core's threads have, taken for samples."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest

from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from whence.elf import ElfFile
from whence.locate.locator import Locator
from whence.procmap.core import read_core
from whence.unwind import End, StackSamples, ThreadStack, core_stacks, stacks
from whence.unwind.modules import CoreCode, Modules
from whence.unwind.registers import MACHINES, Machine
from whence.unwind.samples import SampleStacks

STACK_BYTES = 1 << 16


def sampled(core: Path, most: int = STACK_BYTES, times: int = 1) -> tuple[list[ThreadStack], SampleStacks]:
    """The stacks of a core's threads, and those that they have as samples, `times` of each."""
    with ElfFile.open(core) as elf:
        mappings = read_core(elf)
        expected = core_stacks(elf, mappings, Locator())
        machine: Machine = MACHINES[elf.machine, elf.bits]
        numbers = array("I", machine.names)
        pc, values, start, at, size = array("Q"), array("Q"), array("Q"), array("Q"), array("Q")
        held = bytearray()
        loaded = [one for one in elf.segments if one.is_loaded]
        for thread in expected:
            sp = thread.registers[machine.names[machine.sp]]
            segment = next(one for one in loaded if one.vaddr <= sp < one.vaddr + one.file_size)
            begin = segment.file_offset + sp - segment.vaddr
            data = elf.data[begin : min(begin + most, segment.file_end)]
            for _ in range(times):
                pc.append(thread.registers[machine.pc_name])
                values.extend(thread.registers[machine.names[number]] for number in numbers)
                start.append(sp)
                at.append(len(held))
                size.append(len(data))
            held += data
        samples = StackSamples(pc, values, numbers, start, at, size, bytes(held))
        modules = Modules(mappings.snapshot, Locator())
        try:
            return expected, stacks(CoreCode(modules), machine, samples)
        finally:
            modules.close()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("samples"), "-pthread", "-O2", "-g0", source=PROGRAM)


@pytest.mark.parametrize("mode", ["d", "a", "h", "q", "w"])
def test_samples_have_the_stacks_that_the_same_threads_have(mode: str, program: Path) -> None:
    expected, found = sampled(core_of(program, mode))
    for index, thread in enumerate(expected):
        assert found.frames(index) == [frame.pc for frame in thread.unwound.frames]
        assert found.why(index) == (thread.unwound.end, thread.unwound.detail)


def test_a_stack_that_is_longer_than_its_copy_ends_where_the_copy_does(program: Path) -> None:
    core = core_of(program, "dc")
    expected, whole = sampled(core)
    _, cut = sampled(core, most=256)
    first = expected[0].unwound.frames
    assert len(cut.frames(0)) < len(first) == len(whole.frames(0))
    assert cut.why(0)[0] is End.UNREADABLE
    assert cut.frames(0) == [frame.pc for frame in first[: len(cut.frames(0))]]


def test_equal_samples_have_equal_stacks(program: Path) -> None:
    expected, found = sampled(core_of(program, "ht"), times=50)
    assert len(found.end) == 50 * len(expected)
    for index, thread in enumerate(expected):
        pcs = [frame.pc for frame in thread.unwound.frames]
        assert all(found.frames(50 * index + n) == pcs for n in range(50))
