"""Object files and symbol files whose counts, offsets and sizes lie."""

from __future__ import annotations

import struct

import pytest

from tests.forge import macho, pe, wasm
from tests.forge.lines import uleb
from tests.hostile.bounds import bounded
from tests.hostile.inputs import objects
from whence._base.errors import ObjectError
from whence.objects.macho import MachoFile, layout
from whence.objects.opening import object_of_bytes
from whence.objects.pe.layout import HEADER_OFFSET
from whence.producers import Producers

MANY = (1 << 32) - 1


def read(data: bytes) -> list[str]:
    """Read everything that names addresses; return the problems."""
    try:
        with object_of_bytes(data) as file, Producers(file) as producers:
            producers.ranges()
            _ = file.linked_objects, file.function_starts
            return [*map(str, file.problems), *producers.all_problems()]
    except ObjectError as error:
        return [str(error)]


def problems_of(data: bytes) -> str:
    outcome = bounded(read, data, stored=len(data), seconds=2, megabytes=100)
    return "\n".join(outcome.answer)


def read_damaged(name: str) -> tuple[dict[str, int], int, int]:
    """Read a file with each kind of damage; return how many there are of each, how many are refused, and have names."""
    data, numbers = objects.inputs()[name]
    kinds: dict[str, int] = {}
    refused = named = 0
    for kind, bad in objects.damaged(data, numbers):
        kinds[kind] = kinds.get(kind, 0) + 1
        architecture = "x86_64" if name == "fat file" else ""
        try:
            with (
                MachoFile.in_data(memoryview(bad), architecture) if architecture else object_of_bytes(bad) as file,
                Producers(file) as producers,
            ):
                table = producers.ranges()
                _ = file.linked_objects, file.function_starts, file.details, file.segments
                assert sum(table.length) < 1 << 66
                assert all(table.strings.raw(function) is not None for function in table.function)
                named += len(table) > 0
        except ObjectError:
            refused += 1
    return kinds, refused, named


@pytest.mark.parametrize("name", objects.inputs())
def test_21_kinds_of_damage_are_errors_or_leave_names(name: str) -> None:
    data, numbers = objects.inputs()[name]
    outcome = bounded(read_damaged, name, stored=len(data), seconds=6, megabytes=120, name=f"damage: {name}")
    assert outcome.error == ""
    kinds, refused, named = outcome.answer
    assert len(kinds) == 21
    assert sum(kinds.values()) == 7 * len(numbers)
    assert refused < sum(kinds.values())
    assert named > sum(kinds.values()) // 4


def test_counts_of_a_module_that_has_nothing_end_at_once() -> None:
    names = wasm.custom("name", b"\x01" + uleb(5) + uleb(MANY))
    exports = wasm.section(7, uleb(MANY))
    imports = wasm.section(2, uleb(MANY))
    assert "a name is cut off" in problems_of(wasm.module(names))
    assert "a name is cut off" in problems_of(wasm.module(exports))
    assert problems_of(wasm.module(imports, names))
    code = wasm.section(10, uleb(MANY) + b"\0" * 100)
    assert "a function's body is cut off" in problems_of(wasm.module(code, bodies=0))


def test_numbers_of_too_many_bytes_are_refused() -> None:
    data = b"\0asm\1\0\0\0" + b"\x0a" + b"\x80" * (1 << 20)
    assert "more than 5 bytes" in problems_of(data)


def test_load_commands_that_lie_about_tables_are_problems() -> None:
    data = bytearray(macho.forge([macho.text()], symbols=[macho.Symbol("_a", 0x100001000)]))
    offset = data.index(struct.pack("<II", layout.LC_SYMTAB, 24))
    for field in range(4):
        damaged = bytearray(data)
        struct.pack_into("<I", damaged, offset + 8 + 4 * field, MANY)
        assert problems_of(bytes(damaged))
    sections = bytearray(data)
    struct.pack_into("<I", sections, data.index(b"__TEXT") + 56, MANY)  # the number of sections
    assert "load commands" in problems_of(bytes(sections))
    struct.pack_into("<I", sections, 16, MANY)  # the number of commands
    assert problems_of(bytes(sections))


def many_objects() -> bytes:
    """A debug map of 50,000 object files whose paths are ends of one long path."""
    count, rows = 50_000, []
    size = 4000
    strings = b" \0" + b"a/" * (size // 2) + b"\0f\0"
    for number in range(count):
        rows.append((2 + number % (size - 8), 0x66, 0, 1, number))
        rows += [(len(strings) - 2, 0x24, 1, 0, 0x100001000), (1, 0x24, 0, 0, 8)]
    table = b"".join(struct.pack("<" + layout.SYMBOL[64], *row) for row in rows)
    data = bytearray(macho.forge([macho.text()], symbols=[]))
    offset = data.index(struct.pack("<II", layout.LC_SYMTAB, 24))
    struct.pack_into("<4I", data, offset + 8, len(data), len(rows), len(data) + len(table), len(strings))
    return bytes(data) + table + strings


def test_paths_of_a_debug_map_that_overlap_are_bounded() -> None:
    assert "paths take more than 16 times" in problems_of(many_objects())


def test_names_of_sections_that_overlap_are_bounded() -> None:
    sections = [pe.Section("/4", b"", pe.DATA) for _ in range(90)]
    data = bytearray(pe.forge(sections, symbols=[pe.Symbol("a" * 4000, 0)]))
    header = int.from_bytes(data[HEADER_OFFSET : HEADER_OFFSET + 4], "little")
    table = header + 24 + int.from_bytes(data[header + 20 : header + 22], "little")
    rows = bytes(data[table : table + 40]) * 60_000
    struct.pack_into("<H", data, header + 6, 60_000)
    symbols = int.from_bytes(data[header + 12 : header + 16], "little")
    moved = bytes(data[:table]) + rows + bytes(data[symbols:])
    patched = bytearray(moved)
    struct.pack_into("<I", patched, header + 12, table + len(rows))
    assert "names take more than 16 times" in problems_of(bytes(patched))


def test_slices_that_are_the_whole_file_are_refused() -> None:
    thin = macho.forge([macho.text()])
    data = bytearray(macho.fat(*[(macho.X86_64, thin)] * 42))
    for number in range(42):
        struct.pack_into(">II", data, 8 + 20 * number + 8, 0x1000, len(data) - 0x1000)
    with pytest.raises(ObjectError, match="overlap"):
        MachoFile.in_data(memoryview(bytes(data)), "x86_64")
