"""Ray, Dask and Spark, real ones, name tables as the namer does; workers and nodes are killed in the middle.

Run by make engines, which installs what this needs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engines
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives  # noqa: E402
from whence.store import Store  # noqa: E402

COLUMNS = {"build_id": [ONE, ONE, OTHER, None], "address": [INNER_VADDR, OUTER_VADDR, 7, 1], "kept": [1, 2, 3, 4]}
LEAVES = ["inner", "app::outer()", None, None]
CHAINS = [["inner", "app::outer()"], ["app::outer()"], [], []]
FILES = 24


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"archive_dirs": [str(small_archives(tmp_path_factory.mktemp("archives")))], "dirs": ()}


def table() -> Any:
    return pa.table({**COLUMNS, "address": pa.array(COLUMNS["address"], pa.int64())})


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


def test_ray_data_is_named_by_actors(ray: Any, places: dict[str, Any]) -> None:
    from whence.engines.ray import name

    dataset = ray.data.from_arrow(table()).repartition(2)
    rows = name(dataset, places, concurrency=1, leaf=True).take_all()
    assert sorted(((row["kept"], row["function"]) for row in rows), key=str) == sorted(
        zip([1, 2, 3, 4], LEAVES), key=str
    )


def test_files_are_named_though_workers_are_killed(ray: Any, places: dict[str, Any], tmp_path: Path) -> None:
    from whence.engines.ray import name_files

    sources = []
    for number in range(FILES):
        sources.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(pa.concat_tables([table()] * 2000), sources[-1])
    out = tmp_path / "out"
    killed: list[int] = []

    def kill() -> None:
        """Workers die in the middle: whatever runs whence's tasks."""
        while len(killed) < 2 and not done.is_set():
            time.sleep(0.2)
            found = subprocess.run(["pgrep", "-f", "ray::name_file"], capture_output=True, text=True).stdout.split()
            for pid in found[:1]:
                os.kill(int(pid), signal.SIGKILL)
                killed.append(int(pid))

    done = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    told = list(name_files(sources, str(out), places))
    done.set()
    killer.join()
    assert len(told) == FILES
    assert not [one for one in told if one["error"]]
    written = [path for path in out.iterdir() if path.suffix == ".parquet"]  # a killed writer leaves its temporary file
    assert sorted(path.name for path in written) == sorted(os.path.basename(one) for one in sources)
    for path in written:
        named = pq.read_table(path)
        assert named.num_rows == 8000
        assert [
            frames[0]["function"] if frames else None for frames in named["frames"].slice(0, 4).to_pylist()
        ] == LEAVES
    again = list(name_files(sources, str(out), places))
    assert all(one["skipped"] for one in again)
    print(f"{FILES} files, {len(killed)} workers killed, nothing lost, nothing twice")


def test_a_fleet_is_named_by_the_example(tmp_path: Path) -> None:
    """In a process of its own, which starts a Ray of its own."""
    pytest.importorskip("ray", reason="ray is not installed")
    from tests.helpers.programs import compiled
    from whence.binary import open_binary

    program = compiled("-Wl,--build-id", "-O2")
    with Store(tmp_path / "store") as store:
        store.add(program)
    with open_binary(program) as binary:
        vaddr, build_id = binary.find("main")[0].vaddr, binary.build_id
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"build_id": [build_id], "address": pa.array([vaddr], pa.uint64())}), tmp_path / "in" / "a.parquet"
    )
    (tmp_path / "in" / "broken.parquet").write_bytes(b"PAR1 no more")
    example = Path(__file__).parents[2] / "examples" / "fleet_ray.py"
    for already in (0, 1):
        done = subprocess.run(
            [sys.executable, example, tmp_path / "store", tmp_path / "in", tmp_path / "out", "--leaf"],
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 1, done.stderr
        assert "broken.parquet: damaged parquet" in done.stderr
        assert f"2 files, {already} done before, 1 failed" in done.stdout
    assert pq.read_table(tmp_path / "out" / "a.parquet")["function"].to_pylist() == ["main"]


def test_dask_names_partitions_in_worker_processes(places: dict[str, Any]) -> None:
    pytest.importorskip("dask", reason="dask is not installed")
    import dask.dataframe as dd
    import pandas as pd
    from dask.distributed import Client, LocalCluster

    from whence.engines.dask import name

    frame = dd.from_pandas(pd.DataFrame({**COLUMNS, "address": pd.array(COLUMNS["address"], "UInt64")}), npartitions=2)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        named = name(frame, places, leaf=True).compute()
    assert [None if one is pd.NA else one for one in named["function"]] == LEAVES


def test_spark_names_partitions_in_its_workers(places: dict[str, Any]) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import SparkSession

    from whence.engines.spark import name

    session = (
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        .config("spark.pyspark.python", sys.executable).getOrCreate()
    )  # fmt: skip
    try:
        frame = session.createDataFrame(list(zip(*COLUMNS.values())), "build_id string, address long, kept long")
        rows = name(frame, places, leaf=True).orderBy("kept").collect()
        assert [row["function"] for row in rows] == LEAVES
        chains = name(frame, places).orderBy("kept").collect()
        assert [[one["function"] for one in row["frames"]] for row in chains] == [
            ["inner", "app::outer()"],
            ["app::outer()"],
            [],
            [],
        ]
    finally:
        session.stop()
