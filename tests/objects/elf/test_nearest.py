"""The symbols that llvm-symbolizer and binutils name, on forged tables with several symbols at one address."""

from __future__ import annotations

from tests.forge.elf import Section, Symbol, forge
from whence.dropin.nearest import SymbolIndex
from whence.objects.elf import ElfFile

TEXT = Section(".text", bytes(0x100), flags=6, vaddr=0x1000)
DATA = Section(".data", bytes(0x100), flags=3, vaddr=0x2000)
NOTYPE, OBJECT, FUNC, FILE = 0, 1, 2, 4
LOCAL, GLOBAL = 0, 1
ABSOLUTE = 0xFFF1


def index(*symbols: Symbol) -> SymbolIndex:
    return SymbolIndex(ElfFile.from_bytes(forge([TEXT, DATA], symbols=list(symbols))), ".symtab")


def llvm(vaddr: int, *symbols: Symbol) -> str:
    result = index(*symbols).llvm(vaddr)
    return result.name if result is not None else ""


def bfd(vaddr: int, *symbols: Symbol) -> str:
    result = index(*symbols).bfd(vaddr)
    return result.name if result is not None else ""


def test_of_symbols_at_one_address_llvm_names_the_largest_and_of_equal_ones_the_last() -> None:
    assert llvm(0x1011, Symbol("big", 0x1010, 16), Symbol("small", 0x1010, 8)) == "big"
    assert llvm(0x1011, Symbol("one", 0x1010, 16), Symbol("other", 0x1010, 16)) == "other"


def test_llvm_names_nothing_beyond_the_last_symbol_even_where_an_earlier_one_reaches() -> None:
    assert llvm(0x1018, Symbol("around", 0x1000, 64), Symbol("inner", 0x1010, 8)) == ""
    assert llvm(0x1017, Symbol("around", 0x1000, 64), Symbol("inner", 0x1010, 8)) == "inner"


def test_a_symbol_without_a_size_names_the_rest_of_its_section_alone() -> None:
    assert llvm(0x10FF, Symbol("_start", 0x1010, 0, type=NOTYPE)) == "_start"
    assert llvm(0x2000, Symbol("_start", 0x1010, 0, type=NOTYPE)) == ""
    assert llvm((1 << 64) - 1, Symbol("_end", 0x2080, 0, type=NOTYPE, section=2)) == ""


def test_of_symbols_at_one_address_binutils_name_the_smallest_function_that_reaches() -> None:
    assert bfd(0x1011, Symbol("big", 0x1010, 16), Symbol("small", 0x1010, 8)) == "small"
    assert bfd(0x1019, Symbol("big", 0x1010, 16), Symbol("small", 0x1010, 8)) == "big"
    assert bfd(0x1010, Symbol("mark", 0x1010, 1, type=NOTYPE), Symbol("f", 0x1010, 8)) == "f"
    assert bfd(0x1011, Symbol("one", 0x1010, 16), Symbol("other", 0x1010, 16)) == "one"


def test_binutils_name_the_last_symbol_of_the_section_whether_it_reaches_or_not() -> None:
    assert bfd(0x10F0, Symbol("f", 0x1010, 8), Symbol("table", 0x1020, 8, type=OBJECT)) == "f"
    assert bfd(0x2010, Symbol("f", 0x1010, 8)) == ""


def test_a_local_symbol_is_of_the_file_named_before_it() -> None:
    symbols = (
        Symbol("a.c", 0, 0, type=FILE, bind=LOCAL, section=ABSOLUTE),
        Symbol("f", 0x1010, 8, bind=LOCAL),
        Symbol("b.c", 0, 0, type=FILE, bind=LOCAL, section=ABSOLUTE),
        Symbol("g", 0x1020, 8, bind=LOCAL),
        Symbol("main", 0x1030, 8),
    )
    result = [symbol.file for offset in (0x1010, 0x1020, 0x1030) if (symbol := index(*symbols).llvm(offset))]
    assert result == ["a.c", "b.c", ""]
    alone = index(symbols[0], symbols[1], symbols[4]).bfd(0x1030)
    assert alone is not None
    assert alone.file == "a.c"


def test_symbols_are_found_by_name() -> None:
    table = index(Symbol("f", 0x1010, 8), Symbol("f", 0x1020, 8), Symbol("alias", 0x1010, 4))
    assert [symbol.start for symbol in table.named("f")] == [0x1010, 0x1020]
    assert list(table.named("alias")) == []
