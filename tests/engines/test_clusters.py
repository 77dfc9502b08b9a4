"""Ray, Dask and Spark, real ones, name tables as the namer does; workers and nodes are killed in the middle.

Run by make engines, which installs what this needs.
"""

from __future__ import annotations

import doctest
import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engines, pytest.mark.filterwarnings("ignore")]  # warnings of the engines
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives  # noqa: E402
from tests.helpers.live import until  # noqa: E402
from tests.helpers.stores import make_bucket, s3_environment, s3_server  # noqa: E402
from whence.engines.files import joined, to_read  # noqa: E402
from whence.store import Store  # noqa: E402
from whence.store.places import objects_at  # noqa: E402

COLUMNS = {"build_id": [ONE, ONE, OTHER, None], "address": [INNER_VADDR, OUTER_VADDR, 7, 1], "kept": [1, 2, 3, 4]}
LEAVES = ["inner", "app::outer()", None, None]
CHAINS = [["inner", "app::outer()"], ["app::outer()"], [], []]
FILES = 24
ROWS = 1 << 20  # of a file that keeps a worker for a while


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"archive_dirs": [str(small_archives(tmp_path_factory.mktemp("archives")))], "dirs": ()}


def table() -> Any:
    return pa.table({**COLUMNS, "address": pa.array(COLUMNS["address"], pa.int64())})


def kill_one(word: str, *, last: bool = False) -> list[int]:
    """Kill one of the processes that this one has started, directly or not, and that is called so: its id."""
    import psutil

    result = psutil.Process().children(recursive=True)
    for process in reversed(result) if last else result:
        with suppress(psutil.Error):
            if any(word in part for part in process.cmdline()):
                process.kill()
                return [process.pid]
    return []


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
        """Workers that run whence's tasks are killed while they name files."""
        while len(killed) < 2 and not done.is_set():
            time.sleep(0.2)
            killed.extend(kill_one("ray::name_file"))

    done = threading.Event()
    killer = threading.Thread(target=kill)
    killer.start()
    told = list(name_files(sources, str(out), places))
    done.set()
    killer.join()
    assert len(told) == FILES
    assert not [each for each in told if each["error"]]
    written = [path for path in out.iterdir() if path.suffix == ".parquet"]  # a killed writer leaves its temporary file
    assert sorted(path.name for path in written) == sorted(os.path.basename(each) for each in sources)
    for path in written:
        named = pq.read_table(path)
        assert named.num_rows == 8000
        assert [
            frames[0]["function"] if frames else None for frames in named["frames"].slice(0, 4).to_pylist()
        ] == LEAVES
    again = list(name_files(sources, str(out), places))
    assert all(each["skipped"] for each in again)
    print(f"{FILES} files, {len(killed)} workers killed, nothing lost, nothing twice")


