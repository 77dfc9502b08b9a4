"""A core file as a process that is gone: what was mapped where, of which files, and where each thread was.

    PT_LOAD        a mapping: its permissions, and its memory as far as that was written down
    NT_FILE        the files behind mappings: count, page size; start, end, offset in pages of each; then their names
    NT_PRSTATUS    a thread: the signal that ended the process, the thread's id and registers
    NT_SIGINFO     the signal's cause, among the notes of the thread that received it
    NT_PRPSINFO    the process: pid and command
    NT_AUXV        where the vDSO is

Linux and gdb write down the first page of each mapped ELF file (bit 4 of /proc/PID/coredump_filter), and with it the
program headers and, as linkers lay files out, the build-id: so it is known which file to look for, and where in it an
address lies, on any machine. Documents: core(5), elf(5), Linux's fs/binfmt_elf.c and include/linux/elfcore.h.

Cores without NT_FILE (qemu-user's, and those of small systems) say no more than where the program's headers were and
where its code begins (NT_AUXV): a file that was given and that fits is taken for the program. Its libraries are then
those of the loader's list (link_map.py), by files that fit.

A core that was cut short still has its notes, which come first.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from itertools import accumulate
from typing import NamedTuple

from whence._base import rooted
from whence._base.budget import Budget
from whence._base.errors import WRONG_KIND, ElfError, MapsError, naming
from whence._base.files import open_regular, stamp_of
from whence._base.records import Record
from whence.objects.elf import ElfFile, Note, Segment
from whence.objects.elf.kernels import constants
from whence.objects.elf.layout import ELF64
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.kernels.constants import EXECUTE, READ, WRITE
from whence.procmap.link_map import CoreSegments, LoadedFile, loaded_files
from whence.procmap.mapping import Kind, Mapping, kind_of
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings

PERMISSIONS = ((constants.PF_R, READ), (constants.PF_W, WRITE), (constants.PF_X, EXECUTE))
HEAD_LIMIT = 1 << 16  # bytes of a mapped file that are looked at for its headers
HEADS_TIMES, HEADS_ALLOWANCE = 2, 1 << 20  # of the core, what those may take together: memory is written down once

NT_SIGINFO = 0x53494749  # struct siginfo
PAGES = 1 << 12, 1 << 14, 1 << 16  # sizes of pages
SIGNAL_AT = 12  # in struct elf_prstatus: pr_cursig, 16 bits
TID_AT = {64: 32, 32: 24}  # pr_pid
# where in it the program counter and the stack pointer are: pr_reg begins at 112 (64 bits) or 72 (32 bits)
REGISTERS_AT = {
    (constants.EM_X86_64, 64): (240, 264),
    (constants.EM_AARCH64, 64): (368, 360),
    (constants.EM_386, 32): (120, 132),
    (constants.EM_ARM, 32): (132, 124),
    (constants.EM_RISCV, 64): (112, 128),
    (constants.EM_PPC64, 64): (368, 120),
    (constants.EM_S390, 64): (120, 248),
}
PID_AT = {64: 24, 32: 12}  # in struct elf_prpsinfo: pr_pid, pr_fname
COMMAND_AT = {64: 40, 32: 28}
COMMAND_SIZE = 16
ARGUMENTS_AT = {64: 56, 32: 44}  # pr_psargs
ARGUMENTS_SIZE = 80
AT_PHDR, AT_PHNUM = 3, 5  # of the auxiliary vector: where the program's headers are in memory, and how many
AT_ENTRY = 9  # where the program's code begins
AT_EXECFN = 31  # where the path is that the program was started by


class CoreThread(NamedTuple):
    """A thread: the signal it received (0: none), its pc and stack pointer (None where registers aren't known)."""

    tid: int
    signal: int
    pc: int | None = None
    sp: int | None = None


class CoreMappings(Record, frozen=True):
    """The executable mappings of a process, and its threads: in a core of the kernel the one that ended it comes first.

    `missing` counts the bytes that the end of the file lacks, where it was cut short. `arguments` is the beginning of
    the command line, `executable` the file whose code the process began with; "" where that isn't known.
    """

    snapshot: SnapshotMappings
    threads: tuple[CoreThread, ...]
    missing: int = 0
    arguments: str = ""
    executable: str = ""

    @property
    def unproved(self) -> tuple[str, ...]:
        """Paths of files that fit their mappings, of which the core has nothing that shows that they were mapped."""
        return tuple(sorted({file.path for file in self.snapshot.file_of if file is not None and file.unproved}))


class ThreadNotes(Record):
    """The notes of one thread: `status` is NT_PRSTATUS, `info` NT_SIGINFO (b"" if missing)."""

    tid: int
    signal: int
    status: bytes
    info: bytes = b""


class FileEntry(NamedTuple):
    """An entry of NT_FILE: [start, end) is the file from `offset` on."""

    start: int
    end: int
    offset: int
    name: str


def read_core(elf: ElfFile, programs: Iterable[str] = (), sysroot: str = "") -> CoreMappings:
    """What a core file records. Raises MapsError when it is no core or its notes are damaged, ElfError.

    `programs` are paths of files that may be the program that left it, should it not say itself which files it had.
    Paths of the process are looked for below `sysroot`.
    """
    if elf.type != constants.ET_CORE:
        hint = "whence addr names the addresses of a program or a library"
        rule = f"the type of the ELF file is ET_CORE, {constants.ET_CORE}"
        fault = f"an ELF file, but not a core file: its type is {elf.type}, expected {constants.ET_CORE}"
        raise MapsError("core", None, rule, elf.type, fault=fault, code=WRONG_KIND, path=elf.path).with_hint(hint)
    with naming(elf.path):
        return _read_core(elf, programs, sysroot)


def _read_core(elf: ElfFile, programs: Iterable[str], sysroot: str) -> CoreMappings:
    if not elf.segments and elf.problems:
        raise elf.problems[0]
    notes = [note for note in elf.notes() if note.owner == "CORE"]
    about = (_who(elf, note) for note in notes if note.type == constants.NT_PRPSINFO)
    pid, command, arguments = next(about, (0, "", ""))
    threads = tuple(_thread(elf, thread) for thread in thread_notes(elf))
    mapped = mapped_files(elf)
    mappings, file_of = _mappings(elf, mapped, sysroot) if mapped else _mappings_by_program(elf, programs, sysroot)
    end = max((segment.file_offset + segment.file_size for segment in elf.segments), default=0)
    entry = _auxiliary(elf).get(AT_ENTRY, 0)
    executable = next((one.path for one in mappings if one.start <= entry < one.end and one.kind.has_file), "")
    snapshot = SnapshotMappings(pid, command, 0, 0.0, mappings, file_of)
    return CoreMappings(snapshot, threads, max(0, end - elf.size), arguments, executable)


def thread_notes(elf: ElfFile) -> list[ThreadNotes]:
    """The notes of each thread, in the order of the file.

    Linux and gdb write the signal that ended the process into NT_PRSTATUS of every thread. The thread that received it
    has a matching NT_SIGINFO; in a core without one it is the first thread.
    """
    threads: list[ThreadNotes] = []
    for note in elf.notes():
        if note.owner == "CORE" and note.type == constants.NT_PRSTATUS:
            tid, signal = _number(elf, note.desc, TID_AT[elf.bits], 4), _number(elf, note.desc, SIGNAL_AT, 2)
            threads.append(ThreadNotes(tid or 0, signal or 0, bytes(note.desc)))
        elif note.owner == "CORE" and note.type == NT_SIGINFO and threads:
            threads[-1].info = bytes(note.desc)
    signalled = [thread for thread in threads if thread.signal]
    receivers = [thread for thread in signalled if _number(elf, thread.info, 0, 4) == thread.signal] or signalled[:1]
    numbers = [thread.signal for thread in receivers]
    for thread in signalled:
        thread.signal = 0
    for thread, number in zip(receivers, numbers, strict=True):
        thread.signal = number
    return threads


def mapped_files(elf: ElfFile) -> list[FileEntry]:
    """The entries of NT_FILE in order of address. Raises MapsError when it is damaged."""
    notes = (note for note in elf.notes() if note.owner == "CORE" and note.type == constants.NT_FILE)
    return sorted({entry for note in notes for entry in _mapped(elf, note)})


def _mapped(elf: ElfFile, note: Note) -> list[FileEntry]:
    word = "Q" if elf.bits == ELF64 else "I"
    mark, size = "<" if elf.order == "little" else ">", elf.bits // 8
    data = bytes(note.desc)
    if len(data) < 2 * size:
        raise MapsError("core NT_FILE", 0, f"it has {2 * size} bytes of count and page size", f"{len(data)}")
    count, page = struct.unpack_from(mark + 2 * word, data)
    names_at = (2 + 3 * count) * size
    if names_at > len(data):
        raise MapsError(
            "core NT_FILE", 0, f"its {count} entries fit in its {len(data)} bytes", f"{names_at} bytes of them"
        )
    names = data[names_at:].split(b"\0", count)
    if len(names) <= count:
        raise MapsError("core NT_FILE", names_at, f"it has a name for each of its {count} entries", len(names) - 1)
    rows = struct.iter_unpack(mark + 3 * word, data[2 * size : names_at])
    return [
        FileEntry(start, end, offset * page, name.decode("utf-8", "surrogateescape"))
        for (start, end, offset), name in zip(rows, names)
    ]


def _number(elf: ElfFile, desc: memoryview | bytes, offset: int, size: int) -> int | None:
    """An unsigned number in a note's description; None where that ends before."""
    raw = bytes(desc[offset : offset + size])
    return int.from_bytes(raw, elf.order) if len(raw) == size else None


def _thread(elf: ElfFile, thread: ThreadNotes) -> CoreThread:
    size = len(thread.status)
    pc_at, sp_at = REGISTERS_AT.get((elf.machine, elf.bits), (size, size))
    width = elf.bits // 8
    pc, sp = (_number(elf, thread.status, offset, width) for offset in (pc_at, sp_at))
    return CoreThread(thread.tid, thread.signal, pc, sp)


def _who(elf: ElfFile, note: Note) -> tuple[int, str, str]:
    """Pid, command, and the beginning of the command line."""

    def text(offset: int, size: int) -> str:
        return bytes(note.desc[offset : offset + size]).partition(b"\0")[0].decode("utf-8", "surrogateescape")

    arguments = text(ARGUMENTS_AT[elf.bits], ARGUMENTS_SIZE).rstrip()
    return _number(elf, note.desc, PID_AT[elf.bits], 4) or 0, text(COMMAND_AT[elf.bits], COMMAND_SIZE), arguments


def _mappings(elf: ElfFile, mapped: list[FileEntry], sysroot: str) -> tuple[list[Mapping], list[SnapshotFile | None]]:
    """Executable mappings by address, and the file of each.

    gdb leaves out the PT_LOAD of what the file has anyway: there the file's own segments say what is code.
    """
    loads = {segment.vaddr: segment for segment in elf.segments if segment.is_loaded}
    starts = [entry.start for entry in mapped]
    beginning, files = _beginnings(mapped), dict[FileEntry, SnapshotFile]()
    entries = dict[FileEntry, list[FileEntry]]()
    for one, base in beginning.items():
        entries.setdefault(base, []).append(one)
    heads = Budget(
        "core PT_LOAD", "beginnings of mapped files", elf.size, times=HEADS_TIMES, allowance=HEADS_ALLOWANCE,
        error=MapsError,
    )  # fmt: skip
    vdso = _auxiliary(elf).get(constants.AT_SYSINFO_EHDR)
    found: list[tuple[Mapping, SnapshotFile | None]] = []

    def add(start: int, end: int, permissions: int, entry: FileEntry | None) -> None:
        if entry is None:
            kind, path = (Kind.VDSO, "[vdso]") if start == vdso else (Kind.ANONYMOUS, "")
            found.append((Mapping(path, start, end, 0, "", kind, permissions), None))
            return
        kind, path, deleted = kind_of(entry.name)
        file = None
        if kind.has_file:
            base = beginning[entry]
            if base not in files:
                files[base] = _file(elf, path, loads.get(base.start), heads, sysroot)
                if not files[base].is_known and not deleted:
                    files[base] = _by_path(elf, path, entries[base], loads, heads, sysroot) or files[base]
            file = files[base]
        build_id, offset = file.build_id if file is not None else "", entry.offset + start - entry.start
        mapping = Mapping(path, start, min(end, entry.end), offset, build_id, kind, permissions, deleted=deleted)
        found.append((mapping, file))

    for start, segment in loads.items():
        end = start + segment.memory_size
        if segment.executable and start < end <= 1 << 64:
            index = bisect_right(starts, start) - 1
            entry = mapped[index] if index >= 0 and start < mapped[index].end else None
            add(start, end, sum(bit for flag, bit in PERMISSIONS if segment.flags & flag), entry)
    for entry in mapped:
        if entry.start not in loads and entry.start < entry.end:
            add(entry.start, entry.end, READ | EXECUTE, entry)
            mapping, file = found[-1]
            if file is not None and file.mapper is not None and not file.mapper.is_of_segment(mapping):
                found.pop()
    found.sort(key=lambda pair: pair[0].start)
    return [mapping for mapping, _ in found], [file for _, file in found]


def _mappings_by_program(
    elf: ElfFile, programs: Iterable[str], sysroot: str
) -> tuple[list[Mapping], list[SnapshotFile | None]]:
    """The same of a core that has no NT_FILE: by the first file that fits, of `programs` and under the path that the
    program was started by."""
    known, memory = _auxiliary(elf), CoreSegments(elf)
    mappings, file_of = _mappings(elf, [], sysroot)
    given = list(programs)
    for path, root in (*((one, "") for one in given), (memory.text(known.get(AT_EXECFN, 0)), sysroot)):
        with suppress(OSError, ElfError, ValueError), ElfFile.open(place := _place(path, root)) as program:
            bias = known.get(AT_ENTRY, 0) - program.entry
            headers, count = known.get(AT_PHDR), known.get(AT_PHNUM)
            if count != len(program.segments) or not _fits(elf, memory, program, bias, headers):
                continue
            others = [one for one in given if one != path]
            files = [_placed(path, place, program, bias), *_libraries(elf, memory, program, bias, others, sysroot)]
            taken = _Ranges([pair for one in files for pair in one.loads])
            kept = [pair for pair in zip(mappings, file_of) if not taken.overlap(pair[0].start, pair[0].end)]
            for one in files:
                kept += [(mapping, one.file) for mapping in one.mappings]
            kept.sort(key=lambda pair: pair[0].start)
            return [mapping for mapping, _ in kept], [file for _, file in kept]
    return mappings, file_of


class _Placed(NamedTuple):
    """A file in the memory of a process that does not say which files were mapped: [start, end) of all its segments,
    and the mappings of those with code."""

    file: SnapshotFile
    loads: list[tuple[int, int]]
    mappings: list[Mapping]


def _placed(path: str, place: str, program: ElfFile, bias: int) -> _Placed:
    file = SnapshotFile(path, program.build_id, AddressMapper.from_elf(program), stamp_of(place), place)
    loaded = [one for one in program.segments if one.is_loaded]
    mappings = [
        Mapping(
            path, one.vaddr + bias, one.vaddr + bias + one.file_size, one.file_offset, file.build_id, Kind.FILE,
            READ | EXECUTE,
        )
        for one in loaded if one.executable
    ]  # fmt: skip
    return _Placed(file, [(one.vaddr + bias, one.end + bias) for one in loaded], mappings)


def _libraries(
    elf: ElfFile, memory: CoreSegments, program: ElfFile, bias: int, given: list[str], sysroot: str
) -> list[_Placed]:
    """The libraries of the loader's list: of each the first file that fits, of those given and under its own path."""
    found: list[_Placed] = []
    seen: set[int] = set()
    with ExitStack() as stack:
        opened = list[tuple[str, ElfFile]]()
        for path in given:
            with suppress(OSError, ElfError, ValueError):
                opened.append((path, stack.enter_context(ElfFile.open(path))))
        for one in loaded_files(memory, program, bias):
            if one.dynamic in seen:
                continue
            seen.add(one.dynamic)
            name = os.path.basename(one.path)
            of_name = [pair for pair in opened if os.path.basename(pair[0]) == name]
            fitting = ((path, file) for path, file in of_name + opened if _is_library(elf, memory, file, one))
            path, file = next(fitting, ("", None))
            with suppress(OSError, ElfError, ValueError):
                if file is not None:
                    found.append(_placed(one.path, path, file, one.bias))
                    continue
                with ElfFile.open(place := _place(one.path, sysroot)) as own:
                    if _is_library(elf, memory, own, one):
                        found.append(_placed(one.path, place, own, one.bias))
    return found


def _is_library(elf: ElfFile, memory: CoreSegments, file: ElfFile, loaded: LoadedFile) -> bool:
    """Whether a file can be an entry of the loader's list: its dynamic table and its segments are in place, and it has
    the build-id of the one in memory where that shows it."""
    table = next((one.vaddr for one in file.segments if one.type == constants.PT_DYNAMIC), None)
    if table is None or table + loaded.bias != loaded.dynamic or not _fits(elf, memory, file, loaded.bias):
        return False
    first = next((one for one in file.segments if one.is_loaded), None)
    head = memory.read(first.vaddr + loaded.bias, HEAD_LIMIT) if first is not None and not first.file_offset else b""
    with suppress(ElfError):
        return ElfFile.from_bytes(head, loaded.path).build_id in ("", file.build_id)
    return True


def _fits(elf: ElfFile, memory: CoreSegments, file: ElfFile, bias: int, headers_at: int | None = None) -> bool:
    """Whether a file can be in the core: of the machine, its headers where they have to be, its segments mapped."""
    headers = next((one.vaddr for one in file.segments if one.type == constants.PT_PHDR), None)
    return (
        (file.machine, file.bits, file.order) == (elf.machine, elf.bits, elf.order)
        and (headers is None or headers_at is None or headers + bias == headers_at)
        and all(memory.at(one.vaddr + bias) for one in file.segments if one.is_loaded and one.memory_size)
    )


class _Ranges:
    """[start, end) ranges that may overlap."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        ranges = sorted(ranges)
        self._starts = [start for start, _ in ranges]
        self._ends = list(accumulate((end for _, end in ranges), max))

    def overlap(self, start: int, end: int) -> bool:
        index = bisect_left(self._starts, end) - 1
        return index >= 0 and self._ends[index] > start


def _auxiliary(elf: ElfFile) -> dict[int, int]:
    """What the kernel passed to the program when it began, by number (getauxval(3))."""
    form = ("<" if elf.order == "little" else ">") + ("QQ" if elf.bits == ELF64 else "II")
    for note in elf.notes():
        if note.owner == "CORE" and note.type == constants.NT_AUXV:
            whole = len(note.desc) - len(note.desc) % struct.calcsize(form)
            return dict(struct.iter_unpack(form, note.desc[:whole]))
    return {}


def _beginnings(mapped: list[FileEntry]) -> dict[FileEntry, FileEntry]:
    """For each entry the one before it that has the beginning of the same file (itself, where there is none)."""
    latest: dict[str, FileEntry] = {}
    found = {}
    for entry in mapped:
        if not entry.offset:
            latest[entry.name] = entry
        found[entry] = latest.get(entry.name, entry)
    return found


def _place(path: str, sysroot: str) -> str:
    """Where a path of the process leads here. Raises OSError where it leads nowhere below `sysroot`."""
    return rooted.below(sysroot, path) if sysroot else path


def _file(elf: ElfFile, path: str, load: Segment | None, heads: Budget, sysroot: str) -> SnapshotFile:
    """A mapped file by what the core has of its first page."""
    if load is None:
        return SnapshotFile(path, "", None)
    head = elf.data[load.file_offset : load.file_offset + min(load.file_size, HEAD_LIMIT)]
    heads.charge(len(head))
    mapper: AddressMapper | None = None
    build_id = ""
    with suppress(ElfError):
        inner = ElfFile.from_bytes(head, path)
        build_id = inner.build_id
        mapper = AddressMapper.from_elf(inner)
    stamp: tuple[int, ...] = ()
    place = ""
    if not build_id and len(head):  # then a file here is the one if it begins as the one in memory did
        with suppress(OSError, ValueError, ElfError):
            place = _place(path, sysroot)
            with open_regular(place, ElfError) as (descriptor, _):
                if os.read(descriptor, len(head)) == head:
                    stamp = stamp_of(place)
    return SnapshotFile(path, build_id, mapper, stamp, place)


def _by_path(
    elf: ElfFile, path: str, entries: list[FileEntry], loads: dict[int, Segment], heads: Budget, sysroot: str
) -> SnapshotFile | None:
    """The file that is under the path of a mapped one now, where the core has nothing of the beginning of that, and
    nothing shows that it is another one."""
    first = loads.get(entries[0].start)
    if first is not None and min(first.file_size, max(0, elf.size - first.file_offset)):
        return None  # the beginning is there, and has no build-id
    with suppress(OSError, ElfError, ValueError):
        place = _place(path, sysroot)
        with ElfFile.open(place) as file:
            if (file.machine, file.bits, file.order) != (elf.machine, elf.bits, elf.order):
                return None
            if os.path.exists(elf.path) and os.stat(place).st_mtime > os.stat(elf.path).st_mtime:
                return None  # it was changed after the core was written
            if _is_mapped_so(elf, file, entries, loads, heads):
                return SnapshotFile(path, "", AddressMapper.from_elf(file), stamp_of(place), place, unproved=True)
    return None


def _is_mapped_so(
    elf: ElfFile, file: ElfFile, entries: list[FileEntry], loads: dict[int, Segment], heads: Budget
) -> bool:
    """Whether the mappings of a file are those that a loader makes of another one, all equally far from its vaddrs, and
    whether its code is the same as far as the core has it."""
    biases: set[int] = set()
    has_code = False
    for entry in entries:
        load = loads.get(entry.start)
        executable = load is not None and load.executable
        size = entry.end - entry.start
        made = [
            one
            for one in file.segments
            if one.is_loaded
            and one.file_offset - one.file_offset % _page(one) <= entry.offset
            and entry.offset + size <= one.file_end + -one.file_end % _page(one)
            and (one.executable or not executable)
        ]
        if not made and executable:
            return False
        if not made:
            continue  # left between segments by the loader
        biases.add(min(entry.start - entry.offset + one.file_offset - one.vaddr for one in made))
        has_code = has_code or any(one.executable for one in made)
        if load is not None and executable and not load.flags & constants.PF_W:
            held = elf.data[load.file_offset : load.file_offset + min(load.file_size, size, HEAD_LIMIT)]
            heads.charge(len(held))
            if held != file.data[entry.offset : entry.offset + len(held)]:
                return False
    return has_code and len(biases) == 1


def _page(segment: Segment) -> int:
    """The page size that a segment was laid out for."""
    return segment.align if segment.align in PAGES else PAGES[0]
