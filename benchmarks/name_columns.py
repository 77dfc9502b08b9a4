"""The user's moment: a table of addresses in Parquet gets names, 10,000 distinct addresses over 200 build-ids.

ROWS of the environment says how many rows (10 million). Peers in the same run: DuckDB's own asof join against a table
of ranges (names only), and a Python loop over symbolic.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.timing import process
from whence import lidia
from whence.lidia import Range
from whence.locate.locator import Locator

ROWS = int(os.environ.get("ROWS", "10000000"))
BUILD_IDS, DISTINCT, FUNCTION = 200, 10_000, 64
FUNCTIONS = 2_000  # of each archive
SMALL = 100


def archives(folder: Path) -> list[str]:
    """An archive for each build-id, of functions one behind the other."""
    ids = [f"{number:040x}" for number in range(1, BUILD_IDS + 1)]
    for build_id in ids:
        builder = lidia.Builder(build_id=build_id)
        builder.extend(
            Range(0x1000 + FUNCTION * at, FUNCTION, f"function_{at}_of_{build_id[-3:]}", f"file_{at % 50}.c",
                  line_table=[(0, at + 1), (FUNCTION // 2, at + 2)])
            for at in range(FUNCTIONS)
        )  # fmt: skip
        (folder / f"{build_id}.lidia").write_bytes(builder.to_bytes())
    return ids


def write_table(path: Path, ids: list[str], rows: int) -> None:
    """Rows of pairs, of which there are DISTINCT."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw = np.random.default_rng(1)
    pairs = draw.integers(0, BUILD_IDS, DISTINCT), 0x1000 + draw.integers(0, FUNCTION * FUNCTIONS, DISTINCT)
    dictionary = pa.array(ids)
    schema = pa.schema({"build_id": pa.dictionary(pa.int32(), pa.string()), "address": pa.uint64()})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 1 << 20):
            chosen = draw.integers(0, DISTINCT, min(1 << 20, rows - start))
            columns = [
                pa.DictionaryArray.from_arrays(pa.array(pairs[0][chosen], pa.int32()), dictionary),
                pa.array(pairs[1][chosen], pa.uint64()),
            ]
            writer.write_table(pa.table(columns, schema=schema))


def run() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from whence.columns import Namer

    with TemporaryDirectory() as name:
        folder = Path(name)
        ids = archives(folder)
        table = folder / "in.parquet"
        write_table(table, ids, ROWS)
        command = [sys.executable, "-m", "whence", "columns", str(table), "-o", str(folder / "out.parquet"), "--leaf"]
        cost = process([*command, "--archive-dir", name, "--no-cache"])
        print(f"{ROWS:,} rows, Parquet to Parquet: {cost}, {ROWS / cost.seconds / 1e6:.1f} million rows/s")
        locator = Locator(archive_dirs=[name], dirs=())
        batches = list(pq.ParquetFile(table, read_dictionary=["build_id"]).iter_batches(1 << 17))[:16]
        rows = sum(len(batch) for batch in batches)
        bare = timed(Namer(locator=locator, leaf=True), batches)
        print(f"the function alone: {rows / bare / 1e6:.1f} million rows/s and core")
        distinct = pa.record_batch(
            {
                "build_id": pa.array([ids[at % BUILD_IDS] for at in range(1_000_000)]).dictionary_encode(),
                "address": pa.array(
                    random.Random(1).choices(range(0x1000, 0x1000 + FUNCTION * FUNCTIONS), k=1_000_000)
                ),
            }
        )
        parts = [distinct.slice(at, 1 << 17) for at in range(0, len(distinct), 1 << 17)]
        seconds = timed(Namer(locator=locator, leaf=True), parts, warm=False)
        print(f"all distinct: {1 / seconds:.2f} million rows/s and core")
        namer, small = Namer(locator=locator, leaf=True), batches[0].slice(0, SMALL)
        microseconds = 1e6 * timed(namer, [small] * 1000) / 1000
        print(f"a batch of {SMALL} rows: {microseconds:.0f} microseconds")
        engines(pa.Table.from_batches(batches), {"archive_dirs": [name], "dirs": ()}, rows, bare)
        peers(pa.Table.from_batches(batches), folder, rows, bare)


def timed(namer: Any, batches: list[Any], *, warm: bool = True) -> float:
    """Processor seconds for all batches."""
    if warm:
        namer(batches[0])
    began = time.process_time()
    for batch in batches:
        namer(batch)
    return time.process_time() - began


def engines(table: Any, places: dict[str, Any], rows: int, bare: float) -> None:
    """The same through DuckDB and Polars, on one thread."""
    import duckdb
    import polars as pl

    import whence.engines.polars  # noqa: F401
    from whence.engines.duckdb import register

    plain = table.set_column(0, "build_id", table["build_id"].cast("string"))
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        register(connection, places)
        connection.register("samples", plain)
        query = "select count(whence_leaf(build_id, address).function) from samples"
        connection.sql(query).fetchall()
        began = time.process_time()
        connection.sql(query).fetchall()
        seconds = time.process_time() - began
    print(f"DuckDB: {rows / seconds / 1e6:.1f} million rows/s and core, {seconds / bare:.2f}x of the function alone")
    frame = pl.DataFrame(table)
    wanted = pl.col("address").whence.leaf(pl.col("build_id"), places)  # type: ignore[attr-defined]
    frame.select(wanted)
    began = time.process_time()
    frame.select(wanted)
    seconds = time.process_time() - began
    print(f"Polars: {rows / seconds / 1e6:.1f} million rows/s and core, {seconds / bare:.2f}x of the function alone")


def peers(table: Any, folder: Path, rows: int, bare: float) -> None:
    """DuckDB's asof join against a table of ranges: names only, and no inlined calls."""
    import duckdb
    import pyarrow as pa

    starts = [0x1000 + FUNCTION * at for at in range(FUNCTIONS)]
    ids = [f"{number:040x}" for number in range(1, BUILD_IDS + 1)]
    ranges = pa.table(
        {
            "build_id": [one for one in ids for _ in starts],
            "start": pa.array(starts * BUILD_IDS, pa.uint64()),
            "name": [f"function_{at}_of_{one[-3:]}" for one in ids for at in range(FUNCTIONS)],
        }
    )
    plain = table.set_column(0, "build_id", table["build_id"].cast("string"))
    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        connection.register("samples", plain)
        connection.register("ranges", ranges)
        began = time.process_time()
        connection.sql(
            "select count(name) from samples asof join ranges "
            "on samples.build_id = ranges.build_id and samples.address >= ranges.start"
        ).fetchall()
        seconds = time.process_time() - began
    print(f"DuckDB's asof join (names only): {rows / seconds / 1e6:.1f} million rows/s and core, {seconds / bare:.1f}x")
