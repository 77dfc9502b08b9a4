"""The text of maps: every field is read, and other lines are read after a bad one."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.proc import Line, maps_text
from whence.procmap import Kind
from whence.procmap.kernels.constants import EXECUTE, READ, SHARED, WRITE
from whence.procmap.maps import parse


def one(line: Line | bytes, wanted: int = 0) -> object:
    (mapping,) = parse(maps_text([line]), "/proc/7", wanted).mappings
    return mapping


def test_a_line_is_read_into_every_field() -> None:
    mapping = parse(
        b"55d0c2a00000-55d0c2a28000 r-xp 00002000 fe:12 26723        /usr/bin/python3\n", "/proc/7"
    ).mappings[0]
    assert (mapping.start, mapping.end, mapping.offset) == (0x55D0C2A00000, 0x55D0C2A28000, 0x2000)
    assert (mapping.device, mapping.inode) == (os.makedev(0xFE, 0x12), 26723)
    assert (mapping.path, mapping.kind, mapping.deleted) == ("/usr/bin/python3", Kind.FILE, False)
    assert mapping.map_files == "/proc/7/map_files/55d0c2a00000-55d0c2a28000"
    assert mapping.is_exec
    assert mapping.shown_permissions == "r-xp"
    assert mapping.build_id == ""


@pytest.mark.parametrize(
    ("name", "path", "kind", "deleted"),
    [
        ("/opt/my program", "/opt/my program", Kind.FILE, False),
        ("/opt/two\nlines", "/opt/two\nlines", Kind.FILE, False),
        ("/opt/trailing ", "/opt/trailing ", Kind.FILE, False),
        ("/opt/app (deleted)", "/opt/app", Kind.DELETED, True),
        ("/opt/app (deleted) (deleted)", "/opt/app (deleted)", Kind.DELETED, True),
        ("/memfd:jit (deleted)", "/memfd:jit", Kind.MEMFD, True),
        ("/dev/zero (deleted)", "/dev/zero", Kind.ANONYMOUS, True),
        ("/SYSV00000000 (deleted)", "/SYSV00000000", Kind.ANONYMOUS, True),
        ("/dev/dri/card0", "/dev/dri/card0", Kind.SPECIAL, False),
        ("/dev/shm/code", "/dev/shm/code", Kind.FILE, False),
        ("(unreachable)/app", "(unreachable)/app", Kind.FILE, False),
        ("anon_inode:[perf_event]", "anon_inode:[perf_event]", Kind.SPECIAL, False),
        ("[vdso]", "[vdso]", Kind.VDSO, False),
        ("[vsyscall]", "[vsyscall]", Kind.SPECIAL, False),
        ("[uprobes]", "[uprobes]", Kind.SPECIAL, False),
        ("[stack]", "[stack]", Kind.STACK, False),
        ("[stack:12]", "[stack:12]", Kind.STACK, False),
        ("[heap]", "[heap]", Kind.ANONYMOUS, False),
        ("[anon:v8]", "[anon:v8]", Kind.ANONYMOUS, False),
        ("", "", Kind.ANONYMOUS, False),
        ("/opt/\udcff", "/opt/\udcff", Kind.FILE, False),
    ],
)
def test_the_kind_of_memory_follows_from_the_name(name: str, path: str, kind: Kind, deleted: bool) -> None:
    mapping = parse(maps_text([Line(0x1000, 0x2000, name, inode=5)])).mappings[0]
    assert (mapping.path, mapping.kind, mapping.deleted) == (path, kind, deleted)


def test_only_executable_ranges_are_returned_by_default() -> None:
    text = maps_text(
        [
            Line(0x1000, 0x2000, "/a", permissions="r--p"),
            Line(0x2000, 0x3000, "/a"),
            Line(0x3000, 0x4000, permissions="rwxs"),
        ]
    )
    assert [m.start for m in parse(text).mappings] == [0x2000, 0x3000]
    assert [m.start for m in parse(text, permissions=0).mappings] == [0x1000, 0x2000, 0x3000]
    assert [m.start for m in parse(text, permissions=WRITE | EXECUTE).mappings] == [0x3000]
    assert parse(text, permissions=SHARED).mappings[0].permissions == READ | WRITE | EXECUTE | SHARED


@pytest.mark.parametrize(
    "bad",
    [
        b"rubbish\n",
        b"1000-2000\n",
        b"1000-2000 r-xp\n",
        b"1000-2000 r-xp 0 00:00\n",
        b"1000-2000 r-xp 0 0000 5 /a\n",
        b"1000 2000 r-xp 0 00:00 5 /a\n",
        b"2000-1000 r-xp 0 00:00 5 /a\n",
        b"1000-1000 r-xp 0 00:00 5 /a\n",
        b"11111111111111111-2 r-xp 0 00:00 5 /a\n",
        b"1000-2000 r-xp 0 00:00 5x /a\n",
        b"1000-2000 r-x",
    ],
)
def test_other_lines_are_read_after_a_bad_line(bad: bytes) -> None:
    text = Line(0x1000, 0x2000, "/a").text() + bad
    if bad.endswith(b"\n"):
        text += Line(0x5000, 0x6000, "/b").text()
    maps = parse(text)
    assert [m.path for m in maps.mappings] == (["/a", "/b"] if bad.endswith(b"\n") else ["/a"])
    assert maps.bad_lines == 1
    assert maps.problems[0].offset == len(Line(0x1000, 0x2000, "/a").text())
    assert "not start-end perms offset device inode name" in str(maps.problems[0])


def test_the_shortest_lines_fit_in_the_columns() -> None:
    assert len(parse(b"0-1 r-xp 0 0:0 0\n" * 1000).mappings) == 1000
    assert len(parse(b"\n" * 5000 + b"0-1 r-xp 0 0:0 0\n" * 10 + b"0-1 r-xp 0 0:0 0").mappings) == 11


def test_empty_text_and_empty_lines_have_no_mappings() -> None:
    assert parse(b"").mappings == []
    assert parse(b"\n\n").bad_lines == 0


def test_bad_lines_are_counted_and_the_first_are_reported() -> None:
    maps = parse(b"?\n" * 1000)
    assert maps.bad_lines == 1000
    assert len(maps.problems) == 16


def test_lines_out_of_order_are_sorted() -> None:
    text = maps_text([Line(0x5000, 0x6000, "/b"), Line(0x1000, 0x2000, "/a")])
    assert [m.path for m in parse(text).mappings] == ["/a", "/b"]


LINES = st.lists(
    st.builds(
        Line,
        start=st.integers(0, (1 << 63) - 1),
        limit=st.integers(1 << 63, (1 << 64) - 1),
        name=st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(lambda t: "/" + t),
        offset=st.integers(0, (1 << 64) - 1),
        permissions=st.sampled_from(["r-xp", "rwxs", "--xp"]),
        device=st.tuples(st.integers(0, 4095), st.integers(0, (1 << 20) - 1)),
        inode=st.integers(0, (1 << 64) - 1),
    ),
    max_size=8,
)


@given(LINES)
def test_lines_survive_a_round_trip(lines: list[Line]) -> None:
    result = parse(maps_text(lines)).mappings
    expected = sorted(lines, key=lambda line: line.start)
    assert [(m.start, m.limit, m.offset, m.shown_permissions, m.inode, m.device) for m in result] == [
        (x.start, x.limit, x.offset, x.permissions, x.inode, os.makedev(*x.device)) for x in expected
    ]


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_without_an_error(data: bytes) -> None:
    result = parse(data, "/proc/7", 0).mappings
    assert all(one.start < one.limit for one in result)
    assert len(result) <= data.count(b"\n") + 1
