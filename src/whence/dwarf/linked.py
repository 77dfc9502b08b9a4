"""The debug info that a linker left in object files, as that of the linked file.

Input: the list of object files with their functions in the linked file (a debug map), and a callable that opens one.
Output: the ranges of all object files at the addresses of the linked file. An object file is opened when an address of
its functions is looked up. A function is found by its symbol; the linker may have dropped or reordered functions, so
each has an offset of its own.

LinkedInfo has the interface of DebugInfo; its units are object files, by their number in the list.
"""

from __future__ import annotations

from _thread import allocate_lock
from array import array
from bisect import bisect_right
from operator import add

from whence._base.cores import available, share
from whence._base.errors import ObjectError
from whence._base.options import DEFAULTS, ReadOptions
from whence._base.window import cstring
from whence.dwarf.info import DebugInfo
from whence.dwarf.problems import Problems
from whence.kernels.rows import ascending
from whence.objects.parts import LONGEST_NAME
from whence.ranges import Ranges, StringSpace
from whence.ranges.merge import join
from whence.ranges.moved import Pieces, moved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from whence.objects.interface import ObjectFile
    from whence.objects.parts import LinkedObject


class LinkedInfo:
    """The debug info of the object files of one linked file.

    Object files stay open while names are read.

    Attributes:
        problems: errors in the files, at most 1,000.
        bare: names of functions that have nothing but a name (clang -g1).

    Args:
        elf: the linked file.
        objects: its object files.
        strings: the space that all names refer to.
        open_object: opens an object file, or returns None.
        options: how names and paths are written, and whether columns are read.
    """

    should_stream = False

    def __init__(
        self,
        elf: ObjectFile,
        objects: Sequence[LinkedObject],
        *,
        strings: StringSpace,
        open_object: Callable[[LinkedObject], ObjectFile | None],
        options: ReadOptions = DEFAULTS,
    ) -> None:
        self.elf, self.objects, self.strings = elf, objects, strings
        self.problems = Problems()
        self.bare: set[int] = set()
        self._open_object, self._options = open_object, options
        self._infos: dict[int, tuple[DebugInfo, Pieces] | None] = {}
        self._lock = allocate_lock()
        starts, owners, ends = array("Q"), array("I"), array("Q")
        for number, entry in enumerate(objects):
            starts.extend(entry.vaddr)
            ends.extend(map(add, entry.vaddr, entry.length))
            owners.extend(array("I", [number]) * len(entry.vaddr))
        distinct, places = ascending(starts)
        self._start = array("Q", distinct.numbers())
        self._owner, self._end = array("I", bytes(4 * len(distinct))), array("Q", bytes(8 * len(distinct)))
        for position, owner, end in zip(places.numbers(), owners, ends, strict=True):
            self._owner[position], self._end[position] = owner, end

    def __repr__(self) -> str:
        return f"<LinkedInfo {self.elf.path or 'of bytes'}: {len(self.objects)} object files>"

    @property
    def unit_count(self) -> int:
        """The number of object files."""
        return len(self.objects)

    def units_at(self, vaddrs: Iterable[int]) -> list[int]:
        """Return the numbers of the object files whose functions contain any of the vaddrs, in order."""
        numbers = set()
        for vaddr in vaddrs:
            index = bisect_right(self._start, vaddr) - 1
            if index >= 0 and vaddr < self._end[index]:
                numbers.add(self._owner[index])
        return sorted(numbers)

    def unit_ranges(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return start, end and object file (a number) of each function."""
        return self._start, self._end, self._owner

    def unit_name(self, index: int) -> str:
        """Return the path of an object file."""
        return str(self.objects[index])

    def ranges(
        self, units: Iterable[int] | None = None, *, jobs: int | None = None, lines: bool = True, starts: bool = True,
        vaddrs: memoryview | None = None,
    ) -> Ranges:  # fmt: skip
        """Return the ranges of object files at the addresses of the linked file, in the order of the list.

        Args:
            units: numbers of object files; None for all.
            jobs: number of threads; None for one per core.
            lines: read files, lines and starts.
            starts: read where functions are declared.
            vaddrs: ignored: the ranges of the whole object files are returned.
        """
        chosen = range(len(self.objects)) if units is None else sorted(set(units))
        tables: dict[int, Ranges] = {}

        def read(_: int, number: int) -> None:
            source = self._info(number)
            if source is None:
                return
            info, pieces = source
            table = info.ranges(jobs=1, lines=lines, starts=starts)
            tables[number] = moved(table, pieces)
            with self._lock:
                self.problems += [problem.in_file(info.elf.path) for problem in info.problems]
                self.bare |= info.bare

        share(range(max(1, min(jobs or available(), len(chosen)))), chosen, read)
        return join([Ranges(self.strings), *(tables[number] for number in sorted(tables))])

    def _info(self, number: int) -> tuple[DebugInfo, Pieces] | None:
        """Return the debug info of an object file, and where its code is; None if it is missing or has none."""
        with self._lock:
            if number not in self._infos:
                self._infos[number] = self._opened(self.objects[number])
            return self._infos[number]

    def _opened(self, entry: LinkedObject) -> tuple[DebugInfo, Pieces] | None:
        file = self._open_object(entry)
        if file is None:
            return None
        try:
            pieces = pieces_of(entry, file)
        except ObjectError as error:
            self.problems.append(error.in_file(file.path))
            return None
        return DebugInfo(file, strings=self.strings, options=self._options), pieces


def pieces_of(entry: LinkedObject, file: ObjectFile) -> Pieces:
    """Return the code of an object file that is in the linked file. Raises ObjectError."""
    symbols = file.symbols()
    addresses: dict[bytes, int] = {}
    for offset, value, section in zip(symbols.name_offset, symbols.value, symbols.section, strict=True):
        if section:
            addresses.setdefault(cstring(symbols.names[: offset + LONGEST_NAME], offset), value)
    functions: dict[int, tuple[int, int]] = {}
    for index in range(len(entry.name)):
        address = addresses.get(entry.name_of(index))
        if address is not None:
            functions.setdefault(address, (entry.length[index], entry.vaddr[index]))
    starts = array("Q", sorted(functions))
    ends = array("Q", [start + functions[start][0] for start in starts])
    for index in range(1, len(starts)):
        ends[index - 1] = min(ends[index - 1], starts[index])
    return Pieces(starts, ends, array("Q", [functions[start][1] for start in starts]))
