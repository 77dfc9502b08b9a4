"""Forging debug info: DIEs as values, in any version, byte order, address size and width.

    root = Die(DW_TAG_compile_unit, [(DW_AT_name, DW_FORM_string, "a.c")], [Die(DW_TAG_subprogram, [...])])
    Debug(version=5).unit(root).elf()

An attribute is (name, form, value) with numbers as in the standard; a reference's value is a Die of the same Debug
or a number, a string's is a str. Sections grow; `elf` puts them into an ELF file with a .text of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.forge.elf import Section, Symbol, forge, packed
from tests.forge.lines import sleb, uleb
from whence._base.window import ByteOrder
from whence.objects.elf.kernels.constants import ET_DYN

# Tags (DWARF 5, 7.5.3)
DW_TAG_class_type = 0x02
DW_TAG_enumeration_type = 0x04
DW_TAG_formal_parameter = 0x05
DW_TAG_lexical_block = 0x0B
DW_TAG_member = 0x0D
DW_TAG_compile_unit = 0x11
DW_TAG_structure_type = 0x13
DW_TAG_inlined_subroutine = 0x1D
DW_TAG_module = 0x1E
DW_TAG_base_type = 0x24
DW_TAG_enumerator = 0x28
DW_TAG_subprogram = 0x2E
DW_TAG_try_block = 0x32
DW_TAG_variable = 0x34
DW_TAG_namespace = 0x39
DW_TAG_partial_unit = 0x3C
DW_TAG_type_unit = 0x41

# Attributes (7.5.4, and GNU's)
DW_AT_sibling = 0x01
DW_AT_location = 0x02
DW_AT_name = 0x03
DW_AT_stmt_list = 0x10
DW_AT_low_pc = 0x11
DW_AT_high_pc = 0x12
DW_AT_language = 0x13
DW_AT_comp_dir = 0x1B
DW_AT_abstract_origin = 0x31
DW_AT_decl_file = 0x3A
DW_AT_decl_line = 0x3B
DW_AT_declaration = 0x3C
DW_AT_specification = 0x47
DW_AT_type = 0x49
DW_AT_ranges = 0x55
DW_AT_call_column = 0x57
DW_AT_call_file = 0x58
DW_AT_call_line = 0x59
DW_AT_signature = 0x69
DW_AT_linkage_name = 0x6E
DW_AT_str_offsets_base = 0x72
DW_AT_addr_base = 0x73
DW_AT_rnglists_base = 0x74
DW_AT_dwo_name = 0x76
DW_AT_GNU_dwo_name = 0x2130
DW_AT_GNU_dwo_id = 0x2131
DW_AT_GNU_ranges_base = 0x2132
DW_AT_GNU_addr_base = 0x2133
DW_AT_GNU_discriminator = 0x2136

# Forms (7.5.6, and GNU's)
DW_FORM_addr = 0x01
DW_FORM_block2 = 0x03
DW_FORM_block4 = 0x04
DW_FORM_data2 = 0x05
DW_FORM_data4 = 0x06
DW_FORM_data8 = 0x07
DW_FORM_string = 0x08
DW_FORM_block = 0x09
DW_FORM_block1 = 0x0A
DW_FORM_data1 = 0x0B
DW_FORM_flag = 0x0C
DW_FORM_sdata = 0x0D
DW_FORM_strp = 0x0E
DW_FORM_udata = 0x0F
DW_FORM_ref_addr = 0x10
DW_FORM_ref1 = 0x11
DW_FORM_ref2 = 0x12
DW_FORM_ref4 = 0x13
DW_FORM_ref8 = 0x14
DW_FORM_ref_udata = 0x15
DW_FORM_indirect = 0x16
DW_FORM_sec_offset = 0x17
DW_FORM_exprloc = 0x18
DW_FORM_flag_present = 0x19
DW_FORM_strx = 0x1A
DW_FORM_addrx = 0x1B
DW_FORM_ref_sup4 = 0x1C
DW_FORM_strp_sup = 0x1D
DW_FORM_data16 = 0x1E
DW_FORM_line_strp = 0x1F
DW_FORM_ref_sig8 = 0x20
DW_FORM_implicit_const = 0x21
DW_FORM_loclistx = 0x22
DW_FORM_rnglistx = 0x23
DW_FORM_ref_sup8 = 0x24
DW_FORM_strx1 = 0x25
DW_FORM_strx2 = 0x26
DW_FORM_strx3 = 0x27
DW_FORM_strx4 = 0x28
DW_FORM_addrx1 = 0x29
DW_FORM_addrx2 = 0x2A
DW_FORM_addrx3 = 0x2B
DW_FORM_addrx4 = 0x2C
DW_FORM_GNU_addr_index = 0x1F01
DW_FORM_GNU_str_index = 0x1F02
DW_FORM_GNU_ref_alt = 0x1F20
DW_FORM_GNU_strp_alt = 0x1F21

FIXED = {
    DW_FORM_data1: 1, DW_FORM_data2: 2, DW_FORM_data4: 4, DW_FORM_data8: 8, DW_FORM_flag: 1, DW_FORM_ref1: 1,
    DW_FORM_ref2: 2, DW_FORM_ref4: 4, DW_FORM_ref8: 8, DW_FORM_strx1: 1, DW_FORM_strx2: 2, DW_FORM_strx3: 3,
    DW_FORM_strx4: 4, DW_FORM_addrx1: 1, DW_FORM_addrx2: 2, DW_FORM_addrx3: 3, DW_FORM_addrx4: 4, DW_FORM_data16: 16,
    DW_FORM_ref_sig8: 8, DW_FORM_ref_sup4: 4, DW_FORM_ref_sup8: 8,
}  # fmt: skip
OFFSETS = {
    DW_FORM_strp,
    DW_FORM_sec_offset,
    DW_FORM_strp_sup,
    DW_FORM_line_strp,
    DW_FORM_ref_addr,
    DW_FORM_GNU_ref_alt,
    DW_FORM_GNU_strp_alt,
}
LEBS = {
    DW_FORM_udata,
    DW_FORM_ref_udata,
    DW_FORM_strx,
    DW_FORM_addrx,
    DW_FORM_loclistx,
    DW_FORM_rnglistx,
    DW_FORM_GNU_addr_index,
    DW_FORM_GNU_str_index,
}
REFERENCES = {DW_FORM_ref_addr, DW_FORM_ref1, DW_FORM_ref2, DW_FORM_ref4, DW_FORM_ref8, DW_FORM_ref_udata}


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
        if form == DW_FORM_string:
            return str(value).encode() + b"\0"
        if form in (DW_FORM_strp, DW_FORM_line_strp) and isinstance(value, str):
            table = self.strings if form == DW_FORM_strp else self.line_strings
            offset = len(table)
            table += value.encode() + b"\0"
            return self.offset(offset)
        if isinstance(value, bytes):
            sizes = {DW_FORM_block1: 1, DW_FORM_block2: 2, DW_FORM_block4: 4}
            return (self.number(len(value), sizes[form]) if form in sizes else uleb(len(value))) + value
        if isinstance(value, tuple):  # DW_FORM_indirect: the form in the DIE
            return uleb(value[0]) + self.value(*value)
        assert isinstance(value, int)
        if form in FIXED:
            return self.number(value, FIXED[form])
        if form in OFFSETS:
            return (
                self.number(value, self.address_size)
                if form == DW_FORM_ref_addr and self.version == 2
                else self.offset(value)
            )
        if form in LEBS:
            return uleb(value)
        return {DW_FORM_addr: self.number(value, self.address_size), DW_FORM_sdata: sleb(value)}.get(form, b"")

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
        constants = tuple(value for _, form, value in die.attributes if form == DW_FORM_implicit_const)
        shape = die.tag, die.children is not None, tuple(pair[:2] for pair in die.attributes), constants
        if shape not in codes:
            codes[shape] = self.codes_from + self.codes_step * len(codes)
            table += uleb(codes[shape]) + uleb(die.tag) + bytes([die.children is not None])
            for name, form, value in die.attributes:
                table += uleb(name) + uleb(form)
                if form == DW_FORM_implicit_const and isinstance(value, int):
                    table += sleb(value)
            table += b"\0\0"
        body += uleb(codes[shape])
        for name, form, value in die.attributes:
            if name == DW_AT_sibling and value is None:  # patched when the children are written
                offset = len(body)
                body += bytes(FIXED[form])
                continue
            if isinstance(value, Die) and form in REFERENCES and form != DW_FORM_ref_addr:
                value = value.offset - start
            body += self.value(form, value)
        for child in die.children or ():
            self._write(child, body, base, start, codes, table)
        if die.children is not None:
            body += b"\0"
        for name, form, value in die.attributes:
            if name == DW_AT_sibling and value is None:
                body[offset : offset + FIXED[form]] = self.number(base + len(body) - start, FIXED[form])

    def range_list(self, *pairs: tuple[int, int]) -> int:
        """A list for .debug_ranges; gives its offset."""
        offset = len(self.ranges)
        for start, end in (*pairs, (0, 0)):
            self.ranges += self.number(start, self.address_size) + self.number(end, self.address_size)
        return offset

    def contents(self) -> dict[str, bytes]:
        """The sections that have bytes, by their names after .debug_."""
        named = {
            "info": self.info, "abbrev": self.abbrev, "str": self.strings, "line_str": self.line_strings,
            "ranges": self.ranges, "rnglists": self.rnglists, "addr": self.addr, "str_offsets": self.str_offsets,
            "line": self.line,
        }  # fmt: skip
        return {name: bytes(data) for name, data in named.items() if data}

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
        sections = [Section(".text", b"", type=8, flags=6, vaddr=text[0], size=text[1])]
        sections += before
        sections += [Section(f".debug_{name}{suffix}", data) for name, data in self.contents().items()]
        if pack:
            sections[1 + len(before)] = packed(sections[1 + len(before)], pack, self.address_size * 8, self.order)
        return forge([*sections, *more], bits=self.address_size * 8, order=self.order, type=type, symbols=symbols)


def function(name: str, low: int, size: int, *children: Die) -> Die:
    """A function as most producers write it (from DWARF 4 on)."""
    return Die(
        DW_TAG_subprogram,
        [(DW_AT_name, DW_FORM_string, name), (DW_AT_low_pc, DW_FORM_addr, low), (DW_AT_high_pc, DW_FORM_udata, size)],
        children or None,
    )


def inlined(origin: Die, low: int, size: int, line: int, *children: Die) -> Die:
    attributes: list[tuple[int, int, object]] = [
        (DW_AT_abstract_origin, DW_FORM_ref4, origin), (DW_AT_low_pc, DW_FORM_addr, low),
        (DW_AT_high_pc, DW_FORM_udata, size), (DW_AT_call_file, DW_FORM_data1, 1),
        (DW_AT_call_line, DW_FORM_udata, line),
    ]  # fmt: skip
    return Die(DW_TAG_inlined_subroutine, attributes, children or None)
