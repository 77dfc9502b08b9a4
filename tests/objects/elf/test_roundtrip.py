"""What was forged is what is read, for any sections, segments and symbols, in every class and byte order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from tests.forge import elf as forge
from whence._base.window import ORDERS, ByteOrder
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants

bits = st.sampled_from([32, 64])
orders: st.SearchStrategy[ByteOrder] = st.sampled_from(ORDERS)
names = st.text("abc._$", min_size=1, max_size=8).map(lambda text: ".x" + text)
words = st.integers(0, (1 << 32) - 1)
sections = st.lists(
    st.builds(
        forge.Section,
        names,
        st.binary(max_size=64),
        type=st.sampled_from([constants.SHT_PROGBITS, constants.SHT_STRTAB, constants.SHT_NOTE]),
        flags=st.sampled_from([0, 2, 3, 6]),
        vaddr=words,
        align=st.sampled_from([1, 4, 16]),
        entry_size=st.integers(0, 64),
    ),
    max_size=6,
    unique_by=lambda section: section.name,
)
segments = st.lists(
    st.builds(
        forge.Segment,
        st.sampled_from([constants.PT_LOAD, constants.PT_INTERP]),
        st.integers(0, 7),
        file_offset=words,
        vaddr=words,
        file_size=words,
        memory_size=words,
        align=st.sampled_from([1, 4096]),
    ),
    max_size=4,
)
symbols = st.lists(
    st.builds(
        forge.Symbol,
        st.text("abc_", max_size=6),
        words,
        words,
        type=st.integers(0, 15),
        bind=st.integers(0, 15),
        section=st.integers(0, 0xFFFE),
        other=st.integers(0, 255),
    ),
    max_size=8,
)


@given(sections, segments, bits, orders, st.booleans())
def test_sections_and_segments_come_back(
    given_sections: list[forge.Section],
    given_segments: list[forge.Segment],
    width: int,
    order: ByteOrder,
    big_counts: bool,
) -> None:
    data = forge.forge(given_sections, given_segments, bits=width, order=order, big_counts=big_counts)
    elf = ElfFile.from_bytes(data)
    assert len(elf.sections) == len(given_sections) + 2
    for index, each in enumerate(given_sections, 1):
        got = elf.sections[index]
        assert (got.index, got.name, got.type, got.flags, got.vaddr) == (
            index,
            each.name,
            each.type,
            each.flags,
            each.vaddr,
        )
        assert (got.size, got.align, got.entry_size) == (len(each.data), each.align, each.entry_size)
        assert bytes(elf.content(got)) == each.data == bytes(elf.content(each.name))
    assert [(s.type, s.flags, s.file_offset, s.vaddr, s.file_size, s.memory_size, s.align) for s in elf.segments] == [
        (s.type, s.flags, s.file_offset, s.vaddr, s.file_size, s.memory_size, s.align) for s in given_segments
    ]


@given(symbols, bits, orders)
def test_symbols_come_back(given_symbols: list[forge.Symbol], width: int, order: ByteOrder) -> None:
    read = ElfFile.from_bytes(forge.forge(symbols=given_symbols, bits=width, order=order)).symbols()
    assert len(read) == len(given_symbols) + 1
    for index, each in enumerate(given_symbols, 1):
        section = each.section if isinstance(each.section, int) else 0
        expected = section if section < constants.SHN_LORESERVE else 0xFFFF0000 | section
        assert (read.name(index), read.value[index], read.size[index]) == (each.name, each.value, each.size)
        assert (read.info[index], read.other[index]) == (each.bind << 4 | each.type, each.other)
        assert read.section[index] == expected


@given(segments, words)
def test_a_vaddr_that_a_segment_loads_leads_back_to_its_file_offset(given: list[forge.Segment], offset: int) -> None:
    elf = ElfFile.from_bytes(forge.forge(segments=given))
    vaddr = elf.vaddr_of(offset)
    loads = [s for s in elf.segments if s.type == constants.PT_LOAD]
    assert (vaddr is not None) == any(s.file_offset <= offset < s.file_offset + s.file_size for s in loads)
    if vaddr is not None and sum(s.vaddr <= vaddr < s.vaddr + s.file_size for s in loads) == 1:
        assert elf.file_offset_of(vaddr) == offset


def test_threads_share_a_file() -> None:
    many = [forge.packed(forge.Section(f".debug_{index}", bytes([index]) * 99_999), "zlib") for index in range(16)]
    elf = ElfFile.from_bytes(forge.forge(many))
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda index: bytes(elf.content(f".debug_{index % 16}")), range(64)))
    assert got == [bytes([index % 16]) * 99_999 for index in range(64)]
