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
where its code begins (NT_AUXV): a file that was given and that fits is taken for the program.

A core that was cut short still has its notes, which come first.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from whence import rooted
from whence.budget import Budget
from whence.elf import ElfFile, Note, Segment
from whence.elf.kernels import constants
from whence.elf.layout import ELF64
from whence.errors import WRONG_KIND, ElfError, MapsError, naming
from whence.files import open_regular, stamp_of
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.kernels.constants import EXECUTE, READ, WRITE
from whence.procmap.mapping import Kind, Mapping, kind_of
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
from whence.records import Record

PERMISSIONS = ((constants.PF_R, READ), (constants.PF_W, WRITE), (constants.PF_X, EXECUTE))
HEAD_LIMIT = 1 << 16  # bytes of a mapped file that are looked at for its headers
HEADS_TIMES, HEADS_ALLOWANCE = 2, 1 << 20  # of the core, what those may take together: memory is written down once

NT_SIGINFO = 0x53494749  # struct siginfo
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
PATH_LIMIT = 4096


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
    known = _auxiliary(elf)
    mappings, file_of = _mappings(elf, [], sysroot)
    started = _text_at(elf, known.get(AT_EXECFN, 0))
    for path, root in (*((one, "") for one in programs), (started, sysroot)):
        with suppress(OSError, ElfError, ValueError), ElfFile.open(place := _place(path, root)) as program:
            bias = known.get(AT_ENTRY, 0) - program.entry
            if not _fits(elf, program, known, bias):
                continue
            file = SnapshotFile(path, program.build_id, AddressMapper.from_elf(program), stamp_of(place), place)
            kept = [pair for pair in zip(mappings, file_of) if not _is_in(pair[0], program, bias)]
            for segment in program.segments:
                if segment.is_loaded and segment.executable:
                    offset, start = segment.file_offset, segment.vaddr + bias
                    end = start + segment.file_size
                    kept.append((Mapping(path, start, end, offset, file.build_id, Kind.FILE, READ | EXECUTE), file))
            kept.sort(key=lambda pair: pair[0].start)
            return [mapping for mapping, _ in kept], [file for _, file in kept]
    return mappings, file_of


def _fits(elf: ElfFile, program: ElfFile, known: dict[int, int], bias: int) -> bool:
    """Whether a file can be the program: of the machine, as many headers in the same place, its segments mapped."""
    headers = next((one.vaddr for one in program.segments if one.type == constants.PT_PHDR), None)
    return (
        (program.machine, program.bits, program.order) == (elf.machine, elf.bits, elf.order)
        and known.get(AT_PHNUM) == len(program.segments)
        and (headers is None or headers + bias == known.get(AT_PHDR))
        and all(
            any(one.is_loaded and one.vaddr <= segment.vaddr + bias < one.end for one in elf.segments)
            for segment in program.segments
            if segment.is_loaded and segment.memory_size
        )
    )


def _is_in(mapping: Mapping, program: ElfFile, bias: int) -> bool:
    """Whether a mapping is of one of a program's segments."""
    return any(
        one.is_loaded and mapping.start < one.end + bias and one.vaddr + bias < mapping.end for one in program.segments
    )


def _text_at(elf: ElfFile, address: int) -> str:
    """The text that the core has at an address; "" where it has none."""
    for segment in elf.segments:
        inside = address - segment.vaddr
        if segment.is_loaded and 0 <= inside < segment.file_size:
            start = segment.file_offset + inside
            data = bytes(elf.data[start : min(start + PATH_LIMIT, segment.file_end)])
            return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    return ""


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
