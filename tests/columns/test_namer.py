"""Batches with build-ids and addresses get columns of names."""

from __future__ import annotations

import decimal
import gc
import resource
import threading
from array import array
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives
from tests.helpers.programs import compiled
from whence import lidia
from whence._base.errors import CHANGED, LidiaError, WrongUse
from whence._base.reasons import Reason
from whence.columns import Namer
from whence.columns.kernels.answers import AnswerStore
from whence.columns.kernels.batch import Elements, RecordBatch
from whence.kernels.columns import Column
from whence.lidia import Range, Table
from whence.locator.locator import Locator
from whence.locator.opening import open_binary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_archives(tmp_path_factory.mktemp("archives"))


def namer_of(folder: Path, **options: Any) -> Namer:
    return Namer(locator=Locator(archive_dirs=[folder], dirs=()), **options)


def named(folder: Path, columns: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    with namer_of(folder, **options) as namer:
        batch = pa.record_batch(columns)
        out = namer(batch)
        out.validate(full=True)
        assert namer.schema(batch.schema) == out.schema
        rows: list[dict[str, Any]] = out.to_pylist()
        return rows


def functions(rows: list[dict[str, Any]]) -> list[list[str | None]]:
    return [[frame["function"] for frame in row["frames"]] for row in rows]


def u64(*addresses: int | None) -> pa.Array:
    return pa.array(addresses, pa.uint64())


def test_each_row_gets_its_chain_innermost_first_or_a_reason(folder: Path) -> None:
    rows = named(folder, {"build_id": [ONE, ONE, OTHER, ONE], "address": u64(INNER_VADDR, OUTER_VADDR, 0x40, 5)})
    assert functions(rows) == [["inner", "app::outer()"], ["app::outer()"], ["other"], []]
    assert [row["reason"] for row in rows] == [None, None, None, "not-in-archive"]
    assert rows[0]["frames"] == [
        {
            "function": "inner", "file": "/src/inner.h", "line": 3, "inlined": True, "start_line": None,
            "source": "given",
        },
        {
            "function": "app::outer()", "file": "/src/app.cpp", "line": 11, "inlined": False, "start_line": None,
            "source": "given",
        },
    ]  # fmt: skip


def test_the_same_frames_come_from_a_binary_with_debug_info(tmp_path: Path) -> None:
    program = compiled("-Wl,--build-id", "-O2")
    with open_binary(program, demangle=True) as binary:
        vaddrs = [vaddr for each in binary.functions() for vaddr in range(each.vaddr, each.end, 3)][:4000]
        wanted = [list(frames) for frames in binary.lookup_many(vaddrs)]
        build_id = binary.build_id
    with Namer(locator=Locator(files=[program], dirs=())) as namer:
        rows = namer(pa.record_batch({"build_id": [build_id] * len(vaddrs), "address": u64(*vaddrs)})).to_pylist()
    assert [
        [
            (each["function"] or "", each["file"] or "", each["line"] or 0, each["inlined"], each["source"])
            for each in row["frames"]
        ]
        for row in rows
    ] == [[(each.function, each.file, each.line, each.inlined, each.source) for each in chain] for chain in wanted]


def test_leaf_gives_columns_of_the_innermost_frame(folder: Path) -> None:
    rows = named(
        folder, {"build_id": [ONE, ONE, None], "address": u64(INNER_VADDR, 5, 7), "kept": [1, 2, 3]}, leaf=True
    )
    assert [(row["function"], row["line"], row["inlined"], row["reason"], row["kept"]) for row in rows] == [
        ("inner", 3, True, None, 1), (None, None, None, "not-in-archive", 2), (None, None, None, "no-build-id", 3),
    ]  # fmt: skip


def test_exploded_gives_a_row_for_each_frame(folder: Path) -> None:
    rows = named(folder, {"build_id": [ONE, OTHER], "address": u64(INNER_VADDR, 9), "kept": ["a", "b"]}, exploded=True)
    assert [(row["kept"], row["function"], row["reason"]) for row in rows] == [
        ("a", "inner", None), ("a", "app::outer()", None), ("b", None, "not-in-archive"),
    ]  # fmt: skip


@pytest.mark.parametrize("type", [pa.list_(pa.uint64()), pa.large_list(pa.int64()), pa.list_(pa.uint64(), 2)])
def test_lists_of_addresses_are_stacks(folder: Path, type: pa.DataType) -> None:
    stacks = pa.array([[INNER_VADDR, 5], [OUTER_VADDR, OUTER_VADDR]], type)
    columns = {"build_id": [ONE, ONE], "address": stacks}
    rows = named(folder, columns)
    assert functions(rows) == [["inner", "app::outer()", None], ["app::outer()", "app::outer()"]]
    assert [row["reason"] for row in rows] == ["not-in-archive", None]
    assert [row["function"] for row in named(folder, columns, leaf=True)] == ["inner", "app::outer()"]
    assert [row["function"] for row in named(folder, columns, exploded=True)] == [
        "inner", "app::outer()", None, "app::outer()", "app::outer()",
    ]  # fmt: skip


def test_a_stack_may_have_a_build_id_for_each_address(folder: Path) -> None:
    columns = {
        "build_id": [[ONE, OTHER], None, [OTHER]],
        "address": pa.array([[OUTER_VADDR, 0x40], None, [0x40]], pa.list_(pa.uint64())),
    }
    assert functions(named(folder, columns)) == [["app::outer()", "other"], [], ["other"]]
    columns["build_id"] = [[ONE], None, [OTHER]]
    with pytest.raises(WrongUse, match="different numbers of build-ids and addresses"):
        named(folder, columns)


def test_return_addresses_are_looked_up_one_byte_before(folder: Path) -> None:
    stack = pa.array([[0x1000, 0x1100, 0]], pa.list_(pa.uint64()))
    assert functions(named(folder, {"build_id": [ONE], "address": stack}, return_addresses="callers")) == [
        ["app::outer()", "app::outer()", None]
    ]
    assert functions(named(folder, {"build_id": [ONE], "address": stack}, return_addresses=True)) == [
        [None, "app::outer()", None]
    ]
    single = {"build_id": [ONE], "address": u64(0x1100)}
    assert functions(named(folder, single, return_addresses=True)) == [["app::outer()"]]
    assert functions(named(folder, single, return_addresses="callers")) == [[]]


@pytest.mark.parametrize(
    "addresses",
    [
        pa.array([INNER_VADDR, None, 5], pa.int16()),
        pa.array([INNER_VADDR, None, 5], pa.uint32()),
        pa.array([INNER_VADDR, None, 5], pa.int64()),
        pa.array([hex(INNER_VADDR), None, "5"]),
        pa.array([f" {INNER_VADDR:X} ", None, "5"], pa.large_string()),
        pa.array([f"{INNER_VADDR:020x}", None, "5"], pa.string_view()),
        pa.array([INNER_VADDR, None, 5], pa.uint64()).dictionary_encode(),
        pa.array([decimal.Decimal(INNER_VADDR), None, decimal.Decimal(5)], pa.decimal128(30, 0)),
    ],
    ids=lambda array: str(array.type),
)
def test_addresses_of_any_type_that_holds_them(folder: Path, addresses: pa.Array) -> None:
    rows = named(folder, {"build_id": [ONE] * 3, "address": addresses})
    assert functions(rows) == [["inner", "app::outer()"], [], []]
    assert [row["reason"] for row in rows] == [None, None, "not-in-archive"]


@pytest.mark.parametrize(
    "build_ids",
    [
        pa.array([ONE, None, ONE.upper()]),
        pa.array([ONE, None, ONE], pa.string_view()),
        pa.array([bytes.fromhex(ONE), None, ONE.encode()], pa.binary()),
        pa.array([bytes.fromhex(ONE), None, bytes.fromhex(ONE)], pa.binary(20)),
        pa.array([ONE, None, ONE]).dictionary_encode(),
        pa.array([ONE, None, ONE], pa.large_binary()).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
def test_build_ids_of_any_type_that_holds_them(folder: Path, build_ids: pa.Array) -> None:
    rows = named(folder, {"build_id": build_ids, "address": u64(0x1001, 0x1001, 0x1001)})
    assert functions(rows) == [["app::outer()"], [], ["app::outer()"]]
    assert rows[1]["reason"] == "no-build-id"


def test_an_invalid_address_sets_the_reason_of_its_row_only(folder: Path) -> None:
    texts = ["0x1001", "main", "-1", "1" * 17, "", "0x"]
    rows = named(folder, {"build_id": [ONE] * 6, "address": texts})
    assert [row["reason"] for row in rows] == [None, *["not-an-address"] * 5]
    numbers = [decimal.Decimal(0x1001), decimal.Decimal(2**64), decimal.Decimal(-1)]
    rows = named(folder, {"build_id": [ONE] * 3, "address": pa.array(numbers, pa.decimal128(38, 0))})
    assert [row["reason"] for row in rows] == [None, "not-an-address", "not-an-address"]
    rows = named(folder, {"build_id": [ONE] * 2, "address": pa.array([-1, 0x1001], pa.int64())})
    assert [row["reason"] for row in rows] == ["not-in-archive", None]


def test_decimal_texts_are_read_on_request(folder: Path) -> None:
    rows = named(folder, {"build_id": [ONE] * 3, "address": [str(0x1001), "0x1001", "1ff"]}, decimal=True)
    assert [row["reason"] for row in rows] == [None, None, "not-an-address"]


@pytest.mark.parametrize("value", ["", "zz", "../../etc/passwd", "ab" * 300, "\0", "日本"])
def test_an_invalid_build_id_sets_the_reason_of_its_row_only(folder: Path, value: str) -> None:
    rows = named(folder, {"build_id": [value, ONE], "address": u64(0x1001, 0x1001)})
    assert rows[0]["reason"] in ("no-build-id", "no-file")
    assert functions(rows)[1] == ["app::outer()"]


def test_wrong_columns_are_wrong_use(folder: Path) -> None:
    for columns, words in (
        ({"address": u64(1)}, "no column build_id"),
        ({"build_id": [ONE]}, "no column address or file_offset"),
        ({"build_id": [ONE], "address": [1.5]}, "floating-point"),
        ({"build_id": [ONE], "address": [True]}, "addresses must be integers"),
        ({"build_id": [7], "address": u64(1)}, "build-ids must be texts in hex or bytes"),
        ({"build_id": [ONE], "address": u64(1), "reason": [1]}, "already has a column reason"),
        ({"build_id": [[ONE]], "address": u64(1)}, "has lists, but the addresses are not lists"),
    ):
        with pytest.raises(WrongUse, match=words):
            named(folder, columns)
        if "has lists" not in words:  # the types alone do not tell
            with namer_of(folder) as namer, pytest.raises(WrongUse, match=words):
                namer.schema(pa.record_batch(columns).schema)
    assert "at_reason" in named(folder, {"build_id": [ONE], "address": u64(1), "reason": [1]}, prefix="at_")[0]


def test_columns_may_have_other_names(folder: Path) -> None:
    assert functions(named(folder, {"id": [ONE], "pc": u64(0x1001)}, build_id="id", address="pc")) == [["app::outer()"]]


def test_file_offsets_and_runtime_addresses_become_vaddrs() -> None:
    program = compiled("-Wl,--build-id", "-O2")
    with open_binary(program, demangle=True) as binary:
        vaddr = binary.find("main")[0].vaddr
        build_id = binary.build_id
        assert binary.producers is not None
        segment = next(each for each in binary.producers.elf.segments if each.executable)
    file_offset = vaddr - segment.vaddr + segment.file_offset
    start = 0x5555_0000_0000
    with Namer(locator=Locator(files=[program], dirs=()), leaf=True) as namer:
        by_offset = namer(pa.record_batch({"build_id": [build_id] * 2, "file_offset": u64(file_offset, 1 << 40)}))
        runtime = {
            "build_id": [build_id] * 2,
            "address": u64(start + file_offset - segment.file_offset, 8),
            "mapping_start": u64(start, None),
            "mapping_offset": u64(segment.file_offset, 0),
        }
        by_mapping = namer(pa.record_batch(runtime))
    assert by_offset.column("function").to_pylist()[0] == "main"
    assert by_offset.column("reason").to_pylist()[1] is not None
    assert by_mapping.column("function").to_pylist() == ["main", None]
    assert by_mapping.column("reason").to_pylist() == [None, "not-an-address"]


def test_slices_and_empty_batches_and_tables(folder: Path) -> None:
    batch = pa.record_batch({"build_id": [ONE, OTHER, ONE], "address": u64(INNER_VADDR, 0x40, 0x1001)})
    stacks = pa.record_batch(
        {"build_id": [ONE, OTHER], "address": pa.array([[INNER_VADDR, 1], [0x40]], pa.list_(pa.uint64()))}
    )
    with namer_of(folder) as namer:
        assert functions(namer(batch.slice(1, 2)).to_pylist()) == [["other"], ["app::outer()"]]
        assert functions(namer(stacks.slice(1)).to_pylist()) == [["other"]]
        assert namer(batch.slice(3)).num_rows == 0
        table = pa.Table.from_batches([batch, batch.slice(1, 1)])
        out = namer(table)
        assert isinstance(out, pa.Table)
        assert functions(out.to_pylist()) == [["inner", "app::outer()"], ["other"], ["app::outer()"], ["other"]]
        assert namer(table.slice(0, 0)).schema == out.schema


def test_objects_with_the_c_interface_need_no_pyarrow(folder: Path) -> None:
    batch = pa.record_batch({"build_id": [ONE], "address": u64(INNER_VADDR)})

    class Speaks:
        def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
            pair: tuple[object, object] = batch.__arrow_c_array__()
            return pair

    class Streams:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.RecordBatchReader.from_batches(batch.schema, [batch, batch]).__arrow_c_stream__()

    with namer_of(folder) as namer:
        out = namer(Speaks())
        assert isinstance(out, RecordBatch)
        assert functions(pa.record_batch(out).to_pylist()) == [["inner", "app::outer()"]]
        assert functions(pa.record_batch(out).to_pylist()) == [["inner", "app::outer()"]]  # any number of times
        stream = namer(Streams())
        assert functions(pa.table(stream).to_pylist()) == [["inner", "app::outer()"]] * 2
        with pytest.raises(TypeError, match="does not have Arrow"):
            namer(object())


def test_a_stream_that_fails_reports_the_error(folder: Path) -> None:
    def batches() -> Any:
        yield pa.record_batch({"build_id": [ONE], "address": u64(1)})
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"build_id": pa.string(), "address": pa.uint64()}), batches())

    class Streams:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return reader.__arrow_c_stream__()

    with namer_of(folder) as namer, pytest.raises(OSError, match="the disk is gone"):
        pa.table(namer(Streams()))


