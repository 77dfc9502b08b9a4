"""Tables for `whence columns`: Arrow, Parquet, CSV and JSON lines, named and written in some format."""

from __future__ import annotations

import atexit
import functools
import tempfile
import zlib
from pathlib import Path

from tests.forge import tables
from tests.helpers.archives import small_archives
from whence.columns import Namer
from whence.columns.tables import TableKind, TableReader, name_table
from whence.locate.locator import Locator

SHAPES = ({"leaf": True}, {"exploded": True}, {})


@functools.cache
def folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="fuzz-columns")
    atexit.register(made.cleanup)
    return small_archives(Path(made.name))


def seeds() -> list[bytes]:
    return [data for kind in TableKind for data in tables.seeds(kind.word)]


def target(data: bytes) -> None:
    path, out = folder() / "in", folder() / "out"
    path.write_bytes(data)
    draw = zlib.crc32(data)
    kinds = list(TableKind)
    shape, kind = SHAPES[draw % len(SHAPES)], kinds[draw // 8 % len(kinds)]
    if kind is TableKind.CSV:
        shape = {"leaf": True}
    with (
        TableReader(str(path), None, build_id="build_id", address="address") as reader,
        Locator(archive_dirs=[folder()], dirs=()) as locator,
        Namer(locator=locator, **shape) as namer,  # type: ignore[arg-type]
    ):
        name_table(reader, namer, str(out) + (".arrows" if draw // 64 % 2 else ""), kind, threads=bool(draw // 128 % 2))
