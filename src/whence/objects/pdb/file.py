"""A PDB file, mapped, and access to its streams."""

from __future__ import annotations

import struct

from whence._base.errors import PdbError, Unsupported, naming
from whence._base.forks import cached_property
from whence._base.records import Record
from whence.objects.elf.kernels.constants import PF_R, PF_W, PF_X, PT_LOAD
from whence.objects.elf.segments import Segment
from whence.objects.ids import DebugId
from whence.objects.mapped import MappedObject
from whence.objects.parts import ObjectSection
from whence.objects.pdb import layout
from whence.objects.pdb.dbi import Contributions, DbiStream
from whence.objects.pdb.info import read_info
from whence.objects.pdb.msf import Msf
from whence.objects.pdb.omap import AddressMap
from whence.objects.pdb.publics import Program, read_publics
from whence.objects.pe.layout import MACHINES, NAMES, SECTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from whence._base.mapped import MappedFile
    from whence.objects.elf.symbols import SymbolTable

MACHINES_64 = (0x8664, 0xAA64, 0xA641)
OTHER_MAGICS = {
    layout.PORTABLE_MAGIC: "a portable PDB file of .NET, which has no machine code",
    layout.PACKED_MAGIC: "a compressed PDB file (PDZ)",
    layout.CABINET_MAGIC: "a cabinet, as symbol servers store files (the last letter of the name is _)",
}
HINTS = {
    layout.PACKED_MAGIC: "unpack it with pdbcopy.exe",
    layout.CABINET_MAGIC: "unpack it with expand.exe or cabextract",
}


class PdbSection(Record, ObjectSection, frozen=True):
    """The header of a section of the program. A PDB file has no bytes of it."""

    index: int
    name: str
    vaddr: int
    size: int
    flags: int

    align, file_offset = 1, 0
    compressed = in_file = grouped = False
    allocated = True

    @property
    def executable(self) -> bool:
        return bool(self.flags & (layout.EXECUTE | layout.CODE))

    @property
    def part(self) -> str:
        """The section's name in errors."""
        return f"section {self.name or self.index}"


