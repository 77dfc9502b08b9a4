"""whence.open: an ELF file answers like its archive, whole or a unit at a time, and so does whence.lidia.create."""

from __future__ import annotations

import gc
import io
import pydoc
import subprocess
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import whence
from tests.forge.elf import Section, Symbol, forge
from tests.helpers.programs import compiled
from whence import gotrace, lidia
from whence._base.errors import ElfError, WhenceError
from whence._base.options import ReadOptions
from whence.archive.create import create, create_from_elf
from whence.cli.main import main
from whence.demangle import demangle
from whence.lidia.writer import write
from whence.locate.debug_files import Completion, DebugFiles
from whence.objects.elf import ElfFile
from whence.producers import Producers, may_be_go
from whence.ranges.caller_files import caller_files


def code(binary: whence.Binary) -> list[int]:
    """Every byte of the program's own functions."""
    wanted = {"sum", "main", "_start"}
    return [
        vaddr
        for each in binary.functions()
        if each.function in wanted
        for vaddr in range(each.vaddr, each.vaddr + each.length)
    ]


@pytest.mark.parametrize("flags", [(), ("-gdwarf-4",), ("-no-pie",), ("-Wl,-z,separate-code",), ("-gz=zlib",)])
def test_an_archive_answers_as_the_elf_file_does_at_every_byte(flags: tuple[str, ...], tmp_path: Path) -> None:
    path = compiled(*flags)
    out = tmp_path / "out.lidia"
    create(path, out)
    with whence.open(path) as lazy, whence.open(path) as full, whence.open(out) as archive:
        addresses = code(full)
        assert len(addresses) > 50
        for vaddr in addresses:
            assert lazy.lookup(vaddr) == full.lookup(vaddr) == archive.lookup(vaddr)
        assert list(archive.lookup_many(addresses)) == [archive.lookup(vaddr) for vaddr in addresses]
        assert archive.is_archive
        assert archive.build_id == lazy.build_id != ""


def test_what_is_near_an_address_is_answered_as_by_the_whole_file_whichever_source_names_it() -> None:
    sources = set()
    with whence.open(compiled()) as full, ElfFile.open(compiled()) as elf:
        for vaddr in code(full):
            with Producers(elf) as producers:
                ranges = producers.ranges(producers.units_at([vaddr]), near=[vaddr])
                out = io.BytesIO()
                write(caller_files(ranges), out)
            with lidia.from_bytes(out.getvalue()) as near:
                assert near.lookup(vaddr) == full.lookup(vaddr)
            sources |= {frame.source for frame in full.lookup(vaddr)}
    assert sources == {"dwarf", "symtab"}  # the latter names _start


