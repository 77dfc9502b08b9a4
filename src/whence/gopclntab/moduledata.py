"""runtime.moduledata: the addresses that a Go program's tables count from.

The linker writes it as words; the first ones point into the table, so that a moduledata is recognized by its content,
not by its name. Layouts differ only after `etext`:

    word   0  the header          19  findfunctab          22  text
           1  names (slice)       20  minpc                23  etext
           4  units (slice)       21  maxpc                24..  noptrdata, data, bss, ...
           7  texts (slice)
          10  pctab (slice)
          13  records (slice)
          16  functab (slice; its length is functions + 1)

The positions of `gofunc` (the base of funcdata offsets) and of the following map of text sections depend on the
release.
"""

from __future__ import annotations

from itertools import chain, islice

from whence._base.records import Record
from whence.gopclntab.find import symbol_value
from whence.gopclntab.header import PclntabHeader
from whence.gopclntab.image import Image
from whence.objects.interface import ObjectFile

# words of runtime.moduledata, by the names of its fields; a slice is a pointer, a length and a capacity
PCHEADER, FUNCNAMETAB, CUTAB, FILETAB, PCTAB, PCLNTABLE, FTAB, FTAB_LENGTH = 0, 1, 4, 7, 10, 13, 16, 17
MINPC, MAXPC, TEXT, ETEXT = 20, 21, 22, 23
WORDS = 52  # words to read: past the section map in every release
GOFUNC = {"1.18": (38,), "1.20": (40, 43)}  # by the table's version: 1.18-1.19; 1.20-1.26 and 1.27
SECTION_MAP = {38: 39, 40: 41, 43: 45}  # by gofunc's word: the slice after it (1.27 has epclntab between)
MAX_SECTIONS = 4096
MAX_CANDIDATES = 256  # words that point at the table


class ModuleData(Record, frozen=True):
    """The words of a moduledata."""

    vaddr: int
    words: tuple[int, ...]

    @property
    def text(self) -> int:
        return self.words[TEXT]


def find_moduledata(elf: ObjectFile, image: Image, header: PclntabHeader, vaddr: int) -> ModuleData | None:
    """Return the moduledata that points at the table at `vaddr`, None if it is not found."""
    candidates = []
    named = symbol_value(elf, "runtime.firstmoduledata")
    if named is not None:
        candidates.append(named)
    section = elf.section(".go.module")
    if section is not None:
        candidates.append(section.vaddr)
    for candidate in chain(candidates, islice(image.vaddrs_of(vaddr), MAX_CANDIDATES)):
        if (module := _read(image, header, vaddr, candidate)) is not None:
            return module
    return None


def _read(image: Image, header: PclntabHeader, vaddr: int, candidate: int) -> ModuleData | None:
    """Return the moduledata at `candidate`, if its words agree with the table at `vaddr`."""
    words = image.words(candidate, TEXT + 2)
    if words is None:
        return None
    expected = {
        PCHEADER: vaddr,
        FUNCNAMETAB: vaddr + header.names_at,
        CUTAB: vaddr + header.units_at,
        FILETAB: vaddr + header.texts_at,
        PCTAB: vaddr + header.pctab_at,
        PCLNTABLE: vaddr + header.functab_at,
        FTAB_LENGTH: header.functions + 1,
    }
    if any(words[index] != value for index, value in expected.items()):
        return None
    return ModuleData(candidate, image.words(candidate, WORDS) or words)


def text_sections(
    image: Image, module: ModuleData, gofunc_word: int, executable: list[tuple[int, int]]
) -> list[tuple[int, int, int]]:
    """Return the map of text sections, (offset, end, vaddr) each; [] if the text is one piece or the map is invalid.

    Very large programs on ppc64 and arm64 are linked in several pieces, which an external linker may move apart. The
    first piece starts at the start of the text, offsets ascend, and every piece is in executable bytes.
    """
    index = SECTION_MAP[gofunc_word]
    if len(module.words) < index + 2:
        return []
    pointer, count = module.words[index], module.words[index + 1]
    if not 1 < count <= MAX_SECTIONS:
        return []
    words = image.words(pointer, 3 * count)
    if words is None or (words[0], words[2]) != (0, module.text):
        return []
    pieces = [(words[i], words[i + 1], words[i + 2]) for i in range(0, 3 * count, 3)]
    previous = 0
    for start, end, vaddr in pieces:
        if not previous <= start < end:
            return []
        if not any(low <= vaddr and vaddr + end - start <= high for low, high in executable):
            return []
        previous = end
    return pieces
