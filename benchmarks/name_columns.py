"""The user's moment: a table of addresses in Parquet gets names, 10,000 distinct addresses over 200 build-ids.

ROWS of the environment says how many rows (10 million). Beside it: what pyarrow alone takes to copy the named table.
Peers in the same run: DuckDB's own asof join against a table of ranges (names only), and a Python loop over symbolic.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.timing import process
from whence import lidia
from whence.lidia import Range
from whence.locator.locator import Locator

ROWS = int(os.environ.get("ROWS", "10000000"))
BUILD_IDS, DISTINCT, FUNCTION = 200, 10_000, 64
FUNCTIONS = 2_000  # of each archive
SMALL = 100
BATCH = 1 << 20  # rows
LOOPED = 100_000  # rows that the Python loop names
COPY = """
import sys
from pyarrow import parquet
texts = ["build_id", "function", "file", "source", "reason"]
file = parquet.ParquetFile(sys.argv[1], read_dictionary=texts, pre_buffer=False)
with parquet.ParquetWriter(sys.argv[2], file.schema_arrow) as out:
    for batch in file.iter_batches(1 << 20):
        out.write_batch(batch, row_group_size=1 << 20)
"""


def archives(folder: Path) -> list[str]:
    """An archive for each build-id, of consecutive functions."""
    ids = [f"{number:040x}" for number in range(1, BUILD_IDS + 1)]
    for build_id in ids:
        builder = lidia.Builder(build_id=build_id)
        builder.extend(
            Range(0x1000 + FUNCTION * index, FUNCTION, f"function_{index}_of_{build_id[-3:]}", f"file_{index % 50}.c",
                  line_table=[(0, index + 1), (FUNCTION // 2, index + 2)])
            for index in range(FUNCTIONS)
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
        table, out = folder / "in.parquet", folder / "out.parquet"
        write_table(table, ids, ROWS)
        command = [sys.executable, "-m", "whence", "columns", str(table), "-o", str(out), "--leaf"]
        cost = process([*command, "--archive-dir", name, "--no-cache"])
        print(f"{ROWS:,} rows, Parquet to Parquet: {cost}, {ROWS / cost.seconds / 1e6:.1f} million rows/s")
        cost = process([sys.executable, "-c", COPY, str(out), str(folder / "copy.parquet")])
        print(f"pyarrow alone copies the output: {cost}, {ROWS / cost.seconds / 1e6:.1f} million rows/s")
        locator = Locator(archive_dirs=[name], dirs=())
        batches = list(pq.ParquetFile(table, read_dictionary=["build_id"]).iter_batches(BATCH))[:2]
        rows = sum(len(batch) for batch in batches)
        with Namer(locator=locator, leaf=True) as namer:
            bare = timed(namer, batches)
            print(f"the function alone: {rows / bare / 1e6:.1f} million rows/s and core")
            small = batches[0].slice(0, SMALL)
            microseconds = 1e6 * timed(namer, [small] * 1000) / 1000
            print(f"a batch of {SMALL} rows: {microseconds:.0f} microseconds")
        draw = random.Random(1)
        distinct = pa.record_batch(
            {
                "build_id": pa.array([ids[index % BUILD_IDS] for index in range(BATCH)]).dictionary_encode(),
                "address": pa.array(draw.choices(range(0x1000, 0x1000 + FUNCTION * FUNCTIONS), k=BATCH)),
            }
        )
        for size in (BATCH, BATCH // 8):
            parts = [distinct.slice(index, size) for index in range(0, BATCH, size)]
            with Namer(locator=locator, leaf=True) as namer:
                seconds = timed(namer, parts, warm=False)
            print(f"all distinct, {size:,} at once: {BATCH / seconds / 1e6:.2f} million rows/s and core")
        plain = pa.Table.from_batches(batches)
        plain = plain.set_column(0, "build_id", plain["build_id"].cast("string"))
        engines(plain, {"archive_dirs": [name], "dirs": ()}, rows)
        peers(plain, folder, rows)


def timed(namer: Any, batches: list[Any], *, warm: bool = True) -> float:
    """Processor seconds for all batches."""
    if warm:
        namer(batches[0])
    began = time.process_time()
    for batch in batches:
        namer(batch)
    return time.process_time() - began


def least(work: Callable[[], object]) -> float:
    """Return the processor seconds of the fastest of a few runs, after a warm-up."""
    work()
    costs = []
    for _ in range(3):
        began = time.process_time()
        work()
        costs.append(time.process_time() - began)
    return min(costs)


def engines(plain: Any, places: dict[str, Any], rows: int) -> None:
    """The same through DuckDB and Polars, on one thread, beside the function over the same texts."""
    import duckdb
    import polars as pl

    import whence.engines.polars  # noqa: F401
    from whence.columns import Namer
    from whence.engines.duckdb import name, register

    with Namer(locator=Locator(**places), leaf=True) as namer:
        bare = least(lambda: namer(plain))
    print(f"the function alone, build-ids as plain texts: {rows / bare / 1e6:.1f} million rows/s and core")

    def show(what: str, seconds: float) -> None:
        print(
            f"{what}: {rows / seconds / 1e6:.1f} million rows/s and core, {seconds / bare:.2f}x of the function alone"
        )

    with duckdb.connect() as connection:
        connection.execute("set threads = 1")
        register(connection, places)
        connection.register("given", plain)
        connection.execute("create table samples as from given")
        relation = connection.table("samples")
        show(
            "DuckDB, a relation named",
            least(lambda: name(relation, connection, places, leaf=True).aggregate("count(function)").fetchall()),
        )
        show(
            "DuckDB, an Arrow table named",
            least(lambda: name(plain, connection, places, leaf=True).aggregate("count(function)").fetchall()),
        )
        query = "select count(whence_leaf(build_id, address).function) from samples"
        show("DuckDB, the scalar function", least(lambda: connection.sql(query).fetchall()))
    frame = pl.DataFrame(plain)
    wanted = pl.col("address").whence.leaf(pl.col("build_id"), places)  # type: ignore[attr-defined]
    show("Polars", least(lambda: frame.select(wanted)))


def peers(plain: Any, folder: Path, rows: int) -> None:
    """DuckDB's asof join against a table of ranges (names only, and no inlined calls), and a loop over symbolic."""
    import duckdb
    import pyarrow as pa

    starts = [0x1000 + FUNCTION * index for index in range(FUNCTIONS)]
    ids = [f"{number:040x}" for number in range(1, BUILD_IDS + 1)]
    ranges = pa.table(
        {
            "build_id": [each for each in ids for _ in starts],
            "start": pa.array(starts * BUILD_IDS, pa.uint64()),
            "name": [f"function_{index}_of_{each[-3:]}" for each in ids for index in range(FUNCTIONS)],
        }
    )
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
    print(f"DuckDB's asof join (names only): {rows / seconds / 1e6:.1f} million rows/s and core")
    caches = symcaches(ids)
    if not caches:
        print("(symbolic is not installed)")
        return
    asked = plain.slice(0, LOOPED)
    began = time.process_time()
    for build_id, address in zip(asked["build_id"].to_pylist(), asked["address"].to_pylist(), strict=True):
        caches[build_id].lookup(address)
    seconds = time.process_time() - began
    print(f"a Python loop over symbolic: {LOOPED / seconds / 1e6:.2f} million rows/s and core")


def symcaches(ids: list[str]) -> dict[str, Any]:
    """symbolic's symcache of the same functions and lines for each build-id, made of Breakpad's text; {} without it."""
    try:
        from symbolic.debuginfo import Archive
    except ImportError:
        return {}
    out = {}
    for build_id in ids:
        lines = [f"MODULE Linux x86_64 {build_id[-32:].upper()}0 module"]
        lines += [f"FILE {index} file_{index}.c" for index in range(50)]
        for index in range(FUNCTIONS):
            start, half = 0x1000 + FUNCTION * index, FUNCTION // 2
            lines.append(f"FUNC {start:x} {FUNCTION:x} 0 function_{index}_of_{build_id[-3:]}")
            lines.append(f"{start:x} {half:x} {index + 1} {index % 50}")
            lines.append(f"{start + half:x} {half:x} {index + 2} {index % 50}")
        text = "\n".join(lines).encode() + b"\n"
        out[build_id] = next(Archive.from_bytes(text).iter_objects()).make_symcache()
    return out
