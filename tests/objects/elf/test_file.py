"""An ELF file's tables, over forged files of both classes and byte orders."""

from __future__ import annotations

import os
import random
import struct
import sys
import threading
import time
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.forge.elf import Section, Segment, Symbol, build_id_note, debug_link, forge, note, packed
from tests.helpers.live import until
from tests.helpers.survive import survives
from whence._base.errors import ElfError
from whence._base.window import ORDERS, ByteOrder
from whence.binary import Binary
from whence.objects.elf import ElfFile, compress
from whence.objects.elf.kernels import constants

KINDS = [(bits, order) for bits in (32, 64) for order in ORDERS]
kinds = pytest.mark.parametrize(("bits", "order"), KINDS)
CODE = bytes(range(256)) * 4
ID = "0123456789abcdef0123456789abcdef01234567"


def sample(bits: int = 64, order: ByteOrder = "little", **options: object) -> bytes:
    return forge(
        [
            build_id_note(ID, order),
            Section(".text", CODE, flags=6, vaddr=0x40_1000, align=16),
            Section(".bss", b"", type=constants.SHT_NOBITS, size=1 << 20),
            Section(".debug_str", b"abc\0" * 1000),
            debug_link("sample.debug", 0xDEADBEEF, order),
            Section(".gnu_debugaltlink", b"../shared.debug\0" + bytes.fromhex(ID)),
        ],
        [Segment(of=".text", memory_size=0x2000), Segment(constants.PT_NOTE, 4, of=".note.gnu.build-id", align=4)],
        symbols=[Symbol("main", 0x40_1010, 32)],
        bits=bits,
        order=order,
        machine=constants.EM_X86_64 if order == "little" else constants.EM_PPC64,
        entry=0x40_1010,
        **options,  # type: ignore[arg-type]
    )


@kinds
def test_header_sections_segments_notes_and_links_of_every_class_and_order(bits: int, order: ByteOrder) -> None:
    elf = ElfFile.from_bytes(sample(bits, order), "sample")
    assert (elf.bits, elf.order, elf.type, elf.entry) == (bits, order, constants.ET_DYN, 0x40_1010)
    text = elf.section(".text")
    assert text is not None
    assert text.executable
    assert bytes(elf.content(text)) == CODE == bytes(elf.content(".text"))
    assert bytes(elf.content(".bss")) == b""
    assert bytes(elf.content(".nowhere")) == b""
    assert elf.section(".nowhere") is None
    assert elf.build_id == ID
    assert [(n.owner, n.type) for n in elf.notes()] == [("GNU", 3)]
    assert (link := elf.debug_link) is not None
    assert (link.name, link.crc) == ("sample.debug", 0xDEADBEEF)
    assert (alt := elf.alt_link) is not None
    assert (alt.name, alt.build_id) == ("../shared.debug", ID)
    assert elf.problems == []


@kinds
def test_file_offsets_and_vaddrs_correspond_only_where_a_segment_loads_bytes(bits: int, order: ByteOrder) -> None:
    elf = ElfFile.from_bytes(sample(bits, order))
    text = elf.section(".text")
    assert text is not None
    assert elf.vaddr_of(text.file_offset) == 0x40_1000
    assert elf.vaddr_of(text.file_offset + len(CODE) - 1) == 0x40_1000 + len(CODE) - 1
    assert elf.vaddr_of(text.file_offset + len(CODE)) is None
    assert elf.file_offset_of(0x40_1003) == text.file_offset + 3
    assert elf.file_offset_of(0x40_1FFF) is None  # zeros that the file does not hold
    assert elf.read_vaddr(0x40_1004, 4) == CODE[4:8]
    with pytest.raises(ElfError, match="no segment loads 8 bytes"):
        elf.read_vaddr(0x40_1000 + len(CODE) - 4, 8)


@kinds
def test_counts_that_overflow_sixteen_bits_come_from_section_zero(bits: int, order: ByteOrder) -> None:
    plain = ElfFile.from_bytes(sample(bits, order))
    big = ElfFile.from_bytes(sample(bits, order, big_counts=True))
    assert [s.name for s in big.sections] == [s.name for s in plain.sections]
    assert big.segments == plain.segments


def test_a_file_without_a_section_table_still_has_segments_and_build_id() -> None:
    elf = ElfFile.from_bytes(sample(section_table=False))
    assert elf.sections == ()
    assert elf.build_id == ID
    assert elf.section(".text") is None
    assert elf.problems == []


