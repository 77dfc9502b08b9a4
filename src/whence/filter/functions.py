"""Find where the functions of a binary start, by the names that logs write."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence.demangle import demangle
from whence.objects.elf.file import ElfFile
from whence.objects.elf.function_symbols import functions
from whence.objects.elf.kernels.constants import ET_REL

if TYPE_CHECKING:
    from whence.binary import Binary

GO_NAMES = {"panic": "runtime.gopanic"}  # names in Go's traces
GO_GENERIC = re.compile(r"\[go\.shape\..*\]")
GO_ABI = ".abi0"
GO_SHAPE = "[go.shape."
MANGLED = ("_Z", "_R", "_D")
READABLE = re.compile(r"[^\w.$@]")  # no linkage name has such a character
MAX_READABLE = 1 << 20  # names that are demangled in a search


class FunctionStarts:
    """The functions of a binary by name; from its symbols if there are any, with all names of each function."""

    __slots__ = ("_named", "_readable", "_symbols")

    def __init__(self, binary: Binary) -> None:
        self._named: dict[str, dict[int, int]] = defaultdict(dict)  # vaddr to length, by name
        self._symbols = array("Q")  # vaddrs, ascending
        self._readable: dict[str, list[str]] | None = None  # linkage names by readable name
        producers = getattr(binary, "producers", None)
        if producers is not None:
            self._take_symbols(producers.elf, producers.debug_elf)
        if not self._named:
            self._take_functions(binary)
        for function in [name for name in self._named if name.endswith(GO_ABI) or GO_SHAPE in name]:
            self._named[GO_GENERIC.sub("[...]", function.removesuffix(GO_ABI))].update(self._named[function])

    def starts(self, name: str, size: int | None = None) -> list[int]:
        """Return the vaddrs of the functions with a name, or only those of a size if any has it.

        A kernel counts the size of a function up to the next symbol.
        """
        named = self._named.get(name) or self._named.get(GO_NAMES.get(name, ""))
        if not named and READABLE.search(name):
            named = {
                vaddr: length for linkage in self._linkage_names(name) for vaddr, length in self._named[linkage].items()
            } or self._named.get(name.removesuffix("()"))  # Ceph writes functions of C so
        if not named:
            return []
        if size is None or len(named) == 1:
            return list(named)
        return (
            [vaddr for vaddr in named if self._space(vaddr) == size]
            or [vaddr for vaddr, length in named.items() if length == size]
            or list(named)
        )

    def _space(self, vaddr: int) -> int:
        """Return the number of bytes up to the next symbol."""
        after = bisect_right(self._symbols, vaddr)
        return self._symbols[after] - vaddr if after < len(self._symbols) else 0

    def _linkage_names(self, readable: str) -> list[str]:
        if self._readable is None:
            self._readable = defaultdict(list)
            for count, name in enumerate(name for name in self._named if name.startswith(MANGLED)):
                if count == MAX_READABLE:
                    break
                self._readable[demangle(name)].append(name)
        return self._readable.get(readable, [])

    def _take_symbols(self, program: ElfFile, debug: ElfFile) -> None:
        ranges = functions(debug)
        text = ranges.strings.text
        length_by_vaddr = dict(zip(ranges.vaddr, ranges.length, strict=True))
        for vaddr, length, function in zip(ranges.vaddr, ranges.length, ranges.function, strict=True):
            self._named[text(function)][vaddr] = length
        vaddrs = set(length_by_vaddr)
        for elf in dict.fromkeys((program, debug)):
            for vaddr, size, name in symbols_of_code(elf):
                vaddrs.add(vaddr)
                if vaddr in length_by_vaddr:
                    self._named[name].setdefault(vaddr, length_by_vaddr[vaddr])
                elif name not in self._named:  # an entry inside a function, in assembly
                    self._named[name][vaddr] = size
        self._symbols = array("Q", sorted(vaddrs))

    def _take_functions(self, binary: Binary) -> None:
        last = ("", 0)
        for entry in binary.functions():
            if (entry.function, entry.vaddr) != last:  # otherwise another part of the same function
                self._named[entry.function][entry.vaddr] = entry.length
            last = entry.function, entry.vaddr + entry.length


def symbols_of_code(elf: ElfFile) -> Iterator[tuple[int, int, str]]:
    """Yield the vaddr, size and name of each symbol in an executable section."""
    relative = elf.type == ET_REL
    code = {section.index: section.vaddr if relative else 0 for section in elf.sections if section.executable}
    for table in (".symtab", ".dynsym"):
        symbols = elf.symbols(table)
        for index, section in enumerate(symbols.section):
            start = code.get(section)
            if start is not None and (name := symbols.name(index)):
                yield symbols.value[index] + start, symbols.size[index], name
