"""Rows (build-id, address) named by Ray and by Spark on this machine: real clusters with two workers.

The rows are Parquet files; nine rows of ten have the same build-id. While they are named, a worker is killed. The
output must have each row once: the number of rows and the sums of row numbers and addresses are compared.

Run it in the environment of `make engines`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.fleet.builds import Builds
from whence.store import Store

BUILDS = 50
SKEW = 0.9  # of the rows have the first build-id
WORKERS = 2
SEED = 1
PARTITION = "4m"


class Inputs:
    """A store, and a folder of Parquet files over its builds."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.files, self.rows_each = folder, options.files, options.rows // options.files
        self.store, self.tables = folder / "store", folder / "in"
        builds = Builds(folder, options.functions)
        with Store(self.store) as store:
            for number in range(BUILDS):
                path = folder / f"build-{number}"
                path.write_bytes(builds.content(number))
                store.add(path)
        self._ids = pa.array([builds.build_id(number) for number in range(BUILDS)])
        self._starts = np.array(builds.starts, np.uint64)
        self.tables.mkdir()
        dice = np.random.default_rng(SEED)
        self.addresses = 0
        for number in range(self.files):
            addresses = dice.choice(self._starts, self.rows_each) + np.uint64(1)
            self.addresses += int(addresses.sum())
            common = dice.random(self.rows_each) < SKEW
            ids = np.where(common, 0, dice.integers(0, BUILDS, self.rows_each)).astype(np.int32)
            table = pa.table(
                {
                    "build_id": pa.DictionaryArray.from_arrays(pa.array(ids), self._ids),
                    "address": pa.array(addresses.astype(np.int64)),
                    "row": pa.array(np.arange(self.rows_each, dtype=np.int64) + number * self.rows_each),
                }
            )
            pq.write_table(table, self.tables / f"{number:05}.parquet", compression="zstd")

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.files * self.rows_each

    def check(self, folder: Path) -> str:
        """Return what is wrong with the output; "" if it has each row once, with a name."""
        rows = numbers = addresses = missing = 0
        for path in folder.glob("*.parquet"):
            table = pq.read_table(path, columns=["row", "address", "function"])
            rows += len(table)
            numbers += pc.sum(table["row"]).as_py() or 0
            addresses += pc.sum(table["address"]).as_py() or 0
            missing += table["function"].null_count
        expected = self.rows, self.rows * (self.rows - 1) // 2, self.addresses, 0
        result = rows, numbers, addresses, missing
        return "" if result == expected else f"rows, sums and rows without names are {result}, expected {expected}"


class Killer(threading.Thread):
    """Kills one worker process whose command line contains `word` as soon as half of the output exists."""

    def __init__(self, word: str, out: Path, files: int) -> None:
        super().__init__(daemon=True)
        self._word, self._out, self._files = word, out, files
        self._ended = threading.Event()
        self.killed = 0

    def run(self) -> None:
        while not self._ended.wait(0.2):
            if sum(1 for _ in self._out.rglob("*.parquet")) * 2 < self._files:
                continue
            workers = [
                process for process in psutil.Process().children(recursive=True) if self._word in self._line(process)
            ]
            if workers:
                random.Random(SEED).choice(workers).kill()
                self.killed = 1
                return

    @staticmethod
    def _line(process: psutil.Process) -> str:
        try:
            return " ".join(process.cmdline())
        except psutil.Error:
            return ""

    def end(self) -> int:
        """Return how many processes were killed."""
        self._ended.set()
        self.join()
        return self.killed


def by_ray(inputs: Inputs, out: Path) -> None:
    """Name the files in Ray tasks."""
    import ray

    from whence.engines.ray import name_files

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False)
    try:
        paths = sorted(map(str, inputs.tables.iterdir()))
        places = {"store": str(inputs.store), "cache": str(inputs.folder / "cache")}
        for report in name_files(paths, str(out), places, leaf=True):
            if report["error"]:
                raise RuntimeError(report["error"])
    finally:
        ray.shutdown()


def by_spark(inputs: Inputs, out: Path) -> None:
    """Name the files as a Spark DataFrame."""
    from pyspark.sql import SparkSession

    from whence.engines.spark import name

    builder = SparkSession.builder.master(f"local[{WORKERS},4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.parquet.compression.codec", "zstd").config("spark.driver.memory", "4g")
    builder = builder.config("spark.sql.files.maxPartitionBytes", PARTITION)  # a task for each file, as in Ray
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        places = {"store": str(inputs.store), "cache": str(inputs.folder / "cache")}
        name(session.read.parquet(str(inputs.tables)), places, leaf=True).write.parquet(str(out))
    finally:
        session.stop()


ENGINES = {"ray": (by_ray, "ray::name_file"), "spark": (by_spark, "pyspark.daemon")}


def run(engine: str, inputs: Inputs, *, kill: bool) -> bool:
    """Name the inputs by an engine; print the rate; return True if each row is there once."""
    work, word = ENGINES[engine]
    with tempfile.TemporaryDirectory(dir=inputs.folder) as name:
        out = Path(name) / "out"
        killer = Killer(word, out, inputs.files) if kill else None
        if killer is not None:
            killer.start()
        began = time.perf_counter()
        work(inputs, out)
        seconds = time.perf_counter() - began
        killed = killer.end() if killer is not None else 0
        problem = inputs.check(out)
    print(
        f"{engine}: {inputs.rows:,} rows in {seconds:.1f} s, {inputs.rows / seconds / WORKERS:,.0f} rows a second and"
        f" worker, {killed} workers killed: {problem or 'each row once, all named'}",
        flush=True,
    )
    return not problem and bool(killed) == kill


def main(arguments: list[str]) -> int:
    """Run the engines, without and with a killed worker."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet batch", description=__doc__)
    parser.add_argument("--engine", choices=tuple(ENGINES), action="append")
    parser.add_argument("--rows", type=int, default=40_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--functions", type=int, default=2000)
    parser.add_argument("--killed-only", action="store_true", help="leave out the runs in which no worker is killed")
    parser.add_argument("--folder", type=Path, help="where inputs and outputs are made, which are removed afterwards")
    options = parser.parse_args(arguments)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        inputs = Inputs(folder, options)
        size = sum(path.stat().st_size for path in inputs.tables.iterdir())
        print(f"{inputs.rows:,} rows in {inputs.files} files, {size / 1e6:,.0f} MB", flush=True)
        kills = (True,) if options.killed_only else (False, True)
        results = [run(engine, inputs, kill=kill) for engine in options.engine or ENGINES for kill in kills]
    return 0 if all(results) else 1
