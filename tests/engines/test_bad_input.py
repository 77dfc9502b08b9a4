"""An invalid build-id or address sets the reason of its row in every engine; other columns are refused."""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import whence.engines.pandas
import whence.engines.polars  # noqa: F401
from tests.helpers.archives import INNER_VADDR, ONE, OTHER, small_archives
from tests.helpers.programs import compiled
from whence import lidia
from whence.cli.main import main
from whence.columns import Namer
from whence.engines.datafusion import name as name_frame
from whence.engines.duckdb import name, register
from whence.locator.locator import Locator
from whence.locator.opening import open_binary
from whence.store import Store

INNER = ("inner", None)
NO_ID, NO_FILE, BAD, NOWHERE = (
    (None, reason) for reason in ("no-build-id", "no-file", "not-an-address", "not-in-archive")
)
NULL = (None, None)


def u64(*values: int | None) -> pa.Array:
    return pa.array(values, pa.uint64())


ROWS: dict[str, tuple[dict[str, Any], list[tuple[str | None, str | None]]]] = {
    "texts that are not build-ids": (
        {
            "build_id": [ONE, None, "", "zz", "../..", ONE.upper(), "ab" * 300, "日本"],
            "address": u64(*[INNER_VADDR] * 8),
        },
        [INNER, NO_ID, NO_ID, NO_ID, NO_ID, INNER, NO_FILE, NO_FILE],
    ),
    "signed addresses": (
        {"build_id": [ONE] * 4, "address": pa.array([INNER_VADDR, None, -1, -(2**63)], pa.int64())},
        [INNER, NULL, NOWHERE, NOWHERE],
    ),
    "the ends of the address space": ({"build_id": [ONE] * 2, "address": u64(2**64 - 1, 0)}, [NOWHERE, NOWHERE]),
    "numbers beyond 64 bits": (
        {
            "build_id": [ONE] * 4,
            "address": pa.array(
                [decimal.Decimal(one) for one in (INNER_VADDR, 2**64, -1)] + [None], pa.decimal128(38, 0)
            ),
        },
        [INNER, BAD, BAD, NULL],
    ),
    "texts that are not addresses": (
        {"build_id": [ONE] * 6, "address": [hex(INNER_VADDR), "-1", "1" * 17, "main", None, ""]},
        [INNER, BAD, BAD, BAD, NULL, BAD],
    ),
    "views": (
        {
            "build_id": pa.array([ONE, None, OTHER], pa.string_view()),
            "address": pa.array([hex(INNER_VADDR), "40", None], pa.string_view()),
        },
        [INNER, NO_ID, NULL],
    ),
    "large texts": (
        {"build_id": pa.array([ONE, None, OTHER], pa.large_string()), "address": u64(INNER_VADDR, 1, 0x40)},
        [INNER, NO_ID, ("other", None)],
    ),
    "a dictionary with nulls": (
        {
            "build_id": pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0], pa.int8()), pa.array([ONE, None])),
            "address": u64(*[INNER_VADDR] * 4),
        },
        [INNER, NO_ID, NO_ID, INNER],
    ),
    "nothing": ({"build_id": pa.array([], pa.string()), "address": u64()}, []),
    "no chunks": (
        {"build_id": pa.chunked_array([], pa.string()), "address": pa.chunked_array([], pa.uint64())},
        [],
    ),
    "empty chunks": (
        {
            "build_id": pa.chunked_array([[], [ONE], []], pa.string()),
            "address": pa.chunked_array([u64(INNER_VADDR), u64()]),
        },
        [INNER],
    ),
    "slices": (
        {
            "build_id": pa.array(["x"] * 9 + [ONE] * 9).slice(8, 3),
            "address": u64(*range(0x1000 - 9, 0x1000 + 9)).slice(8, 3),
        },
        [NO_ID, ("app::outer()", None), ("app::outer()", None)],
    ),
    "nulls alone": ({"build_id": pa.nulls(2), "address": pa.nulls(2)}, [NULL, NULL]),
}
REFUSED = {
    "floats": ([1.5], "floating-point"),
    "booleans": ([True], "addresses must be integers"),
    "times": (pa.array([1], pa.timestamp("us")), "addresses must be integers"),
    "structs": ([{"a": 1}], "addresses must be integers"),
    "lists of lists": (pa.array([[[1]]], pa.list_(pa.list_(pa.uint64()))), "addresses must be integers"),
}

Pairs = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_archives(tmp_path_factory.mktemp("archives"))


def places(folder: Path) -> dict[str, Any]:
    return {"archive_dirs": [str(folder)], "dirs": ()}


def pairs(table: Any) -> Pairs:
    return [tuple(row.values()) for row in table.select(["function", "reason"]).to_pylist()]


