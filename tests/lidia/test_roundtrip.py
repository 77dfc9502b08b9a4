"""Archives are read as they were written."""

from __future__ import annotations

import io
import threading
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.ranges import NESTED, Names, R, answer, archive, table
from whence import lidia
from whence._base.model import Frame


def frames(found: tuple[Frame, ...]) -> list[tuple[str, str, int]]:
    return [(frame.function, frame.file, frame.line) for frame in found]


@pytest.mark.parametrize("strings", ["length", "nul"])
@pytest.mark.parametrize("many", [False, True])
def test_every_address_of_nested_calls_is_answered(strings: str, many: bool) -> None:
    with lidia.from_bytes(archive(NESTED, strings=strings), crc=True) as opened:
        assert opened.encoding == strings
        addresses = list(range(0xFF8, 0x1058))
        answers = list(opened.lookup_many(addresses)) if many else [opened.lookup(a) for a in addresses]
        for address, result in zip(addresses, answers, strict=True):
            assert frames(result) == answer(NESTED, address)


def test_a_frame_has_its_inlined_flag_and_its_source() -> None:
    with lidia.from_bytes(archive(NESTED)) as opened:
        inner, outer, main = opened.lookup(0x1015)
    assert (inner.inlined, outer.inlined, main.inlined) == (True, True, False)
    assert main.source == "dwarf"


def test_a_return_address_is_looked_up_one_byte_before() -> None:
    with lidia.from_bytes(archive(NESTED)) as opened:
        assert opened.lookup(0x1050) == ()
        assert frames(opened.lookup(0x1050, return_address=True)) == [("next", "a.c", 20)]
        assert opened.lookup_many([0x1050, 0], return_address=True)[0][0].function == "next"
        assert opened.lookup(0, return_address=True) == ()


def test_addresses_outside_of_64_bits_have_no_answer() -> None:
    with lidia.from_bytes(archive(NESTED)) as opened:
        assert opened.lookup(-1) == ()
        assert opened.lookup(1 << 64) == ()
        assert list(opened.lookup_many([-1, 1 << 64, 0x1041])) == [(), (), opened.lookup(0x1041)]


def test_ranges_are_read_as_they_were_written() -> None:
    with lidia.from_bytes(archive(NESTED)) as opened:
        back = [
            R(r.vaddr, r.length, r.depth, r.function, r.file, tuple(r.line_table),
              r.call_file, r.call_line)
            for r in opened
        ]  # fmt: skip
    assert back == NESTED


def test_equal_runs_of_lines_are_stored_once_and_single_ones_within_longer_ones() -> None:
    with lidia.from_bytes(archive([R(i * 16, 16, 0, "f", "a.c", ((0, 1), (4, 2))) for i in range(50)])) as opened:
        assert opened.header.lines.entries == 2
    with lidia.from_bytes(
        archive([R(0, 16, 0, "f", "a.c", ((0, 1), (4, 2))), R(16, 1, 0, "g", "", ((0, 1),))])
    ) as opened:
        assert opened.header.lines.entries == 2


@pytest.mark.parametrize(
    ("ranges", "widths"),
    [
        ([R(0xFFFFFFFF, 1)], (4, 4, 2)),
        ([R(0x100000000, 1)], (8, 4, 2)),
        ([R(0, 0x100000000)], (4, 8, 2)),
        ([R(0, 9, lines=((0, 65535),))], (4, 4, 2)),
        ([R(0, 9, lines=((0, 65536),))], (4, 4, 4)),
        ([R(0, 1 << 20, lines=((65536, 1),))], (4, 4, 4)),
    ],
)
def test_fields_are_as_wide_as_their_values_need(ranges: list[R], widths: tuple[int, int, int]) -> None:
    with lidia.from_bytes(archive(ranges)) as opened:
        header = opened.header
        assert (header.va_table.width, header.ranges.width, header.lines.width) == widths
        last = ranges[0].vaddr + ranges[0].length - 1
        assert frames(opened.lookup(last)) == answer(ranges, last)
        assert opened.verify() == []


def test_without_lines_and_files_they_are_left_out() -> None:
    with lidia.from_bytes(archive(NESTED, lines=False, files=False)) as opened:
        assert frames(opened.lookup(0x1015)) == [("inner", "", 0), ("outer", "", 7), ("main", "", 5)]
        assert opened.header.lines.entries == 0


def test_an_empty_archive_answers_nothing() -> None:
    with lidia.from_bytes(archive([])) as opened:
        assert opened.lookup(0) == ()
        assert list(opened.lookup_many([1, 2])) == [(), ()]
        assert list(opened) == []
        assert opened.verify() == []


def test_ranges_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="in order"):
        archive(NESTED[::-1])


