"""A minidump as a process that has ended: its mappings and their files, its memory and its threads.

    Linux maps    the mappings of the process, if the dump has them
    modules       otherwise a mapping for each module
    memory info   executable memory outside of modules: generated code

Mappings of modules have offsets from the base address of the module. A module without a build-id is identified by a
file that was given or is at its path: a PE file by its time stamp and size, others by name alone (`unproved`).
"""

from __future__ import annotations

import ntpath
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from whence._base.errors import ObjectError
from whence._base.files import stamp_of
from whence.dumps import minidump_layout as layout
from whence.dumps.exceptions import signal_of_exception
from whence.dumps.process import (
    ALL_BITS,
    ALL_PATHS,
    AddressRegion,
    CoreMappings,
    CoreThread,
    FileEntry,
    LocalPaths,
    ProcessDump,
    ThreadState,
)
from whence.objects.ids import DebugId, WindowsModule
from whence.objects.machines import APPLE_ADDRESS_MASK
from whence.objects.opening import open_object
from whence.objects.pe import PeFile
from whence.procmap.kernels.constants import EXECUTE, READ, WRITE
from whence.procmap.mapping import Kind, Mapping
from whence.procmap.maps import parse
from whence.procmap.snapshot import SnapshotFile, SnapshotMappings

if TYPE_CHECKING:
    from whence.dumps.minidump import Minidump, Module

VDSO_NAMES = ("[vdso]", "linux-gate.so", "linux-vdso.so")
MODULES_LIMIT = 1 << 16
LIBRARY_FOLDERS = (
    "/lib64", "/usr/lib64", "/lib", "/usr/lib",
    *(f"/usr/lib/{machine}-linux-{abi}" for machine, abi in (
        ("x86_64", "gnu"), ("aarch64", "gnu"), ("i386", "gnu"), ("arm", "gnueabihf"), ("arm", "gnueabi"))),
)  # fmt: skip
END = 1 << 64
PCS, SPS = ("rip", "eip", "pc"), ("rsp", "esp", "sp")


def read_minidump(dump: Minidump, programs: Iterable[str] = (), paths: LocalPaths = ALL_PATHS) -> CoreMappings:
    """Return the mappings and threads of a minidump.

    Args:
        dump: the minidump.
        programs: paths of files that may be modules which the dump does not identify.
        paths: where files of the process are on this machine.

    Raises MinidumpError if the names in the file take too much memory, or if the file changed.
    """
    rows = sorted(_mappings(dump, list(programs), paths), key=lambda row: row[0].start)
    program = dump.modules[0].name if dump.modules else ""
    command = dump.status.get("Name", "") or base_name(program)
    snapshot = SnapshotMappings(
        dump.pid, command, 0, float(dump.time), [mapping for mapping, _ in rows], [file for _, file in rows]
    )
    threads = tuple(
        CoreThread(thread.tid, 0 if thread.signal is None else thread.signal.number, thread.pc, thread.sp)
        for thread in thread_states(dump)
    )
    return CoreMappings(snapshot, threads, dump.missing, dump.arguments, program)


def minidump_dump(dump: Minidump, core: CoreMappings) -> ProcessDump:
    """Return what stacks are unwound from; `core` is by `read_minidump`."""
    processor = dump.system.processor
    files = [
        FileEntry(mapping.start, mapping.end, mapping.offset, mapping.path)
        for mapping in core.snapshot.mappings
        if mapping.kind.has_file
    ]
    return ProcessDump(
        processor.machine, processor.bits, dump.order, dump.size, core.snapshot, dump.memory, files,
        thread_states(dump), APPLE_ADDRESS_MASK if dump.system.is_apple else ALL_BITS,
    )  # fmt: skip


def minidump_regions(dump: Minidump) -> list[AddressRegion]:
    """Return what the process had mapped, in order, as far as the dump says: maps, regions, or modules and memory."""
    maps = dump.text(layout.MAPS)
    if maps:
        return [
            AddressRegion(mapping.start, mapping.end, mapping.permissions, mapping.path, mapping.offset)
            for mapping in parse(maps, permissions=0).mappings
        ]
    modules = sorted(_modules(dump), key=lambda module: module.base)
    if not dump.regions:
        regions = [AddressRegion(module.base, module.end, None, module.name) for module in modules]
        regions += [AddressRegion(piece.start, piece.end) for piece in dump.memory]
        return sorted(regions, key=lambda region: region.start)
    bases = [module.base for module in modules]
    regions = []
    for region in sorted(dump.regions):
        if not region.state & layout.MEM_COMMIT:
            continue
        permissions = READ if region.protection & layout.PAGE_READABLE else 0
        permissions |= WRITE if region.protection & layout.PAGE_WRITABLE else 0
        permissions |= EXECUTE if region.protection & layout.PAGE_EXECUTE else 0
        index = bisect_right(bases, region.start) - 1
        module = modules[index] if index >= 0 and region.start < modules[index].end else None
        name, offset = ("", 0) if module is None else (module.name, region.start - module.base)
        regions.append(AddressRegion(region.start, region.start + region.size, permissions, name, offset))
    return regions