@kinds
@pytest.mark.parametrize("method", ["zlib", "zstd", "zdebug"])
def test_compressed_sections_give_what_was_packed(bits: int, order: ByteOrder, method: str) -> None:
    plain = Section(".debug_info", bytes(range(256)) * 3000)
    elf = ElfFile.from_bytes(forge([packed(plain, method, bits, order)], bits=bits, order=order))
    assert bytes(elf.content(".debug_info")) == plain.data
    assert elf.content(".debug_info") is elf.content(".debug_info")


@pytest.mark.parametrize("method", ["zlib", "zstd", "zdebug"])
@pytest.mark.parametrize("claim", [0, 1, 2999, 3001, 1 << 20, 1 << 40, (1 << 64) - 1])
def test_a_compressed_section_with_a_wrong_size_is_an_error_and_costs_no_memory(method: str, claim: int) -> None:
    section = packed(Section(".debug_info", b"x" * 3000), method)
    data = bytearray(section.data)
    struct.pack_into(">Q" if method == "zdebug" else "<Q", data, 4 if method == "zdebug" else 8, claim)
    elf = ElfFile.from_bytes(forge([Section(section.name, bytes(data), flags=section.flags)]))
    if claim == 0:
        assert bytes(elf.content(".debug_info")) == b""
        return
    with pytest.raises(ElfError, match=r"decompresses to|unpacked bytes take more than 64 times"):
        elf.content(".debug_info")


@pytest.mark.parametrize("method", ["zlib", "zstd", "zdebug"])
def test_every_truncation_and_damage_of_a_compressed_section_is_an_error_or_the_same_content(method: str) -> None:
    section = packed(Section(".debug_info", bytes(range(200))), method)
    for size in range(1, len(section.data)):
        elf = ElfFile.from_bytes(forge([Section(section.name, section.data[:size], flags=section.flags)]))
        with pytest.raises(ElfError):
            elf.content(".debug_info")


AHEAD = [Section(f".debug_{name}", name.encode() * 50_000) for name in ("info", "abbrev", "line", "str")]


@pytest.mark.parametrize("method", ["zlib", "zstd", "zdebug"])
def test_sections_that_are_unpacked_ahead_are_those_that_were_packed(method: str) -> None:
    elf = ElfFile.from_bytes(forge([packed(plain, method) for plain in AHEAD]))
    elf.decompress_ahead(1 << 20, 1 << 20)
    for plain in AHEAD:
        assert bytes(elf.content(plain.name)) == plain.data


def test_a_section_that_no_thread_has_started_is_decompressed_by_its_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "decompress_all", lambda streams: None)
    elf = ElfFile.from_bytes(forge([packed(plain, "zlib") for plain in AHEAD]))
    elf.decompress_ahead(1 << 20, 1 << 20)
    for plain in AHEAD[1:]:
        assert bytes(elf.content(plain.name)) == plain.data


def test_a_section_is_decompressed_ahead_only_up_to_the_given_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "STEP", 64)
    elf = ElfFile.from_bytes(forge([packed(plain, "zlib") for plain in AHEAD]))
    info, line = (elf.decompress_ahead(1000, 2000), elf.section(".debug_line"))
    assert info is not None
    assert line is not None
    lines = elf.stream(line)
    assert lines is not None
    assert until(lambda: info.done >= 1000 and lines.done >= 2000)
    assert info.done < info.size
    assert lines.done < lines.size
    assert bytes(elf.content(".debug_info")) == AHEAD[0].data
    assert bytes(elf.content(line)) == AHEAD[2].data


def test_nothing_is_unpacked_ahead_of_a_file_without_debug_info() -> None:
    elf = ElfFile.from_bytes(forge([packed(plain, "zlib") for plain in AHEAD[1:]]))
    elf.decompress_ahead(1 << 20, 1 << 20)
    line = elf.section(".debug_line")
    assert line is not None
    assert elf.stream(line) is not elf.stream(line)


@pytest.mark.parametrize("cut", [30, 100])
def test_an_error_of_decompression_ahead_is_raised_to_the_reader_of_the_section(cut: int) -> None:
    broken = packed(AHEAD[0], "zlib")
    cut_off = Section(broken.name, broken.data[:cut], flags=broken.flags)
    elf = ElfFile.from_bytes(forge([cut_off, *(packed(plain, "zlib") for plain in AHEAD[1:])]), "cut.so")
    elf.decompress_ahead(1 << 20, 1 << 20)
    for _ in range(2):
        with pytest.raises(ElfError, match=r"cut\.so: .*decompresses"):
            elf.content(".debug_info")
    assert bytes(elf.content(".debug_line")) == AHEAD[2].data


