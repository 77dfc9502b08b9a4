"""Answers as text in the styles llvm, gnu and json."""

from __future__ import annotations

import json
from array import array

import pytest

from tests.forge.ranges import Names, R, table
from whence import lidia
from whence._base.errors import plain
from whence.lidia.kernels.queries import ReadableNames
from whence.lidia.render import Queries, Renderer, render_many

RANGES = [
    R(0x1000, 0x40, 0, "main", "/src/a.c", ((0, 3), (4, 5))),
    R(0x1010, 0x18, 1, "_Z3fooi", "/src/b.h", ((0, 7), (8, 0)), "/src/a.c", 5),
    R(0x1040, 0x10, 0, "bare", source=3),
    R(0x1050, 0x10, 0, "", "/src/x.s", ((0, 2),)),
]


@pytest.fixture(params=["length", "nul"])
def opened(request: pytest.FixtureRequest) -> lidia.Table:
    return lidia.from_bytes(lidia.to_bytes(table(Names(), RANGES), strings=request.param))


def test_the_llvm_form(opened: lidia.Table) -> None:
    assert render_many(opened, b"0x1000\n1010\n 0X1018 \n1041\n1055\n5\nzz top\n\n0x\n1000") == (
        b"main\n/src/a.c:3:0\n\n"
        b"_Z3fooi\n/src/b.h:7:0\nmain\n/src/a.c:5:0\n\n"
        b"_Z3fooi\n/src/b.h:0:0\nmain\n/src/a.c:5:0\n\n"
        b"bare\n??:0:0\n\n"
        b"??\n/src/x.s:2:0\n\n"
        b"??\n??:0:0\n\n"
        b"zz top\n"
        b"\n"
        b"0x\n"
        b"main\n/src/a.c:3:0\n\n"
    )


def test_the_gnu_form(opened: lidia.Table) -> None:
    assert render_many(opened, b"1010\n1041\n5\nzz\n", "gnu") == (
        b"0x0000000000001010\n_Z3fooi\n/src/b.h:7\nmain\n/src/a.c:5\n"
        b"0x0000000000001041\nbare\n??:?\n"
        b"0x0000000000000005\n??\n??:0\n"
        b"0x0000000000000000\n??\n??:0\n"
    )
    assert Renderer(opened, "gnu", width=8).vaddrs([5]) == b"0x00000005\n??\n??:0\n"


def test_the_json_form(opened: lidia.Table) -> None:
    text = render_many(opened, b'1010\n5\nz"z\n', "json").decode()
    assert [json.loads(line) for line in text.splitlines()] == [
        {
            "address": "0x1010",
            "frames": [
                {
                    "function": "_Z3fooi",
                    "file": "/src/b.h",
                    "line": 7,
                    "column": 0,
                    "start_line": 0,
                    "inlined": True,
                    "source": "dwarf",
                },
                {
                    "function": "main",
                    "file": "/src/a.c",
                    "line": 5,
                    "column": 0,
                    "start_line": 0,
                    "inlined": False,
                    "source": "dwarf",
                },
            ],
            "reason": None,
        },
        {"address": "0x5", "frames": [], "reason": "not-in-archive"},
        {"address": 'z"z', "frames": [], "reason": "not-an-address"},
    ]
    assert text.startswith(
        '{"address": "0x1010", "frames": [{"function": "_Z3fooi", "file": "/src/b.h", "line": 7, "column": 0, '
    )


def test_any_text_becomes_valid_json_that_decodes_to_the_text() -> None:
    names = ['a"b\\c', "tab\there\x01", "é漢🎈", "bad\udcff\udc80", "\udce2\udc82", "\udced\udca0\udc80"]
    builder = lidia.Builder()
    for location, name in enumerate(names):
        builder.add(vaddr=location * 16, length=16, function=name)
    with lidia.from_bytes(builder.to_bytes()) as opened:
        lines = render_many(opened, range(0, 16 * len(names), 16), "json").decode("utf-8").splitlines()
    assert [json.loads(line)["frames"][0]["function"] for line in lines] == names


@pytest.mark.parametrize("active", ["\x1b", "\x1f", "\x7f", "\r", "\udc9b"])
def test_terminal_escapes_anywhere_in_a_text_are_escaped(active: str) -> None:
    names = ["n" * before + active + " ~é" + "n" * (20 - before) for before in range(20)]
    builder = lidia.Builder()
    for location, name in enumerate(names):
        builder.add(vaddr=location * 16, length=16, function=name)
    with lidia.from_bytes(builder.to_bytes()) as opened:
        lines = render_many(opened, range(0, 16 * len(names), 16), "llvm").decode("utf-8").splitlines()
    assert lines[::3] == [name.replace(active, plain(active)) for name in names]


def test_linkage_names_are_demangled_once(opened: lidia.Table) -> None:
    asked: list[str] = []

    def demangle(name: str) -> str:
        asked.append(name)
        return "foo(int)"

    renderer = Renderer(opened, demangle=demangle)
    for _ in range(3):
        assert renderer.lines(b"1010\n").startswith(b"foo(int)\n/src/b.h:7:0\nmain\n")
    assert asked == ["_Z3fooi"]


