"""Translate addresses of the kernel and its modules to vaddrs of their files.

    [kernel.kallsyms]_text  0xffffffff9aa00000-...   the kernel; perf appends the symbol at the start, whose address is
                                                     the mapping's start or its file offset
    [xfs], .../xfs.ko.xz    0xffffffffc0401000-...   a module: its executable sections, one after another

A vmlinux is linked for one address and runs at another (KASLR): the difference of the symbol's two addresses is the
slide. A module is an object file: the loader places its executable sections one after another in file order, without
those of the initialization (kernel/module/main.c).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence

from whence.locate.names import IMAGE, is_image, module_of
from whence.objects.elf.segments import SMALLEST_PAGE as PAGE
from whence.objects.elf.segments import Segment, Translation
from whence.objects.interface import ObjectFile
from whence.samples.addresses import NOWHERE
from whence.samples.model import Mapping

HALF = 1 << 63  # the kernel has the upper half of 64-bit addresses
FIRST_SYMBOLS = ("_text", "_stext")
MASK = (1 << 64) - 1

Placing = Callable[[Mapping, "array[int]"], "array[int]"]


def is_kernel(mapping: Mapping) -> bool:
    """Return True if a mapping is code of the kernel or of a module."""
    return mapping.start >= HALF or is_image(mapping.path) or bool(module_of(mapping.path))


def first_address(mapping: Mapping) -> int | None:
    """Return the runtime address of the kernel's first symbol; None if the mapping does not have it."""
    for address in (mapping.file_offset, mapping.start):
        if address >= HALF:
            return address
    return None


def symbol_address(elf: ObjectFile, name: str) -> int | None:
    """Return the vaddr of a symbol; None if the file does not have it."""
    symbols = elf.symbols(".symtab")
    index = symbols.find(name)
    return None if index is None else symbols.value[index]


def placing(elf: ObjectFile | None, segments: Sequence[Segment] | None, running: int | None) -> Placing:
    """Return a function from addresses of the kernel to vaddrs of a vmlinux, a module, or (without `elf`) an archive.

    `running` is the address of _text in the running kernel, if known; it takes precedence over the mapping.
    """
    starts = {}
    if elf is not None:
        if elf.is_relocatable:
            return module_placing(elf)
        starts = {name: address for name in FIRST_SYMBOLS if (address := symbol_address(elf, name)) is not None}
    code = Translation.of_code(segment for segment in segments or () if segment.vaddr)
    linked = min((segment.vaddr for segment in code.segments), default=None)

    def to_vaddrs(mapping: Mapping, addresses: array[int]) -> array[int]:
        nowhere = array("Q", [NOWHERE]) * len(addresses)
        match = re.fullmatch(IMAGE, mapping.path)
        symbol = (match["symbol"] if match else None) or "_text"
        linked_start = starts.get(symbol) if starts else linked  # without symbols: the code begins at _text
        running_start = running if running is not None else first_address(mapping)
        if linked_start is None or segments is None:
            return nowhere
        slide = 0 if running_start is None else running_start - linked_start
        if slide % PAGE:
            return nowhere
        vaddrs = array("Q", ((address - slide) & MASK for address in addresses))
        inside = [code.holds(vaddr) for vaddr in vaddrs]
        if running_start is None and not all(inside):  # relocated by an unknown distance
            return nowhere
        return array("Q", (vaddr if good else NOWHERE for vaddr, good in zip(vaddrs, inside, strict=True)))

    return to_vaddrs


def module_placing(elf: ObjectFile) -> Placing:
    """Return a function from addresses of a module to the vaddrs that `objects.elf.sections` assigns its sections."""
    begins: list[int] = []  # of each section, relative to the module's code
    rows: list[tuple[int, int]] = []  # its size and vaddr
    end = 0
    for section in elf.sections:
        if section.executable and section.allocated and not section.name.startswith(".init"):
            end += -end % max(1, section.align)
            begins.append(end)
            rows.append((section.size, section.vaddr))
            end += section.size

    def to_vaddrs(mapping: Mapping, addresses: array[int]) -> array[int]:
        out = array("Q", [NOWHERE]) * len(addresses)
        for index, address in enumerate(addresses):
            into = address - mapping.start if mapping.start >= HALF else -1
            row = bisect_right(begins, into) - 1
            if row >= 0 and into - begins[row] < rows[row][0]:
                out[index] = into - begins[row] + rows[row][1]
        return out

    return to_vaddrs
