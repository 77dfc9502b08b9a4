"""Core files: mappings, threads, their stacks, and the files whose first pages they hold."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

from tests.forge.core import Mapped, core, status
from tests.forge.elf import Segment, build_id_note, forge
from tests.hostile.inputs.tables import count_beyond, notes_in_notes, one_head_for_all
from whence._base.errors import WhenceError
from whence.dumps.core import read_core
from whence.dumps.core_stream import copy_core
from whence.objects.elf import ElfFile
from whence.shrink import shrink_core
from whence.unwind import End, core_stacks


def seeds() -> list[bytes]:
    segments = [
        Segment(1, 5, file_offset=0x1000, vaddr=0x401000, file_size=0x1800, align=0x1000),
        Segment(4, 4, of=".note.gnu.build-id", align=4),
    ]
    page = forge([build_id_note("0123456789abcdef")], segments, section_table=False)
    mapped = [
        Mapped(0x10000, 0x11000, "/opt/app", 0, 4, page),
        Mapped(0x11000, 0x13000, "/opt/app", 0x1000),
        Mapped(0x20000, 0x21000),
    ]
    threads = [status(78, 0x11234), status(77, 0x20001)]
    narrow = [status(78, 0x11234, bits=32, machine=3)]
    hostile = [notes_in_notes(50, 4000), count_beyond(), one_head_for_all(20)]
    return [core(mapped, threads, vdso=0x20000), core(mapped, narrow, bits=32, machine=3), *hostile]


def target(data: bytes) -> None:
    with suppress(WhenceError):
        answer = read_core(ElfFile.from_bytes(data))
        for mapping, file in zip(answer.snapshot.mappings, answer.snapshot.file_of, strict=True):
            assert mapping.start < mapping.limit <= 1 << 64
            if file is not None and file.mapper is not None:
                file.mapper.vaddr(mapping, mapping.start)
        answer.snapshot.to_json()
        for stack in core_stacks(ElfFile.from_bytes(data), answer, scan=True):
            assert stack.unwound.end in End
        result = BytesIO()
        small = shrink_core(ElfFile.from_bytes(data), result)
        assert small.size == len(result.getvalue()) <= 80 * len(data) + (1 << 16)  # a page for each program header
        copy_core(BytesIO(data), BytesIO())
