"""Read a core file as a process that has ended: its mappings and their files, and the position of each thread.

    PT_LOAD        a mapping: its permissions, and its memory as far as it was written
    NT_FILE        the files of mappings: count, page size; start, end, offset in pages of each; then their names
    NT_PRSTATUS    a thread: the signal that ended the process, the thread's id and registers
    NT_SIGINFO     the signal's cause, in the notes of the thread that received it
    NT_PRPSINFO    the process: pid and command
    NT_AUXV        the address of the vDSO

Linux and gdb write the first page of each mapped ELF file (bit 4 of /proc/PID/coredump_filter), which has the program
headers and, in the layout of common linkers, the build-id. So it is known on any machine which file is needed, and
which vaddr an address has. References: core(5), elf(5), Linux's fs/binfmt_elf.c and include/linux/elfcore.h.

Cores without NT_FILE (of qemu-user, and of small systems) only have the addresses of the program headers and of the
entry point (NT_AUXV): a given file that fits is used as the program. Its libraries are those of the loader's list
(link_map.py), by files that fit.

A truncated core still has its notes, which are written first.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from itertools import accumulate
from typing import NamedTuple

from whence._base.budget import Budget
from whence._base.errors import WRONG_KIND, ElfError, MapsError, naming
from whence._base.files import open_regular, stamp_of
from whence._base.records import Record
from whence.dumps.link_map import CoreSegments, LoadedFile, loaded_files
from whence.dumps.process import ALL_PATHS, AddressRegion, CoreMappings, CoreThread, FileEntry, LocalPaths
from whence.objects.elf import ElfFile, Note, Segment
from whence.objects.elf.kernels import constants
from whence.objects.elf.layout import ELF64
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.kernels.constants import EXECUTE, READ, WRITE
from whence.procmap.mapping import Kind, Mapping, kind_of
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings

PERMISSIONS = ((constants.PF_R, READ), (constants.PF_W, WRITE), (constants.PF_X, EXECUTE))
HEAD_LIMIT = 1 << 16  # bytes of a mapped file that are searched for headers
HEADS_TIMES, HEADS_ALLOWANCE = 2, 1 << 20  # limit of all of these: times the core's size, plus the allowance

NT_SIGINFO = 0x53494749  # struct siginfo
NT_386_TLS, NT_ARM_TLS = 0x200, 0x401
FS_BASE_OFFSET = 112 + 8 * 21  # in struct elf_prstatus of x86-64
NT_FPREGSET = 2  # floating-point and vector registers
WIDE_LIMIT = 4096  # bytes of NT_FPREGSET
PAGES = 1 << 12, 1 << 14, 1 << 16  # sizes of pages
SIGNAL_OFFSET = 12  # in struct elf_prstatus: pr_cursig, 16 bits
TID_OFFSET = {64: 32, 32: 24}  # pr_pid
# offsets of the program counter and the stack pointer; pr_reg is at 112 (64 bits) or 72 (32 bits)
REGISTERS_OFFSET = {
    (constants.EM_X86_64, 64): (240, 264),
    (constants.EM_AARCH64, 64): (368, 360),
    (constants.EM_386, 32): (120, 132),
    (constants.EM_ARM, 32): (132, 124),
    (constants.EM_RISCV, 64): (112, 128),
    (constants.EM_PPC64, 64): (368, 120),
    (constants.EM_S390, 64): (120, 248),
}
PID_OFFSET = {64: 24, 32: 12}  # in struct elf_prpsinfo: pr_pid, pr_fname
COMMAND_OFFSET = {64: 40, 32: 28}
COMMAND_SIZE = 16
ARGUMENTS_OFFSET = {64: 56, 32: 44}  # pr_psargs
ARGUMENTS_SIZE = 80
AT_PHDR, AT_PHNUM = 3, 5  # of the auxiliary vector: address and number of the program headers
AT_ENTRY = 9  # address of the program's entry point
AT_EXECFN = 31  # address of the path that was executed


class ThreadNotes(Record):
    """The notes of one thread: `status` is NT_PRSTATUS, `info` NT_SIGINFO, `wide` NT_FPREGSET (b"" if missing)."""

    tid: int
    signal: int
    status: bytes
    info: bytes = b""
    wide: bytes = b""


def read_core(elf: ElfFile, programs: Iterable[str] = (), paths: LocalPaths = ALL_PATHS) -> CoreMappings:
    """Return what a core file records.

    Args:
        elf: the core.
        programs: paths of files that may be the program, for a core that does not list its files.
        paths: where files of the process are on this machine.

    Raises:
        MapsError: it is not a core, or its notes are damaged.
        ElfError: the ELF file is damaged.
    """
    if elf.type != constants.ET_CORE:
        hint = "use whence addr for the addresses of a program or a library"
        problem = f"an ELF file, but not a core file: its type is {elf.type}, expected {constants.ET_CORE}"
        raise MapsError("", None, problem, code=WRONG_KIND, path=elf.path).with_hint(hint)
    with naming(elf.path):
        return _read_core(elf, programs, paths)


def _read_core(elf: ElfFile, programs: Iterable[str], paths: LocalPaths) -> CoreMappings:
    if not elf.segments and elf.problems:
        raise elf.problems[0]
    notes = [note for note in elf.notes() if note.owner == "CORE"]
    processes = (_process_info(elf, note) for note in notes if note.type == constants.NT_PRPSINFO)
    pid, command, arguments = next(processes, (0, "", ""))
    threads = tuple(core_threads(elf))
    mapped = mapped_files(elf)
    mappings, file_of = _mappings(elf, mapped, paths) if mapped else _mappings_by_program(elf, programs, paths)
    end = max((segment.file_offset + segment.file_size for segment in elf.segments), default=0)
    entry = auxiliary_vector(elf).get(AT_ENTRY, 0)
    executable = next(
        (mapping.path for mapping in mappings if mapping.start <= entry < mapping.end and mapping.kind.has_file), ""
    )
    snapshot = SnapshotMappings(pid, command, 0, 0.0, mappings, file_of)
    return CoreMappings(snapshot, threads, max(0, end - elf.size), arguments, executable)


def thread_notes(elf: ElfFile) -> list[ThreadNotes]:
    """Return the notes of each thread, in file order.

    Linux and gdb write the signal that ended the process into NT_PRSTATUS of every thread. The thread that received it
    has a matching NT_SIGINFO; in a core without one it is the first thread.
    """
    threads: list[ThreadNotes] = []
    for note in elf.notes():
        if note.owner == "CORE" and note.type == constants.NT_PRSTATUS:
            tid, signal = _number(elf, note.desc, TID_OFFSET[elf.bits], 4), _number(elf, note.desc, SIGNAL_OFFSET, 2)
            threads.append(ThreadNotes(tid or 0, signal or 0, bytes(note.desc)))
        elif note.owner == "CORE" and note.type == NT_SIGINFO and threads:
            threads[-1].info = bytes(note.desc)
        elif note.owner == "CORE" and note.type == NT_FPREGSET and threads:
            threads[-1].wide = bytes(note.desc[:WIDE_LIMIT])
    signalled = [thread for thread in threads if thread.signal]
    receivers = [thread for thread in signalled if _number(elf, thread.info, 0, 4) == thread.signal] or signalled[:1]
    numbers = [thread.signal for thread in receivers]
    for thread in signalled:
        thread.signal = 0
    for thread, number in zip(receivers, numbers, strict=True):
        thread.signal = number
    return threads


def mapped_files(elf: ElfFile) -> list[FileEntry]:
    """Return the entries of NT_FILE in order of address. Raises MapsError if it is damaged."""
    notes = (note for note in elf.notes() if note.owner == "CORE" and note.type == constants.NT_FILE)
    return sorted({entry for note in notes for entry in _mapped(elf, note)})


def core_regions(elf: ElfFile) -> list[AddressRegion]:
    """Return what the process had mapped, in order: segments, and parts of files without one. Raises MapsError."""
    entries = mapped_files(elf)
    starts = [entry.start for entry in entries]
    regions, covered = list[AddressRegion](), [entry.start for entry in entries]
    for segment in elf.segments:
        if not segment.is_loaded or not segment.memory_size:
            continue
        permissions = sum(bit for flag, bit in PERMISSIONS if segment.flags & flag)
        index = bisect_right(starts, segment.vaddr) - 1
        if index >= 0 and segment.vaddr < entries[index].end:
            entry = entries[index]
            covered[index] = max(covered[index], segment.end)
            offset = entry.offset + segment.vaddr - entry.start
            regions.append(AddressRegion(segment.vaddr, segment.end, permissions, entry.name, offset))
        else:
            regions.append(AddressRegion(segment.vaddr, segment.end, permissions))
    regions += [
        AddressRegion(start, entry.end, None, entry.name, entry.offset + start - entry.start)
        for entry, start in zip(entries, covered, strict=True)
        if start < entry.end
    ]
    return sorted(regions, key=lambda region: region.start)


def _mapped(elf: ElfFile, note: Note) -> list[FileEntry]:
    word = "Q" if elf.bits == ELF64 else "I"
    mark, size = "<" if elf.order == "little" else ">", elf.bits // 8
    data = bytes(note.desc)
    if len(data) < 2 * size:
        raise MapsError("core NT_FILE", 0, f"{len(data)} bytes are too few for a count and a page size")
    count, page = struct.unpack_from(mark + 2 * word, data)
    names_offset = (2 + 3 * count) * size
    if names_offset > len(data):
        raise MapsError("core NT_FILE", 0, f"{count} entries extend past the end of the note ({len(data)} bytes)")
    names = data[names_offset:].split(b"\0", count)
    if len(names) <= count:
        raise MapsError("core NT_FILE", names_offset, f"{len(names) - 1} names for {count} entries")
    rows = struct.iter_unpack(mark + 3 * word, data[2 * size : names_offset])
    return [
        FileEntry(start, end, offset * page, name.decode("utf-8", "surrogateescape"))
        for (start, end, offset), name in zip(rows, names)
    ]


def _number(elf: ElfFile, desc: memoryview | bytes, offset: int, size: int) -> int | None:
    """Return an unsigned number in a note's description, None if that is too short."""
    raw = bytes(desc[offset : offset + size])
    return int.from_bytes(raw, elf.order) if len(raw) == size else None