def test_a_capsule_that_is_never_consumed_and_one_that_is_consumed_twice(folder: Path) -> None:
    batch = pa.record_batch({"build_id": [ONE], "address": u64(1)})
    schema, data = batch.__arrow_c_array__()
    taken = RecordBatch(schema, data)
    with pytest.raises(ValueError, match="already consumed"):
        RecordBatch(schema, data)
    taken.__arrow_c_array__()
    assert pa.record_batch(taken).equals(batch)


def test_memory_is_released(folder: Path) -> None:
    rows = 20_000
    batch = pa.record_batch({"build_id": [ONE] * rows, "address": u64(*range(0x1000, 0x1000 + rows))})
    with namer_of(folder) as namer:
        for _ in range(20):
            namer(batch)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(300):
            namer(batch)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 64 << 10  # kB; one batch's columns take about 1 MB


def test_threads_share_a_namer(folder: Path) -> None:
    batches = [
        pa.record_batch({"build_id": [ONE] * 500, "address": u64(*range(0x1000 + index, 0x1000 + index + 500))})
        for index in range(0, 64, 4)
    ]
    with namer_of(folder) as namer:
        wanted = [namer_of(folder)(each).to_pylist() for each in batches]
        result: dict[int, Any] = {}

        def work(number: int) -> None:
            for index, each in enumerate(batches):
                if index % 4 == number:
                    result[index] = namer(each).to_pylist()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert [result[index] for index in range(len(batches))] == wanted


