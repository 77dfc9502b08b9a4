"""DuckDB, Polars and pandas name addresses as the namer does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import whence.engines.pandas
import whence.engines.polars  # noqa: F401
from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives
from tests.helpers.profiles import profile_of
from whence._base.errors import WrongUse
from whence.columns.plain import plain
from whence.engines.datafusion import name as name_frame
from whence.engines.duckdb import name as name_relation
from whence.engines.duckdb import register
from whence.engines.files import joined, listed, to_read
from whence.engines.ray import NameBatches, name_file, name_profile_file
from whence.profiles.formats import registry as formats
from whence.store.places import objects_at

COLUMNS = {"build_id": [ONE, ONE, OTHER, None], "address": [INNER_VADDR, OUTER_VADDR, 7, 1], "kept": [1, 2, 3, 4]}
CHAINS = [["inner", "app::outer()"], ["app::outer()"], [], []]
REASONS = [None, None, "not-in-archive", "no-build-id"]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"archive_dirs": [str(small_archives(tmp_path_factory.mktemp("archives")))], "dirs": ()}


def functions(chains: Any) -> list[list[str]]:
    return [[frame["function"] for frame in chain] for chain in chains]


def table() -> pa.Table:
    return pa.table({**COLUMNS, "address": pa.array(COLUMNS["address"], pa.uint64())})


def test_duckdb_has_scalar_functions_and_a_table_function(places: dict[str, Any]) -> None:
    with duckdb.connect() as connection:
        register(connection, places)
        connection.register("samples", table())
        chains = connection.sql("select whence(build_id, address) from samples order by kept").fetchall()
        assert functions(chain for (chain,) in chains) == CHAINS
        leaves = connection.sql("select whence_leaf(build_id, address) as leaf from samples order by kept").fetchall()
        assert [leaf["function"] for (leaf,) in leaves] == ["inner", "app::outer()", None, None]
        assert [leaf["reason"] for (leaf,) in leaves] == REASONS
        rows = connection.sql("select kept, function, line from whence_frames('samples') order by all").fetchall()
        assert rows == [(1, "app::outer()", 11), (1, "inner", 3), (2, "app::outer()", 10)]
        counted = connection.sql(
            "select whence_leaf(build_id, address).function as f, count(*) from samples, range(5000) "
            "group by f order by f"
        ).fetchall()
        assert counted == [("app::outer()", 5000), ("inner", 5000), (None, 10000)]


def test_duckdb_names_relations_and_arrow_tables_in_large_batches(places: dict[str, Any]) -> None:
    wanted = list(zip([1, 2, 3, 4], ["inner", "app::outer()", None, None], REASONS, strict=True))
    with duckdb.connect() as connection:
        connection.register("samples", table())
        for source in (connection.sql("from samples"), table(), table().to_reader(2)):
            named = name_relation(source, connection, places, leaf=True)
            assert named.project("kept, function, reason").order("kept").fetchall() == wanted
        connection.execute("create table many as select * from samples, range(300000)")
        many = name_relation(connection.table("many"), connection, places, leaf=True)
        assert many.aggregate("function, count(*)").order("all").fetchall() == [
            ("app::outer()", 300_000), ("inner", 300_000), (None, 600_000),
        ]  # fmt: skip
        with pytest.raises(WrongUse, match="no column build_id"):
            name_relation(connection.sql("select 1 as address"), connection, places)


def test_datafusion_names_frames_and_arrow_tables(places: dict[str, Any]) -> None:
    context = datafusion.SessionContext()
    for source in (context.from_arrow(table()), table()):
        named = name_frame(source, context, places, leaf=True)
        assert [row["function"] for row in named.sort("kept").to_pylist()] == ["inner", "app::outer()", None, None]
        assert [row["reason"] for row in named.sort("kept").to_pylist()] == REASONS
    chains = name_frame(table(), context, places).sort("kept").to_pylist()
    assert functions(row["frames"] for row in chains) == CHAINS
    with pytest.raises(Exception, match="no column build_id"):
        name_frame(context.sql("select 1 as address"), context, places)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_has_an_expression(places: dict[str, Any], engine: Any) -> None:
    frame = pl.DataFrame(table()).lazy()
    named = frame.with_columns(
        frames=pl.col("address").whence.name(pl.col("build_id"), places),  # type: ignore[attr-defined]
        leaf=pl.col("address").whence.leaf(pl.col("build_id"), places),  # type: ignore[attr-defined]
    ).collect(engine=engine)
    assert functions(named["frames"].to_list()) == CHAINS
    assert named["leaf"].struct.field("reason").to_list() == REASONS
    assert named["kept"].to_list() == COLUMNS["kept"]


def test_polars_names_whole_stacks(places: dict[str, Any]) -> None:
    frame = pl.DataFrame(
        {"build_id": [ONE], "address": [[INNER_VADDR, OUTER_VADDR]]}, schema_overrides={"address": pl.List(pl.UInt64)}
    )
    named = frame.select(pl.col("address").whence.name(pl.col("build_id"), places))  # type: ignore[attr-defined]
    assert functions(named.to_series().to_list()) == [["inner", "app::outer()", "app::outer()"]]


def test_pandas_has_an_accessor(places: dict[str, Any]) -> None:
    frame = pd.DataFrame(COLUMNS, index=[7, 5, 3, 1])
    named = frame.whence.name(places)
    assert functions(named["frames"]) == CHAINS
    assert list(named.index) == [7, 5, 3, 1]
    leaves = frame.whence.name(places, leaf=True)
    assert [None if each is pd.NA else each for each in leaves["reason"]] == REASONS
    with pytest.raises(WrongUse, match="floating-point"):
        frame.assign(address=[1.0, 2.0, None, 3.0]).whence.name(places)


def test_ray_batches_and_files_are_named_without_dictionaries(places: dict[str, Any], tmp_path: Path) -> None:
    """What runs in a Ray worker; make engines runs it on a cluster."""
    import pyarrow.parquet as pq

    named = NameBatches(places)(table())
    assert functions(named["frames"].to_pylist()) == CHAINS
    assert not any(pa.types.is_dictionary(each.type) for each in named.schema)
    source, target = str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet")
    pq.write_table(table(), source)
    told = name_file(source, target, places, {})
    assert (told["rows"], told["addresses"], told["named"], told["error"]) == (4, 4, 2, "")
    assert functions(pq.read_table(target)["frames"].to_pylist()) == CHAINS
    assert name_file(source, target, places, {})["skipped"]
    (tmp_path / "cut.parquet").write_bytes(Path(source).read_bytes()[:-20])
    assert (
        "cut.parquet: damaged parquet"
        in name_file(str(tmp_path / "cut.parquet"), str(tmp_path / "no.parquet"), places, {})["error"]
    )
    assert not (tmp_path / "no.parquet").exists()


def test_files_in_buckets_are_named_into_buckets(places: dict[str, Any], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    name = f"memory://{tmp_path.name}"
    bucket = objects_at(f"{name}/in")
    pq.write_table(table(), tmp_path / "a.parquet")
    bucket.put("a.parquet", tmp_path / "a.parquet")
    bucket.put("deeper/b.parquet", b"not read")
    bucket.put("cut.parquet", (tmp_path / "a.parquet").read_bytes()[:-20])
    formats.write(profile_of([(["main"], 1)]), str(tmp_path / "cpu.pb"), "pprof")
    bucket.put("cpu.pb", tmp_path / "cpu.pb")
    sources = listed(f"{name}/in/")
    assert sources == [f"{name}/in/{each}" for each in ("a.parquet", "cpu.pb", "cut.parquet")]
    out = f"{name}/out"
    told = name_file(sources[0], joined(out, "a.parquet"), places, {})
    assert (told["rows"], told["named"], told["error"]) == (4, 2, "")
    with to_read(joined(out, "a.parquet")) as read:
        assert functions(pq.read_table(read)["frames"].to_pylist()) == CHAINS
    assert name_file(sources[0], joined(out, "a.parquet"), places, {})["skipped"]
    assert name_profile_file(sources[1], joined(out, "cpu.pb"), places, {})["error"] == ""
    error = name_file(sources[2], joined(out, "cut.parquet"), places, {})["error"]
    assert error.startswith(f"{sources[2]}: damaged parquet")
    assert "No such file" in name_file(f"{name}/in/none.parquet", joined(out, "none.parquet"), places, {})["error"]
    assert sorted(each.key for each in objects_at(out).list("")) == ["a.parquet", "cpu.pb"]


def test_plain_tables_have_no_dictionaries_at_any_depth() -> None:
    inner = pa.StructArray.from_arrays([pa.array(["a", None, "a"]).dictionary_encode()], ["x"])
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), inner)
    given = pa.table({"l": lists, "d": pa.array(["q", "q", None]).dictionary_encode()})
    assert plain(given).to_pylist() == given.to_pylist()
    assert plain(given.slice(1)).to_pylist() == given.slice(1).to_pylist()
    assert plain(given).schema == pa.schema({"l": pa.list_(pa.struct({"x": pa.string()})), "d": pa.string()})
