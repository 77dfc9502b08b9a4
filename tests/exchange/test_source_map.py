"""Source maps of WebAssembly modules: lines from a file, from the module's URL, and from sections; damaged ones."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import whence
from tests.forge.mutations import mutated
from tests.forge.wasm import custom, module, name, names
from whence._base.errors import ObjectError, WhenceError
from whence.exchange.kernels import mappings
from whence.exchange.source_map import source_map_ranges
from whence.objects.source_map import SourceMapFile
from whence.ranges import StringSpace
from whence.ranges.table import NO_FILE

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
CODE = 10  # file offset of vaddr 0 in a module of tests
ROWS = [(CODE + 2, 0, 9), (CODE + 8, 1, 4), (CODE + 0x10, 0, 10), (CODE + 0x23, 1, 30)]


def vlq(value: int) -> str:
    value = -value << 1 | 1 if value < 0 else value << 1
    out = ""
    while True:
        digit, value = value & 31, value >> 5
        out += ALPHABET[digit | (32 if value else 0)]
        if not value:
            return out


def encoded(rows: Sequence[tuple[int, ...]]) -> str:
    """Mappings of (offset, source, line from 1, column from 1 or nothing); a negative source has none."""
    out, before = [], (0, 0, 0, 0)
    for offset, source, line, *rest in rows:
        text = vlq(offset - before[0])
        if source >= 0:
            column = rest[0] - 1 if rest else 0
            text += vlq(source - before[1]) + vlq(line - 1 - before[2]) + vlq(column - before[3])
            before = (offset, source, line - 1, column)
        else:
            before = (offset, *before[1:])
        out.append(text)
    return ",".join(out)


def source_map(rows: Sequence[tuple[int, ...]], **more: object) -> dict[str, object]:
    return {"version": 3, "sources": ["a.c", "lib/b.h"], "names": [], "mappings": encoded(rows), **more}


def written(folder: Path, content: dict[str, object] | str, url: str = "a.wasm.map") -> Path:
    """A module that names its map, and the map beside it."""
    path = folder / "a.wasm"
    path.write_bytes(module(names((0, "first"), (1, "second")), custom("sourceMappingURL", name(url))))
    (folder / "a.wasm.map").write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def places(path: Path, *vaddrs: int) -> list[tuple[str, str, int]]:
    with whence.open(path) as binary:
        return [(each.function, each.file, each.line) for vaddr in vaddrs for each in binary.lookup(vaddr)]


EXPECTED = [("first", "a.c", 9), ("first", "lib/b.h", 4), ("first", "a.c", 10), ("second", "lib/b.h", 30)]


@pytest.mark.parametrize("url", ["a.wasm.map", "https://host/x/a.wasm.map?v=1"])
def test_lines_come_from_the_map_and_functions_from_the_module(tmp_path: Path, url: str) -> None:
    path = written(tmp_path, source_map(ROWS), url)
    assert places(path, 2, 0xF, 0x10, 0x30) == EXPECTED
    archive = tmp_path / "a.lidia"
    from whence.archive.create import create

    created = create(path, archive)
    assert created.sources["sourcemap"] > 0
    assert places(archive, 2, 0xF, 0x10, 0x30) == EXPECTED


def test_columns_are_read_if_they_are_wanted(tmp_path: Path) -> None:
    path = written(tmp_path, source_map([(*row, 5 + number) for number, row in enumerate(ROWS)]))
    for columns, expected in ((True, [5, 6, 7, 8]), (False, [0] * 4)):
        with whence.open(path, columns=columns) as binary:
            chains = binary.lookup_many([2, 0xF, 0x10, 0x30])
            assert [(each.function, each.file, each.line) for chain in chains for each in chain] == EXPECTED
            assert [each.column for chain in binary.lookup_many([2, 0xF, 0x10, 0x30]) for each in chain] == expected


def test_a_map_may_be_in_the_url(tmp_path: Path) -> None:
    text = json.dumps(source_map(ROWS))
    for url in ("data:application/json;base64," + base64.b64encode(text.encode()).decode(), f"data:,{text}"):
        path = written(tmp_path, "{}", url)
        (tmp_path / "a.wasm.map").unlink()
        assert places(path, 2, 0x30) == [EXPECTED[0], EXPECTED[3]]
    path = written(tmp_path, "{}", "data:;base64,???")
    assert places(path, 2) == [("first", "", 0)]


def test_sections_roots_ignore_lists_and_a_first_line_of_protection(tmp_path: Path) -> None:
    shifted = [(offset - 8, source, line) for offset, source, line in ROWS[3:]]
    sections = [
        {"offset": {"line": 0, "column": 0}, "map": source_map(ROWS[:3], sourceRoot="/src", ignoreList=[1])},
        {"offset": {"line": 0, "column": 8}, "map": source_map(shifted, sourceRoot="/other/")},
        {"offset": {"line": 1, "column": 0}, "map": source_map(ROWS)},
        {"map": {}},
    ]
    text = ")]}'\n" + json.dumps({"version": 3, "sections": sections})
    path = written(tmp_path, text)
    assert places(path, 2, 0xF, 0x30) == [
        ("first", "/src/a.c", 9), ("first", "/src/lib/b.h", 4), ("second", "/other/lib/b.h", 30),
    ]  # fmt: skip
    with SourceMapFile.open(tmp_path / "a.wasm.map") as file:
        assert file.details == {"sources": "4", "ignored sources": "1"}
        assert "section 3: without an offset or a map" in str(file.problems[0])


def test_a_part_without_a_source_has_no_line(tmp_path: Path) -> None:
    path = written(tmp_path, source_map([ROWS[0], (CODE + 8, -1, 0), ROWS[3]]))
    assert places(path, 7, 8, 0x30) == [EXPECTED[0], ("first", "", 0), EXPECTED[3]]


def test_debug_info_precedes_a_source_map(tmp_path: Path) -> None:
    path = written(tmp_path, source_map(ROWS))
    data = path.read_bytes()
    path.write_bytes(data + custom(".debug_info", b"\0" * 16))
    assert places(path, 2) == [("first", "", 0)]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", "{}", '{"version": 2}', '{"version": 3}', '{"version": 3, "sections": 1}', "[" * 100_000,
     '{"version": 3, "sources": [1, null], "mappings": "AAAA,!", "names": []}'],
)  # fmt: skip
def test_malformed_maps_leave_the_functions(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, content)
    assert [location[0] for location in places(path, 2)] == ["first"]


@pytest.mark.parametrize("text", ["!", "g", "gggggggggA", "H", "AD", "AAD", "+++++++A"])
def test_numbers_that_are_cut_off_too_long_or_negative_end_the_rows(text: str) -> None:
    *_, fault = mappings.rows(f"EAAA,{text}".encode(), 0, 1)
    assert fault >= 5


def test_mutated_maps_raise_only_errors_of_whence() -> None:
    data, dice = json.dumps(source_map(ROWS)).encode(), random.Random(20261128)
    for _ in range(2000):
        problems: list[WhenceError] = []
        try:
            with SourceMapFile.from_bytes(mutated(data, dice)) as file:
                source_map_ranges(file, StringSpace(), problems, CODE)
        except ObjectError:
            continue


def test_rows_are_those_of_node(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    dice, rows, offset = random.Random(1), [], 0
    for _ in range(500):
        offset += dice.randrange(1, 40)
        rows.append((offset, dice.randrange(2), dice.randrange(1, 100_000), dice.randrange(1, 200)))
    (tmp_path / "map.json").write_text(json.dumps(source_map(rows)))
    script = """
        const {SourceMap} = require('module');
        const map = new SourceMap(JSON.parse(require('fs').readFileSync(process.argv[1])));
        const out = [];
        for (let i = 0; i < %d; i++) {
            const entry = map.findEntry(0, i);
            const {originalSource: file, originalLine: line, originalColumn: column} = entry;
            out.push(file ? [file, line + 1, column + 1] : null);
        }
        console.log(JSON.stringify(out));
    """
    command = [node, "-e", script % (offset + 50), str(tmp_path / "map.json")]
    theirs = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    offsets, files, lines, columns, fault = mappings.rows(encoded(rows).encode(), 0, 2)
    assert fault < 0
    ours: list[list[object] | None] = [None] * (offset + 50)
    parts = zip(*(part.numbers() for part in (offsets, files, lines, columns)), strict=True)
    for start, file, line, column in parts:
        entry = None if file == NO_FILE else [["a.c", "lib/b.h"][file], line, column]
        ours[start:] = [entry] * (len(ours) - start)
    assert ours == theirs