def core_threads(elf: ElfFile) -> list[CoreThread]:
    """Return the threads by their notes, in file order."""
    return [_thread(elf, thread) for thread in thread_notes(elf)]


def thread_pointers(elf: ElfFile) -> list[int]:
    """Return the addresses of thread-local storage by the registers of the threads, in any order."""
    pointers = list[int | None]()
    for note in elf.notes():
        if note.owner == "CORE" and note.type == constants.NT_PRSTATUS and elf.machine == constants.EM_X86_64:
            pointers.append(_number(elf, note.desc, FS_BASE_OFFSET, 8))
        elif note.owner == "LINUX" and note.type == NT_ARM_TLS:
            pointers.append(_number(elf, note.desc, 0, elf.bits // 8))
        elif note.owner == "LINUX" and note.type == NT_386_TLS:  # structs user_desc: entry, base, limit, flags
            pointers += [_number(elf, note.desc, offset + 4, 4) for offset in range(0, len(note.desc), 16)]
    return [pointer for pointer in pointers if pointer]


def _thread(elf: ElfFile, thread: ThreadNotes) -> CoreThread:
    size = len(thread.status)
    pc_offset, sp_offset = REGISTERS_OFFSET.get((elf.machine, elf.bits), (size, size))
    width = elf.bits // 8
    pc, sp = (_number(elf, thread.status, offset, width) for offset in (pc_offset, sp_offset))
    return CoreThread(thread.tid, thread.signal, pc, sp)


def _process_info(elf: ElfFile, note: Note) -> tuple[int, str, str]:
    """Return the pid, the command, and the start of the command line."""

    def text(offset: int, size: int) -> str:
        return bytes(note.desc[offset : offset + size]).partition(b"\0")[0].decode("utf-8", "surrogateescape")

    arguments = text(ARGUMENTS_OFFSET[elf.bits], ARGUMENTS_SIZE).rstrip()
    return (
        _number(elf, note.desc, PID_OFFSET[elf.bits], 4) or 0,
        text(COMMAND_OFFSET[elf.bits], COMMAND_SIZE),
        arguments,
    )


def _mappings(
    elf: ElfFile, mapped: list[FileEntry], paths: LocalPaths
) -> tuple[list[Mapping], list[SnapshotFile | None]]:
    """Return the executable mappings by address, and the file of each.

    gdb omits the PT_LOAD of what is in the file: there the file's own segments tell what is code.
    """
    loads = {segment.vaddr: segment for segment in elf.segments if segment.is_loaded}
    starts = [entry.start for entry in mapped]
    first_of, files = _first_entries(mapped), dict[FileEntry, SnapshotFile]()
    entries = dict[FileEntry, list[FileEntry]]()
    for part, base in first_of.items():
        entries.setdefault(base, []).append(part)
    heads = Budget(
        "core PT_LOAD", "first pages of mapped files", elf.size, times=HEADS_TIMES, allowance=HEADS_ALLOWANCE,
        error=MapsError,
    )  # fmt: skip
    vdso = auxiliary_vector(elf).get(constants.AT_SYSINFO_EHDR)
    rows: list[tuple[Mapping, SnapshotFile | None]] = []

    def add(start: int, end: int, permissions: int, entry: FileEntry | None) -> None:
        if entry is None:
            kind, path = (Kind.VDSO, "[vdso]") if start == vdso else (Kind.ANONYMOUS, "")
            rows.append((Mapping(path, start, end, 0, "", kind, permissions), None))
            return
        kind, path, deleted = kind_of(entry.name)
        file = None
        if kind.has_file:
            base = first_of[entry]
            if base not in files:
                files[base] = _file(elf, path, loads.get(base.start), heads, paths)
                if not files[base].is_known and not deleted:
                    files[base] = _by_path(elf, path, entries[base], loads, heads, paths) or files[base]
            file = files[base]
        build_id, offset = file.build_id if file is not None else "", entry.offset + start - entry.start
        mapping = Mapping(path, start, min(end, entry.end), offset, build_id, kind, permissions, deleted=deleted)
        rows.append((mapping, file))

    added = set[FileEntry]()
    for start, segment in loads.items():
        end = start + segment.memory_size
        if segment.executable and start < end <= 1 << 64:
            index = bisect_right(starts, start) - 1
            entry = mapped[index] if index >= 0 and start < mapped[index].end else None
            if entry is not None:  # a small core may have only some pages
                start, end = entry.start, entry.end
                if entry in added:
                    continue
                added.add(entry)
            add(start, end, sum(bit for flag, bit in PERMISSIONS if segment.flags & flag), entry)
    for entry in mapped:
        if entry.start not in loads and entry not in added and entry.start < entry.end:
            add(entry.start, entry.end, READ | EXECUTE, entry)
            mapping, file = rows[-1]
            if file is not None and file.mapper is not None and not file.mapper.is_of_segment(mapping):
                rows.pop()
    rows.sort(key=lambda pair: pair[0].start)
    return [mapping for mapping, _ in rows], [file for _, file in rows]


def _mappings_by_program(
    elf: ElfFile, programs: Iterable[str], paths: LocalPaths
) -> tuple[list[Mapping], list[SnapshotFile | None]]:
    """Return the mappings of a core without NT_FILE, and the file of each.

    The program is the first file that fits, of `programs` and at the path that was executed.
    """
    auxiliary, memory = auxiliary_vector(elf), CoreSegments(elf)
    mappings, file_of = _mappings(elf, [], paths)
    given = list(programs)
    candidates = [*((path, ALL_PATHS) for path in given), (memory.text(auxiliary.get(AT_EXECFN, 0)), paths)]
    for path, root in candidates:
        with suppress(OSError, ElfError, ValueError), ElfFile.open(local_path := root.of(path)) as program:
            bias = auxiliary.get(AT_ENTRY, 0) - program.entry
            headers, count = auxiliary.get(AT_PHDR), auxiliary.get(AT_PHNUM)
            if count != len(program.segments) or not _fits(elf, memory, program, bias, headers):
                continue
            libraries = [library for library in given if library != path]
            files = [
                _file_in_memory(path, local_path, program, bias),
                *_libraries(elf, memory, program, bias, libraries, paths),
            ]
            loads = _RangeSet([load for file in files for load in file.loads])
            rows = [row for row in zip(mappings, file_of) if not loads.overlap(row[0].start, row[0].end)]
            for file in files:
                rows += [(mapping, file.file) for mapping in file.mappings]
            rows.sort(key=lambda row: row[0].start)
            return [mapping for mapping, _ in rows], [file for _, file in rows]
    return mappings, file_of


class FileInMemory(NamedTuple):
    """A file in the memory of a process that does not list its mapped files.

    `loads` are the [start, end) of all its segments, `mappings` those with code.
    """

    file: SnapshotFile
    loads: list[tuple[int, int]]
    mappings: list[Mapping]


def _file_in_memory(path: str, local_path: str, program: ElfFile, bias: int) -> FileInMemory:
    file = SnapshotFile(path, program.build_id, AddressMapper.from_elf(program), stamp_of(local_path), local_path)
    loaded = [segment for segment in program.segments if segment.is_loaded]
    mappings = [
        Mapping(
            path, segment.vaddr + bias, segment.vaddr + bias + segment.file_size, segment.file_offset, file.build_id,
            Kind.FILE, READ | EXECUTE,
        )
        for segment in loaded if segment.executable
    ]  # fmt: skip
    return FileInMemory(file, [(segment.vaddr + bias, segment.end + bias) for segment in loaded], mappings)


def _libraries(
    elf: ElfFile, memory: CoreSegments, program: ElfFile, bias: int, given: list[str], paths: LocalPaths
) -> list[FileInMemory]:
    """Return the libraries of the loader's list: for each the first file that fits, given or at its own path."""
    libraries: list[FileInMemory] = []
    seen: set[int] = set()
    with ExitStack() as stack:
        given_files = list[tuple[str, ElfFile]]()
        for path in given:
            with suppress(OSError, ElfError, ValueError):
                given_files.append((path, stack.enter_context(ElfFile.open(path))))
        for loaded in loaded_files(memory, program, bias):
            if loaded.dynamic in seen:
                continue
            seen.add(loaded.dynamic)
            name = os.path.basename(loaded.path)
            of_name = [pair for pair in given_files if os.path.basename(pair[0]) == name]
            fitting = ((path, file) for path, file in of_name + given_files if _is_library(elf, memory, file, loaded))
            path, file = next(fitting, ("", None))
            with suppress(OSError, ElfError, ValueError):
                if file is not None:
                    libraries.append(_file_in_memory(loaded.path, path, file, loaded.bias))
                    continue
                with ElfFile.open(local_path := paths.of(loaded.path)) as own:
                    if _is_library(elf, memory, own, loaded):
                        libraries.append(_file_in_memory(loaded.path, local_path, own, loaded.bias))
    return libraries


def _is_library(elf: ElfFile, memory: CoreSegments, file: ElfFile, loaded: LoadedFile) -> bool:
    """Return True if a file can be an entry of the loader's list.

    Its dynamic table and its segments are at the right addresses, and its build-id is that in memory, if there is one.
    """
    table = next((segment.vaddr for segment in file.segments if segment.type == constants.PT_DYNAMIC), None)
    if table is None or table + loaded.bias != loaded.dynamic or not _fits(elf, memory, file, loaded.bias):
        return False
    first = next((segment for segment in file.segments if segment.is_loaded), None)
    head = memory.read(first.vaddr + loaded.bias, HEAD_LIMIT) if first is not None and not first.file_offset else b""
    with suppress(ElfError):
        return ElfFile.from_bytes(head, loaded.path).build_id in ("", file.build_id)
    return True


def _fits(elf: ElfFile, memory: CoreSegments, file: ElfFile, bias: int, headers_address: int | None = None) -> bool:
    """Return True if a file can be in the core: same machine, its headers at the right address, its segments mapped."""
    headers = next((segment.vaddr for segment in file.segments if segment.type == constants.PT_PHDR), None)
    return (
        (file.machine, file.bits, file.order) == (elf.machine, elf.bits, elf.order)
        and (headers is None or headers_address is None or headers + bias == headers_address)
        and all(
            memory.segment_at(segment.vaddr + bias)
            for segment in file.segments
            if segment.is_loaded and segment.memory_size
        )
    )


class _RangeSet:
    """A set of [start, end) ranges, which may overlap."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        ranges = sorted(ranges)
        self._starts = [start for start, _ in ranges]
        self._ends = list(accumulate((end for _, end in ranges), max))

    def overlap(self, start: int, end: int) -> bool:
        index = bisect_left(self._starts, end) - 1
        return index >= 0 and self._ends[index] > start


def auxiliary_vector(elf: ElfFile) -> dict[int, int]:
    """Return the auxiliary vector of the program, by tag (getauxval(3))."""
    form = ("<" if elf.order == "little" else ">") + ("QQ" if elf.bits == ELF64 else "II")
    for note in elf.notes():
        if note.owner == "CORE" and note.type == constants.NT_AUXV:
            size = len(note.desc) - len(note.desc) % struct.calcsize(form)
            return dict(struct.iter_unpack(form, note.desc[:size]))
    return {}


def _first_entries(mapped: list[FileEntry]) -> dict[FileEntry, FileEntry]:
    """Return for each entry the last one before it with offset 0 of the same file, or itself."""
    latest: dict[str, FileEntry] = {}
    first_of = {}
    for entry in mapped:
        if not entry.offset:
            latest[entry.name] = entry
        first_of[entry] = latest.get(entry.name, entry)
    return first_of


def _file(elf: ElfFile, path: str, load: Segment | None, heads: Budget, paths: LocalPaths) -> SnapshotFile:
    """Return a mapped file, by what the core has of its first page."""
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
    local_path = ""
    if not build_id and len(head):  # then compare the file with the first bytes in memory
        with suppress(OSError, ValueError, ElfError):
            local_path = paths.of(path)
            with open_regular(local_path, ElfError) as (descriptor, _):
                if os.read(descriptor, len(head)) == head:
                    stamp = stamp_of(local_path)
    return SnapshotFile(path, build_id, mapper, stamp, local_path)


def _by_path(
    elf: ElfFile, path: str, entries: list[FileEntry], loads: dict[int, Segment], heads: Budget, paths: LocalPaths
) -> SnapshotFile | None:
    """Return the file at the path of a mapped file now, if the core does not have its first page.

    None if something shows that it is another file.
    """
    first = loads.get(entries[0].start)
    if first is not None and min(first.file_size, max(0, elf.size - first.file_offset)):
        return None  # the first page is in the core, and has no build-id
    with suppress(OSError, ElfError, ValueError):
        local_path = paths.of(path)
        with ElfFile.open(local_path) as file:
            if (file.machine, file.bits, file.order) != (elf.machine, elf.bits, elf.order):
                return None
            if os.path.exists(elf.path) and os.stat(local_path).st_mtime > os.stat(elf.path).st_mtime:
                return None  # changed after the core was written
            if _fits_mappings(elf, file, entries, loads, heads):
                return SnapshotFile(
                    path, "", AddressMapper.from_elf(file), stamp_of(local_path), local_path, unproved=True
                )
    return None


def _fits_mappings(
    elf: ElfFile, file: ElfFile, entries: list[FileEntry], loads: dict[int, Segment], heads: Budget
) -> bool:
    """Return True if the mappings are what a loader makes of a file, all at the same distance from its vaddrs.

    The file's code must equal the code in the core, as far as the core has it.
    """
    biases: set[int] = set()
    has_code = False
    for entry in entries:
        load = loads.get(entry.start)
        executable = load is not None and load.executable
        size = entry.end - entry.start
        segments = [
            segment
            for segment in file.segments
            if segment.is_loaded
            and segment.file_offset - segment.file_offset % _page(segment) <= entry.offset
            and entry.offset + size <= segment.file_end + -segment.file_end % _page(segment)
            and (segment.executable or not executable)
        ]
        if not segments and executable:
            return False
        if not segments:
            continue  # a gap between segments
        biases.add(min(entry.start - entry.offset + segment.file_offset - segment.vaddr for segment in segments))
        has_code = has_code or any(segment.executable for segment in segments)
        if load is not None and executable and not load.flags & constants.PF_W:
            code = elf.data[load.file_offset : load.file_offset + min(load.file_size, size, HEAD_LIMIT)]
            heads.charge(len(code))
            if code != file.data[entry.offset : entry.offset + len(code)]:
                return False
    return has_code and len(biases) == 1


def _page(segment: Segment) -> int:
    """Return the page size that a segment was aligned for."""
    return segment.align if segment.align in PAGES else PAGES[0]