def by_function(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    with Namer(locator=Locator(**places(folder)), leaf=True) as namer:
        return pairs(namer(table))


def by_stream(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    with Namer(locator=Locator(**places(folder)), leaf=True) as namer:
        return pairs(pa.table(namer(table.to_reader())))


def by_command(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    words = ["columns", str(tmp_path / "in.arrow"), "-o", str(tmp_path / "out.parquet"), "--leaf", "--no-cache"]
    if main([*words, "--archive-dir", str(folder)]):
        raise RuntimeError("the command refused the table")
    return pairs(pq.read_table(tmp_path / "out.parquet"))


def by_duckdb(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    with duckdb.connect() as connection:
        register(connection, places(folder))
        connection.register("samples", table)
        rows = connection.sql("select whence_leaf(build_id, address) from samples").fetchall()
    return [(leaf["function"], leaf["reason"]) for (leaf,) in rows]


def by_duckdb_relation(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    with duckdb.connect() as connection:
        connection.register("samples", table)
        named = name(connection.table("samples"), connection, places(folder), leaf=True)
        rows: Pairs = named.project("function, reason").fetchall()
    return rows


def by_datafusion(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    context = datafusion.SessionContext()
    numbered = table.append_column("row", pa.array(range(len(table))))  # a data frame has no order of rows
    named = name_frame(context.from_arrow(numbered), context, places(folder), leaf=True)
    rows = named.sort("row").to_pylist()
    return [(row["function"], row["reason"]) for row in rows]


def by_polars(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    wanted = pl.col("address").whence.leaf(pl.col("build_id"), places(folder))  # type: ignore[attr-defined]
    return pl.DataFrame(table).select(wanted).to_series().struct.unnest().select("function", "reason").rows()


def by_pandas(table: Any, folder: Path, tmp_path: Path) -> Pairs:
    named = table.to_pandas(types_mapper=pd.ArrowDtype).whence.name(places(folder), leaf=True)
    rows = zip(named["function"], named["reason"], strict=True)
    return [tuple(None if one is pd.NA else one for one in row) for row in rows]


DOORS: list[Callable[[Any, Path, Path], Pairs]] = [
    by_function, by_stream, by_command, by_duckdb, by_duckdb_relation, by_datafusion, by_polars, by_pandas,
]  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", ROWS)
def test_a_bad_row_affects_itself_only(what: str, door: Callable[..., Pairs], folder: Path, tmp_path: Path) -> None:
    columns, wanted = ROWS[what]
    assert door(pa.table(columns), folder, tmp_path) == wanted


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("what", REFUSED)
def test_columns_of_other_types_than_addresses_are_refused(
    what: str, door: Callable[..., Pairs], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    addresses, words = REFUSED[what]
    with pytest.raises(Exception) as error:
        door(pa.table({"build_id": [ONE], "address": addresses}), folder, tmp_path)
    assert words in str(error.value) + capsys.readouterr().err
    assert not (tmp_path / "out.parquet").exists()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an archive of this machine's C library."""
    folder = tmp_path_factory.mktemp("library")
    (path,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so.6" in line}
    with open_binary(path) as binary:
        build_id = binary.build_id
    assert main(["lidia", "create", path, "-o", str(folder / f"{build_id}.lidia")]) == 0
    return folder


@pytest.mark.parametrize("door", DOORS)
def test_thousands_of_addresses_of_a_library_have_the_answers_of_its_lookup(
    door: Callable[..., Pairs], library: Path, tmp_path: Path
) -> None:
    (archive,) = library.iterdir()
    with lidia.open(archive, demangle=True) as names:
        starts = names.vaddrs()
        vaddrs = [max(0, start + more) for start in starts[:4000] for more in (-1, 0, 7)]
        wanted = [(frames[0].function or None) if frames else None for frames in names.lookup_many(vaddrs)]
    assert len(set(wanted)) > 500
    table = pa.table({"build_id": [archive.stem] * len(vaddrs), "address": u64(*vaddrs)})
    assert [function for function, _ in door(table, library, tmp_path)] == wanted


def test_a_store_that_disappears_and_a_damaged_archive_affect_only_their_rows(tmp_path: Path) -> None:
    program = compiled("-Wl,--build-id", "-O2")
    with Store(tmp_path / "store") as store:
        store.add(program)
    small_archives(tmp_path)
    with open_binary(program) as binary:
        vaddr, build_id = binary.find("main")[0].vaddr, binary.build_id
    broken = tmp_path / f"{OTHER}.lidia"
    broken.write_bytes(broken.read_bytes()[:40])
    batch = pa.record_batch({"build_id": [build_id, ONE, OTHER], "address": u64(vaddr, INNER_VADDR, 0x40)})
    with Store(tmp_path / "store") as store:
        locator = Locator(archive_dirs=[tmp_path], dirs=(), sources=[store.source("test")])
        with Namer(locator=locator, leaf=True) as namer:
            for gone in (False, True, True):
                if gone and (tmp_path / "store").exists():
                    (tmp_path / "store").rename(tmp_path / "gone")
                    namer.forget()
                rows = [tuple(row.values()) for row in namer(batch).select(["function", "reason"]).to_pylist()]
                assert rows[0] == (("main", None) if not gone else (None, rows[0][1]))
                assert rows[0][1] or not gone
                assert rows[1] == INNER
                assert rows[2][0] is None
                assert rows[2][1]


def test_shapes_that_repeat_rows_keep_them_together(folder: Path) -> None:
    """Lists of any lengths, null and empty ones among them, sliced: the exploded rows are the lists' frames."""
    stacks = [[INNER_VADDR, 5], None, [], [0x1001], [None, INNER_VADDR]]
    given = pa.table({"build_id": [ONE] * 7, "address": pa.array([[1], *stacks, [2]], pa.list_(pa.uint64()))}).slice(
        1, 5
    )
    with (
        Namer(locator=Locator(**places(folder))) as namer,
        Namer(locator=Locator(**places(folder)), exploded=True) as exploding,
    ):
        frames = [[one["function"] for one in row] for row in namer(given)["frames"].to_pylist()]
        rows = exploding(given).select(["address", "function"]).to_pylist()
    assert frames == [["inner", "app::outer()", None], [], [], ["app::outer()"], ["inner", "app::outer()"]]
    kept = {
        str(key): [row["function"] for row in group] for key, group in itertools.groupby(rows, lambda r: r["address"])
    }
    assert kept[str(stacks[0])] == frames[0]
    assert kept[str(stacks[4])][-2:] == frames[4]