@pytest.mark.parametrize(("names", "tables"), [(["sum", "main"], set()), (["sum", "_start"], {".symtab", ".dynsym"})])
def test_symbols_are_not_read_where_debug_info_names_all_addresses(
    names: list[str], tables: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with whence.open(compiled()) as binary:
        vaddrs = [binary.find(name)[0].vaddr for name in names]
    asked: set[str] = set()
    read = ElfFile.symbol_table

    def noted(elf: ElfFile, name: str) -> object:
        asked.add(name)
        return read(elf, name)

    monkeypatch.setattr(ElfFile, "symbol_table", noted)
    with ElfFile.open(compiled()) as elf, Producers(elf) as producers:
        ranges = producers.ranges(producers.units_at(vaddrs), near=vaddrs)
        assert {ranges.strings.text(name) for name in ranges.function} >= set(names)
    assert asked == tables


def test_every_search_for_a_file_that_completes_another_is_kept_with_what_was_tried(tmp_path: Path) -> None:
    completion = Completion(DebugFiles([tmp_path]))
    with ElfFile.open(compiled()) as elf, Producers(elf, complete=completion) as producers:
        assert len(producers.ranges())
        for _ in range(2):
            producers.find_companions()
            itself, package = completion.searches
            assert (itself.wanted, itself.how, itself.elf) == ("debug file", "itself", elf)
            assert package.wanted == "package of split units"
            # next to the file, by its build-id, in the debug folder
            assert [tried.outcome.code for tried in package.tried] == ["absent"] * 3


def test_files_that_no_option_needs_are_not_searched_for() -> None:
    completion = Completion(DebugFiles([]))
    options = ReadOptions(dwarf=False, symtab=False)
    with ElfFile.open(compiled()) as elf, Producers(elf, complete=completion, options=options):
        assert completion.searches == []
    with ElfFile.from_bytes(forge([])) as elf, Producers(elf, complete=completion):
        assert [search.wanted for search in completion.searches] == ["debug file"]


def test_a_return_address_is_looked_up_one_byte_before() -> None:
    with whence.open(compiled()) as binary:
        for vaddr in code(binary):
            assert binary.lookup(vaddr + 1, return_address=True) == binary.lookup(vaddr)


def test_a_first_question_about_return_addresses_reads_what_holds_the_bytes_before_them() -> None:
    path = compiled()
    with whence.open(path) as full:
        ends = [each.vaddr + each.length for each in full.functions()]
        assert full.lookup(0, return_address=True) == ()
        for end in ends:
            with whence.open(path) as each, whence.open(path) as many:
                assert each.lookup(end, return_address=True) == full.lookup(end - 1) != ()
                assert list(many.lookup_many([0, end], return_address=True)) == [(), full.lookup(end - 1)]


def test_inlined_calls_come_innermost_first_with_the_lines_of_their_calls() -> None:
    with whence.open(compiled()) as binary:
        chains = {tuple(frame.function for frame in binary.lookup(vaddr)): vaddr for vaddr in code(binary)}
        frames = binary.lookup(chains["square", "twice", "sum"])
        assert [(frame.line, frame.inlined) for frame in frames] == [(3, True), (5, True), (10, False)]
        assert {frame.source for frame in frames} == {"dwarf"}


def test_sources_can_be_left_out() -> None:
    path = compiled()
    with whence.open(path, dwarf=False) as symbols, whence.open(path, dwarf=False, symtab=False) as nothing:
        vaddr = next(each.vaddr for each in symbols.functions() if each.function == "sum")
        assert symbols.lookup(vaddr) == (whence.Frame("sum", source=whence.Source.SYMTAB),)
        assert nothing.lookup(vaddr) == ()


def test_an_archive_is_written_to_any_writable(tmp_path: Path) -> None:
    out = io.BytesIO()
    with ElfFile.open(compiled()) as elf:
        created = create_from_elf(elf, out)
    assert created.written.size == len(out.getvalue())
    with lidia.from_bytes(out.getvalue(), crc=True) as table:
        assert table.verify() == []
        assert table.info().machine == "x86-64"


def test_a_file_that_is_neither_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello, this is neither an object file nor an archive")
    with pytest.raises(WhenceError, match="neither an object file nor an archive"):
        whence.open(tmp_path / "text")


def test_no_archive_is_left_when_creating_it_fails(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\x7fELF but no more")
    with pytest.raises(WhenceError):
        create(tmp_path / "in", tmp_path / "out.lidia")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_kernel_s_addresses_with_the_highest_bit_set_have_lines(tmp_path: Path) -> None:
    source, path = tmp_path / "kernel.c", tmp_path / "kernel"
    source.write_text("int counted;\nvoid _start(void) {\n    counted++;\n}\n")
    flags = ["-g", "-mcmodel=kernel", "-fno-pie", "-no-pie", "-nostdlib", "-static"]
    offset = "-Wl,-Ttext-segment=0xffffffff81000000"
    built = subprocess.run(["gcc", *flags, offset, str(source), "-o", str(path)], capture_output=True)
    if built.returncode:
        pytest.skip(f"gcc does not build for the kernel's addresses here: {built.stderr.decode()[:80]}")
    with whence.open(path) as binary:
        start = next(each.vaddr for each in binary.functions() if each.function == "_start")
        assert start >> 63
        assert [(frame.file, frame.line) for frame in binary.lookup(start)] == [(str(source), 2)]


def test_only_what_may_be_a_go_program_is_searched_for_go_s_tables() -> None:
    with ElfFile.open(compiled()) as elf:
        assert not may_be_go(elf)
    for section in (Section(".gopclntab", b"table"), Section(".go.buildinfo", b"info")):
        assert may_be_go(ElfFile.from_bytes(forge(sections=[section])))
    assert may_be_go(ElfFile.from_bytes(forge(sections=[Section(".strtab", b"\0runtime.pclntab\0")])))
    assert may_be_go(ElfFile.from_bytes(b"\x7fELF\x02\x01\x01" + bytes(57)))


@pytest.mark.parametrize("kind", ["elf", "archive"])
def test_a_closed_binary_answers_nothing_rather_than_less(kind: str, tmp_path: Path) -> None:
    path = compiled()
    if kind == "archive":
        create(path, tmp_path / "archive")
        path = tmp_path / "archive"
    for first_asked in (False, True):
        with whence.open(path) as binary:
            address = next(binary.functions()).vaddr if first_asked else 0
            answers = binary.lookup_many([address])
        for ask in (binary.lookup, lambda vaddr: binary.lookup_many([vaddr]), lambda _: list(binary.functions())):
            with pytest.raises(ValueError, match="is closed"):
                ask(address)
        assert bool(answers[0]) is first_asked
        assert repr(binary).endswith(", closed>")
    whence.open(path).close()
    with whence.open(path) as binary:
        pass
    with pytest.raises(ValueError, match="is closed"):
        binary.table()


def test_frames_have_readable_names_when_asked_for(tmp_path: Path) -> None:
    text = Section(".text", bytes(0x100), flags=6, vaddr=0x1000)
    (tmp_path / "elf").write_bytes(forge([text], symbols=[Symbol("_Z3fooi", 0x1000, 16)]))
    create(tmp_path / "elf", tmp_path / "archive")
    for name in ("elf", "archive"):
        with whence.open(tmp_path / name) as binary:
            assert binary.lookup(0x1004)[0].function == "_Z3fooi"
        with whence.open(tmp_path / name, demangle=demangle) as binary:
            assert binary.lookup(0x1004)[0].function == "foo(int)"
            assert binary.lookup_many([0x1004]).function == ["foo(int)"]


def test_what_is_loaded_late_is_there_for_help_and_completion() -> None:
    for module in (whence, lidia, gotrace):
        assert set(module.__all__) <= set(dir(module))
    page = "".join(pydoc.plain(pydoc.render_doc(whence)).split())  # later versions break long lines
    assert "open=open_binary(path:" in page


@pytest.mark.parametrize("whole", [False, True])
def test_addresses_come_in_any_form(whole: bool) -> None:
    with whence.open(compiled()) as binary:
        vaddrs = code(binary)[:9]
    forms: list[Callable[[list[int]], Any]] = [
        list, tuple, iter, lambda v: (vaddr for vaddr in v), lambda v: array("Q", v), lambda v: array("q", v),
        *(lambda v, kind=kind: numpy.array(v, kind) for kind in ("u8", "i8", "u4", ">u8")),
        lambda v: numpy.repeat(numpy.array(v, "u8"), 2)[::2],
    ]  # fmt: skip
    for form in forms:
        for back in (False, True):
            with whence.open(compiled()) as binary:
                if whole:
                    binary.table()
                want = [binary.lookup(vaddr, return_address=back) for vaddr in vaddrs]
            with whence.open(compiled()) as binary:
                assert list(binary.lookup_many(form(vaddrs), return_address=back)) == want
    with whence.open(compiled()) as binary:
        assert list(binary.lookup_many([])) == []


@pytest.mark.parametrize("odd", [-1, 1 << 64, 1 << 70])
def test_what_has_no_64_bits_is_covered_by_nothing(odd: int) -> None:
    with whence.open(compiled()) as binary:
        if odd < 0:
            with pytest.raises(ValueError, match="negative"):
                binary.lookup(odd)
        else:
            assert binary.lookup(odd) == ()
    with whence.open(compiled()) as binary:
        (vaddr, *_) = code(binary)
    with whence.open(compiled()) as binary:
        assert [bool(frames) for frames in binary.lookup_many(iter([vaddr, odd, vaddr]))] == [True, False, True]
        assert [bool(frames) for frames in binary.lookup_many(iter([vaddr, odd, vaddr]), return_address=True)][
            1
        ] is False


@pytest.mark.parametrize("archive", [False, True])
def test_a_non_integer_is_a_type_error_and_an_invalid_address_has_no_frames(archive: bool, tmp_path: Path) -> None:
    path = compiled()
    if archive:
        path = tmp_path / "a.lidia"
        create(compiled(), path)
    with whence.open(path) as binary:
        for wrong in (6676.0, "6676", None):
            with pytest.raises(TypeError):
                binary.lookup(wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                binary.lookup_many([wrong])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="negative"):
            binary.lookup(-1)
        assert list(binary.lookup_many([-1])) == [()]
        for address in (1 << 64, 1 << 70):
            assert binary.lookup(address) == ()
            assert list(binary.lookup_many([address])) == [()]
        assert binary.lookup(0, return_address=True) == ()


def test_a_file_that_is_cut_off_is_one_error_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cut.elf"
    path.write_bytes(compiled("-g").read_bytes()[:3000])
    with pytest.raises(ElfError, match="truncated"):
        whence.open(path)
    assert main(["addr", str(path), "1000"]) == 3
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"whence: {path}: elf section table: truncated: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("options", [[], ["--json"], ["--compat", "go"]])
@pytest.mark.parametrize("size", [100, 1000, 3000])
def test_no_archive_is_made_of_a_file_that_was_cut_off_before_anything_that_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int, options: list[str]
) -> None:
    path, archive = tmp_path / "cut.elf", tmp_path / "cut.lidia"
    path.write_bytes(compiled("-g").read_bytes()[:size])
    assert main(["lidia", "create", str(path), "-o", str(archive), *options]) == 3
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"whence: {path}: elf section table: truncated: ")
    assert error.count("\n") == 1
    assert not archive.exists()


def test_an_archive_is_made_of_what_a_cut_file_still_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The section table is cut off; a loader still finds the dynamic symbols, and so does whence."""
    path, archive = tmp_path / "cut.elf", tmp_path / "cut.lidia"
    path.write_bytes(compiled("-g", "-rdynamic").read_bytes()[:-64])
    assert main(["lidia", "create", str(path), "-o", str(archive)]) == 0
    assert "elf section table: truncated: " in capsys.readouterr().err
    with lidia.open(archive) as table:
        assert "main" in {each.function for each in table}


@pytest.mark.parametrize("flags", [("-g",), ("-g", "-c"), ("-g", "-gz"), ("-g", "-gsplit-dwarf")])
def test_a_closed_binary_is_no_longer_mapped_though_no_garbage_was_collected(flags: tuple[str, ...]) -> None:
    path = compiled(*flags)
    gc.collect()
    gc.disable()
    try:
        binary = whence.open(path)
        binary.lookup(next(binary.functions()).vaddr)
        mapped = Path("/proc/self/maps").read_text()
        assert str(path) in mapped
        binary.close()
        assert str(path) not in Path("/proc/self/maps").read_text()
    finally:
        gc.enable()
