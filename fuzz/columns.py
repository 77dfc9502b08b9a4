"""Tables for `whence columns`: Arrow, Parquet, CSV and JSON lines, named and written in some format."""

from __future__ import annotations

import atexit
import functools
import tempfile
import zlib
from pathlib import Path

from tests.forge import tables
from tests.helpers.archives import small_archives
from whence._base.errors import WrongUse
from whence.columns import Namer
from whence.columns.tables import TableKind, TableReader, name_table
from whence.locator.locator import Locator

SHAPES: tuple[dict[str, bool], ...] = ({"leaf": True}, {"exploded": True}, {})


@functools.cache
def folder() -> Path:
    made = tempfile.TemporaryDirectory(prefix="fuzz-columns")
    atexit.register(made.cleanup)
    return small_archives(Path(made.name))


def seeds() -> list[bytes]:
    return [data for kind in TableKind for data in tables.seeds(kind.word)]


def target(data: bytes) -> None:
    path, draw = folder() / "in", zlib.crc32(data)
    path.write_bytes(data)
    kinds = list(TableKind)
    kind = kinds[draw // 8 % len(kinds)]
    shape = SHAPES[0] if kind is TableKind.CSV else SHAPES[draw % len(SHAPES)]
    ending = ".arrows" if draw // 64 % 2 else ""
    named(str(path), f"{folder() / 'out'}{ending}", kind, shape, threads=bool(draw // 128 % 2))


def named(
    path: str,
    out: str,
    kind: TableKind = TableKind.PARQUET,
    shape: dict[str, bool] = SHAPES[0],
    *,
    threads: bool = True,
) -> None:
    with (
        TableReader(path, None, build_id="build_id", address="address") as reader,
        Locator(archive_dirs=[folder()], dirs=()) as locator,
        Namer(locator=locator, **shape) as namer,  # type: ignore[arg-type]
    ):
        try:
            name_table(reader, namer, out, kind, threads=threads)
        except WrongUse:  # a table that has a column of lists, to CSV
            return
