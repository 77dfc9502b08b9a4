"""Breakpad symbol files: read, looked up, and written again."""

from __future__ import annotations

import io

from tests.forge.breakpad import example
from whence.exchange.breakpad import copied_stack, write_breakpad
from whence.objects.breakpad import BreakpadFile
from whence.producers import Producers
from whence.ranges.flatten import flatten


def seeds() -> list[bytes]:
    text = example()
    return [text, text.replace(b"\n", b"\r\n"), text * 8, text.replace(b"INLINE 1", b"INLINE 0")]


def target(data: bytes) -> None:
    with BreakpadFile.from_bytes(data) as file, Producers(file) as producers:
        table = producers.ranges()
        flat = flatten(table)
        if len(flat):
            write_breakpad(flat, table.strings, io.BytesIO(), file.module, stack=copied_stack(file))
