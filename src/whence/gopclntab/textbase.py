"""The text base, which entries count from: every source that states it is tried, and checked before it is believed.

    1.2 .. 1.17    entries are addresses; there is no base
    1.18 .. 1.25   the header has it (in position-independent executables through a relocation)
    1.26 ..        the header's word is 0; moduledata has it

The symbol runtime.text has it in all of them, but is gone from stripped files. `.text` is no substitute: C code may
lie before Go's. A wrong base gives every function another one's name, so a base must put the functions where
the file has code, must agree with moduledata's first and last pc, and must hit the symbol table's functions.
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

ENOUGH = 0.75  # of the sampled functions must be among the symbols


class TextBase(Record, frozen=True):
    vaddr: int  # 0: entries are addresses already
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
        if word:  # the segments of a debug file may lead to other bytes than the section does
            yield TextBase(word, "header")


def executable_extents(elf: ObjectFile) -> list[tuple[int, int]]:
    """[start, end) in vaddrs of what is executed, by segments and by sections.

    Also where the file has no bytes for it: debug files keep the table and cut the code away, and then a segment may be
    gone or empty while the section still says where the code was.
    """
    segments = [(one.vaddr, one.vaddr + max(one.file_size, one.memory_size)) for one in elf.code_segments()]
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
    """The base that stands every check. `offsets` are entries from functab: its first, samples, its last.

    Raises GopclntabError with what spoke against each candidate when none stands.
    """
    against = []
    first, last = offsets[0], offsets[-1]
    symbols = _function_values(elf)
    for base in _candidates(elf, image, header, vaddr, module):
        reason = "" if in_pieces else _objection(elf, base.vaddr, module, first, last)
        reason = reason or ("" if in_pieces else _missing(symbols, header.functions, base.vaddr, offsets))
        if not reason:
            return base
        against.append(f"{base.vaddr:#x} from {base.found_by}: {reason}")
    if not against:
        against.append("neither header, nor moduledata, nor symbol runtime.text")
    offset = header.text_word_at if header.version.relative else None
    raise GopclntabError(
        "text base", offset, "something says where the text starts, and it is right", "; ".join(against)
    )


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
    """Why the symbol table contradicts a base; "" where it does not, or has too few of the functions."""
    known = sum(base + offsets[0] <= value < base + offsets[-1] for value in symbols)
    if 2 * known < functions:
        return ""
    hits = sum(base + offset in symbols for offset in offsets[:-1])
    return "" if hits >= ENOUGH * (len(offsets) - 1) else f"{hits} of {len(offsets) - 1} functions start at a symbol"