def test_a_path_is_written_to_a_temporary_file_and_renamed(tmp_path: Path) -> None:
    path = tmp_path / "a.lidia"
    path.write_bytes(b"old")
    done = lidia.write(table(Names(), NESTED), path)
    assert done.size == path.stat().st_size
    assert (done.ranges, done.functions, done.inlined) == (6, 2, 4)
    with pytest.raises(ValueError, match="in order"):
        lidia.write(table(Names(), NESTED[::-1]), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.lidia"]
    with lidia.open(path, crc=True) as opened:
        assert opened.lookup(0x1041)[0].function == "next"


def test_files_that_cannot_seek_get_the_same_bytes() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise OSError

    pipe = Pipe()
    lidia.write(table(Names(), NESTED), pipe)
    assert pipe.getvalue() == archive(NESTED)


def test_info_counts_what_is_in_the_archive() -> None:
    about = lidia.Extra(build_id="c0ffee", machine="x86_64", made_from=("/bin/a", "/lib/b"))
    with lidia.from_bytes(archive(NESTED, extra=about)) as opened:
        info = opened.info()
    assert (info.ranges, info.functions, info.inlined, info.deepest) == (6, 2, 4, 2)
    assert (info.build_id, info.machine, info.made_from) == ("c0ffee", "x86_64", ("/bin/a", "/lib/b"))
    assert info.producer.startswith("whence ")
    assert info.sources == {"dwarf": 6}
    assert info.extra_problem == ""


def test_sources_survive_as_bytes_and_as_runs() -> None:
    for count, pattern in ((300, [1]), (300, [1, 3, 1, 4, 6])):
        ranges = [R(i * 4, 4, 0, f"f{i}", source=pattern[i % len(pattern)]) for i in range(count)]
        with lidia.from_bytes(archive(ranges)) as opened:
            assert [r.source for r in opened] == [
                ["", "dwarf", "", "symtab", "minidebug", "", "plt"][r.source] for r in ranges
            ]


def test_a_demangler_is_called_once_for_each_function() -> None:
    asked: list[str] = []

    def turn(name: str) -> str:
        asked.append(name)
        return name.upper()

    with lidia.from_bytes(archive(NESTED), demangle=turn) as opened:
        assert frames(opened.lookup(0x1015))[0] == ("INNER", "c.h", 1)
        opened.lookup(0x1016)
        assert opened.lookup_many([0x1015]).function == ["INNER", "OUTER", "MAIN"]
    assert asked == ["inner", "outer", "main"]


def test_a_closed_archive_raises_value_error() -> None:
    opened = lidia.from_bytes(archive(NESTED))
    opened.close()
    opened.close()
    for use in (lambda: opened.lookup(1), lambda: opened.lookup_many([1]), lambda: opened[0], opened.info):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_many_threads_get_the_same_answers() -> None:
    ranges = [R(i * 16, 16, 0, f"f{i}", f"{i % 7}.c", ((0, i + 1), (8, i + 2))) for i in range(2000)]
    failed: list[int] = []
    with lidia.from_bytes(archive(ranges)) as opened:

        def work(first: int) -> None:
            failed.extend(
                address
                for address in range(first, 32000, 97)
                if frames(opened.lookup(address)) != answer(ranges[address // 16 : address // 16 + 1], address)
            )
            opened.lookup_many(range(first, 32000, 13))

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []


TREES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 3), st.sampled_from("abc"), st.integers(0, 9)),
    max_size=12,
)


@given(TREES, st.sampled_from(["length", "nul"]))
def test_built_archives_are_valid_and_single_and_batch_lookups_agree(
    raw: list[tuple[int, int, int, str, int]], strings: str
) -> None:
    builder = lidia.Builder()
    for vaddr, length, depth, name, line in raw:
        builder.add(
            vaddr=vaddr,
            length=length,
            depth=depth,
            function=name,
            file=name + ".c",
            line_table=[(0, line), (3, line + 1)],
        )
    with lidia.from_bytes(builder.to_bytes(strings=strings), crc=True) as opened:  # type: ignore[arg-type]
        assert opened.verify() == []
        walked = [opened.lookup(address) for address in range(90)]
        assert list(opened.lookup_many(array("Q", range(90)))) == walked
        assert [opened.lookup(address) for address in range(90)] == walked
        ours = [R(r.vaddr, r.length, r.depth, r.function, r.file, tuple(r.line_table)) for r in opened]
        for address, result in enumerate(walked):
            covering = [r for r in ours if r.vaddr <= address < r.vaddr + r.length]
            assert bool(result) == bool(covering)
            if result:
                assert not result[-1].inlined
            if any(vaddr <= address < vaddr + length for vaddr, length, depth, *_ in raw if depth == 0):
                assert result
