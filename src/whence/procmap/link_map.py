"""The loader's list of a program's files, in the memory that a core kept.

    DT_DEBUG of the program's dynamic table, which the loader fills in
      -> struct r_debug: version, then the first struct link_map
      -> struct link_map: l_addr (what to add to the file's vaddrs), l_name, l_ld (its dynamic table), l_next, l_prev

The list is read as far as it makes sense: it ends at an address that the core does not have, at an entry that was met
before, and at bounds. Documents: the gABI ("Dynamic Section"); link.h of glibc and musl.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from whence.objects.elf import ElfFile, Segment
from whence.objects.elf.kernels import constants

DT_DEBUG = 21  # of a dynamic table: where the loader's struct r_debug is
LIBRARIES_LIMIT = 4096
TAGS_LIMIT = 1024  # of a dynamic table
PATH_LIMIT = 4096
READ_TIMES, READ_ALLOWANCE = 2, 1 << 20  # of the core's size: bytes that are read at most


class LoadedFile(NamedTuple):
    """A file that the loader mapped: `bias` is to be added to its vaddrs, `dynamic` where its dynamic table is."""

    path: str
    bias: int
    dynamic: int


class CoreSegments:
    """The memory that a core kept, by address."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._loads = sorted((one for one in elf.segments if one.is_loaded), key=lambda one: one.vaddr)
        self._starts = [one.vaddr for one in self._loads]
        self._left = READ_TIMES * elf.size + READ_ALLOWANCE

    def at(self, address: int) -> Segment | None:
        """Return the segment that holds an address, or None."""
        index = bisect_right(self._starts, address) - 1
        return self._loads[index] if index >= 0 and address < self._loads[index].end else None

    def read(self, address: int, size: int) -> bytes:
        """Return up to `size` bytes from an address on: fewer where the segment ends, none at the bound."""
        segment = self.at(address)
        if segment is None or self._left < size:
            return b""
        self._left -= size
        inside = address - segment.vaddr
        start = segment.file_offset + inside
        return bytes(self._elf.data[start : start + min(size, max(0, segment.file_size - inside))])

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return words of the machine; () where the core does not have them all."""
        width = self._elf.bits // 8
        data = self.read(address, count * width)
        if len(data) < count * width:
            return ()
        return tuple(int.from_bytes(data[at : at + width], self._elf.order) for at in range(0, len(data), width))

    def text(self, address: int) -> str:
        """Return the NUL-ended text at an address; "" where it has no end within PATH_LIMIT bytes."""
        text, nul, _ = self.read(address, PATH_LIMIT).partition(b"\0")
        return text.decode("utf-8", "surrogateescape") if nul else ""


def loaded_files(memory: CoreSegments, program: ElfFile, bias: int) -> Iterator[LoadedFile]:
    """Yield the libraries of a program whose vaddrs are `bias` lower than its addresses in the core."""
    table = next((one.vaddr for one in program.segments if one.type == constants.PT_DYNAMIC), None)
    width, mask = program.bits // 8, (1 << program.bits) - 1
    entry = 0
    for at in range(TAGS_LIMIT if table is not None else 0):
        tag, value = memory.words((table or 0) + bias + 2 * width * at, 2) or (constants.DT_NULL, 0)
        if tag == constants.DT_NULL:
            break
        if tag == DT_DEBUG:
            _, entry = memory.words(value, 2) or (0, 0)
            break
    met: set[int] = set()
    while entry and entry not in met and len(met) < LIBRARIES_LIMIT:
        met.add(entry)
        fields = memory.words(entry, 4)
        if not fields:
            return
        base, name, dynamic, entry = fields
        path = memory.text(name)
        if path:  # the program's own is ""
            yield LoadedFile(path, base - (mask + 1) if base >> program.bits - 1 else base, dynamic)
