"""A PE file, mapped, and access to its tables."""

from __future__ import annotations

from array import array

from whence._base.errors import PeError, cut_off, naming
from whence._base.forks import cached_property
from whence.objects.elf.kernels.constants import PF_R, PF_W, PF_X, PT_LOAD
from whence.objects.elf.links import read_debug_link
from whence.objects.elf.segments import Segment
from whence.objects.ids import DebugId, pe_code_id
from whence.objects.mapped import MappedObject
from whence.objects.pe import layout
from whence.objects.pe.headers import PeSection, read_codeview, read_header, read_sections
from whence.objects.pe.kernels import symbols as symbols_kernel
from whence.objects.pe.symbols import (
    read_exports,
    read_function_starts,
    read_symbol_table,
    string_table,
    symbol_bytes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from whence._base.mapped import MappedFile
    from whence.objects.elf.links import DebugLink
    from whence.objects.elf.symbols import SymbolTable
    from whence.objects.parts import ObjectSection


class PeFile(MappedObject):
    """A PE file as tables: sections, segments, COFF symbols, exports, the ID of its CodeView record.

    Vaddrs are RVAs plus the preferred image base, as in DWARF. A malformed header raises PeError at once; damaged
    tables are listed in `problems`.
    """

    error = PeError
    format = "PE"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        with naming(path):
            self.header = read_header(self.data)
            self.bits = self.header.bits
            self.machine = layout.MACHINES.get(self.header.machine, 0)
            self.entry = self.header.entry
            self._sections: list[PeSection] = []
            try:
                self._sections = read_sections(self.data, self.header)
            except PeError as error:
                self.problems.append(error.in_file(path))
            self._codeview = read_codeview(self.data, self.header, self._sections)
            self.check()

    @property
    def kind(self) -> str:
        if self.header.is_object:
            return "object file"
        return "shared library" if self.header.characteristics & layout.IMAGE_DLL else "executable"

    @property
    def is_relocatable(self) -> bool:
        return self.header.is_object

    @property
    def image_base(self) -> int:
        return self.header.base

    @property
    def sections(self) -> Sequence[PeSection]:
        """Every section by index; section 0 is empty."""
        return self._sections

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Return the headers and the sections in memory, which the loader maps one by one."""
        header = self.header
        size = 0 if header.is_object else min(header.headers_size, self.size)
        head = Segment(PT_LOAD, PF_R, 0, header.base, size, size, 1)
        return (
            *((head,) if size else ()),
            *(
                Segment(
                    PT_LOAD,
                    PF_R | (PF_X if section.executable else 0) | (PF_W if section.flags & layout.WRITE else 0),
                    section.file_offset,
                    section.vaddr,
                    section.size if section.in_file else 0,
                    section.memory_size,
                    1,
                )
                for section in self._sections[1:]
                if section.allocated
            ),
        )

    @property
    def build_id(self) -> str:
        """The GUID of the CodeView record in lowercase hex, as debuggers print it; "" if there is none."""
        return self._codeview[0]

    @property
    def debug_id(self) -> DebugId:
        guid, age, _ = self._codeview
        return DebugId(guid, age)

    @property
    def code_id(self) -> str:
        return "" if self.header.is_object else pe_code_id(self.header.time, self.header.image_size)

    @property
    def pdb_age(self) -> int:
        """The age in the CodeView record."""
        return self._codeview[1]

    @property
    def pdb_path(self) -> str:
        """The path of the PDB file on the machine that linked the file; "" if it is unknown."""
        return self._codeview[2]

    @property
    def pdb_name(self) -> str:
        """The name of the PDB file; "" if it is unknown."""
        return self.pdb_path.replace("\\", "/").rpartition("/")[2]

    @property
    def details(self) -> dict[str, str]:
        _, _, pdb = self._codeview
        header = self.header
        is_image = not header.is_object
        facts = {
            "architecture": layout.NAMES.get(header.machine, f"machine {header.machine:#x}"),
            "image base": f"{header.base:#x}" if is_image else "",
            "debug id": self.debug_id.breakpad if self.debug_id else "",
            "code id": self.code_id,
            "PDB": pdb,
        }
        return {name: value for name, value in facts.items() if value}

    @property
    def debug_link(self) -> DebugLink | None:
        with self.reading():
            content = self.content(".gnu_debuglink")
            return read_debug_link(content, self.order) if len(content) else None

    @cached_property
    def function_starts(self) -> array[int]:
        """Vaddrs of functions (.pdata), ascending."""
        with self.reading():
            return read_function_starts(self.data, self.header, self._sections)

    def relocated(self, section: ObjectSection, content: memoryview) -> memoryview:
        """Return debug info of an object file with its relocations applied."""
        if not isinstance(section, PeSection) or section.allocated or not section.relocations[1]:
            return content
        offset, count = section.relocations
        size = count * layout.RELOCATION_SIZE
        if offset + size > self.size:
            raise cut_off(PeError, f"relocations of {section.part}", None, size, max(0, self.size - offset))
        kinds = layout.RELOCATIONS.get(self.machine, {})
        operations = bytes(kinds.get(kind, 0) for kind in range(max(kinds, default=0) + 1))
        vaddrs = array("Q", [each.vaddr for each in self._sections])
        out = bytearray(content)
        symbols_kernel.relocate(
            out, self.data[offset : offset + size], symbol_bytes(self.data, self.header), vaddrs, operations,
            self.header.is_big,
        )  # fmt: skip
        return memoryview(out).toreadonly()

    @property
    def has_symtab(self) -> bool:
        return self.header.symbol_count > 0

    def symbol_names(self) -> memoryview:
        return string_table(self.data, self.header)

    def read_symbol_table(self) -> SymbolTable | None:
        return read_symbol_table(self.data, self.header, self._sections, self.function_starts)

    def symbol_table(self, table: str = ".symtab") -> SymbolTable | None:
        """Return the symbols of COFF as ".symtab", or the exports as ".dynsym"."""
        return self._exports if table == ".dynsym" else super().symbol_table(table)

    @cached_property
    def _exports(self) -> SymbolTable | None:
        with self.reading():
            return read_exports(self.data, self.header, self._sections, self.function_starts)

    def close(self) -> None:
        self.__dict__.pop("_exports", None)
        super().close()
