"""Units of debug info, and the code they describe."""

from __future__ import annotations

from tests.forge import dwarf as d
from tests.forge.lines import uleb

CODE = 0x1000
SIZE = 1 << 20


def unit(body: bytes, table: int = 0) -> bytes:
    """A unit of version 4."""
    head = (4).to_bytes(2, "little") + table.to_bytes(4, "little") + b"\x08"
    return (len(head) + len(body)).to_bytes(4, "little") + head + body


def declaration(code: int, tag: int, *attributes: tuple[int, int], children: bool = False, more: bytes = b"") -> bytes:
    said = b"".join(uleb(name) + uleb(form) for name, form in attributes)
    return uleb(code) + uleb(tag) + bytes([children]) + said + more + b"\0\0"


def address(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little")


GOOD_TABLE = declaration(
    1, d.DW_TAG_compile_unit, (d.DW_AT_low_pc, d.DW_FORM_addr), (d.DW_AT_high_pc, d.DW_FORM_data4), children=True
) + declaration(
    2,
    d.DW_TAG_subprogram,
    (d.DW_AT_name, d.DW_FORM_string),
    (d.DW_AT_low_pc, d.DW_FORM_addr),
    (d.DW_AT_high_pc, d.DW_FORM_data4),
)
