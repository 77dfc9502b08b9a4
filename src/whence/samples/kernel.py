"""The kernel's code in profiles: which file belongs to a mapping of it, and where that file's code was loaded.

    [kernel.kallsyms]_text  0xffffffff9aa00000-...   the kernel; perf says after the bracket which symbol begins there,
                                                     and its address is the mapping's start, or its file offset
    [xfs], .../xfs.ko.xz    0xffffffffc0401000-...   a module: its code begins there, section behind section

A vmlinux is linked for one address and runs at another (KASLR): the difference of the symbol's two addresses is the
slide. A module is an object file: the loader puts its executable sections one behind the other, as they stand in the
file, those of the initialization elsewhere (kernel/module/main.c).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence

from whence.locate.names import IMAGE, is_image, module_of
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import ET_REL
from whence.objects.elf.segments import SMALLEST_PAGE as PAGE
from whence.objects.elf.segments import Segment, Translation
from whence.samples.addresses import NOWHERE
from whence.samples.model import Mapping

HALF = 1 << 63  # on 64-bit machines the kernel has the upper half
FIRST_SYMBOLS = ("_text", "_stext")
MASK = (1 << 64) - 1

Placing = Callable[[Mapping, "array[int]"], "array[int]"]


def is_kernel(mapping: Mapping) -> bool:
    """Whether a mapping is the kernel's own code or a module's."""
    return mapping.start >= HALF or is_image(mapping.path) or bool(module_of(mapping.path))


def first_address(mapping: Mapping) -> int | None:
    """Where the kernel's first symbol was in the process's memory; None when the mapping does not say."""
    for address in (mapping.file_offset, mapping.start):
        if address >= HALF:
            return address
    return None


def symbol_address(elf: ElfFile, name: str) -> int | None:
    """The vaddr of a symbol; None when the file has none of that name."""
    symbols = elf.symbols(".symtab")
    index = symbols.find(name)
    return None if index is None else symbols.value[index]


def placing(elf: ElfFile | None, segments: Sequence[Segment] | None, running: int | None) -> Placing:
    """How addresses of the kernel become vaddrs of a file: a vmlinux, a module, or (`elf` is None) an archive of one.

    `running` is where _text lies in the running kernel, if that is known better than from the mapping.
    """
    starts = {}
    if elf is not None:
        if elf.type == ET_REL:
            return module_placing(elf)
        starts = {name: address for name in FIRST_SYMBOLS if (address := symbol_address(elf, name)) is not None}
    code = Translation.of_code(one for one in segments or () if one.vaddr)
    linked = min((one.vaddr for one in code.segments), default=None)

    def place(mapping: Mapping, addresses: array[int]) -> array[int]:
        found = re.fullmatch(IMAGE, mapping.path)
        symbol = (found["symbol"] if found else None) or "_text"
        here = starts.get(symbol) if starts else linked  # without symbols: the code begins where _text is
        there = running if running is not None else first_address(mapping)
        if here is None or segments is None:
            return array("Q", [NOWHERE]) * len(addresses)
        slide = 0 if there is None else there - here
        if slide % PAGE:
            return array("Q", [NOWHERE]) * len(addresses)
        out = array("Q", ((address - slide) & MASK for address in addresses))
        inside = [code.holds(vaddr) for vaddr in out]
        if there is None and not all(inside):  # it was moved, and nothing says by how much
            return array("Q", [NOWHERE]) * len(addresses)
        return array("Q", (vaddr if good else NOWHERE for vaddr, good in zip(out, inside, strict=True)))

    return place


def module_placing(elf: ElfFile) -> Placing:
    """How addresses of a module become the vaddrs `objects.elf.sections` assigns to the sections of an object file."""
    begins: list[int] = []  # of each section, counted from the module's first byte of code
    rows: list[tuple[int, int]] = []  # its size and vaddr
    end = 0
    for section in elf.sections:
        if section.executable and section.allocated and not section.name.startswith(".init"):
            end += -end % max(1, section.align)
            begins.append(end)
            rows.append((section.size, section.vaddr))
            end += section.size

    def place(mapping: Mapping, addresses: array[int]) -> array[int]:
        out = array("Q", [NOWHERE]) * len(addresses)
        for index, address in enumerate(addresses):
            into = address - mapping.start if mapping.start >= HALF else -1
            row = bisect_right(begins, into) - 1
            if row >= 0 and into - begins[row] < rows[row][0]:
                out[index] = into - begins[row] + rows[row][1]
        return out

    return place
