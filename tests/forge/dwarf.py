"""Forging debug info: DIEs as values, in any version, byte order, address size and width.

    Debug(version=5).unit(Die(CU, [(NAME, STRING, "a.c")], [Die(FUNCTION, [...])])).elf()

An attribute is (name, form, value) with numbers as in the standard; a reference's value is a Die of the same forging
(or a number), a string's is a str. Sections grow; `elf` puts them into an ELF file with a .text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.forge.elf import Section, Symbol, forge, packed
from tests.forge.lines import sleb, uleb
from whence._base.window import ByteOrder
from whence.objects.elf.kernels.constants import ET_DYN

# Tags
CU, PARTIAL, FUNCTION, INLINED, BLOCK, NAMESPACE, STRUCTURE, CLASS, VARIABLE, PARAMETER, BASE = (
    0x11, 0x3C, 0x2E, 0x1D, 0x0B, 0x39, 0x13, 0x02, 0x34, 0x05, 0x24,
)  # fmt: skip
# Attributes
SIBLING, NAME, STMT_LIST, LOW, HIGH, LANGUAGE, COMP_DIR, ORIGIN, DECLARATION, SPECIFICATION, RANGES = (
    0x01, 0x03, 0x10, 0x11, 0x12, 0x13, 0x1B, 0x31, 0x3C, 0x47, 0x55,
)  # fmt: skip
CALL_FILE, CALL_LINE, LINKAGE, STR_BASE, ADDR_BASE, RNG_BASE, DWO_NAME, LOCATION, TYPE = (
    0x58, 0x59, 0x6E, 0x72, 0x73, 0x74, 0x76, 0x02, 0x49,
)  # fmt: skip
DECL_FILE, DECL_LINE, CALL_COLUMN, GNU_DISCRIMINATOR = 0x3A, 0x3B, 0x57, 0x2136
GNU_DWO_NAME, GNU_DWO_ID, GNU_RANGES_BASE, GNU_ADDR_BASE = 0x2130, 0x2131, 0x2132, 0x2133
# Forms
ADDR, BLOCK2, BLOCK4, DATA2, DATA4, DATA8, STRING, BLOCK_FORM, BLOCK1, DATA1, FLAG, SDATA, STRP, UDATA = (
    0x01, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x0F,
)  # fmt: skip
REF_ADDR, REF1, REF2, REF4, REF8, REF_UDATA, INDIRECT, SEC_OFFSET, EXPRLOC, PRESENT = range(0x10, 0x1A)
STRX, ADDRX, REF_SUP4, STRP_SUP, DATA16, LINE_STRP, REF_SIG8, IMPLICIT, LOCLISTX, RNGLISTX, REF_SUP8 = range(0x1A, 0x25)
STRX1, STRX2, STRX3, STRX4, ADDRX1, ADDRX2, ADDRX3, ADDRX4 = range(0x25, 0x2D)
GNU_ADDR_INDEX, GNU_STR_INDEX, GNU_REF_ALT, GNU_STRP_ALT = 0x1F01, 0x1F02, 0x1F20, 0x1F21

FIXED = {
    DATA1: 1, DATA2: 2, DATA4: 4, DATA8: 8, FLAG: 1, REF1: 1, REF2: 2, REF4: 4, REF8: 8, STRX1: 1, STRX2: 2, STRX3: 3,
    STRX4: 4, ADDRX1: 1, ADDRX2: 2, ADDRX3: 3, ADDRX4: 4, DATA16: 16, REF_SIG8: 8, REF_SUP4: 4, REF_SUP8: 8,
}  # fmt: skip
OFFSETS = {STRP, SEC_OFFSET, STRP_SUP, LINE_STRP, REF_ADDR, GNU_REF_ALT, GNU_STRP_ALT}
LEBS = {UDATA, REF_UDATA, STRX, ADDRX, LOCLISTX, RNGLISTX, GNU_ADDR_INDEX, GNU_STR_INDEX}
REFERENCES = {REF_ADDR, REF1, REF2, REF4, REF8, REF_UDATA}


@dataclass(eq=False)
class Die:
    tag: int
    attributes: Sequence[tuple[int, int, object]] = ()
    children: Sequence[Die] | None = None
    offset: int = 0  # in .debug_info, when it was written


@dataclass
class Debug:
    """The debug sections of one file, growing."""

    version: int = 4
    order: ByteOrder = "little"
    address_size: int = 8
    wide: bool = False  # 64-bit DWARF
    info: bytearray = field(default_factory=bytearray)
    abbrev: bytearray = field(default_factory=bytearray)
    strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    line_strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))
    ranges: bytearray = field(default_factory=bytearray)
    rnglists: bytearray = field(default_factory=bytearray)
    addr: bytearray = field(default_factory=bytearray)
    str_offsets: bytearray = field(default_factory=bytearray)
    line: bytearray = field(default_factory=bytearray)
    codes_from: int = 1
    codes_step: int = 1

    def number(self, value: int, size: int) -> bytes:
        return (value & (1 << 8 * size) - 1).to_bytes(size, self.order)

    def offset(self, value: int) -> bytes:
        return self.number(value, 8 if self.wide else 4)

    def length(self, body: bytes | bytearray) -> bytes:
        """A unit's length field and its body."""
        return (b"\xff" * 4 + self.number(len(body), 8) if self.wide else self.number(len(body), 4)) + body

    def text(self, text: str) -> int:
        """Put a string into .debug_str; gives its offset."""
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text.encode()) - 1

    def value(self, form: int, value: object) -> bytes:
        if isinstance(value, Die):
            value = value.offset
        if form == STRING:
            return str(value).encode() + b"\0"
        if form in (STRP, LINE_STRP) and isinstance(value, str):
            table = self.strings if form == STRP else self.line_strings
            at = len(table)
            table += value.encode() + b"\0"
            return self.offset(at)
        if isinstance(value, bytes):
            sizes = {BLOCK1: 1, BLOCK2: 2, BLOCK4: 4}
            return (self.number(len(value), sizes[form]) if form in sizes else uleb(len(value))) + value
        if isinstance(value, tuple):  # DW_FORM_indirect: the form in the DIE
            return uleb(value[0]) + self.value(*value)
        assert isinstance(value, int)
        if form in FIXED:
            return self.number(value, FIXED[form])
        if form in OFFSETS:
            return (
                self.number(value, self.address_size) if form == REF_ADDR and self.version == 2 else self.offset(value)
            )
        if form in LEBS:
            return uleb(value)
        return {ADDR: self.number(value, self.address_size), SDATA: sleb(value)}.get(form, b"")

    def unit(self, root: Die, *, kind: int = 1, extra: bytes = b"", abbrev_at: int | None = None) -> Debug:
        """Append a unit and its abbreviation table. References to DIEs need two passes over the same sizes."""
        start = len(self.info)
        keep = len(self.strings), len(self.line_strings)
        for last in (False, True):
            del self.strings[keep[0] :], self.line_strings[keep[1] :]
            codes: dict[object, int] = {}
            table = bytearray()
            head = self.number(self.version, 2)
            where = self.offset(len(self.abbrev) if abbrev_at is None else abbrev_at)
            if self.version >= 5:
                head += bytes([kind, self.address_size]) + where + extra
            else:
                head += where + bytes([self.address_size]) + extra
            base = start + (12 if self.wide else 4) + len(head)
            body = bytearray()
            self._write(root, body, base, start, codes, table)
            if last:
                self.info += self.length(head + body)
                if abbrev_at is None:
                    self.abbrev += table + b"\0"
        return self

    def _write(
        self, die: Die, body: bytearray, base: int, start: int, codes: dict[object, int], table: bytearray
    ) -> None:
        die.offset = base + len(body)
        constants = tuple(value for _, form, value in die.attributes if form == IMPLICIT)
        shape = die.tag, die.children is not None, tuple(pair[:2] for pair in die.attributes), constants
        if shape not in codes:
            codes[shape] = self.codes_from + self.codes_step * len(codes)
            table += uleb(codes[shape]) + uleb(die.tag) + bytes([die.children is not None])
            for name, form, value in die.attributes:
                table += uleb(name) + uleb(form)
                if form == IMPLICIT and isinstance(value, int):
                    table += sleb(value)
            table += b"\0\0"
        body += uleb(codes[shape])
        for name, form, value in die.attributes:
            if name == SIBLING and value is None:  # patched when the children are written
                at = len(body)
                body += bytes(FIXED[form])
                continue
            if isinstance(value, Die) and form in REFERENCES and form != REF_ADDR:
                value = value.offset - start
            body += self.value(form, value)
        for child in die.children or ():
            self._write(child, body, base, start, codes, table)
        if die.children is not None:
            body += b"\0"
        for name, form, value in die.attributes:
            if name == SIBLING and value is None:
                body[at : at + FIXED[form]] = self.number(base + len(body) - start, FIXED[form])

    def range_list(self, *pairs: tuple[int, int]) -> int:
        """A list for .debug_ranges; gives its offset."""
        at = len(self.ranges)
        for start, end in (*pairs, (0, 0)):
            self.ranges += self.number(start, self.address_size) + self.number(end, self.address_size)
        return at

    def elf(
        self,
        *,
        text: tuple[int, int] = (0x1000, 0x10000),
        suffix: str = "",
        before: Sequence[Section] = (),
        more: Sequence[Section] = (),
        type: int = ET_DYN,
        pack: str = "",
        symbols: Sequence[Symbol] | None = None,
    ) -> bytes:
        """The sections (and more, and some before) in an ELF file whose code is at [start, start + size) of `text`;
        .debug_info is packed by the method `pack`."""
        named = {
            "info": self.info, "abbrev": self.abbrev, "str": self.strings, "line_str": self.line_strings,
            "ranges": self.ranges, "rnglists": self.rnglists, "addr": self.addr, "str_offsets": self.str_offsets,
            "line": self.line,
        }  # fmt: skip
        sections = [Section(".text", b"", type=8, flags=6, vaddr=text[0], size=text[1])]
        sections += before
        sections += [Section(f".debug_{name}{suffix}", bytes(data)) for name, data in named.items() if data]
        if pack:
            sections[1 + len(before)] = packed(sections[1 + len(before)], pack, self.address_size * 8, self.order)
        return forge([*sections, *more], bits=self.address_size * 8, order=self.order, type=type, symbols=symbols)


def function(name: str, low: int, size: int, *children: Die) -> Die:
    """A function as most producers write it (from DWARF 4 on)."""
    return Die(FUNCTION, [(NAME, STRING, name), (LOW, ADDR, low), (HIGH, UDATA, size)], children or None)


def inlined(origin: Die, low: int, size: int, line: int, *children: Die) -> Die:
    attributes: list[tuple[int, int, object]] = [
        (ORIGIN, REF4, origin), (LOW, ADDR, low), (HIGH, UDATA, size), (CALL_FILE, DATA1, 1), (CALL_LINE, UDATA, line),
    ]  # fmt: skip
    return Die(INLINED, attributes, children or None)
