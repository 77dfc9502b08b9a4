"""The text base, which entries count from: every source is tried, and checked before it is used.

    1.2 .. 1.17    entries are addresses; there is no base
    1.18 .. 1.25   the header has it (in position-independent executables through a relocation)
    1.26 ..        the header's word is 0; moduledata has it

The symbol runtime.text has it in all releases, but not in stripped files. `.text` is not a substitute: C code may come
before Go's. A wrong base gives every function another name, so a base must put the functions where the file has code,
must agree with moduledata's first and last pc, and must match the symbol table's functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from whence._base.errors import GopclntabError, ObjectError
from whence._base.records import Record
from whence.gopclntab.find import symbol_value
from whence.gopclntab.header import PclntabHeader
from whence.gopclntab.image import Image
from whence.gopclntab.moduledata import MAXPC, MINPC, ModuleData
from whence.objects.interface import ObjectFile

ENOUGH = 0.75  # share of the sampled functions that must be among the symbols


class TextBase(Record, frozen=True):
    """A vaddr that entries may count from, and its source."""

    vaddr: int  # 0: entries are addresses
    found_by: str


def _candidates(
    elf: ObjectFile, image: Image, header: PclntabHeader, vaddr: int, module: ModuleData | None
) -> Iterator[TextBase]:
    if not header.version.relative:
        yield TextBase(0, "entries are addresses")
        return
    if module is not None:
        yield TextBase(module.text, "moduledata")
    symbol = symbol_value(elf, "runtime.text")
    if symbol is not None:
        yield TextBase(symbol, "symbol runtime.text")
    for word in dict.fromkeys((image.word(vaddr + header.text_word_at), header.text)):
        if word:  # segments of a debug file may have other bytes than the section
            yield TextBase(word, "header")


def executable_extents(elf: ObjectFile) -> list[tuple[int, int]]:
    """Return [start, end) in vaddrs of executable memory, by segments and by sections.

    Code that the file has no bytes for counts, too: debug files keep the table and drop the code, and then a segment
    may be missing or empty while the section still has the extent.
    """
    segments = [
        (segment.vaddr, segment.vaddr + max(segment.file_size, segment.memory_size)) for segment in elf.code_segments()
    ]
    return [(start, end) for start, end in segments if start < end] + elf.code_ranges()


def choose(
    elf: ObjectFile,
    image: Image,
    header: PclntabHeader,
    vaddr: int,
    module: ModuleData | None,
    offsets: Sequence[int],
    *,
    in_pieces: bool,
) -> TextBase:
    """Return the base that passes every check.

    Args:
        offsets: entries from functab: its first, samples, its last.

    Raises:
        GopclntabError: no candidate passes; the message has the objection to each.
    """
    objections = []
    first, last = offsets[0], offsets[-1]
    symbols = _function_values(elf)
    for base in _candidates(elf, image, header, vaddr, module):
        reason = "" if in_pieces else _objection(elf, base.vaddr, module, first, last)
        reason = reason or ("" if in_pieces else _missing(symbols, header.functions, base.vaddr, offsets))
        if not reason:
            return base
        objections.append(f"{base.vaddr:#x} from {base.found_by}: {reason}")
    if not objections:
        objections.append("neither the header, nor moduledata, nor the symbol runtime.text has it")
    offset = header.text_word_at if header.version.relative else None
    raise GopclntabError("text base", offset, f"the start of the text is unknown: {'; '.join(objections)}")


def _objection(elf: ObjectFile, base: int, module: ModuleData | None, first: int, last: int) -> str:
    extents = executable_extents(elf)
    if not any(start <= base + first and base + last <= end for start, end in extents):
        return f"[{base + first:#x}, {base + last:#x}) is not executable"
    if module is not None and (module.words[MINPC], module.words[MAXPC]) != (base + first, base + last):
        return f"moduledata has [{module.words[MINPC]:#x}, {module.words[MAXPC]:#x})"
    return ""


def _function_values(elf: ObjectFile) -> set[int]:
    try:
        symbols = elf.symbols(".symtab")
    except ObjectError:
        return set()
    return {value for value, _ in symbols.functions() if value}


def _missing(symbols: set[int], functions: int, base: int, offsets: Sequence[int]) -> str:
    """Return why the symbol table contradicts a base; "" if it does not, or has too few of the functions."""
    inside = sum(base + offsets[0] <= value < base + offsets[-1] for value in symbols)
    if 2 * inside < functions:
        return ""
    hits = sum(base + offset in symbols for offset in offsets[:-1])
    return "" if hits >= ENOUGH * (len(offsets) - 1) else f"{hits} of {len(offsets) - 1} functions start at a symbol"
