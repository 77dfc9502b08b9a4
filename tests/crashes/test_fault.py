"""What is at a fault address."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forge.core import Mapped, core, status
from whence.crashes.fault import FaultKind, FaultPlace, fault_of
from whence.dumps.process import AddressRegion
from whence.dumps.signals import SENT_BY_KERNEL, signal_of
from whence.procmap.kernels.constants import EXECUTE, READ, WRITE
from whence.symbolize import Core, NamedFrame, Stack, Symbolized
from whence.unwind import End, FoundBy

STACK, GUARD = 0x7000_0000, 0x6FFF_F000
REGIONS = [
    AddressRegion(0x40_0000, 0x40_1000, READ | EXECUTE, "/opt/app", 0x1000),
    AddressRegion(0x50_0000, 0x60_0000, READ | WRITE),
    AddressRegion(GUARD, STACK, 0),
    AddressRegion(STACK, STACK + 0x10000, READ | WRITE),
]


def fault(
    address: int,
    *,
    pc: int = 0x40_0010,
    sp: int = STACK + 0x100,
    code: int = 1,
    registers: dict[str, int] | None = None,
) -> FaultPlace | None:
    frames = [
        NamedFrame(offset, point, FoundBy.REGISTERS, False, Symbolized(offset))
        for offset, point in ((pc, sp), (1, STACK + 64))
    ]
    signal = signal_of(11, code, address)
    return fault_of([Stack(7, signal, registers or {}, tuple(frames), End.COMPLETE)], REGIONS)


@pytest.mark.parametrize(
    ("address", "kind", "words"),
    [
        (0, FaultKind.NULL, "a null pointer"),
        (0x18, FaultKind.NULL, "near null: 24 bytes after a null pointer"),
        (0x40_0020, FaultKind.FILE, "in /opt/app, 0x400000-0x401000 r-x, file offset 0x1020"),
        (0x50_0000, FaultKind.MEMORY, "in memory without a file, 0x500000-0x600000 rw-"),
        (0x60_0010, FaultKind.UNMAPPED, "not mapped, 16 bytes after the end of the memory 0x500000-0x600000"),
        (0x4000_0000, FaultKind.UNMAPPED, "not mapped"),
        (STACK + 0x200, FaultKind.STACK, "in the stack of thread 7"),
    ],
)
def test_a_fault_address_is_described(address: int, kind: FaultKind, words: str) -> None:
    result = fault(address)
    assert result is not None
    assert (result.address, result.kind) == (address, kind)
    assert result.text.startswith(words)


def test_a_fault_below_the_stack_in_use_is_an_overflow() -> None:
    for address, sp in ((STACK - 8, STACK - 8), (STACK - 0x800, STACK + 16), (GUARD - 64, GUARD - 128)):
        result = fault(address, sp=sp)
        assert result is not None
        assert result.kind is FaultKind.STACK_OVERFLOW, hex(address)
    for address, sp in ((STACK - 8, STACK + (3 << 20)), (STACK - (2 << 20), STACK - 8)):  # far from each other
        result = fault(address, sp=sp)
        assert result is not None
        assert result.kind is not FaultKind.STACK_OVERFLOW


def test_a_jump_to_a_bad_address_is_told() -> None:
    result = fault(0, pc=0)
    assert result is not None
    assert result.text == "the program jumped to it; a null pointer"


def test_values_that_no_pointer_can_have_are_named() -> None:
    registers = {"rip": 0x40_0010, "rax": 0x4142_4344_4546_4748, "rbx": (1 << 64) - 1, "rcx": 0x7FFF_FFFF_FFFF}
    result = fault(0, code=SENT_BY_KERNEL, registers=registers)
    assert result is not None
    assert (result.address, result.kind) == (None, FaultKind.UNKNOWN)
    assert result.text.endswith("such values are in rax = 0x4142434445464748")


def test_a_signal_that_was_sent_has_no_fault() -> None:
    assert fault(0, code=0) is None
    assert fault_of([], REGIONS) is None


def test_a_dump_with_a_part_of_the_mappings_does_not_say_unmapped() -> None:
    result = fault(0x4000_0000, code=2)
    assert result is not None
    assert (result.kind, result.text) == (FaultKind.UNKNOWN, "in no mapping that the dump lists")


def test_a_small_core_still_knows_its_files(tmp_path: Path) -> None:
    path = tmp_path / "core"
    mapped = [Mapped(0x10000, 0x11000, load=True, flags=4), Mapped(0x10000, 0x18000, "/opt/app", load=False)]
    path.write_bytes(core(mapped, [status(78, 0x10010)]))
    assert [(region.start, region.end, region.path, region.offset) for region in Core(path).regions()] == [
        (0x10000, 0x11000, "/opt/app", 0),
        (0x11000, 0x18000, "/opt/app", 0x1000),
    ]
