"""FrameTable, the result of lookup_many: a sequence of chains, and columns."""

from __future__ import annotations

import gc
import pickle
import sys
from typing import Any

import numpy
import pytest

import whence
from tests.forge.lidia import Forged, prefixed
from tests.forge.ranges import NESTED, located
from tests.forge.ranges import archive as forged_archive
from whence import lidia
from whence._base.model import Frame, Source
from whence.lidia.writer import to_bytes
from whence.ranges import Ranges

ASKED = [0x1015, 0, 0x1041, 0x1031, 0x9999]


@pytest.fixture
def archive() -> lidia.Table:
    return lidia.from_bytes(forged_archive(NESTED))


def test_a_table_is_a_sequence_of_chains_that_can_be_sliced(archive: lidia.Table) -> None:
    result = archive.lookup_many(ASKED)
    chains = [archive.lookup(vaddr) for vaddr in ASKED]
    assert len(result) == 5
    assert list(result) == chains
    assert [result[i] for i in range(5)] == chains == [result[i - 5] for i in range(5)]
    for cut in (slice(1, 4), slice(None, None, -1), slice(3, 1), slice(None, None, 2), slice(-2, None)):
        assert isinstance(result[cut], lidia.FrameTable)
        assert list(result[cut]) == chains[cut]
        assert list(result[cut][::-1]) == chains[cut][::-1]
    assert chains[0] in result
    assert (result[:3].unknown, result[3:].unknown, result.index(chains[2])) == (1, 1, 2)
    for outside in (5, -6):
        with pytest.raises(IndexError, match="there are 5 addresses"):
            result[outside]


def test_consecutive_equal_chains_share_one_object_and_names_are_made_in_order(archive: lidia.Table) -> None:
    asked = [0, 1, *[0x1015] * 3, 0x1041, 0x1015, *range(0x1000, 0x1060)]
    result = archive.lookup_many(asked)
    chains = result.chains()
    assert chains == [archive.lookup(vaddr) for vaddr in asked]
    assert chains[2] is chains[3] is chains[4]
    assert len(set(map(id, chains))) < len(chains) / 4
    seen: list[str] = []
    made = result.chains(function=lambda text: seen.append(text) or f"<{text}>")  # type: ignore[func-returns-value]
    assert seen == list(dict.fromkeys(result.function))
    assert [[frame.function for frame in chain] for chain in made] == [
        [f"<{frame.function}>" for frame in chain] for chain in chains
    ]


def test_columns_have_an_item_for_each_frame(archive: lidia.Table) -> None:
    result = archive.lookup_many(ASKED)
    frames = [frame for chain in result for frame in chain]
    assert result.starts.tolist() == [0, 3, 3, 4, 6, 6]
    for name in ("function", "file", "line", "start_line", "inlined", "source"):
        assert list(getattr(result, name)) == [getattr(frame, name) for frame in frames]
    assert [archive[index].function for index in result.range_index] == result.function
    assert {type(source) for source in result.source} == {Source}
    assert {type(inlined) for inlined in result.inlined} == {bool}
    assert numpy.asarray(result.line).tolist() == [frame.line for frame in frames]
    with pytest.raises(TypeError, match="read-only"):
        result.line[0] = 7


def test_a_pickled_table_needs_no_archive(archive: lidia.Table) -> None:
    result = archive.lookup_many(ASKED)
    want = list(result)
    copies = [pickle.loads(pickle.dumps(result)), pickle.loads(pickle.dumps(result[1:][::-1]))]
    archive.close()
    assert list(copies[0]) == want
    assert list(copies[1]) == want[:0:-1]
    assert copies[0] == result != result[1:]
    assert copies[0][3] == want[3]
    assert list(copies[0][2:4]) == want[2:4]
    assert repr(copies[0]) == repr(result) == "<lidia.FrameTable: 6 frames of 5 addresses, 2 unknown>"
    assert pickle.loads(pickle.dumps(copies[1])) == copies[1]


def test_slices_and_copies_count_faults() -> None:
    strings, offset = prefixed(b"f")
    rows = [(8 * i, 8, 0, offset[b"f"], 0, i, 1, 0, 0) for i in range(3)]
    with lidia.from_bytes(Forged(rows, strings, [(0, 7)]).bytes()) as opened:
        result = opened.lookup_many([1, 9, 17])
    assert (result.faults, result[:2].faults, result[:1].faults, result[::-1].faults) == (2, 1, 0, 2)
    assert pickle.loads(pickle.dumps(result)).faults == 2


