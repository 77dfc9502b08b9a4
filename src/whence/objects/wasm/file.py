"""A WebAssembly module, mapped, and access to its tables."""

from __future__ import annotations

from array import array

from whence._base.errors import WasmError, naming
from whence._base.forks import cached_property
from whence.objects.elf.kernels.constants import PF_R, PF_X, PT_LOAD
from whence.objects.elf.segments import Segment
from whence.objects.ids import GUID_DIGITS, DebugId
from whence.objects.machines import EM_WASM
from whence.objects.mapped import MappedObject
from whence.objects.wasm.module import (
    CODE,
    CUSTOM,
    EXPORT,
    EXPORTS,
    IMPORT,
    Reader,
    as_elf,
    imported_functions,
    names_of_functions,
    read_bodies,
    read_sections,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from whence._base.mapped import MappedFile
    from whence.objects.elf.symbols import SymbolTable
    from whence.objects.wasm.module import WasmSection


class WasmFile(MappedObject):
    """A WebAssembly module as tables: sections, functions with their names, the build-id.

    Vaddrs are offsets in the content of the code section, as in DWARF. Browsers print offsets in the file, which are
    larger by `code_offset`. A malformed header raises WasmError at once; damaged tables are listed in `problems`.
    """

    error = WasmError
    format = "WebAssembly"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        with naming(path):
            self.bits, self.machine = 32, EM_WASM
            problems: list[WasmError] = []
            self._sections = read_sections(self.data, problems)
            self.problems += [problem.in_file(path) for problem in problems]
            self._code = next((section for section in self._sections if section.id == CODE), None)
            self.check()

    @property
    def kind(self) -> str:
        return "module" if self._code is not None else "module with debug info alone"

    @property
    def sections(self) -> Sequence[WasmSection]:
        """Every section by index; section 0 is empty."""
        return self._sections

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Return the code section."""
        code = self._code
        return () if code is None else (Segment(PT_LOAD, PF_R | PF_X, code.file_offset, 0, code.size, code.size, 1),)

    @property
    def code_offset(self) -> int:
        """The file offset of vaddr 0; 0 without a code section."""
        return self._code.file_offset if self._code is not None else 0

    @cached_property
    def _bodies(self) -> array[int]:
        with self.reading():
            try:
                return read_bodies(self.data, self._code) if self._code is not None else array("Q")
            except WasmError as error:
                self.problems.append(error.in_file(self.path))
                return array("Q")

    def code_ranges(self, *, or_loaded: bool = False) -> list[tuple[int, int]]:
        """Return the range from the first function's body to the last's: linkers leave dropped functions at 0."""
        return [(self._bodies[0], self._bodies[-1])] if self._bodies else []

    @property
    def function_starts(self) -> array[int]:
        """Vaddrs of the bodies of functions, ascending."""
        return self._bodies[::2]

    def _custom(self, name: str) -> memoryview:
        for section in self._sections:
            if section.id == CUSTOM and section.name == name:
                return self.content(section)
        return self.data[:0]

    def _text(self, name: str) -> str:
        """Return the string in a custom section, "" if it is missing or damaged."""
        content = self._custom(name)
        try:
            return bytes(Reader(content, name).name()).decode("utf-8", "replace") if len(content) else ""
        except WasmError:
            return ""

    @property
    def external_debug_info(self) -> str:
        return self._text("external_debug_info")

    @property
    def source_map(self) -> str:
        return self._text("sourceMappingURL")

    def vaddr_of_function(self, index: int) -> int | None:
        """Return the vaddr of a function by its index, which counts imports; None if it has no body here.

        Raises WasmError if the imports are damaged.
        """
        number = index - self.imports
        return self._bodies[2 * number] if 0 <= number < len(self._bodies) // 2 else None

    @cached_property
    def build_id(self) -> str:
        """Return the build-id in lowercase hex, without the length before it; "" if there is none."""
        content = self._custom("build_id")
        try:
            identity = bytes(Reader(content, "build_id").name()) if len(content) else b""
        except WasmError:
            return ""
        return identity[:64].hex() if any(identity) else ""

    @property
    def debug_id(self) -> DebugId:
        return DebugId(self.build_id[:GUID_DIGITS].ljust(GUID_DIGITS, "0") if self.build_id else "")

    @property
    def details(self) -> dict[str, str]:
        facts = {
            "code offset": f"{self.code_offset:#x}" if self._code is not None else "",
            "external debug info": self.external_debug_info,
            "source map": shown_url(self.source_map),
        }
        return {name: value for name, value in facts.items() if value}

    @property
    def has_symtab(self) -> bool:
        return any(section.id == CUSTOM and section.name == "name" for section in self._sections)

    def symbol_names(self) -> memoryview:
        return self._custom("name")

    def read_symbol_table(self) -> SymbolTable | None:
        content = self._custom("name")
        return self._named(content, names_of_functions(content), "name section") if self.has_symtab else None

    def symbol_table(self, table: str = ".symtab") -> SymbolTable | None:
        """Return the names of the name section as ".symtab", or the exports as ".dynsym"."""
        return self._exports if table == ".dynsym" else super().symbol_table(table)

    @cached_property
    def _exports(self) -> SymbolTable | None:
        section = next((section for section in self._sections if section.id == EXPORT), None)
        if section is None:
            return None
        content = self.content(section)
        return self._named(content, (0, len(content)), EXPORTS)

    @cached_property
    def imports(self) -> int:
        """Return how many functions the module imports, which have the first indexes. Raises WasmError."""
        section = next((section for section in self._sections if section.id == IMPORT), None)
        return 0 if section is None else imported_functions(self.content(section))

    def _named(self, content: memoryview, bounds: tuple[int, int], part: str) -> SymbolTable | None:
        if self._code is None:
            return None
        return as_elf(content, bounds, self._bodies, self.imports, self._code.index, part)


def shown_url(url: str) -> str:
    """Return a URL for people, which is short for one with the data in it."""
    return f"{url.partition(',')[0]},..." if url.startswith("data:") else url
