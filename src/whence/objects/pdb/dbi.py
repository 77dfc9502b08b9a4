"""The DBI stream: what is where in the other streams.

header                    sizes of the parts below, streams of symbols, the age of the program
modules                   one per object file: its stream, and the sizes of symbols and lines in it
section contributions     [section, offset, size) of each part of a module
section map, files, type server, edit and continue
optional header           numbers of further streams: section headers, OMAP, FPO
"""

from __future__ import annotations

import struct
from array import array

from whence._base.errors import PdbError, cut_off
from whence._base.forks import cached_property
from whence._base.records import Record, field
from whence.objects.pdb import layout
from whence.objects.pdb.kernels import modules as modules_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def _i() -> array[int]:
    return array("I")


class Modules(Record):
    """The modules in columns: stream (NO_STREAM: none), sizes of symbols, C11 and C13 lines, offset of the names."""

    stream: array[int] = field(default_factory=_i)
    symbols: array[int] = field(default_factory=_i)
    c11: array[int] = field(default_factory=_i)
    c13: array[int] = field(default_factory=_i)
    names: array[int] = field(default_factory=_i)

    def __len__(self) -> int:
        return len(self.stream)


class Contributions(Record):
    """Parts of modules in order of their RVA: [start, end) and the module."""

    start: array[int] = field(default_factory=_i)
    end: array[int] = field(default_factory=_i)
    module: array[int] = field(default_factory=_i)

    def __len__(self) -> int:
        return len(self.start)


class DbiStream:
    """The parts of a DBI stream. Raises PdbError if the header is damaged."""

    def __init__(self, content: memoryview) -> None:
        self.content = content
        if len(content) < layout.DBI_SIZE:
            raise cut_off(PdbError, "DBI stream", 0, layout.DBI_SIZE, len(content))
        (
            signature, version, self.age, self.globals, _, self.publics, _, self.symbols, _,
            modules, contributions, section_map, files, type_server, _, optional, edit, self.flags, self.machine, _,
        ) = struct.unpack_from(layout.DBI, content)  # fmt: skip
        if signature != -1 or version not in layout.DBI_VERSIONS:
            raise PdbError("DBI stream", 0, f"the version is {version}, expected {layout.DBI_VERSIONS.start} or later")
        sizes = (modules, contributions, section_map, files, type_server, edit, optional)
        ends = [layout.DBI_SIZE]
        for size in sizes:
            ends.append(ends[-1] + max(size, 0))
        if min(sizes) < 0 or ends[-1] > len(content):
            raise PdbError("DBI stream", 24, f"the parts have {sum(sizes)} bytes, the stream {len(content)}")
        self._modules = content[ends[0] : ends[1]]
        self._contributions = content[ends[1] : ends[2]]
        optional_header = content[ends[6] : ends[7]]
        count = len(optional_header) // 2
        self.further: Sequence[int] = struct.unpack_from(f"<{count}H", optional_header)

    def __repr__(self) -> str:
        return f"<DbiStream: {len(self.modules)} modules, age {self.age}>"

    def further_stream(self, index: int) -> int:
        """Return the number of a stream of the optional header, such as layout.SECTIONS; -1 without one."""
        number = self.further[index] if index < len(self.further) else layout.NO_STREAM
        return -1 if number == layout.NO_STREAM else number

    @cached_property
    def modules(self) -> Modules:
        """Every module. Raises PdbError if the list is damaged."""
        capacity = len(self._modules) // layout.MODULE_SIZE
        modules = Modules(*(array("I", bytes(4 * capacity)) for _ in range(5)))
        count, fault = modules_kernel.read_modules(self._modules, modules)
        if fault:
            raise PdbError("modules", None, f"module {count} extends past the end of the list of modules")
        for column in (modules.stream, modules.symbols, modules.c11, modules.c13, modules.names):
            del column[count:]
        return modules

    def module_name(self, module: int) -> str:
        """Return the name of a module: the path of its object file."""
        offset = self.modules.names[module]
        return bytes(self._modules[offset : offset + 4096]).partition(b"\0")[0].decode("utf-8", "surrogateescape")

    def contributions(self, sections: Sequence[int], modules: int) -> Contributions:
        """Return the parts of modules in sections that start at these RVAs (section 0 is unused).

        Raises PdbError for an unknown version.
        """
        content = self._contributions
        if len(content) < 4:
            return Contributions()
        version = struct.unpack_from("<I", content)[0]
        if version not in layout.CONTRIBUTION:
            raise PdbError("section contributions", 0, f"the version is {version:#x}")
        stride = layout.CONTRIBUTION[version]
        capacity = (len(content) - 4) // stride
        start, end, module = (array("I", bytes(4 * capacity)) for _ in range(3))
        count = modules_kernel.read_contributions(content, stride, array("I", sections), modules, (start, end, module))
        order = sorted(range(count), key=start.__getitem__)
        if any(map(int.__ne__, order, range(count))):
            start, end, module = (array("I", map(column.__getitem__, order)) for column in (start, end, module))
        return Contributions(start[:count], end[:count], module[:count])