def test_a_table_converts_to_arrow(archive: lidia.Table) -> None:
    pytest.importorskip("pyarrow", reason="no pyarrow here (pip install pyarrow)")
    result = archive.lookup_many(ASKED)
    rows = result.to_arrow().to_pylist()
    assert [row.pop("row") for row in rows] == [0, 0, 0, 2, 3, 3]
    assert [whence.Frame(**{**row, "source": Source(row["source"])}) for row in rows] == [
        frame for chain in result for frame in chain
    ]
    assert result[1:2].to_arrow().num_rows == 0


def test_a_table_converts_to_pandas(archive: lidia.Table) -> None:
    pytest.importorskip("pandas", reason="no pandas here (pip install pandas)")
    result = archive.lookup_many(ASKED)
    rows = result.to_pandas()
    assert rows["row"].tolist() == [0, 0, 0, 2, 3, 3]
    for name in ("function", "file", "line", "start_line", "inlined", "source"):
        assert rows[name].tolist() == list(getattr(result, name))


@pytest.mark.parametrize(("module", "method"), [("pyarrow", "to_arrow"), ("pandas", "to_pandas")])
def test_a_missing_dependency_is_named_with_the_remedy(
    archive: lidia.Table, monkeypatch: pytest.MonkeyPatch, module: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"needs {module}, which is not installed: pip install 'whence\\[") as caught:
        getattr(archive.lookup_many(ASKED), method)()
    assert caught.value.name == module


def test_frames_are_complete_and_not_tracked_by_the_garbage_collector() -> None:
    builder = lidia.Builder()
    for index in range(3000):
        builder.add(lidia.Range(vaddr=0x1000 + 16 * index, length=16, function=f"f{index}", file="a.c"))
    with lidia.from_bytes(builder.to_bytes()) as table:
        chains = [table.lookup(0x1000 + 16 * index) for index in range(3000)]
    assert [chain[0].function for chain in chains] == [f"f{index}" for index in range(3000)]
    assert all(type(chain) is tuple and type(chain[0]) is Frame for chain in chains)
    assert not any(gc.is_tracked(chain) or gc.is_tracked(chain[0]) for chain in chains)


def test_only_frames_of_equal_content_are_one_object() -> None:
    builder = lidia.Builder()
    shown: list[dict[str, Any]] = [
        {"function": function, "file": file, "line_table": [(0, line)], "source": source}
        for function in ("f", "g")
        for file in ("a.c", "b.c", "")
        for line in (0, 1, 2, 0xFFFFFFFF)
        for source in (Source.DWARF, Source.SYMTAB)
    ]
    for index in range(4 * len(shown)):
        builder.add(lidia.Range(vaddr=32 * index, length=32, **shown[index % len(shown)]))
        called: dict[str, Any] = {"call_file": "a.c", "call_line": index % 3, "depth": 1}
        builder.add(lidia.Range(vaddr=32 * index + 16, length=16, **shown[index % 7], **called))
    with lidia.from_bytes(builder.to_bytes()) as table:
        asked = range(0, 4 * 32 * len(shown), 16)
        chains = [table.lookup(vaddr) for vaddr in asked] + [table.lookup(vaddr) for vaddr in asked]
        assert chains == 2 * list(table.lookup_many(asked))
        objects = {id(frame): frame for chain in chains for frame in chain}
        assert len(objects) == len(set(objects.values())) > len(shown)


@pytest.mark.parametrize(
    "different",
    [
        located(columns=(1, 1 + (1 << 23), 1, 1 + (1 << 31), 3)),
        located(columns=(5, 5, 5, 5, 3), discriminators=(1, 2, 1, 1 << 31, 0)),
        located(columns=(5, 5, 5, 5, 3), discriminators=(0, 2, 0, 2, 0)),
    ],
)
def test_frames_of_other_columns_or_discriminators_are_other_objects(different: Ranges) -> None:
    with lidia.from_bytes(to_bytes(different)) as table:
        asked = [0x1000, 0x1004, 0x1010, 0x1014]
        assert [table.lookup(vaddr) for vaddr in asked] == list(table.lookup_many(asked))
        assert len({table.lookup(vaddr) for vaddr in asked}) == 4


def test_cached_frames_are_freed_with_the_table() -> None:
    many = 80_000  # more than are remembered
    builder = lidia.Builder()
    for index in range(many):
        builder.add(lidia.Range(vaddr=0x1000 + 16 * index, length=16, function=f"f{index}", file="a.c"))
    archive = builder.to_bytes()
    del builder

    def blocks() -> int:
        with lidia.from_bytes(archive) as table:
            for index in range(many):
                table.lookup(0x1000 + 16 * index)
        del table
        gc.collect()
        return sys.getallocatedblocks()

    blocks()
    assert blocks() - blocks() < many // 4
    assert blocks() - blocks() > -many // 4