class PdbFile(MappedObject):
    """A PDB file as streams: sections of the program, public symbols, modules.

    A PDB file does not store the image base: vaddrs are RVAs until `rebase` sets the base. A malformed header raises
    PdbError at once; damaged tables are listed in `problems`. Raises Unsupported, with the reason, for a portable PDB
    file, a compressed one, and one of /DEBUG:FASTLINK.
    """

    error = PdbError
    format = "PDB"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        self.base = 0
        with naming(path):
            magic = bytes(self.data[:4])
            if magic in OTHER_MAGICS:
                raise Unsupported(OTHER_MAGICS[magic]).with_hint(HINTS.get(magic, ""))
            if self.data[: len(layout.OLD_MAGIC)] == layout.OLD_MAGIC:
                raise Unsupported("a PDB file of version 2, as compilers before Visual C++ 7 wrote")
            self.msf = Msf(self.data)
            self.info = read_info(self.msf.stream(layout.PDB_STREAM, "PDB stream"))
            self.dbi: DbiStream | None = None
            self._headers: list[PdbSection] = []
            self._linked_headers: list[PdbSection] = []
            try:
                if self.msf.size(layout.DBI_STREAM):
                    self.dbi = DbiStream(self.msf.stream(layout.DBI_STREAM, "DBI stream"))
                    self._headers = self._read_sections(self.dbi, layout.SECTIONS)
                    self._linked_headers = self._read_sections(self.dbi, layout.ORIGINAL_SECTIONS)
            except PdbError as error:
                self.problems.append(error.in_file(path))
            machine = self.dbi.machine if self.dbi is not None else 0
            self.machine = MACHINES.get(machine, 0)
            self.bits = 64 if machine in MACHINES_64 or not machine else 32
            self.check()

    def _read_sections(self, dbi: DbiStream, headers: int) -> list[PdbSection]:
        """Return the sections of a stream of headers by number, the first one empty."""
        stream = dbi.further_stream(headers)
        content = self.msf.stream(stream, "section headers")
        width = struct.calcsize(SECTION)
        sections = [PdbSection(0, "", 0, 0, 0)]
        rows = struct.iter_unpack(SECTION, content[: len(content) // width * width])
        for index, (name, size, rva, stored, _, _, _, _, _, flags) in enumerate(rows, 1):
            text = name.rstrip(b"\0").decode("utf-8", "surrogateescape")
            sections.append(PdbSection(index, text, rva, size or stored, flags))
        return sections

    def rebase(self, base: int) -> None:
        """Set the image base of the program, which vaddrs then include. Call it before reading tables."""
        self.base = base
        self.__dict__.pop("sections", None)
        self.__dict__.pop("segments", None)
        self.__dict__.pop("_by_name", None)
        self.__dict__.pop("_symbol_tables", None)
        self.__dict__.pop("translation", None)

    @property
    def image_base(self) -> int:
        return self.base

    @property
    def kind(self) -> str:
        return "debug file"

    @property
    def sections(self) -> Sequence[PdbSection]:
        """Every section of the program by number; section 0 is empty."""
        if not self.base:
            return self._headers
        return [
            PdbSection(each.index, each.name, each.vaddr + self.base, each.size, each.flags) if each.index else each
            for each in self._headers
        ]

    @cached_property
    def address_map(self) -> AddressMap | None:
        """Map of a program whose code was rearranged; None for others, and with a problem if damaged."""
        try:
            if self.dbi is not None and self.msf.size(self.dbi.further_stream(layout.OMAP_FROM_SOURCE)):
                return AddressMap(self.msf.stream(self.dbi.further_stream(layout.OMAP_FROM_SOURCE), "OMAP"))
        except PdbError as error:
            self.problems.append(error.in_file(self.path))
            return AddressMap(b"")
        return None

    @property
    def section_rvas(self) -> list[int]:
        """The RVAs of sections by number, as symbols refer to them: before the program was rearranged."""
        is_moved = self.address_map is not None and len(self._linked_headers) > 1
        return [section.vaddr for section in (self._linked_headers if is_moved else self._headers)]

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Return the sections, which the loader maps one by one. The file has none of their bytes."""
        return tuple(
            Segment(
                PT_LOAD,
                PF_R | (PF_X if section.executable else 0) | (PF_W if section.flags & layout.WRITE else 0),
                0, section.vaddr, 0, section.size, 1,
            )
            for section in self.sections[1:]
        )  # fmt: skip

    @property
    def build_id(self) -> str:
        """The GUID in lowercase hex, as the program's CodeView record has it."""
        return self.info.guid

    @property
    def debug_id(self) -> DebugId:
        """GUID and age in the program's CodeView record."""
        return DebugId(self.info.guid, self.age)

    @property
    def code_id(self) -> str:
        return ""

    @property
    def age(self) -> int:
        """The age in the program's CodeView record. Tools that rewrite a PDB file raise only its own age."""
        return self.dbi.age if self.dbi is not None else self.info.age

    @property
    def details(self) -> dict[str, str]:
        machine = self.dbi.machine if self.dbi is not None else 0
        facts = {
            "architecture": NAMES.get(machine, f"machine {machine:#x}") if machine else "",
            "debug id": self.debug_id.breakpad if self.debug_id else "",
            "age of the PDB": str(self.info.age) if self.info.age != self.age else "",
        }
        return {name: value for name, value in facts.items() if value}

    @property
    def has_debug_info(self) -> bool:
        """True if it has modules with functions or lines, not only public symbols."""
        try:
            return self.dbi is not None and any(stream != layout.NO_STREAM for stream in self.dbi.modules.stream)
        except PdbError:
            return False

    @property
    def has_symtab(self) -> bool:
        return self.dbi is not None and self.msf.size(self.dbi.symbols) > 0

    @cached_property
    def contributions(self) -> Contributions:
        """Return the parts of modules in order of their RVA; none, with a problem, if the list is damaged."""
        try:
            if self.dbi is not None:
                return self.dbi.contributions(self.section_rvas, len(self.dbi.modules))
        except PdbError as error:
            self.problems.append(error.in_file(self.path))
        return Contributions()

    def named_stream(self, name: str) -> memoryview:
        """Return the bytes of a named stream, such as "/names"; none if it does not exist. Raises PdbError."""
        stream = self.info.streams.get(name)
        return self.data[:0] if stream is None else self.msf.stream(stream, name)

    def symbol_records(self) -> memoryview:
        """Return the records of public and global symbols. Raises PdbError."""
        return self.msf.stream(self.dbi.symbols, "symbol records") if self.dbi is not None else self.data[:0]

    def symbol_names(self) -> memoryview:
        return self.symbol_records()

    def read_symbol_table(self) -> SymbolTable | None:
        """Return the public symbols."""
        records = self.symbol_records()
        faults: list[PdbError] = []
        program = Program(self.bits, self.machine, self.base, self.address_map)
        table = read_publics(records, self.section_rvas, self.contributions, program, faults)
        self.problems += [error.in_file(self.path) for error in faults]
        return table

    def close(self) -> None:
        self.__dict__.pop("contributions", None)
        super().close()