def test_a_reader_that_forgets_bytes_finds_those_that_are_unpacked_next(monkeypatch: pytest.MonkeyPatch) -> None:
    page = 1 << 16
    monkeypatch.setattr(compress, "FORGET_UNIT", page)
    plain = random.Random(3).randbytes(20 * page + 5)
    elf = ElfFile.from_bytes(forge([packed(Section(".debug_info", plain), "zlib")]))
    info = elf.section(".debug_info")
    assert info is not None
    stream = elf.stream(info)
    assert stream is not None
    for end in (*range(page, len(plain), 3 * page // 2), len(plain)):
        stream.wait(end)
        start = stream.forgotten
        assert stream.content[start:end] == plain[start:end]
        stream.forget(end - page // 2)
    assert stream.forgotten == 19 * page


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system may keep the pages")
def test_memory_of_forgotten_bytes_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    page = 1 << 16
    monkeypatch.setattr(compress, "FORGET_UNIT", page)
    plain = random.Random(3).randbytes(8 * page)
    elf = ElfFile.from_bytes(forge([packed(Section(".debug_info", plain), "zlib")]))
    info = elf.section(".debug_info")
    assert info is not None
    stream = elf.stream(info)
    assert stream is not None
    content = stream.run()
    stream.forget(5 * page + 1)
    assert bytes(content) == bytes(5 * page) + plain[5 * page :]


def test_memory_that_the_system_does_not_have_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        compress.new_pages(sys.maxsize // 2)
    with pytest.raises(MemoryError):
        compress.new_pages(1 << 70)


def test_threads_that_wait_for_a_section_decompress_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "STEP", 1000)
    plain = random.Random(2).randbytes(100_000)
    elf = ElfFile.from_bytes(forge([packed(Section(".debug_info", plain), "zlib")]))
    info = elf.section(".debug_info")
    assert info is not None
    stream = elf.stream(info)
    assert stream is not None
    stream.wait(50_000)
    assert 50_000 <= stream.done <= 53_000
    threads = [threading.Thread(target=stream.run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert bytes(stream.content) == plain


def test_a_section_whose_decompression_was_interrupted_is_decompressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    elf = ElfFile.from_bytes(forge([packed(plain, "zlib") for plain in AHEAD]))
    monkeypatch.setattr(compress, "decompress_all", lambda streams: None)
    stream = elf.decompress_ahead(1000, 1000)
    assert stream is not None
    with monkeypatch.context() as patch:
        patch.setattr(compress.SectionStream, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.wait(1)
    with pytest.raises(ElfError, match="interrupted"):
        stream.wait(1)
    assert bytes(elf.content(".debug_info")) == AHEAD[0].data


def test_an_error_of_a_section_is_raised_to_every_reader_that_needs_more_than_is_there() -> None:
    elf = ElfFile.from_bytes(forge([packed(AHEAD[0], "zlib")]))
    section = elf.section(".debug_info")
    assert section is not None
    data = bytearray(elf.data)
    data[section.file_offset + section.size - 6 : section.file_offset + section.size] = bytes(6)
    stream = ElfFile.from_bytes(data).stream(section)
    assert stream is not None
    for _ in range(2):
        with pytest.raises(ElfError, match=r"invalid compressed data|decompresses to"):
            stream.run()


def test_a_forked_child_unpacks_by_itself_what_its_parent_unpacks_ahead() -> None:
    elf = ElfFile.from_bytes(forge([packed(plain, "zlib") for plain in AHEAD]))
    elf.decompress_ahead(1 << 20, 1 << 20)
    child = os.fork()
    if not child:
        os._exit(0 if all(bytes(elf.content(plain.name)) == plain.data for plain in AHEAD) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_damaged_section_does_not_spoil_the_others() -> None:
    elf = ElfFile.from_bytes(
        forge(
            [
                Section(".far", b"x", file_offset=1 << 40),
                Section(".near", b"near"),
                Section(".long", b"y", size=1 << 33),
            ]
        )
    )
    assert bytes(elf.content(".near")) == b"near"
    for name, needed in ((".far", 1), (".long", 1 << 33)):
        with pytest.raises(ElfError, match=rf"^{name}: truncated: needs {needed} bytes, \d+ left"):
            elf.content(name)


def test_notes_of_eight_byte_alignment_are_told_from_those_of_four() -> None:
    block = note("GNU", 5, b"\x02\0\0\xc0\x04\0\0\0\x03\0\0\0\0\0\0\0", align=8) + note("GNU", 3, b"12345678", align=8)
    elf = ElfFile.from_bytes(forge([Section(".note.gnu.property", block, type=7, align=8)]))
    assert [(n.type, len(n.desc)) for n in elf.notes()] == [(5, 16), (3, 8)]
    assert elf.build_id == b"12345678".hex()


def test_go_build_id_is_text() -> None:
    block = note("Go", 4, b"aaaa/bbbb/cccc/dddd")
    elf = ElfFile.from_bytes(forge([Section(".note.go.buildid", block, type=7, align=4)]))
    assert elf.go_build_id == "aaaa/bbbb/cccc/dddd"
    assert elf.build_id == ""


def test_a_segment_may_hold_notes_of_both_alignments_as_mold_lays_them() -> None:
    block = note("GNU", 5, b"\x02\0\0\xc0\x04\0\0\0\x03\0\0\0\0\0\0\0", align=8)
    block += note("GNU", 3, bytes.fromhex(ID)) + note("GNU", 1, bytes(16))
    elf = ElfFile.from_bytes(
        forge([Section("notes", block, vaddr=0x200)], [Segment(constants.PT_NOTE, 4, of="notes", align=8)])
    )
    assert [(n.type, len(n.desc)) for n in elf.notes()] == [(5, 16), (3, 20), (1, 16)]
    assert elf.build_id == ID
    assert not elf.problems


def test_the_segments_of_a_debug_file_do_not_count_where_sections_tell_of_notes() -> None:
    foreign = Segment(constants.PT_NOTE, 4, file_offset=0x40, file_size=0x68, align=8)  # the program's, not this file's
    elf = ElfFile.from_bytes(forge([build_id_note(ID)], [foreign, foreign]))
    assert elf.build_id == ID
    assert not elf.problems


def test_a_note_that_does_not_fit_ends_its_block_and_is_a_problem() -> None:
    block = note("GNU", 1, b"abcd") + struct.pack("<III", 4, 1 << 31, 3) + b"GNU\0"
    elf = ElfFile.from_bytes(forge([Section(".note", block, type=7, align=4), build_id_note(ID)]))
    assert [n.type for n in elf.notes()] == [1, 3]
    assert elf.build_id == ID
    assert len(elf.problems) == 1


def test_an_error_for_a_file_that_is_not_elf_shows_its_first_bytes(tmp_path: Path) -> None:
    with pytest.raises(ElfError, match="not an ELF file: the magic at 0x0 is 23 21 2f 62, expected 7f 45 4c 46"):
        ElfFile.from_bytes(b"#!/bin/sh\n")
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    with pytest.raises(ElfError, match="/empty: the file is empty"):
        ElfFile.open(empty)
    with pytest.raises(ElfError, match="the file is empty"):
        ElfFile.from_bytes(b"")
    with pytest.raises(IsADirectoryError):
        ElfFile.open(tmp_path)
    with pytest.raises(ElfError, match="regular file"):
        ElfFile.open("/dev/null")


def explore(data: bytes) -> bool:
    """Read all parts of a file, which may raise ElfError only; return True if the file opens."""
    elf = survives(ElfFile.from_bytes, data, refused=ElfError)
    if elf is None:
        return False
    for section in elf.sections:
        survives(elf.content, section, refused=ElfError)
    assert elf.segments is not None
    assert isinstance(elf.build_id, str)
    for link in ("debug_link", "alt_link"):
        survives(getattr, elf, link, refused=ElfError)
    return True


@kinds
def test_every_truncation_ends_in_an_answer_or_an_elf_error(bits: int, order: ByteOrder) -> None:
    data = sample(bits, order)
    header = 52 if bits == 32 else 64
    for size in [*range(0, len(data), 37), *range(80), *range(len(data) - 80, len(data))]:
        assert explore(data[:size]) == (size >= header), size


@kinds
def test_every_flipped_header_bit_ends_in_an_answer_or_an_elf_error_quickly(bits: int, order: ByteOrder) -> None:
    data = sample(bits, order)
    began = time.process_time()
    for bit in range(8 * 64):
        broken = bytearray(data)
        broken[bit >> 3] ^= 1 << (bit & 7)
        explore(bytes(broken))
    assert time.process_time() - began < 20


def test_the_running_python_is_mapped_and_closed_while_views_live_on() -> None:
    with ElfFile.open(sys.executable) as elf:
        assert elf.bits == struct.calcsize("P") * 8
        assert elf.segments
        names = elf.content(".shstrtab")
        crc = zlib.crc32(elf.data)
    assert zlib.crc32(Path(sys.executable).read_bytes()) == crc
    assert b".text" in bytes(names)


def test_sections_of_an_object_file_share_no_address_and_code_comes_first() -> None:
    sections = [
        Section(".data", bytes(8), flags=3, align=8),
        Section(".text", bytes(5), flags=6, align=16),
        Section(".comment", b"none"),
        Section(".init.text", bytes(8), flags=6, align=4),
    ]
    elf = ElfFile.from_bytes(forge(sections, type=constants.ET_REL))
    assert [(s.name, s.vaddr) for s in elf.sections[1:5]] == [
        *((".data", 16), (".text", 0), (".comment", 0), (".init.text", 8)),
    ]
    placed = ElfFile.from_bytes(forge([*sections, Section(".x", b"x", flags=2, vaddr=64)], type=constants.ET_REL))
    assert [s.vaddr for s in placed.sections[1:6]] == [0, 0, 0, 0, 64]
    huge = Section(".bss", type=constants.SHT_NOBITS, flags=3, size=(1 << 64) - 1)
    assert {s.vaddr for s in ElfFile.from_bytes(forge([*sections, huge], type=constants.ET_REL)).sections} == {0}


def test_a_section_reads_the_same_after_its_pages_were_released() -> None:
    with ElfFile.open(os.path.realpath(sys.executable)) as elf:
        for section in elf.sections:
            before = bytes(elf.content(section))
            elf.done_with(section)
            elf.done_with(section, 1, len(before) + 10_000_000)
            assert bytes(elf.content(section)) == before
    elf.done_with(".text")


@pytest.mark.parametrize("file_offset", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1, 10_000])
def test_releasing_pages_of_a_section_past_the_end_of_the_file_does_nothing(file_offset: int, tmp_path: Path) -> None:
    path = tmp_path / "damaged.elf"
    path.write_bytes(forge([Section(".strtab", b"", 3, size=(1 << 64) - 1, file_offset=file_offset)]))
    with ElfFile.open(path) as elf:
        elf.done_with(".strtab")
        elf.done_with(".strtab", 4096, 8192)
        assert elf.data == path.read_bytes()


@pytest.mark.parametrize("installed", [True, False])
def test_sections_unpack_alike_with_and_without_isal(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if installed:
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal", None)
    content = bytes(range(256)) * 5000
    for method in ("zlib", "zdebug"):
        with ElfFile.from_bytes(forge([packed(Section(".debug_info", content), method)])) as elf:
            assert elf.content(".debug_info") == content
        broken = packed(Section(".debug_info", content), method)
        broken = replace(broken, data=broken.data[:-9])
        with (
            ElfFile.from_bytes(forge([broken])) as elf,
            pytest.raises(ElfError, match=r"decompresses to \d+ of the 1280000 bytes"),
        ):
            elf.content(".debug_info")


def test_debug_info_compressed_by_an_unknown_method_is_skipped_and_symbols_answer() -> None:
    """As when the size is wrong: what is whole can still be used."""
    code = Section(".text", bytes(16), vaddr=0x401000, flags=6)
    section = packed(Section(".debug_info", bytes(range(200))), "zlib")
    unknown = replace(section, data=struct.pack("<I", 0x7FFFFFFE) + section.data[4:])
    data = forge([code, unknown], symbols=[Symbol("main", 0x401000, 16)])
    with Binary.from_elf(ElfFile.from_bytes(data)) as binary:
        assert [frame.function for frame in binary.lookup(0x401004)] == ["main"]
        assert [problem for problem in binary.problems if "unknown compression method 2147483646" in problem]
    with ElfFile.from_bytes(data) as elf, pytest.raises(ElfError, match="unknown compression method"):
        elf.content(".debug_info")


@kinds
def test_a_symbol_is_found_by_its_whole_name(bits: int, order: ByteOrder) -> None:
    rows = [Symbol("runtime.text", 0x40_1010, 4), Symbol("text", 0x40_1020, 4), Symbol("text", 0x40_1030, 4)]
    data = forge([Section(".text", CODE, flags=6, vaddr=0x40_1000)], symbols=rows, bits=bits, order=order)
    elf = ElfFile.from_bytes(data)
    symbols = elf.symbols()
    result = symbols.find("text")
    assert result is not None
    assert (symbols.name(result), symbols.value[result]) == ("text", 0x40_1020)
    assert symbols.find("runtime.text") == 1
    assert symbols.find("runtime") is None
    assert symbols.find("time.text") is None  # the end of a name is not a match
    table = elf.symbol_table()
    assert table is not None
    assert (table.may_have("text"), table.may_have("missing")) == (True, False)
    assert elf.symbols(".dynsym").find("text") is None
