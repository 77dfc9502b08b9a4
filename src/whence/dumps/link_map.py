"""Read the loader's list of a program's files, from the memory in a core.

    DT_DEBUG of the program's dynamic table, set by the loader
      -> struct r_debug: version, then the first struct link_map
      -> struct link_map: l_addr (added to the file's vaddrs), l_name, l_ld (its dynamic table), l_next, l_prev

Reading ends at an address that is not in the core, at an entry that was read before, and at limits. References: the
gABI ("Dynamic Section"); link.h of glibc and musl.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from whence.objects.elf import ElfFile, Segment
from whence.objects.elf.kernels import constants

DT_DEBUG = 21  # tag of a dynamic table: address of the loader's struct r_debug
LIBRARIES_LIMIT = 4096
TAGS_LIMIT = 1024  # of a dynamic table
PATH_LIMIT = 4096
READ_TIMES, READ_ALLOWANCE = 2, 1 << 20  # limit of bytes read: times the core's size, plus the allowance


class LoadedFile(NamedTuple):
    """A file that the loader mapped: `bias` is added to its vaddrs, `dynamic` is the address of its dynamic table."""

    path: str
    bias: int
    dynamic: int


class CoreSegments:
    """The memory in a core, by address."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._loads = sorted((segment for segment in elf.segments if segment.is_loaded), key=attrgetter("vaddr"))
        self._starts = [segment.vaddr for segment in self._loads]
        self._budget = READ_TIMES * elf.size + READ_ALLOWANCE

    def segment_at(self, address: int) -> Segment | None:
        """Return the segment that contains an address, or None."""
        index = bisect_right(self._starts, address) - 1
        return self._loads[index] if index >= 0 and address < self._loads[index].end else None

    def read(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes at an address: fewer at the end of the segment, b"" after the budget is used."""
        segment = self.segment_at(address)
        if segment is None or self._budget < size:
            return b""
        self._budget -= size
        inside = address - segment.vaddr
        start = segment.file_offset + inside
        return bytes(self._elf.data[start : start + min(size, max(0, segment.file_size - inside))])

    def numbers(self, address: int, count: int) -> tuple[int, ...]:
        """Return machine words at an address; () if the core does not have them all."""
        width = self._elf.bits // 8
        data = self.read(address, count * width)
        if len(data) < count * width:
            return ()
        return tuple(int.from_bytes(data[i : i + width], self._elf.order) for i in range(0, len(data), width))

    def text(self, address: int) -> str:
        """Return the NUL-terminated text at an address; "" if it does not end within PATH_LIMIT bytes."""
        text, nul, _ = self.read(address, PATH_LIMIT).partition(b"\0")
        return text.decode("utf-8", "surrogateescape") if nul else ""


def loaded_files(memory: CoreSegments, program: ElfFile, bias: int) -> Iterator[LoadedFile]:
    """Yield the libraries of a program that is loaded at its vaddrs plus `bias`."""
    tables = (segment.vaddr for segment in program.segments if segment.type == constants.PT_DYNAMIC)
    table = next(tables, None)
    width, mask = program.bits // 8, (1 << program.bits) - 1
    entry = 0
    for index in range(TAGS_LIMIT if table is not None else 0):
        tag, value = memory.numbers((table or 0) + bias + 2 * width * index, 2) or (constants.DT_NULL, 0)
        if tag == constants.DT_NULL:
            break
        if tag == DT_DEBUG:
            _, entry = memory.numbers(value, 2) or (0, 0)
            break
    seen: set[int] = set()
    while entry and entry not in seen and len(seen) < LIBRARIES_LIMIT:
        seen.add(entry)
        fields = memory.numbers(entry, 4)
        if not fields:
            return
        base, name, dynamic, entry = fields
        path = memory.text(name)
        if path:  # "" for the program
            yield LoadedFile(path, base - (mask + 1) if base >> program.bits - 1 else base, dynamic)
