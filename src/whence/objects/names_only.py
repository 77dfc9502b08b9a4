"""Files that name the code of another file and have no code themselves: GSYM and Breakpad symbol files."""

from __future__ import annotations

from whence.objects.mapped import MappedObject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.objects.elf.symbols import SymbolTable
    from whence.objects.parts import ObjectSection


class NamesFile(MappedObject):
    """A file of functions, without sections and symbol tables; `whence.exchange` reads the functions."""

    @property
    def kind(self) -> str:
        return "symbol file"

    @property
    def has_only_names(self) -> bool:
        return True

    @property
    def sections(self) -> Sequence[ObjectSection]:
        return ()

    @property
    def has_debug_info(self) -> bool:
        """True if it names functions, like a file with debug info."""
        return True

    @property
    def has_symtab(self) -> bool:
        return False

    def symbol_names(self) -> memoryview:
        return self.data[:0]

    def read_symbol_table(self) -> SymbolTable | None:
        return None

    def symbol_table(self, table: str = ".symtab") -> SymbolTable | None:
        return None
