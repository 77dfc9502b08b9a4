"""Line programs: any bytes give ascending rows or problems, never anything raised."""

from itertools import pairwise, product

from tests.forge.lines import program, sections
from whence._base.window import ByteOrder
from whence.dwarf.lines import read_lines
from whence.ranges import StringSpace
from whence.ranges.strings import Arena

STEPS = [
    ("set_address", 0x1000), ("special", 0, 6), ("file", 2), ("special", 4, 1), ("const_add_pc",), ("advance_line", -3),
    ("copy",), ("fixed_advance_pc", 300), ("define_file", 1, "x.y"), ("file", 3), ("special", 1, 2), ("end", 8),
    ("set_address", 0x800), ("special", 0, 1), ("advance_pc", 5), ("copy",), ("end", 1),
]  # fmt: skip


def seeds() -> list[bytes]:
    """One program for each version, with a byte before it: bit 0 big-endian, bit 1 addresses of 4 bytes."""
    made = []
    for flags in range(4):
        order, size = "big" if flags & 1 else "little", 4 if flags & 2 else 8
        for version, wide in product((2, 4, 5), (False, True)):
            full = program(STEPS, version=version, wide=wide, order=order, address_size=size, max_operations=flags + 1)
            made.append(bytes([flags]) + full)
    return made


def target(data: bytes) -> None:
    if not data:
        return
    order: ByteOrder = "big" if data[0] & 1 else "little"
    size = 4 if data[0] & 2 else 8
    space = StringSpace()
    result = sections(data[1:], line_str=b"one\0two\0", strings=b"three\0")
    table = read_lines(result, offset=0, arena=Arena(space), order=order, address_size=size, comp_dir=b"/src", lowest=0)
    if not all(a < b for a, b in pairwise(table.rows.vaddr)):
        raise AssertionError("rows ascend")
    if not len(table.rows.vaddr) == len(table.rows.file) == len(table.rows.line) <= 2 * len(data):
        raise AssertionError("a row costs a byte")
    if any(file >= len(table.rows.files) and file != 0xFFFFFFFF for file in table.rows.file):
        raise AssertionError("a row's file is one of the files")