def test_a_broken_archive_affects_its_rows_only(tmp_path: Path) -> None:
    small_archives(tmp_path)
    good = (tmp_path / f"{ONE}.lidia").read_bytes()
    (tmp_path / f"{ONE}.lidia").write_bytes(good[: len(good) // 2])
    rows = named(tmp_path, {"build_id": [ONE, OTHER], "address": u64(0x1001, 0x40)})
    assert rows[0]["reason"] is not None
    assert functions(rows)[1] == ["other"]


def test_an_address_that_raises_affects_its_row_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_archives(tmp_path)
    find = Table.find_frames
    lookups: list[int] = []

    def broken(self: Table, vaddrs: Any, **options: Any) -> Any:
        lookups.append(len(vaddrs))
        if INNER_VADDR in vaddrs:
            raise LidiaError("frames", None, "they are as they were")
        return find(self, vaddrs, **options)

    monkeypatch.setattr(Table, "find_frames", broken)
    first = INNER_VADDR - 10
    addresses = u64(*range(first, first + 64))
    with namer_of(tmp_path) as namer:
        namer.count_coverage()
        rows = namer(pa.record_batch({"build_id": [ONE] * 64, "address": addresses})).to_pylist()
        missing = {each.reason for each in namer.coverage[0].missing}
    assert [index for index, row in enumerate(rows, first) if row["reason"] == Reason.BROKEN_FILE.word] == [INNER_VADDR]
    assert rows[9]["frames"]
    assert Reason.BROKEN_FILE in missing
    assert len(lookups) <= 1 + 2 * 6


def test_a_file_that_changed_is_not_looked_up_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_archives(tmp_path)
    lookups: list[int] = []

    def changed(self: Table, vaddrs: Any, **_: Any) -> Any:
        lookups.append(len(vaddrs))
        raise LidiaError("file", None, "it stays as it was", code=CHANGED)

    monkeypatch.setattr(Table, "find_frames", changed)
    rows = named(tmp_path, {"build_id": [ONE] * 64, "address": u64(*range(0x1000, 0x1040))})
    assert {row["reason"] for row in rows} == {Reason.BROKEN_FILE.word}
    assert lookups == [64]


def test_a_file_that_disappears_gives_later_rows_a_reason(tmp_path: Path) -> None:
    small_archives(tmp_path)
    with namer_of(tmp_path) as namer:
        batch = pa.record_batch({"build_id": [ONE, OTHER], "address": u64(0x1001, 0x40)})
        assert functions(namer(batch.slice(0, 1)).to_pylist()) == [["app::outer()"]]
        (tmp_path / f"{OTHER}.lidia").unlink()
        rows = namer(batch).to_pylist()
        assert functions(rows) == [["app::outer()"], []]
        assert rows[1]["reason"] == "no-file"
        small_archives(tmp_path)
        namer.forget()
        assert functions(namer(batch).to_pylist()) == [["app::outer()"], ["other"]]


def test_coverage_counts_rows_and_distinct_addresses_by_build_id(folder: Path) -> None:
    with namer_of(folder) as namer:
        namer.count_coverage()
        for _ in range(2):
            namer(pa.record_batch({"build_id": [ONE, ONE, ONE, "ee" * 20], "address": u64(0x1001, 0x1001, 5, 6)}))
        item, none = namer.coverage
        assert (item.build_id, item.rows, item.named, item.distinct, item.distinct_named) == (ONE, 6, 4, 2, 1)
        assert [(missing.reason.word, count) for missing, count in item.missing.items()] == [("not-in-archive", 2)]
        assert (none.rows, none.named, none.distinct) == (2, 0, 1)


def test_dropped_answers_are_looked_up_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whence.columns.namer.MAX_ANSWERS", 10)
    batch = pa.record_batch({"build_id": [ONE] * 50, "address": u64(*range(0x1000, 0x1032))})
    with namer_of(folder) as namer:
        assert namer(batch).to_pylist() == namer(batch).to_pylist()
        assert "1 files open" in repr(namer)
    monkeypatch.setattr("whence.columns.namer.MAX_BUILD_IDS", 1)
    with namer_of(folder) as namer:
        other = pa.record_batch({"build_id": [OTHER], "address": u64(0x40)})
        assert [functions(namer(each).to_pylist())[0] for each in (batch, other, batch)] == [
            ["app::outer()"], ["other"], ["app::outer()"],
        ]  # fmt: skip


def test_names_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    builder = lidia.Builder(build_id=ONE)
    builder.extend([Range(0x10, 4, "bad\udcff", "f\udc80.c", line_table=[(0, 1)])])
    (tmp_path / f"{ONE}.lidia").write_bytes(builder.to_bytes())
    frame = named(tmp_path, {"build_id": [ONE], "address": u64(0x10)})[0]["frames"][0]
    assert (frame["function"], frame["file"]) == ("bad\\xff", "f\\x80.c")


def test_kernels_refuse_columns_of_different_lengths() -> None:
    answers = AnswerStore(1, 2)
    long = Column("I")
    long.extend(array("I", [1 << 20]))
    for call in (
        lambda: answers.find(Elements(), long, array("I")),
        lambda: answers.refuse(long, 1),
        lambda: answers.columns(long, ("a",) * 7, ((b"",), (b"",))),
        lambda: answers.leaves(long, Elements()),
        lambda: answers.tally(long, long, 1, 1),
        lambda: answers.pending(0),
        lambda: Elements().to_file_offsets(Elements(), Elements()) or answers.rows_of(long, Elements(), True),
    ):
        with pytest.raises(ValueError):
            call()