def base_name(path: str) -> str:
    """Return the last part of a path of any system.

    >>> base_name("C:\\\\app\\\\a.exe"), base_name("/usr/bin/a")
    ('a.exe', 'a')
    """
    return ntpath.basename(path)


# threads


def thread_states(dump: Minidump) -> list[ThreadState]:
    """Return the threads, first the one with the exception."""
    exception = dump.exception
    states = []
    for thread in dump.threads:
        registers, wide, problem, signal = thread.registers, thread.wide, "", None
        if exception is not None and exception.tid == thread.tid:
            if exception.registers:
                registers, wide = exception.registers, exception.wide
            signal = signal_of_exception(exception, dump.system)
        if not registers:
            machine = dump.system.processor.name
            problem = f"the context of a thread on {machine} has {thread.context_size} bytes"
        pc, sp = (next((registers[name] for name in names if name in registers), None) for names in (PCS, SPS))
        pointer = 0 if dump.system.is_windows else thread.thread_pointer
        states.append(ThreadState(thread.tid, signal, registers, pc, sp, pointer, problem, thread.name, wide))
    states.sort(key=lambda state: exception is None or state.tid != exception.tid)
    return states


# mappings


def _mappings(dump: Minidump, programs: list[str], paths: LocalPaths) -> Iterator[tuple[Mapping, SnapshotFile | None]]:
    """Yield the executable mappings, and the file of each."""
    maps = dump.text(layout.MAPS)
    if maps:
        yield from _of_maps(dump, maps, programs, paths)
    else:
        yield from _of_modules(dump, programs, paths)


def _of_maps(
    dump: Minidump, maps: bytes, programs: list[str], paths: LocalPaths
) -> Iterator[tuple[Mapping, SnapshotFile | None]]:
    """Yield mappings by Linux's text, with the build-ids of modules."""
    parsed = parse(maps, permissions=0)
    modules = sorted(_modules(dump), key=lambda module: module.base)
    bases = [module.base for module in modules]
    files: dict[tuple[str, int], SnapshotFile] = {}
    images: dict[int, SnapshotFile] = {}
    first: tuple[str, int] = "", 0
    for mapping in parsed.mappings:
        key = mapping.path, mapping.inode
        if not mapping.offset or first[0] != mapping.path:  # the first mapping of a file
            first = mapping.path, mapping.start
        if not mapping.permissions & EXECUTE or mapping.start >= mapping.end:
            continue
        if not mapping.kind.has_file:
            yield mapping, None
            continue
        index = bisect_right(bases, mapping.start) - 1
        module = modules[index] if index >= 0 and modules[index].base >= first[1] else None
        if module is not None:
            is_own = base_name(module.name) == base_name(mapping.path)  # or a library inside a file, such as an APK
            if module.base not in images:
                named = module._replace(name=mapping.path) if is_own else module
                images[module.base] = _snapshot_file(dump, named, programs, paths)
            file = images[module.base]
            image = _image_mapping(file.path, module.base, mapping.start, mapping.end, file)
            yield image._replace(permissions=mapping.permissions, kind=mapping.kind, deleted=mapping.deleted), file
            continue
        if key not in files:
            files[key] = _mapped_file(dump, mapping, programs, paths)
        yield mapping, files[key]


def _mapped_file(dump: Minidump, mapping: Mapping, programs: list[str], paths: LocalPaths) -> SnapshotFile:
    if mapping.deleted:
        return SnapshotFile(mapping.path, "", None)
    return _unproved(dump, mapping.path, programs, paths) or SnapshotFile(mapping.path, "", None)