def test_only_names_that_begin_like_linkage_names_are_demangled() -> None:
    names = ["__GI_printf", "__libc_start", "_start", "__Z3fooi", "____Z3foo_block_invoke", "_RNvCs1_1a1f", "?f@@YAXXZ"]
    builder = lidia.Builder()
    for location, name in enumerate(names):
        builder.add(vaddr=location * 16, length=16, function=name)
    with lidia.from_bytes(builder.to_bytes()) as table:
        out = render_many(table, range(0, 16 * len(names), 16), demangle=lambda name: f"readable {name}").decode()
    assert out.split("\n")[::3][:-1] == [*names[:3], *(f"readable {name}" for name in names[3:])]


def test_unknown_addresses_are_counted(opened: lidia.Table) -> None:
    renderer = Renderer(opened)
    renderer.lines(b"1010\n5\nzz\n")
    renderer.vaddrs([6])
    assert renderer.unknown == 3


def test_return_addresses_are_looked_up_one_byte_before(opened: lidia.Table) -> None:
    assert render_many(opened, [0x1040], "gnu", return_address=True).split(b"\n")[:2] == [
        b"0x0000000000001040",
        b"main",
    ]


def test_no_lines_give_no_text(opened: lidia.Table) -> None:
    assert render_many(opened, b"") == b""
    assert render_many(opened, []) == b""


def test_an_address_of_more_than_64_bits_is_invalid(opened: lidia.Table) -> None:
    assert render_many(opened, b"0x10000000000001000\n0x0000000000000000001000\n") == (
        b"0x10000000000001000\nmain\n/src/a.c:3:0\n\n"
    )


def test_a_renderer_refuses_other_styles_and_answers_vaddrs_of_any_size() -> None:
    builder = lidia.Builder()
    builder.add(vaddr=0x1000, length=16, function="main")
    with lidia.from_bytes(builder.to_bytes()) as table:
        with pytest.raises(ValueError, match="unknown style 'xml'"):
            render_many(table, [1], "xml")  # type: ignore[arg-type]
        assert render_many(table, [0x1000, -1, 1 << 64]) == b"main\n??:0:0\n\n" + b"??\n??:0:0\n\n" * 2
        assert repr(Renderer(table, "gnu")) == "<lidia.Renderer of <lidia.Table in memory: 1 ranges>: gnu>"


def test_invalid_lines_are_listed() -> None:
    queries = Queries(b" 0x10 \nmain\n\n" + b"f" * 17 + b"\nFF")
    assert queries.vaddrs.tolist() == [0x10, *[(1 << 64) - 1] * 3, 0xFF]
    assert queries.is_bad.tolist() == [0, 1, 1, 1, 0]
    assert (queries.bad_lines(), len(queries)) == ([b"main", b"", b"f" * 17], 5)
    assert repr(queries) == "<Queries: 5 addresses>"


def test_readable_names_are_cached_up_to_a_limit() -> None:
    names = [f"_Z{number:03}f" for number in range(500)]
    made = lidia.from_bytes(
        lidia.to_bytes(table(Names(), [R(0x10 * row, 8, 0, name) for row, name in enumerate(names)]))
    )
    kept = ReadableNames(1, 200, 1 << 20)
    asked: list[str] = []

    def readable(name: str) -> str:
        asked.append(name)
        return f"readable {name}"

    def show(first: int, count: int) -> None:
        vaddrs = array("Q", range(0x10 * first, 0x10 * (first + count), 0x10))
        texts = made.texts_of(made.find_frames(vaddrs))
        kept.replace(texts, readable)
        shown = [texts.text(row) for row in range(count)]
        assert shown == [b"readable " + name.encode() for name in names[first : first + count]]

    show(0, 150)
    show(0, 150)
    assert asked == names[:150]  # each once
    show(0, 500)
    assert len(asked) == 500
    show(0, 150)
    assert len(asked) > 500  # they were forgotten meanwhile


def test_a_name_larger_than_the_cache_is_not_cached(opened: lidia.Table) -> None:
    kept = ReadableNames(1, 8, 10)
    made = iter(["foo(int, int)", "foo(int, int)", "foo(int)"])  # the last one is kept
    for shown in (b"foo(int, int)", b"foo(int, int)", b"foo(int)", b"foo(int)"):
        texts = opened.texts_of(opened.find_frames(array("Q", [0x1010])))
        kept.replace(texts, lambda _: next(made))
        assert texts.text(0) == shown


def test_an_error_of_the_demangler_is_raised_and_nothing_is_cached(opened: lidia.Table) -> None:
    kept = ReadableNames(1, 8, 100)
    texts = opened.texts_of(opened.find_frames(array("Q", [0x1010])))
    with pytest.raises(ZeroDivisionError):
        kept.replace(texts, lambda _: str(1 // 0))
    kept.replace(texts, lambda _: "foo(int)")
    assert texts.text(0) == b"foo(int)"


def test_renderers_of_several_threads_share_readable_names(opened: lidia.Table) -> None:
    asked: list[str] = []

    def readable(name: str) -> str:
        asked.append(name)
        return "foo(int)"

    first = Renderer(opened, demangle=readable)
    second = first.another()
    assert first.vaddrs([0x1010]) == second.vaddrs([0x1010]) == (b"foo(int)\n/src/b.h:7:0\nmain\n/src/a.c:5:0\n\n")
    assert asked == ["_Z3fooi"]
