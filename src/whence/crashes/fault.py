"""What is at the address that a crash accessed: a file, a stack, nothing, or almost a null pointer."""

from __future__ import annotations

import enum
from bisect import bisect_right
from typing import TYPE_CHECKING

from whence._base.records import Record
from whence._base.words import counted
from whence.procmap.kernels.constants import EXECUTE, READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.dumps.process import AddressRegion
    from whence.symbolize import Stack

NEAR_NULL = 0x10000  # bytes that Linux never maps by default (vm.mmap_min_addr)
BELOW_STACK = 1 << 20  # bytes below a stack that the frame of a function may reach
NEIGHBOUR = 16 << 20  # bytes to the next region that are mentioned
CANONICAL_BITS = 47  # of addresses in user space on x86-64, with 4 levels of page tables


class FaultKind(enum.StrEnum):
    """The kind of memory at a fault address."""

    NULL = "null"
    STACK_OVERFLOW = "stack-overflow"
    UNMAPPED = "unmapped"
    STACK = "stack"
    FILE = "file"
    MEMORY = "memory"
    UNKNOWN = "unknown"


class FaultPlace(Record, frozen=True):
    """A fault address (None: unknown) and what is there: a word, a sentence, and the file with the offset."""

    address: int | None
    kind: FaultKind
    text: str
    path: str = ""
    offset: int = 0

    def __str__(self) -> str:
        return self.text if self.address is None else f"{self.address:#x}: {self.text}"


def fault_of(stacks: Sequence[Stack], regions: Sequence[AddressRegion]) -> FaultPlace | None:
    """Return what is at the fault address of the first thread; None if its signal has no address."""
    stack = stacks[0] if stacks else None
    if stack is None or stack.signal is None:
        return None
    address = stack.signal.address
    if address is None:
        values = [f"{name} = {value:#x}" for name, value in stack.registers.items() if _is_not_canonical(value)]
        if "rip" not in stack.registers or stack.signal.name != "SIGSEGV" or not values or stack.signal.sender:
            return None
        text = f"unknown, as for addresses that no pointer can have; such values are in {', '.join(values)}"
        return FaultPlace(None, FaultKind.UNKNOWN, text)
    jumped = "the program jumped to it; " if stack.frames and stack.frames[0].pc == address else ""
    region = _region_at(regions, address)
    overflowed = _overflow(stack, regions, region, address)
    if overflowed:
        return FaultPlace(address, FaultKind.STACK_OVERFLOW, overflowed)
    if region is None and address < NEAR_NULL:
        text = "a null pointer" if not address else f"near null: {counted(address, 'byte')} after a null pointer"
        return FaultPlace(address, FaultKind.NULL, jumped + text)
    if region is None:
        is_unmapped = "not mapped" in stack.signal.cause
        text = "not mapped" if is_unmapped else "in no mapping that the dump lists"
        kind = FaultKind.UNMAPPED if is_unmapped else FaultKind.UNKNOWN
        return FaultPlace(address, kind, jumped + text + _neighbours(regions, address))
    about = f"{region.start:#x}-{region.end:#x} {permission_letters(region.permissions)}"
    if region.path:
        offset = region.offset + address - region.start
        text = f"in {region.path}, {about}, file offset {offset:#x}"
        kind = FaultKind.STACK if region.path.startswith("[stack") else FaultKind.FILE
        return FaultPlace(address, kind, jumped + text, region.path, offset)
    owner = next((other for other in stacks if other.frames and _has(region, other.frames[0].sp)), None)
    if owner is not None:
        return FaultPlace(address, FaultKind.STACK, f"{jumped}in the stack of thread {owner.tid}, {about}")
    return FaultPlace(address, FaultKind.MEMORY, f"{jumped}in memory without a file, {about}")


def permission_letters(permissions: int | None) -> str:
    """Return letters like those of a maps file; "?" if unknown.

    >>> permission_letters(READ | WRITE), permission_letters(0), permission_letters(None)
    ('rw-', '---', '?')
    """
    if permissions is None:
        return "?"
    return "".join(
        letter if permissions & bit else "-" for letter, bit in zip("rwx", (READ, WRITE, EXECUTE), strict=True)
    )


def _has(region: AddressRegion, address: int) -> bool:
    return region.start <= address < region.end


def _region_at(regions: Sequence[AddressRegion], address: int) -> AddressRegion | None:
    index = bisect_right(regions, address, key=lambda region: region.start) - 1
    return regions[index] if index >= 0 and address < regions[index].end else None


def _overflow(stack: Stack, regions: Sequence[AddressRegion], region: AddressRegion | None, address: int) -> str:
    """Return why a fault is probably a stack overflow; "" if it is not.

    The address is not writable, and just below the memory with the thread's frames.
    """
    if not stack.frames or (region is not None and region.permissions != 0):
        return ""
    index = bisect_right(regions, address, key=lambda other: other.start)
    while index < len(regions) and regions[index].permissions == 0:  # guard pages
        index += 1
    above = regions[index] if index < len(regions) else None
    if above is None or above.start - address > BELOW_STACK or above.permissions is None:
        return ""
    frames = [frame for frame in stack.frames if _has(above, frame.sp)]
    if not above.permissions & WRITE or not frames or abs(stack.frames[0].sp - address) > BELOW_STACK:
        return ""
    size = counted(above.end - above.start, "byte")
    depth = counted(len(stack.frames) + stack.skipped, "frame")
    return (
        f"{counted(above.start - address, 'byte')} below the stack of thread {stack.tid} ({above.start:#x}-"
        f"{above.end:#x}, {size}, {depth}): probably a stack overflow"
    )


def _neighbours(regions: Sequence[AddressRegion], address: int) -> str:
    """Return the distance to the region before an address, if it is small."""
    index = bisect_right(regions, address, key=lambda region: region.start) - 1
    if index < 0 or address - regions[index].end >= NEIGHBOUR:
        return ""
    region = regions[index]
    name = region.path or f"the memory {region.start:#x}-{region.end:#x}"
    return f", {counted(address - region.end, 'byte')} after the end of {name}"


def _is_not_canonical(value: int) -> bool:
    """Return True for a number that cannot be an address: its upper bits are neither all zeros nor all ones."""
    return value >> CANONICAL_BITS not in (0, (1 << 64 - CANONICAL_BITS) - 1)
