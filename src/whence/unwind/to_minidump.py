"""A core as a minidump: its threads, modules and mappings, and the memory that its stacks need, or all of it.

Kept memory: from below each stack pointer to the outermost frame, all that unwinding read, and the vDSO.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from whence.dumps import minidump_layout as layout
from whence.dumps.core import auxiliary_vector
from whence.dumps.core_stream import RED_ZONE
from whence.dumps.minidump_writer import DumpedModule, DumpFacts, write_minidump
from whence.dumps.process import MemoryRange
from whence.procmap.mapping import Kind, kind_of
from whence.unwind.core import core_dump, stacks_with_reads
from whence.unwind.steps import End

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from whence.dumps.process import CoreMappings, ProcessDump
    from whence.locator.locator import Locator
    from whence.objects.elf import ElfFile
    from whence.unwind.core import ThreadStack

PAGE = 1 << 12
UNFINISHED_STACK = 256 << 10  # bytes kept of a stack whose end was not found
ABOVE_FRAMES = 512  # bytes kept above the outermost frame's stack pointer
VDSO_LIMIT = 64 << 10


class WrittenMinidump(NamedTuple):
    """The size of a minidump in bytes, threads, modules, bytes of memory, stacks that end too early."""

    size: int
    threads: int
    modules: int
    memory: int
    unfinished: int


def write_core_minidump(
    elf: ElfFile,
    core: CoreMappings,
    file: BinaryIO,
    locator: Locator | None = None,
    *,
    written: int = 0,
    all_memory: bool = False,
) -> WrittenMinidump:
    """Write a core as a minidump.

    Args:
        elf: the core.
        core: its mappings and threads, by `read_core`.
        file: written in order.
        locator: finds the files of the process, whose tables unwinding reads.
        written: when the core was written, in seconds since 1970.
        all_memory: store all memory of the core.

    Raises MapsError for damaged notes; Unsupported for a machine that minidumps do not have; OSError.
    """
    dump = core_dump(elf, core)
    with stacks_with_reads(dump, locator) as (opened, recorded):
        stacks, reads = opened.stacks, recorded.reads
    memory = list(dump.memory) if all_memory else pieces(dump, [*reads, *_stack_ranges(dump, stacks)])
    modules = sorted(_modules(dump), key=lambda module: module.path != core.executable)  # first the program
    auxiliary = auxiliary_vector(elf)
    word = "Q" if elf.bits == 64 else "I"
    texts = {
        layout.MAPS: _maps(dump),
        layout.STATUS: f"Name:\t{core.snapshot.command}\nPid:\t{core.snapshot.pid}\n".encode("utf-8", "replace"),
        layout.COMMAND_LINE: b"\0".join(core.arguments.encode("utf-8", "surrogateescape").split()) + b"\0",
        layout.AUXILIARY: b"".join(pack_pair(word, tag, value) for tag, value in auxiliary.items()),
    }
    facts = DumpFacts(written, modules, {type_: text for type_, text in texts.items() if text})
    size = write_minidump(file, dump, memory, facts)
    unfinished = sum(stack.unwound.end is not End.COMPLETE for stack in stacks)
    return WrittenMinidump(size, len(stacks), len(modules), sum(len(data) for _, data in memory), unfinished)


def pack_pair(word: str, tag: int, value: int) -> bytes:
    """Return an entry of the auxiliary vector."""
    size = 8 if word == "Q" else 4
    return tag.to_bytes(size, "little") + value.to_bytes(size, "little")


def _stack_ranges(dump: ProcessDump, stacks: Iterable[ThreadStack]) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of the memory of stacks, and of the vDSO."""
    starts = [piece.start for piece in dump.memory]
    for stack in stacks:
        sps = [frame.sp for frame in stack.unwound.frames]
        above = ABOVE_FRAMES if stack.unwound.end is End.COMPLETE else UNFINISHED_STACK
        for sp, caller_sp in pairwise([*sps, sps[-1] + above] if sps else ()):
            piece = bisect_right(starts, sp)  # callers may be on another stack
            end = caller_sp if piece == bisect_right(starts, caller_sp) else sp + ABOVE_FRAMES
            yield sp - RED_ZONE, max(end, sp)
    for mapping in dump.snapshot.mappings:
        if mapping.kind is Kind.VDSO:
            yield mapping.start, min(mapping.end, mapping.start + VDSO_LIMIT)


def pieces(dump: ProcessDump, wanted: Iterable[tuple[int, int]]) -> list[MemoryRange]:
    """Return the pages of a dump's memory that have bytes of these ranges, joined, in order of address."""
    starts = [piece.start for piece in dump.memory]
    spans: list[tuple[int, int]] = []
    for start, end in sorted((max(start, 0) & -PAGE, end + PAGE - 1 & -PAGE) for start, end in wanted):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        elif start < end:
            spans.append((start, end))
    parts = []
    for start, end in spans:
        index = max(0, bisect_right(starts, start) - 1)
        for piece in dump.memory[index:]:
            if piece.start >= end:
                break
            first, last = max(start, piece.start), min(end, piece.end)
            if first < last:
                parts.append(MemoryRange(first, piece.data[first - piece.start : last - piece.start]))
    return parts


def _modules(dump: ProcessDump) -> Iterator[DumpedModule]:
    """Yield the mapped files with code, and the vDSO, in order of address."""
    bases: dict[str, tuple[int, int]] = {}
    for entry in dump.files:
        path = kind_of(entry.name)[1]
        start, end = bases.get(path, (entry.start, entry.end))
        bases[path] = min(start, entry.start), max(end, entry.end)
    seen: set[str] = set()
    for mapping, file in zip(dump.snapshot.mappings, dump.snapshot.file_of, strict=True):
        if file is not None and mapping.path not in seen:
            seen.add(mapping.path)
            start, end = bases.get(mapping.path, (mapping.start, mapping.end))
            yield DumpedModule(start, end, mapping.path, file.build_id)
        elif mapping.kind is Kind.VDSO:
            yield DumpedModule(mapping.start, mapping.end, "[vdso]", "")


def _maps(dump: ProcessDump) -> bytes:
    """Return the mappings as the text of /proc/PID/maps: executable ones, and other parts of files."""
    lines: dict[int, str] = {}
    for entry in dump.files:
        lines[entry.start] = _line(entry.start, entry.end, "r--p", entry.offset, entry.name)
    for mapping in dump.snapshot.mappings:
        name = mapping.path + (" (deleted)" if mapping.deleted else "")
        lines[mapping.start] = _line(mapping.start, mapping.end, mapping.shown_permissions, mapping.offset, name)
    return "".join(lines[start] for start in sorted(lines)).encode("utf-8", "surrogateescape")


def _line(start: int, end: int, permissions: str, offset: int, name: str) -> str:
    shown = name.replace("\n", "\\012")
    return f"{start:x}-{end:x} {permissions} {offset:08x} 00:00 0 {shown}\n"
