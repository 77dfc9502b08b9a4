"""Notes: small tagged facts about a file, build-ids among them.

A note is namesz, descsz, type (32-bit words), the owner's name, the description; name and description are padded to
4 bytes, or to 8 in a segment or section of alignment 8 (.note.gnu.property on 64-bit machines). Notes are read from
SHT_NOTE sections, then from PT_NOTE segments (object files have no segments, section-less files no sections). Sections
are more reliable: mold puts notes of both alignments into one segment, and the segments of a debug file have the
offsets of the original program.
"""

from __future__ import annotations

from whence._base.budget import Budget
from whence._base.errors import ElfError
from whence._base.records import Record
from whence._base.window import ByteOrder, Window
from whence.objects.elf.kernels import constants
from whence.objects.elf.sections import Section
from whence.objects.elf.segments import Segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HEAD_SIZE = 12
BUILD_ID_LIMIT = 64  # bytes; linkers write 8 to 32
TIMES, ALLOWANCE = 2, 1 << 16  # of a file, what its notes may take together: they don't overlap


class Note(Record, frozen=True):
    """A note of `owner`; `desc` is a view of its description in the file, at `file_offset`."""

    owner: str
    type: int
    desc: memoryview
    file_offset: int


def walk(data: memoryview, file_offset: int, size: int, align: int, order: ByteOrder) -> Iterator[Note]:
    """Return the notes in [file_offset, file_offset + size), which may extend past the file's end.

    Ends at the first note that does not fit, with an ElfError. Zero padding after the last note is skipped.
    """
    window = Window(data[file_offset : file_offset + size], "notes", order, ElfError)
    pad = 8 if align == 8 else 4
    offset = 0
    while offset + HEAD_SIZE <= len(window):
        name_size, desc_size, type_ = window.unpack("III", offset)
        if not name_size and not desc_size and not type_:
            return
        name_at = offset + HEAD_SIZE
        desc_at = name_at + name_size + (-(HEAD_SIZE + name_size) % pad)
        window.need(name_at, name_size)
        window.need(desc_at, desc_size)
        owner = window.raw(name_at, min(name_size, 64)).partition(b"\0")[0].decode("utf-8", "surrogateescape")
        yield Note(owner, type_, window.data[desc_at : desc_at + desc_size], file_offset + desc_at)
        offset = desc_at + desc_size + (-desc_size % 4)
        if offset % pad and window.data[offset : offset + 4] == bytes(4):  # not yet a note of 4-byte alignment
            offset += 4


def read_notes(
    data: memoryview, segments: Iterable[Segment], sections: Iterable[Section], order: ByteOrder
) -> tuple[list[Note], list[ElfError]]:
    """Return every note once, and the errors of cut-off notes (of segments only if no section has notes)."""
    blocks = [(s.file_offset, s.size, s.align) for s in sections if s.type == constants.SHT_NOTE]
    of_sections = len(blocks)
    blocks += [(s.file_offset, s.file_size, s.align) for s in segments if s.type == constants.PT_NOTE]
    by_offset: dict[int, Note] = {}
    problems: list[ElfError] = []
    budget = Budget("notes", "notes", len(data), times=TIMES, allowance=ALLOWANCE, error=ElfError)
    for number, (file_offset, size, align) in enumerate(blocks):
        try:
            for note in walk(data, file_offset, size, align, order):
                if note.file_offset in by_offset:
                    break  # walked before: a section and its segment hold the same notes
                budget.charge(HEAD_SIZE + len(note.desc))
                by_offset[note.file_offset] = note
        except ElfError as error:
            if budget.spent > budget.most:
                problems.append(error)
                break
            if number < of_sections or not of_sections:
                problems.append(error)
    return list(by_offset.values()), problems


def build_id(notes: Iterable[Note]) -> str:
    """Return the GNU build-id in hex; "" without a valid note."""
    for note in notes:
        if note.owner == "GNU" and note.type == constants.NT_GNU_BUILD_ID and 0 < len(note.desc) <= BUILD_ID_LIMIT:
            return note.desc.hex()
    return ""


def go_build_id(notes: Iterable[Note]) -> str:
    """Return the ID of Go's linker (four parts separated by slashes); "" without a note."""
    for note in notes:
        if note.owner == "Go" and note.type == constants.NT_GO_BUILD_ID:
            return bytes(note.desc[:1024]).partition(b"\0")[0].decode("utf-8", "surrogateescape")
    return ""
