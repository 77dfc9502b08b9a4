"""Requests for names to a server: JSON lines, Arrow streams, Mozilla's jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.stores import Files
from whence.objects.elf import ElfFile
from whence.objects.elf.segments import image_base

ARROW = "application/vnd.apache.arrow.stream"


def debug_id(build_id: str) -> str:
    """A GUID of the first 16 bytes, in its own order, and the age."""
    raw = bytes.fromhex(build_id)[:16].ljust(16, b"\0")
    guid = raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
    return guid.hex().upper() + "0"


def offset_of(files: Files) -> int:
    with ElfFile.open(files.whole) as elf:
        return files.vaddr - image_base(tuple(elf.segments))


def lines(*asked: object) -> bytes:
    return "\n".join(json.dumps(each) for each in asked).encode()


def arrow(build_ids: list[str], addresses: list[int], compression: str | None = None) -> bytes:
    """A stream of them."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"build_id": build_ids, "address": pa.array(addresses, pa.uint64())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def job(files: Files, *stacks: list[list[int]]) -> dict[str, Any]:
    modules = [["program", debug_id(files.build_id)], ["other", "1" * 33], ["unused", "2" * 33]]
    return {"memoryMap": modules, "stacks": list(stacks)}
