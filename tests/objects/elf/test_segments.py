"""File offsets to vaddrs and back, and where code is: the one translation and the one list of ranges."""

from __future__ import annotations

import random

import pytest

from tests.forge import elf as forged
from whence.objects.elf import ElfFile, Segment
from whence.objects.elf.kernels import constants
from whence.objects.elf.segments import Translation

CODE = Segment.of_code(0x1234, 0x402234, 0x2000)
NOBITS = Segment(constants.PT_LOAD, constants.PF_R | constants.PF_X, 0, 0x401000, 0, 0x1800, 0x1000)


def test_where_two_segments_claim_a_byte_of_the_file_the_executable_one_answers() -> None:
    data = Segment(constants.PT_LOAD, constants.PF_R, 0x1000, 0x8000, 0x4000, 0x4000, 0x1000)
    note = Segment(constants.PT_NOTE, constants.PF_R, 0x1300, 0x9300, 0x20, 0x20, 4)
    translation = Translation([note, data, CODE])
    assert translation.vaddr_of(0x1300) == 0x402300
    assert translation.vaddr_of(0x1000) == 0x8000
    assert translation.file_offset_of(0x402300) == 0x1300
    assert Translation.of_code([note, data, CODE]).segments == (CODE,)


def test_a_debug_files_segment_is_placed_where_a_mapping_of_its_pages_shows_it() -> None:
    translation = Translation.of_code([NOBITS])
    assert translation.has_nobits
    assert translation.mapped_vaddr_of(0x5000) is None
    shown = translation.with_file_ranges((0x5000, 0x7000))
    assert not shown.has_nobits
    assert shown.mapped_vaddr_of(0x5010) == 0x401010
    assert translation.with_file_ranges((0x5000, 0x9000)).has_nobits  # a mapping of another size


def test_without_a_mappings_end_a_byte_of_a_shared_page_is_in_the_segment_that_declares_it() -> None:
    first, second = Segment.of_code(0x1000, 0x11000, 0x800), Segment.of_code(0x1800, 0x22800, 0x900)
    translation = Translation.of_code([second, first])
    assert translation.segment_of(0x1100, (0x1000, None)) == first
    assert translation.segment_of(0x1900, (0x1000, None)) == second
    assert translation.segment_of(0x1900, (0x1000, 0x2000)) == first  # its very extent
    assert translation.segment_of(0x1900, (0x1000, 0x5000)) == second  # no segment can have made this mapping
    assert translation.segment_of(0x1900) == second
    assert translation.segment_of(0x5000, (0x5000, None)) is None


def test_a_mappings_first_page_decides_where_its_end_is_not_known() -> None:
    first, second = Segment.of_code(0x1000, 0x11000, 0x1800), Segment.of_code(0x2800, 0x22800, 0x900)
    translation = Translation.of_code([first, second])
    assert translation.segment_of(0x2900, (0x1000, None)) == first  # past its bytes, on its last page
    assert translation.segment_of(0x2100, (0x2000, None)) == second  # before its bytes, on its first page
    assert translation.segment_of(0x2100, (0, None)) == first  # a mapping of more than one segment
    assert translation.segment_of(0x2900, (0, 0x4000)) == second


def test_bytes_of_one_stretch_are_placed_by_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(3)
    asked: list[int] = []
    segment_of = Translation.segment_of

    def counted(self: Translation, offset: int, extent: tuple[int, int | None] | None = None) -> Segment | None:
        asked.append(offset)
        return segment_of(self, offset, extent)

    for _ in range(300):
        translation = Translation.of_code(
            Segment.of_code(
                dice.randrange(0, 0x9000, 0x40),
                dice.randrange(1 << 20) << 12,
                dice.randrange(0, 0x5000, 0x40),
                dice.choice((0x1000, 0x4000, 0x10000)),
            )
            for _ in range(dice.randrange(1, 4))
        )
        start = dice.randrange(0, 0x9000, 0x1000)
        for extent in (None, (start, None), (start, start + dice.randrange(0x1000, 0x6000, 0x1000))):
            offsets = [dice.randrange(start if extent else 0, 0x10000) for _ in range(50)]
            expected = [translation.mapped_vaddr_of(offset, extent) for offset in offsets]
            asked.clear()
            with monkeypatch.context() as patch:
                patch.setattr(Translation, "segment_of", counted)
                assert list(translation.mapped_vaddrs_of(offsets, extent)) == expected
            assert len(asked) <= 1 + 6 * len(translation.segments)


SECTIONS = [
    forged.Section(".text", b"\x90" * 0x20, vaddr=0x401000, flags=6),
    forged.Section(".fini", b"\x90" * 0x10, vaddr=0x401020, flags=6),
    forged.Section(".data", b"d" * 0x10, vaddr=0x403000, flags=3),
    forged.Section(".zero", b"z" * 0x10, vaddr=0, flags=2),
]
SEGMENTS = [forged.Segment(1, 5, of=".text"), forged.Segment(1, 6, of=".data")]


@pytest.mark.parametrize(
    ("type_", "or_loaded", "more"),
    [
        (constants.ET_DYN, False, []),
        (constants.ET_DYN, True, []),
        (constants.ET_EXEC, False, []),
        (constants.ET_EXEC, True, [(0x401000, 0x401020), (0x401020, 0x401030), (0x403000, 0x403010)]),
    ],
)
def test_code_is_in_executable_sections_and_in_a_fixed_program_perhaps_in_what_else_is_loaded(
    type_: int, or_loaded: bool, more: list[tuple[int, int]]
) -> None:
    elf = ElfFile.from_bytes(forged.forge(SECTIONS, SEGMENTS, type=type_))
    assert elf.code_ranges(or_loaded=or_loaded) == [(0x401000, 0x401020), (0x401020, 0x401030), *more]


def test_without_sections_code_is_in_executable_segments() -> None:
    elf = ElfFile.from_bytes(forged.forge(SECTIONS, SEGMENTS, section_table=False))
    assert elf.sections == ()
    assert elf.code_ranges() == [(0x401000, 0x401020)]
    assert [each.vaddr for each in elf.code_segments()] == [0x401000]
