"""GSYM files of both versions: read, looked up, and written again."""

from __future__ import annotations

import io

from tests.forge.gsym import example
from whence.exchange.gsym import write_gsym
from whence.objects.gsym import GsymFile
from whence.producers import Producers
from whence.ranges.flatten import flatten


def seeds() -> list[bytes]:
    return [
        example(version, order, width).pack()
        for version in (1, 2)
        for order in ("little", "big")
        for width in (1, 4, 8)
    ]


def target(data: bytes) -> None:
    with GsymFile.from_bytes(data) as file, Producers(file) as producers:
        producers.ranges(near=[0x1010, 0x1048, file.tables.base])
        table = producers.ranges()
        flat = flatten(table)
        if len(flat):
            write_gsym(flat, table.strings, io.BytesIO(), build_id=file.build_id)
