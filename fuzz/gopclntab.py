"""Go's function table: every layout, damaged header, functab, records, pc-value tables, inline trees, moduledata."""

from __future__ import annotations

from tests.forge.gopclntab import TEXT, Function, Node, program
from tests.hostile.inputs import gopclntab as hostile
from whence._base.errors import WhenceError
from whence._base.window import ByteOrder
from whence.gopclntab import Pclntab
from whence.gopclntab.header import VERSIONS
from whence.objects.elf import ElfFile
from whence.ranges import StringSpace

LAYOUTS: tuple[tuple[int, ByteOrder, int], ...] = ((8, "little", 1), (8, "big", 4), (4, "little", 4), (4, "big", 2))


def sample(first: int) -> list[Function]:
    nodes = [Node("main.outer", -1, first, 11, 4), Node("main.inner", 0, first, 21, 8)]
    lines, files = [(0, 10), (4, 11), (8, 21), (12, 31), (20, 12)], [(0, first), (8, first + 1), (20, first)]
    inlined = [(0, -1), (8, 0), (12, 1), (16, 0), (20, -1)]
    return [Function(f"main.f{i}", 32, lines, files, inlined, nodes, padding=16) for i in range(4)]


def seeds() -> list[bytes]:
    files = ["/src/main.go", "/src/inner.go"]
    return [
        program(
            sample(version.since == "1.2"), files, since=version.since, pointer=pointer, order=order, quantum=quantum
        )
        for version in VERSIONS
        for pointer, order, quantum in LAYOUTS
    ] + [
        program(sample(0), files, pieces=[(0, 48, TEXT), (48, 96, TEXT + 144), (96, 192, TEXT + 48)]),
        hostile.deep_trees(400),
        hostile.old_deep_trees(400),
        hostile.standstill(20),
    ]


def target(data: bytes) -> None:
    table = Pclntab.find(ElfFile.from_bytes(data))
    if table is None:
        return
    strings = StringSpace()
    for lines, files, inlines in ((True, True, True), (False, False, True), (True, False, False)):
        try:
            ranges = table.ranges(strings, lines, files, inlines=inlines)
        except WhenceError:
            continue
        assert 0 not in ranges.length, "a range of no bytes"
        for name in ranges.function[:100]:
            strings.text(name)
        for index, count in zip(ranges.line_index, ranges.line_count):
            assert index + count <= len(ranges.line_number)
            offsets = list(ranges.line_offset[index : index + count])
            assert offsets == sorted(set(offsets)), "rows out of order"
    list(table.functions())