def _of_modules(
    dump: Minidump, programs: list[str], paths: LocalPaths
) -> Iterator[tuple[Mapping, SnapshotFile | None]]:
    """Yield a mapping for each module, and for each executable region outside of modules."""
    modules = sorted(_modules(dump), key=lambda module: module.base)
    covered = list[tuple[int, int]]()
    for module, following in zip_longest(modules, modules[1:]):
        end = min(module.end, END if following is None else following.base)
        if module.base >= end:
            continue
        covered.append((module.base, end))
        if base_name(module.name).startswith(VDSO_NAMES):
            yield Mapping("[vdso]", module.base, end, 0, "", Kind.VDSO, READ | EXECUTE), None
            continue
        file = _snapshot_file(dump, module, programs, paths)
        yield _image_mapping(file.path, module.base, module.base, end, file), file
    starts = [start for start, _ in covered]
    last = 0
    for region in sorted(dump.regions):
        start, end = max(region.start, last), min(region.start + region.size, END)
        index = bisect_right(starts, start) - 1
        if region.is_executable and start < end and (index < 0 or covered[index][1] <= start):
            end = min(end, starts[index + 1]) if index + 1 < len(starts) else end
            permissions = EXECUTE | (READ if region.protection & layout.PAGE_READABLE else 0)
            permissions |= WRITE if region.protection & layout.PAGE_WRITABLE else 0
            yield Mapping("", start, end, 0, "", Kind.ANONYMOUS, permissions), None
            last = end


def _modules(dump: Minidump) -> Iterator[Module]:
    """Yield the first module at each base address."""
    seen: set[int] = set()
    for module in dump.modules[:MODULES_LIMIT]:
        if module.base not in seen:
            seen.add(module.base)
            yield module


def _image_mapping(path: str, base: int, start: int, end: int, file: SnapshotFile) -> Mapping:
    return Mapping(path, start, end, start - base, file.build_id, Kind.FILE, READ | EXECUTE)


def _snapshot_file(dump: Minidump, module: Module, programs: list[str], paths: LocalPaths) -> SnapshotFile:
    """Return the file of a module, whose mappings have offsets from its base."""
    path = module.name or f"module at {module.base:#x}"
    build_id = module.codeview.build_id
    if build_id and dump.system.is_linux and "/" not in path:
        path = _library_path(path, build_id, paths) or path
    if build_id:
        return SnapshotFile(path, build_id, None, is_image=True, module=_windows_module(dump, module))
    if dump.system.is_windows and module.time:
        given = _by_code_id(module, programs, paths)
    else:
        given = _unproved(dump, path, programs, paths, is_image=True)
    return given or SnapshotFile(path, "", None, is_image=True)


def _windows_module(dump: Minidump, module: Module) -> WindowsModule | None:
    """Return the names by which symbol servers have a module; None for other systems."""
    codeview = module.codeview
    debug_id = DebugId.parse(codeview.debug_id)
    if not dump.system.is_windows or not debug_id:
        return None
    return WindowsModule(base_name(module.name), module.code_id, base_name(codeview.file), debug_id)


def _library_path(name: str, build_id: str, paths: LocalPaths) -> str:
    """Return the path of a library that a dump names without its folder (Crashpad), by the build-id; "" if unknown."""
    for folder in LIBRARY_FOLDERS:
        path = f"{folder}/{name}"
        with suppress(OSError, ObjectError, ValueError), open_object(paths.of(path)) as file:
            if file.build_id.startswith(build_id):
                return path
    return ""


def _by_code_id(module: Module, programs: list[str], paths: LocalPaths) -> SnapshotFile | None:
    """Return the given PE file, or the one in a given folder, with the time stamp and the size of a module."""
    name = base_name(module.name).lower()
    for path in chain.from_iterable(_files_of(program, name) for program in programs):
        with suppress(OSError, ObjectError, ValueError), open_object(path) as file:
            if isinstance(file, PeFile) and (file.header.time, file.header.image_size) == (module.time, module.size):
                return SnapshotFile(module.name, "", None, stamp_of(path), path, is_image=True)
    return None


def _files_of(path: str, name: str) -> list[str]:
    """Return a path or, of a folder, the paths of the files in it that have a name in any case."""
    if not os.path.isdir(path):
        return [path]
    with suppress(OSError):
        return [os.path.join(path, entry) for entry in os.listdir(path) if entry.lower() == name]
    return []


def _unproved(
    dump: Minidump, path: str, programs: list[str], paths: LocalPaths, *, is_image: bool = False
) -> SnapshotFile | None:
    """Return a file without a build-id that has the name of a module: given, or at its path and older than the dump."""
    candidates = [given for given in programs if os.path.basename(given) == base_name(path)]
    if path.startswith("/"):
        with suppress(OSError, ValueError):
            candidates.append(paths.of(path))
    for candidate in candidates:
        with suppress(OSError, ObjectError, ValueError), open_object(candidate) as file:
            is_older = candidate in programs or os.stat(candidate).st_mtime <= dump.time
            if file.machine == dump.system.processor.machine and not file.build_id and is_older:
                stamp = stamp_of(candidate)
                return SnapshotFile(path, "", None, stamp, candidate, unproved=True, is_image=is_image)
    return None
