"""A Mach-O file, mapped, and access to its tables."""

from __future__ import annotations

import os
from array import array

from whence._base.errors import MachoError, empty_file, naming
from whence._base.files import open_regular
from whence._base.forks import cached_property
from whence._base.mapped import MappedFile
from whence.objects.ids import DebugId
from whence.objects.macho import layout
from whence.objects.macho.commands import MachoSection, read_commands, read_header
from whence.objects.macho.debug_map import read_debug_map
from whence.objects.macho.fat import choose, is_fat, read_slices
from whence.objects.macho.kernels import symbols as symbols_kernel
from whence.objects.macho.symbols import read_function_starts, read_symbol_table, symbol_bytes
from whence.objects.mapped import MappedObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from whence.objects.elf.segments import Segment
    from whence.objects.elf.symbols import SymbolTable
    from whence.objects.parts import LinkedObject, ObjectSection


class MachoFile(MappedObject):
    """A Mach-O file as tables: sections by their standard names, segments, symbols, UUID.

    A fat file is opened by the architecture of one of its slices; `path` is FILE:ARCHITECTURE then. Vaddrs are those of
    the load commands, so those of an executable usually start at 0x100000000. A malformed header raises MachoError at
    once; damaged tables are listed in `problems`.
    """

    error = MachoError
    format = "Mach-O"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        with naming(path):
            self.header = read_header(self.data)
            self.bits, self.order = self.header.bits, self.header.order
            self.machine = self.header.machine
            self._commands = read_commands(self.data, self.header)
            self.problems += [problem.in_file(path) for problem in self._commands.problems]
            if self._commands.entry_offset is not None:
                self.entry = self._commands.text_vaddr + self._commands.entry_offset
            self.check()

    @classmethod
    def open(cls, path: str | os.PathLike[str], architecture: str = "") -> MachoFile:
        """Map a Mach-O file, or a slice of a fat file.

        Raises OSError, and MachoError if the file has another format, or several slices and no architecture is given.
        """
        name = os.fspath(path)
        with open_regular(name, MachoError) as (descriptor, size), naming(name):
            if not size:
                raise empty_file(MachoError)
            mapped = MappedFile(descriptor, name, MachoError)
            return cls.in_data(mapped.view, architecture, name, mapped)

    @classmethod
    def in_data(
        cls, data: memoryview, architecture: str = "", path: str = "", mapped: MappedFile | None = None
    ) -> MachoFile:
        """Return the Mach-O file in the bytes of a thin or fat file, as `open` does."""
        start = 0
        if is_fat(data):
            chosen = choose(read_slices(data), architecture, path)
            start, data = chosen.file_offset, data[chosen.file_offset : chosen.file_offset + chosen.size]
            path = f"{path}:{chosen.architecture}" if path else ""
            architecture = ""
        file = cls(data, path, mapped, start)
        if architecture not in ("", file.architecture):
            raise MachoError("", None, f"the architecture is {file.architecture}, expected {architecture}", path=path)
        return file

    @property
    def architecture(self) -> str:
        """The name that Apple's tools give the architecture: "arm64", "x86_64"."""
        return layout.architecture(self.header.cpu, self.header.subtype)

    @property
    def kind(self) -> str:
        return layout.KINDS.get(self.header.type, f"Mach-O type {self.header.type}")

    @property
    def is_core(self) -> bool:
        return self.header.type == layout.MH_CORE

    @property
    def image_base(self) -> int:
        return self._commands.text_vaddr

    @property
    def sections(self) -> Sequence[MachoSection]:
        """Every section by index; section 0 is empty."""
        return self._commands.sections

    @property
    def segments(self) -> Sequence[Segment]:
        return self._commands.segments

    @property
    def build_id(self) -> str:
        """The UUID in lowercase hex, without dashes; "" if the file has none."""
        return self._commands.uuid

    @property
    def debug_id(self) -> DebugId:
        return DebugId(self.build_id)

    @property
    def details(self) -> dict[str, str]:
        facts = {"architecture": self.architecture, "platform": self._commands.platform}
        if self._commands.encrypted is not None:
            start, end = self._commands.encrypted
            facts["encrypted"] = f"bytes {start:#x}-{end:#x} of the file; names and lines are readable, code is not"
        return {name: value for name, value in facts.items() if value}

    @cached_property
    def function_starts(self) -> array[int]:
        """Vaddrs of functions (LC_FUNCTION_STARTS), ascending; damage is in `problems`."""
        with naming(self.path):
            try:
                starts = read_function_starts(self.data, self.header, self._commands)
            except MachoError as error:
                self.problems.append(error.in_file(self.path))
                starts = array("Q")
            self.check()
            return starts

    @cached_property
    def linked_objects(self) -> tuple[LinkedObject, ...]:
        """Return the object files of the debug map; damage is in `problems`."""
        with naming(self.path):
            try:
                table, names = symbol_bytes(self.data, self.header, self._commands)
                objects = read_debug_map(table, names, self.bits, self.order)
            except MachoError as error:
                self.problems.append(error.in_file(self.path))
                objects = ()
            self.check()
            return objects

    def relocated(self, section: ObjectSection, content: memoryview) -> memoryview:
        """Return debug info of the input of a linker with the addresses of symbols added."""
        if self.header.type != layout.MH_OBJECT or not isinstance(section, MachoSection) or section.allocated:
            return content
        offset, count = section.relocations
        size = count * layout.RELOCATION_SIZE
        if not count or offset + size > self.size:
            return content
        table, _ = symbol_bytes(self.data, self.header, self._commands)
        out = bytearray(content)
        changed = symbols_kernel.relocate(
            out, self.data[offset : offset + size], table, self.bits == 64, self.order == "big"
        )
        return memoryview(out).toreadonly() if changed else content

    @property
    def has_symtab(self) -> bool:
        return self._commands.symbols is not None

    def symbol_names(self) -> memoryview:
        if self._commands.symbols is None:
            return self.data[:0]
        _, _, start, size = self._commands.symbols
        return self.data[start : start + size]

    def read_symbol_table(self) -> SymbolTable | None:
        return read_symbol_table(self.data, self.header, self._commands, self.sections, self.function_starts)
