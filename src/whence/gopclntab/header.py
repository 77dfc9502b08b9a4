"""The header: 8 bytes that are the same in every version, then words, which a table per magic names.

    0  u32  magic
    4  u16  zero
    6  u8   quantum: the unit of pc deltas (1, 2 or 4)
    7  u8   pointer size (4 or 8): the width of the following words
    8  words

The magics differ in the other byte order, so that the magic determines the order. Offsets in the words count from the
header's first byte.
"""

from __future__ import annotations

from whence._base.errors import GopclntabError, shown
from whence._base.records import Record
from whence._base.window import ByteOrder, Window
from whence.gopclntab.kernels import constants

ZERO_AT, QUANTUM_AT, POINTER_AT, HEADER_START = 4, 6, 7, 8
QUANTA, POINTERS = (1, 2, 4), (4, 8)


class PclntabVersion(Record, frozen=True):
    """A layout of the table. Offsets in a function's record count from the field after its entry."""

    since: str  # the first Go release that writes it
    magic: int
    words: tuple[str, ...]
    relative: bool  # entries are 32-bit offsets from the text base, otherwise addresses
    cu_at: int  # in the record: the unit of its file numbers; -1: there are no units
    last_at: int  # in the record: the word whose last byte is the number of funcdata
    start_at: int = -1  # in the record: the line the function starts on; -1: not recorded

    @property
    def has_units(self) -> bool:
        """True if file numbers count in a unit of files, False if in the files of the program."""
        return self.cu_at >= 0


# the magics, as internal/abi/symtab.go names them
Go12PCLnTabMagic = 0xFFFFFFFB
Go116PCLnTabMagic = 0xFFFFFFFA
Go118PCLnTabMagic = 0xFFFFFFF0
Go120PCLnTabMagic = 0xFFFFFFF1

_CU = constants.FUNC_cuOffset
_WORDS_116 = ("functions", "files", "names_at", "units_at", "texts_at", "pctab_at", "functab_at")
_WORDS_118 = ("functions", "files", "text", "names_at", "units_at", "texts_at", "pctab_at", "functab_at")

VERSIONS = (
    PclntabVersion(
        "1.2", Go12PCLnTabMagic, ("functions",), relative=False, cu_at=-1, last_at=constants.FUNC_last_go1_2
    ),
    PclntabVersion(
        "1.16", Go116PCLnTabMagic, _WORDS_116, relative=False, cu_at=_CU, last_at=constants.FUNC_last_go1_16
    ),
    PclntabVersion("1.18", Go118PCLnTabMagic, _WORDS_118, relative=True, cu_at=_CU, last_at=constants.FUNC_last_go1_16),
    PclntabVersion(
        *("1.20", Go120PCLnTabMagic, _WORDS_118),
        relative=True,
        cu_at=_CU,
        last_at=constants.FUNC_last_go1_20,
        start_at=constants.FUNC_startLine,
    ),
)

ORDERS: tuple[ByteOrder, ...] = ("little", "big")
MAGICS = {version.magic.to_bytes(4, order): (version, order) for version in VERSIONS for order in ORDERS}


class PclntabHeader(Record, frozen=True):
    """The header's values. Offsets are into the table; 0 if the version has no such word."""

    version: PclntabVersion
    order: ByteOrder
    quantum: int
    pointer: int
    functions: int
    files: int = 0
    text: int = 0
    names_at: int = 0
    units_at: int = 0
    texts_at: int = 0
    pctab_at: int = 0
    functab_at: int = 0

    @property
    def field(self) -> int:
        """The width of a field of functab."""
        return 4 if self.version.relative else self.pointer

    @property
    def text_word_at(self) -> int:
        """The offset of the text base's word, where the version has one."""
        return HEADER_START + 2 * self.pointer

    def end_of(self, start: int, size: int) -> int:
        """Return where the part that starts at `start` must end: the next part, or the table's end."""
        starts = (self.names_at, self.units_at, self.texts_at, self.pctab_at, self.functab_at)
        return min((offset for offset in starts if offset > start), default=size)


def looks_like_header(data: memoryview, offset: int = 0) -> bool:
    """Return True if the first eight bytes are valid: cheap enough for a search."""
    head = bytes(data[offset : offset + HEADER_START])
    if len(head) < HEADER_START or head[:4] not in MAGICS:
        return False
    return head[ZERO_AT:QUANTUM_AT] == b"\0\0" and head[QUANTUM_AT] in QUANTA and head[POINTER_AT] in POINTERS


def read_header(data: memoryview) -> PclntabHeader:
    """Read and check the header: every part starts inside the table, and functab is inside it completely."""
    window = Window(data, "header", error=GopclntabError)
    entry = MAGICS.get(window.raw(0, 4))
    if entry is None:
        raise GopclntabError(
            "header", 0, f"unknown magic {shown(window.raw(0, 4))}; known are those of Go 1.2, 1.16, 1.18 and 1.20"
        )
    version, order = entry
    window = Window(data, "header", order, GopclntabError)
    if window.raw(ZERO_AT, 2) != b"\0\0":
        raise GopclntabError(
            "header", ZERO_AT, f"the bytes after the magic are {shown(window.raw(ZERO_AT, 2))}, expected 00 00"
        )
    quantum, pointer = window.u8(QUANTUM_AT), window.u8(POINTER_AT)
    if quantum not in QUANTA:
        raise GopclntabError("header", QUANTUM_AT, f"the quantum is {quantum}, expected 1, 2 or 4")
    if pointer not in POINTERS:
        raise GopclntabError("header", POINTER_AT, f"the pointer size is {pointer}, expected 4 or 8")
    words = window.unpack(("I" if pointer == 4 else "Q") * len(version.words), HEADER_START)
    header = PclntabHeader(version, order, quantum, pointer, **dict(zip(version.words, words)))
    if not header.functab_at:  # 1.2: functab follows the header, and every offset counts from the table's start
        header = PclntabHeader(version, order, quantum, pointer, words[0], functab_at=HEADER_START + pointer)
    for word, position in zip(version.words, words):
        if word.endswith("_at") and position > len(data):
            offset = HEADER_START + version.words.index(word) * pointer
            raise GopclntabError(
                "header", offset, f"{word[:-3]} starts at {position:#x}, past the end of the table ({len(data):#x})"
            )
    fields = (len(data) - header.functab_at) // header.field
    if 2 * header.functions + 1 > fields:
        problem = f"{header.functions} functions do not fit into functab, which has {fields} fields"
        raise GopclntabError("header", HEADER_START, problem)
    return header
