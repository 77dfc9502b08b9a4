"""Names, lines and columns of code objects: as the interpreter itself reports them, and tables written by hand."""

from __future__ import annotations

import argparse
import asyncio.base_events
import ctypes
import inspect
import logging
import sys
import typing
from collections.abc import Iterator
from itertools import islice
from types import CodeType

import pytest

from whence.interpreters.cpython_code import (
    CodeObject,
    CodeReader,
    Location,
    line_of_lnotab,
    lines_of_3_10,
    locations_of_table,
)
from whence.interpreters.cpython_layout import CpythonLayout, old_layout, read_debug_offsets
from whence.unwind.memory import Unreadable


def own_memory(address: int, size: int) -> bytes:
    if address < 4096:
        raise Unreadable(address, "in the process")
    return ctypes.string_at(address, size)


def own_layout() -> CpythonLayout:
    if sys.version_info < (3, 13):
        return old_layout(sys.version_info[:2], "")
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    return read_debug_offsets(ctypes.string_at(runtime, 1024), sys.byteorder)


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def code_objects() -> Iterator[CodeType]:
    for module in (argparse, asyncio.base_events, logging, typing):
        yield from nested(compile(inspect.getsource(module), str(module.__file__), "exec"))


def test_every_instruction_has_the_interpreters_line_and_column() -> None:
    reader = CodeReader(own_layout(), sys.byteorder)
    count = 0
    for code in islice(code_objects(), 250):
        read = reader.code(id(code), None, own_memory)
        assert isinstance(read, CodeObject)
        assert (read.function, read.file, read.first_line) == (code.co_qualname, code.co_filename, code.co_firstlineno)
        for index, (line, _, column, _) in enumerate(code.co_positions()):
            frame = read.frame(2 * index)
            assert (frame.line, frame.column) == (line or 0, 0 if column is None or not line else column + 1)
            count += 1
    assert count > 5_000


@pytest.mark.parametrize("name", ["plain", "höhe", "漢字", "𐤀𐤁", "\udcff"])
def test_names_of_every_width_are_read(name: str) -> None:
    code = compile("pass", f"/{name}.py", "exec").replace(co_name=name, co_qualname=f"Class.{name}")
    read = CodeReader(own_layout(), sys.byteorder).code(id(code), None, own_memory)
    assert isinstance(read, CodeObject)
    assert (read.function, read.file) == (f"Class.{name}", f"/{name}.py")


def test_what_is_no_code_object_is_refused() -> None:
    reader = CodeReader(own_layout(), sys.byteorder)
    other = bytearray(1024)
    assert reader.code(id(other), None, own_memory) == "the frame's code is not a code object"
    assert str(reader.code(8, None, own_memory)).startswith("the code object is not readable")


def test_a_code_object_that_changes_while_it_is_read_is_refused() -> None:
    layout = own_layout()
    first, second = (compile("pass", f"/{name}.py", "exec") for name in "ab")
    header = own_memory(id(first), layout.header_bytes)

    def changed(address: int, size: int) -> bytes:
        moved = id(second) if address == id(first) else address
        return own_memory(moved, size)

    reader = CodeReader(layout, sys.byteorder)
    why = reader.code(id(first), header, changed, is_live=True)
    assert why == "the code object was freed before it was read"
    assert isinstance(reader.code(id(first), header, own_memory, is_live=True), CodeObject)


def test_long_strings_and_tables_are_refused() -> None:
    layout = own_layout()
    code = compile("pass", "/" + "x" * 5000, "exec")
    assert "has 5001 characters" in str(CodeReader(layout, sys.byteorder).code(id(code), None, own_memory))

    header = bytearray(own_memory(id(code), layout.header_bytes))
    huge = (ctypes.c_uint64 * 8)(*[1 << 60] * 8)
    offset = layout.fields["code_object.linetable"]
    header[offset : offset + 8] = ctypes.addressof(huge).to_bytes(8, sys.byteorder)
    short = compile("pass", "/x.py", "exec")
    names = own_memory(id(short), layout.header_bytes)
    offset_name = layout.fields["code_object.filename"]
    header[offset_name : offset_name + 8] = names[offset_name : offset_name + 8]
    read = CodeReader(layout, sys.byteorder).code(id(code), bytes(header), own_memory)
    assert isinstance(read, CodeObject)
    assert (read.frame(0).file, read.frame(0).line) == ("/x.py", 0)


def test_lnotab_adds_lines_from_the_first() -> None:
    table = bytes([6, 1, 44, 5, 0, 256 - 3, 4, 127])  # lnotab_notes.txt
    assert [line_of_lnotab(table, 10, offset) for offset in (-1, 0, 5, 6, 49, 50, 53, 54)] == [
        10,
        10,
        10,
        11,
        11,
        13,
        13,
        140,
    ]


def test_the_table_of_3_10_has_ranges_without_a_line() -> None:
    table = bytes([4, 1, 2, 128, 6, 256 - 1])
    assert lines_of_3_10(table, 10) == [Location(0, 4, 11), Location(4, 6, 0), Location(6, 12, 10)]


def test_location_tables_that_are_cut_off_end_early() -> None:
    long_form = bytes([0x80 | 14 << 3 | 1, 0x42, 0x01, 0x00, 0x05, 0x09])
    assert locations_of_table(long_form, 10) == [Location(0, 4, 10 + 33, 5)]
    for size in range(len(long_form)):
        assert locations_of_table(long_form[:size], 10) == []
    assert locations_of_table(b"\xff" * 100, 10)
    assert locations_of_table(b"\x00" * 100, 10) == []
