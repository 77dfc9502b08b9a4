"""Unwound stacks (--call-graph dwarf): generated code, 32-bit programs, missing registers."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from tests.forge.cfi import beside_code
from tests.forge.jitdump import Dump
from tests.forge.mutations import mutated
from tests.forge.perfdata import KERNEL, KIND, USER, Forge
from whence.locator.locator import Locator
from whence.perfdata.kernels import constants
from whence.profiles import Profile, read

AT = 0x7F0000001000
UNWOUND = KIND | constants.HAS_REGS_USER | constants.HAS_STACK_USER
BP, SP, IP = 6, 7, 8  # perf's numbers of registers
MASK = 1 << BP | 1 << SP | 1 << IP
STACK = 0x7FFF00000000
DEEPER = b"\x0e\x18"  # DW_CFA_def_cfa_offset 24


def recording(folder: Path, dump: Dump, samples: list[tuple[int, bytes]], *, misc: int = 2) -> Profile:
    """Record samples (time, bytes after the call chain) of a process with generated code, and its dump."""
    forge = Forge(kind=UNWOUND)
    attribute = forge.attribute(clock=1, user_registers=MASK, stack=512)
    (folder / "jit-7.dump").write_bytes(dump.data)
    chain = [KERNEL, 0xFFFFFFFF81000010] if misc == constants.IN_KERNEL else []
    records = [
        forge.mmap2(7, AT, 0x4000, AT, "//anon", 2),
        forge.mmap2(7, 0x10000, 0x1000, 0, "/not/here/jit-7.dump", 3),
        *(
            forge.sample(7, 7, time, chain, tail=user, misc=misc, ip=struct.unpack_from("<Q", user, 24)[0])
            for time, user in samples
        ),
    ]
    path = folder / "perf.data"
    path.write_bytes(forge.file(records, [(attribute, [1])]))
    return read(path)


def user(pc: int, *stack: int, abi: int = 2, width: str = "Q") -> bytes:
    return Forge().user([STACK, STACK, pc], struct.pack(f"<{len(stack)}{width}", *stack), abi=abi)


def names(profile: Profile) -> list[list[str]]:
    with Locator(dirs=[], local=False) as locator:
        profile.symbolize(locator)
    line = profile.samples.timeline
    assert line is not None
    stacks = [profile.samples.locations(each) for each in line.sample]
    return [[frame.function for offset in stack for frame in profile.frames[offset]] for stack in stacks]


def test_generated_code_is_unwound_by_its_recorded_rules(tmp_path: Path) -> None:
    dump = Dump().unwinding(beside_code(32, DEEPER)).load(10, AT, 32, "one", 1)
    dump.unwinding(beside_code(60)).load(12, AT + 0x1000, 60, "caller", 2)
    dump.move(20, AT, AT + 0x2000, 32, 1).load(30, AT + 0x40, 16, "unknown to unwinders", 3)
    item = user(AT + 4, 1, 2, AT + 0x1008, 0)
    moved = user(AT + 0x2004, 1, 2, AT + 0x1008, 0)
    profile = recording(tmp_path, dump, [(15, item), (25, moved), (26, item), (35, user(AT + 0x44, AT + 8))])
    assert names(profile) == [["one", "caller"], ["one", "caller"], ["one", "caller"], ["unknown to unwinders"]]
    assert "1 of 4 unwound stacks are incomplete" in profile.notes[-1]


def test_code_that_replaces_other_code_is_unwound_by_its_own_rules(tmp_path: Path) -> None:
    dump = Dump().unwinding(beside_code(32)).load(10, AT, 32, "one", 1)
    dump.unwinding(beside_code(32)).load(12, AT + 0x1000, 32, "caller", 2)
    dump.unwinding(beside_code(32, DEEPER)).load(20, AT, 32, "two", 3)
    stack = AT + 0x1008, 0, AT + 0x1009, 0
    profile = recording(tmp_path, dump, [(15, user(AT + 4, *stack)), (25, user(AT + 4, *stack))])
    assert names(profile) == [["one", "caller"], ["two", "caller"]]
    addresses = [[profile.address[offset] for offset in profile.samples.locations(each)] for each in range(2)]
    assert addresses == [[AT + 4, AT + 0x1007], [AT + 4, AT + 0x1008]]


def test_a_32_bit_program_is_unwound_by_its_own_registers(tmp_path: Path) -> None:
    code = 0x7FF00000
    dump = Dump().load(9, AT + 0x3000, 16, "of 64 bits")
    rules = beside_code(32).replace(b"\x0c\x07\x08\x90\x01", b"\x0c\x04\x04\x88\x01").replace(b"\x78\x10", b"\x7c\x08")
    for index, name in ((code, "inner"), (code + 0x100, "outer")):
        dump.unwinding(rules).load(10, index, 32, name, index)
    forge = Forge(kind=UNWOUND)
    stack = struct.pack("<II", code + 0x108, 0)
    samples = [forge.user([STACK & 0xFFFFFFFF, 0xFFF00000, code + 8], stack, abi=1), user(AT + 0x3004, 0)]
    (tmp_path / "jit-7.dump").write_bytes(dump.data)
    records = [
        forge.mmap2(7, AT, 0x4000, AT, "//anon", 2),
        forge.mmap2(7, code, 0x1000, code, "//anon", 2),
        forge.mmap2(7, 0x10000, 0x1000, 0, "/not/here/jit-7.dump", 3),
        *(forge.sample(7, 7, 20 + index, [], tail=each, ip=1) for index, each in enumerate(samples)),
    ]
    path = tmp_path / "perf.data"
    path.write_bytes(forge.file(records, [(forge.attribute(clock=1, user_registers=MASK, stack=512), [1])]))
    assert names(read(path)) == [["inner", "outer"], ["of 64 bits"]]


@pytest.mark.parametrize("registers", [False, True])
def test_a_sample_without_registers_keeps_its_innermost_frame(tmp_path: Path, registers: bool) -> None:
    dump = Dump().load(10, AT, 32, "one", 1)
    tail = user(AT + 4, 0) if registers else Forge().pack("QQ", 0, 0) + Forge().pack("QQ", AT + 4, AT + 4)
    assert names(recording(tmp_path, dump, [(15, tail)])) == [["one"]]


@pytest.mark.parametrize("mask", [1 << BP | 1 << IP, 1 << BP | 1 << SP, 1 << BP])
def test_a_sample_without_pc_or_stack_pointer_keeps_its_innermost_frame(mask: int) -> None:
    forge = Forge(kind=UNWOUND)
    tail = forge.user([AT + 4] * mask.bit_count(), bytes(16))
    records = [forge.mmap2(7, AT, 0x4000, AT, "/opt/app", 2), forge.sample(7, 7, 15, [], tail=tail, ip=AT + 4)]
    attribute = forge.attribute(clock=1, user_registers=mask, stack=512)
    profile = read(forge.file(records, [(attribute, [1])], {6: forge.text("x86_64")}))
    names(profile)
    assert list(map(profile.address.__getitem__, profile.samples.locations(0))) == [AT + 4]
    assert "registers of an unknown machine" in profile.notes[-1]


def test_a_chain_without_a_user_part_has_kernel_frames_only(tmp_path: Path) -> None:
    profile = recording(tmp_path, Dump(), [(15, Forge().pack("QQQQ", 0, 0, 0, 0))], misc=constants.IN_KERNEL)
    names(profile)
    assert list(map(profile.address.__getitem__, profile.samples.locations(0))) == [0xFFFFFFFF81000010]


@pytest.mark.parametrize(
    ("chain", "stack", "expected", "continued"),
    [
        ([0x4, 0x1008, 0x2008], [1, 2, 0x1008], ["one", "caller", "outer"], 1),  # the copy ends after one caller
        ([0x4, 0x1008, 0x2008], [1], ["one", "caller", "outer"], 1),  # and before the first
        ([0x4, 0x2008], [1, 2, 0x1008], ["one", "caller"], 0),  # the chain has another caller
        ([0x4, 0x1008], [1, 2, 0x1008], ["one", "caller"], 0),  # and no more than the copy
        ([0x4, 0x1008, 0x2008], [1, 2, 0x1008, 0], ["one", "caller"], 0),  # the stack is whole
    ],
)
def test_a_stack_continues_past_its_copy_by_the_call_chain(
    tmp_path: Path, chain: list[int], stack: list[int], expected: list[str], continued: int
) -> None:
    dump = Dump().unwinding(beside_code(32, DEEPER)).load(10, AT, 32, "one", 1)
    dump.unwinding(beside_code(60)).load(12, AT + 0x1000, 60, "caller", 2).load(13, AT + 0x2000, 60, "outer", 3)
    (tmp_path / "jit-7.dump").write_bytes(dump.data)
    forge = Forge(kind=UNWOUND)
    words = [AT + word if word > 0x100 else word for word in stack]
    places = [KERNEL, 0xFFFFFFFF81000010, USER, *(AT + location for location in chain)]
    records = [
        forge.mmap2(7, AT, 0x4000, AT, "//anon", 2),
        forge.mmap2(7, 0x10000, 0x1000, 0, "/not/here/jit-7.dump", 3),
        forge.sample(7, 7, 15, places, tail=user(AT + 4, *words), misc=constants.IN_KERNEL, ip=0xFFFFFFFF81000010),
    ]
    path = tmp_path / "perf.data"
    attribute = forge.attribute(clock=1, user_registers=MASK, stack=512)
    path.write_bytes(forge.file(records, [(attribute, [1])]))
    profile = read(path)
    (result,) = names(profile)
    assert result[-len(expected) :] == expected
    assert "one" not in result[: -len(expected)]
    assert sum("1 stacks continue past the end of their copy" in note for note in profile.notes) == continued


def recording_of_turns(maps: int, others: list[str]) -> Profile:
    """Return a process whose first map is replaced before each sample by the next of `others`."""
    forge = Forge(kind=UNWOUND)
    records = [forge.mmap2(7, 0x400000 + 0x1000 * index, 0x1000, 0, f"/opt/{index}", 1) for index in range(maps)]
    for index, other in enumerate(others):
        records.append(forge.mmap2(7, 0x400000, 0x1000, 0, other, 10 + index))
        records.append(forge.sample(7, 7, 10 + index, [], tail=user(0x400010), ip=0x400010))
    attribute = forge.attribute(clock=1, user_registers=MASK, stack=512)
    return read(forge.file(records, [(attribute, [1])]))


def test_maps_that_change_with_every_sample_have_a_limit(tmp_path: Path) -> None:
    profile = recording_of_turns(600, [f"/opt/other{index}" for index in range(600)])
    with Locator(dirs=[], local=False) as locator:
        profile.symbolize(locator)
    assert len(profile.samples) == 600
    assert {len(profile.samples.locations(index)) for index in range(600)} == {1}
    assert any("unwinding of stack copies stopped" in note for note in profile.notes)


def test_damaged_rules_of_generated_code_lose_only_its_callers(tmp_path: Path) -> None:
    dice = random.Random(5)
    for _ in range(60):
        dump = Dump().unwinding(mutated(beside_code(32, DEEPER), dice)).load(10, AT, 32, "one", 1)
        dump.unwinding(beside_code(32)).load(12, AT + 0x1000, 32, "caller", 2)
        (result,) = names(recording(tmp_path, dump, [(15, user(AT + 4, 1, 2, AT + 0x1008, 0))]))
        assert result[0] == "one"


def test_two_alternating_maps_have_a_limit(tmp_path: Path) -> None:
    profile = recording_of_turns(3000, [f"/opt/other{index % 2}" for index in range(6000)])
    names(profile)
    assert any("unwinding of stack copies stopped" in note for note in profile.notes)


def test_maps_of_data_that_change_with_every_sample_cost_nothing() -> None:
    forge = Forge(kind=UNWOUND)
    maps = [forge.mmap2(7, 0x400000 + 0x1000 * index, 0x1000, 0, f"/opt/{index}", 1) for index in range(600)]
    more: list[bytes] = []
    for index in range(600):
        more.append(forge.mmap2(7, 0x10000000, 0x1000 * (1 + index % 7), 0, "//anon", 10 + index, prot=3))
        more.append(forge.sample(7, 7, 10 + index, [], tail=user(0x400010), ip=0x400010))
    attribute = forge.attribute(clock=1, user_registers=MASK, stack=512)
    profile = read(forge.file([*maps, *more], [(attribute, [1])]))
    names(profile)
    assert "600 of 600 unwound stacks are incomplete" in profile.notes[-1]
    assert not any("unwinding of stack copies stopped" in note for note in profile.notes)


def test_alternating_events_and_processes_keep_their_registers_and_maps(tmp_path: Path) -> None:
    dump = Dump().unwinding(beside_code(32, DEEPER)).load(10, AT, 32, "one", 1)
    dump.unwinding(beside_code(60)).load(12, AT + 0x1000, 60, "caller", 2)
    (tmp_path / "jit-7.dump").write_bytes(dump.data)
    forge = Forge(kind=UNWOUND)
    narrow = forge.attribute(clock=1, user_registers=MASK, stack=512)
    wide = forge.attribute(clock=1, user_registers=MASK | 1 << 0 | 1 << 20, stack=512)
    stack = struct.pack("<4Q", 1, 2, AT + 0x1008, 0)
    tail = {1: user(AT + 4, 1, 2, AT + 0x1008, 0), 2: forge.user([5, STACK, STACK, AT + 4, 6], stack)}
    records = [
        forge.mmap2(7, AT, 0x4000, AT, "//anon", 2),
        forge.mmap2(7, 0x10000, 0x1000, 0, "/not/here/jit-7.dump", 3),
        forge.mmap2(8, AT, 0x4000, AT, "/not/here/either", 3),
    ]
    records += [
        forge.sample(7 + index % 3 // 2, 7, 20 + index, [], tail=tail[1 + index % 2], ip=1, id=1 + index % 2)
        for index in range(12)
    ]
    path = tmp_path / "perf.data"
    path.write_bytes(forge.file(records, [(narrow, [1]), (wide, [2])]))
    assert names(read(path)) == [["one", "caller"] if index % 3 != 2 else [] for index in range(12)]


def test_a_recording_truncated_before_unwinding_keeps_innermost_frames(tmp_path: Path) -> None:
    dump = Dump().unwinding(beside_code(32, DEEPER)).load(10, AT, 32, "one", 1)
    profile = recording(tmp_path, dump, [(15, user(AT + 4, 1, 2, AT + 0x1008, 0))])
    with open(tmp_path / "perf.data", "r+b") as file:
        file.truncate(100)
    assert names(profile) == [["one"]]
    assert "truncated while it was read" in profile.notes[-1]