@pytest.mark.parametrize("where", ["folders", "buckets"])
def test_a_fleet_is_named_by_the_example(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, which starts a Ray of its own."""
    pytest.importorskip("ray", reason="ray is not installed")
    _, build_id, vaddrs = a_store(tmp_path / "store")
    asked = pa.table({"build_id": [build_id], "address": pa.array(vaddrs[:1], pa.uint64())})
    with ExitStack() as stack:
        places = [str(tmp_path / name) for name in ("in", "out")]
        if where == "buckets":
            pytest.importorskip("obstore", reason="obstore is not installed")
            url = stack.enter_context(s3_server())
            make_bucket(url, "fleet")
            places = ["s3://fleet/in", "s3://fleet/out"]
            for name, value in s3_environment(url).items():
                monkeypatch.setenv(name, value)  # for this process, which reads the results
        (tmp_path / "broken.parquet").write_bytes(b"PAR1 no more")
        pq.write_table(asked, tmp_path / "a.parquet")
        for name in ("a.parquet", "broken.parquet"):
            objects_at(places[0]).put(name, tmp_path / name)
        example = Path(__file__).parents[2] / "examples" / "fleet_ray.py"
        for already in (0, 1):
            done = subprocess.run(
                [sys.executable, example, tmp_path / "store", *places, "--leaf"],
                capture_output=True, text=True, timeout=300,
            )  # fmt: skip
            assert done.returncode == 1, done.stderr
            assert "broken.parquet: damaged parquet" in done.stderr
            assert f"2 files, {already} done before, 1 failed" in done.stdout
        with to_read(joined(places[1], "a.parquet")) as read:
            assert pq.read_table(read)["function"].null_count == 0


def test_a_fleet_continues_when_nodes_are_killed(tmp_path: Path) -> None:
    """Run the example on a cluster of three nodes; two are removed while they name files, and one is added."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        ray.shutdown()
    store, build_id, vaddrs = a_store(tmp_path / "store")
    rows = ROWS // len(vaddrs) * len(vaddrs)
    (tmp_path / "in").mkdir()
    first = tmp_path / "in" / "0.parquet"
    pq.write_table(
        pa.table(
            {
                "build_id": pa.array([build_id] * rows).dictionary_encode(),
                "address": pa.array(vaddrs * (rows // len(vaddrs)), pa.uint64()),
            }
        ),
        first,
    )
    names = [f"{number}.parquet" for number in range(FILES)]
    for name in names[1:]:
        shutil.copy(first, tmp_path / "in" / name)
    out = tmp_path / "out"
    example = Path(__file__).parents[2] / "examples" / "fleet_ray.py"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)]
        command = [sys.executable, example, store, tmp_path / "in", out, "--leaf", "--address", cluster.address]
        began = time.monotonic()
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        left = []
        for offset, node in zip((FILES // 6, FILES // 2), nodes, strict=True):
            until(lambda offset=offset: run.poll() is not None or len(list(out.glob("*.parquet"))) >= offset, 600)  # type: ignore[misc]
            cluster.remove_node(node, allow_graceful=False)
            left.append(FILES - len(list(out.glob("*.parquet"))))
            if len(left) == 1:
                cluster.add_node(num_cpus=1)
        told, errors = run.communicate(timeout=600)
        took = time.monotonic() - began
        assert run.returncode == 0, errors
        assert f"{FILES} files, 0 done before, 0 failed" in told, errors
        assert f"{FILES * rows:,} of {FILES * rows:,} addresses named (100.0 %)" in told
        assert min(left) > 0  # they were removed before they had finished
        written = {path.name: path.stat().st_ino for path in out.glob("*.parquet")}
        assert sorted(written) == sorted(names)
        wanted = pq.read_table(out / names[0])["function"].unique().to_pylist()
        for name in names:
            function = pq.read_table(out / name, columns=["function"])["function"]
            assert (len(function), function.null_count, function.unique().to_pylist()) == (rows, 0, wanted)
        again = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert f"{FILES} files, {FILES} done before, 0 failed" in again.stdout, again.stderr
        assert written == {path.name: path.stat().st_ino for path in out.glob("*.parquet")}
    finally:
        cluster.shutdown()
    print(
        f"{FILES} files of {rows:,} rows on three nodes in {took:.1f} s, two nodes killed with {left[0]} and {left[1]} "
        f"files left: nothing lost, nothing twice; all {FILES} skipped by the next run"
    )


def test_two_ray_workers_take_less_time_than_one(tmp_path: Path) -> None:
    """Prints the ratio; a machine that does other work may show none."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    from whence.engines.ray import name_files

    if ray.is_initialized():
        ray.shutdown()
    store, build_id, vaddrs = a_store(tmp_path / "store")
    rows = ROWS // len(vaddrs) * len(vaddrs)
    columns = {
        "build_id": pa.array([build_id] * rows).dictionary_encode(),
        "address": pa.array(vaddrs * (rows // len(vaddrs)), pa.uint64()),
    }
    sources = [str(tmp_path / f"{number}.parquet") for number in range(8)]
    pq.write_table(pa.table(columns), sources[0])
    for source in sources[1:]:
        shutil.copy(sources[0], source)
    seconds = {}
    for workers in (1, 2):
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        try:
            places = {"store": str(store), "cache": None}
            list(name_files(sources[:workers], str(tmp_path / f"warm{workers}"), places, leaf=True))
            began = time.monotonic()
            told = list(name_files(sources, str(tmp_path / f"out{workers}"), places, leaf=True))
            seconds[workers] = time.monotonic() - began
        finally:
            ray.shutdown()
        assert sum(each["rows"] for each in told) == len(sources) * rows
    print(f"{len(sources)} files of {rows:,} rows: {seconds[1]:.1f} s by one worker, {seconds[2]:.1f} s by two")


def a_store(folder: Path) -> tuple[Path, str, list[int]]:
    """Return a store of one program, its build-id, and vaddrs of its functions."""
    from tests.helpers.programs import compiled
    from whence.locator.opening import open_binary

    program = compiled("-Wl,--build-id", "-O2")
    with Store(folder) as store:
        store.add(program)
    with open_binary(program) as binary:
        vaddrs = [vaddr for each in binary.functions() for vaddr in range(each.vaddr, each.end) if binary.lookup(vaddr)]
        return folder, binary.build_id, vaddrs


def test_dask_names_partitions_in_worker_processes(places: dict[str, Any]) -> None:
    pytest.importorskip("dask", reason="dask is not installed")
    import dask.dataframe as dd
    import pandas as pd
    from dask.distributed import Client, LocalCluster

    from whence.engines.dask import name

    frame = dd.from_pandas(pd.DataFrame({**COLUMNS, "address": pd.array(COLUMNS["address"], "UInt64")}), npartitions=2)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        named = name(frame, places, leaf=True).compute()
    assert [None if each is pd.NA else each for each in named["function"]] == LEAVES


def test_dask_continues_when_a_worker_is_killed(places: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("dask", reason="dask is not installed")
    import dask.dataframe as dd
    import pandas as pd
    from dask.distributed import Client, LocalCluster

    from whence.engines.dask import name

    folder, parts = str(tmp_path), 16

    def slow(partition: Any) -> Any:
        tempfile.mkstemp(dir=folder)
        time.sleep(0.3)
        return partition

    rows = pd.DataFrame({**COLUMNS, "address": pd.array(COLUMNS["address"], "UInt64")})
    frame = dd.from_pandas(pd.concat([rows] * parts, ignore_index=True), npartitions=parts, sort=False)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        future = client.compute(name(frame.map_partitions(slow, meta=frame._meta), places, leaf=True))
        assert until(lambda: len(os.listdir(folder)) >= 4, 300)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        begun = len(os.listdir(folder))
        named = future.result(timeout=300)
    assert begun < parts
    assert [None if each is pd.NA else each for each in named["function"]] == LEAVES * parts
    print(f"Dask: {parts} partitions, a worker killed after {begun} were begun: nothing lost, nothing twice")


def a_spark_session(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    return builder.config("spark.pyspark.python", sys.executable).getOrCreate()


def test_spark_continues_when_a_worker_is_killed(places: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from whence.engines.spark import name

    folder, parts = str(tmp_path), 12

    def slow(batches: Any) -> Any:
        tempfile.mkstemp(dir=folder)
        time.sleep(0.5)
        yield from batches

    session = a_spark_session("local[2,4]")  # two at once, each tried four times
    killed: list[int] = []
    try:
        given = [(*row[:2], 4 * part + row[2]) for part in range(parts) for row in zip(*COLUMNS.values())]
        frame = session.createDataFrame(given, "build_id string, address long, kept long").repartition(parts)
        wanted = name(frame.mapInArrow(slow, frame.schema), places, leaf=True).orderBy("kept")

        def kill() -> None:
            assert until(lambda: len(os.listdir(folder)) >= 3, 300)
            killed.extend(kill_one("pyspark.daemon", last=True))

        killer = threading.Thread(target=kill)
        killer.start()
        rows = wanted.collect()
        killer.join()
        assert [row["function"] for row in rows] == LEAVES * parts
        assert killed
    finally:
        session.stop()
    print(f"Spark: {parts} partitions, {len(killed)} worker killed: nothing lost, nothing twice")


@pytest.mark.parametrize("shape", ["--leaf", "--stacks"])
def test_spark_reads_the_parquet_that_is_written(
    shape: str, places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In gzip, which Java has itself: its libraries for the others do not load on every machine."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from whence.cli.main import main
    from whence.columns import writing

    monkeypatch.setattr(writing, "CODEC", "gzip")
    times, source, target = 1000, tmp_path / "in.parquet", tmp_path / "out.parquet"
    given = pa.concat_tables([table()] * times).set_column(2, "kept", pa.array(range(4 * times)))
    pq.write_table(given, source, compression="gzip", row_group_size=3 * times)
    where = ["--archive-dir", places["archive_dirs"][0], "--no-cache"]
    assert main(["columns", str(source), "-o", str(target), shape, *where]) in (0, 1)
    session = a_spark_session("local[2]")
    try:
        read = session.read.parquet(str(target))
        rows = [row.asDict(recursive=True) for row in read.orderBy("kept").collect()]
        assert rows == pq.read_table(target).to_pylist()
        assert read.where("kept = 3007").count() == 1
        assert read.where("reason is null").count() == 2 * times
    finally:
        session.stop()
    print(f"Spark read {len(rows):,} rows ({shape}) as pyarrow does")


@pytest.mark.parametrize("engine", ["ray", "dask", "spark"])
def test_the_examples_of_the_adapters_run(engine: str) -> None:
    module = importlib.import_module(f"whence.engines.{engine}")
    pytest.importorskip({"spark": "pyspark"}.get(engine, engine), reason=f"{engine} is not installed")
    failed, tried = doctest.testmod(module)
    assert (failed, tried > 0) == (0, True)


def test_spark_names_partitions_in_its_workers(places: dict[str, Any]) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from whence.engines.spark import name

    session = a_spark_session("local[2]")
    try:
        frame = session.createDataFrame(list(zip(*COLUMNS.values())), "build_id string, address long, kept long")
        rows = name(frame, places, leaf=True).orderBy("kept").collect()
        assert [row["function"] for row in rows] == LEAVES
        chains = name(frame, places).orderBy("kept").collect()
        assert [[each["function"] for each in row["frames"]] for row in chains] == [
            ["inner", "app::outer()"],
            ["app::outer()"],
            [],
            [],
        ]
    finally:
        session.stop()
