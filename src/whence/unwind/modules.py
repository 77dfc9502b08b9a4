"""The code of a process, live or in a core: the file of each executable mapping and its call frame information.

A file is used only if it has the build-id that was mapped or, for a mapping without build-id, if the file at the old
path starts with the bytes that were in memory. The vDSO, which is not in a file, is read from memory.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from whence._base.errors import DwarfError, GopclntabError, ObjectError, WhenceError
from whence.lidia.table import open as open_archive
from whence.lidia.unwind import FRAME_DATA, SFRAME
from whence.objects.elf import ElfFile
from whence.objects.machines import EM_386, EM_ARM
from whence.objects.opening import open_object
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.mapping import Kind, kind_of
from whence.unwind.cfi import CallFrames, Fde, FrameSection, Target
from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from whence.dumps.process import FileEntry
    from whence.gopclntab.frames import GoFrames, GoFunction
    from whence.lidia.table import Table
    from whence.lidia.unwind import UnwindTables
    from whence.locator.locator import Locator
    from whence.objects.interface import ObjectFile
    from whence.procmap.mapping import Mapping
    from whence.procmap.snapshot import SnapshotFile, SnapshotMappings
    from whence.unwind.compact import CompactUnwind
    from whence.unwind.exidx import ExceptionIndex
    from whence.unwind.frame_data import FrameData, FrameTable
    from whence.unwind.kernels.cfi import CfiTable
    from whence.unwind.memory import Memory
    from whence.unwind.pdata import FunctionTable
    from whence.unwind.sframe import SFrame
    from whence.unwind.stack_cfi import StackCfi

    # tables other than call frame information
    UnwindSource = SFrame | ExceptionIndex | FunctionTable | CompactUnwind | StackCfi

EXECUTABLE, DEBUGINFO, ARCHIVE = "executable", "debuginfo", "lidia"  # kinds of files for a Locator
VDSO_LIMIT = 1 << 20
SYMBOL_FILES = "Breakpad", "PDB"  # formats of files with tables for a program in another file
# sections of Go programs: .gopclntab, .data.rel.ro.gopclntab, .note.go.buildid, .go.buildinfo
GO_MARK = re.compile(r"\.(gopclntab|note\.go|go)\b")
CALL_MAIN = "libc_start_main_stage2", "__libc_start_main"  # of musl: they end with exit(main(...))
STUBS = frozenset(f"__TEXT,{name}" for name in ("__stubs", "__stub_helper", "__auth_stubs", "__objc_stubs"))
ENTRY_BYTES = 48  # longest `_start`: 34 bytes in glibc, 43 in musl


class Module:
    """A mapped file. If it cannot be opened, `elf` has no file and `why` has the reason."""

    def __init__(self, file: SnapshotFile, locator: Locator | None, own: str = "") -> None:
        """Open the file. `own` is a path to the very file that is mapped, for a live process."""
        self.file, self._locator, self._own = file, locator, own
        self.why = ""
        self.elf = self._open()
        self._archive: Table | None = None
        self._others: list[UnwindSource] | None = None
        self._frame_data: FrameTable | Literal[False] | None = False
        self._calls_of_main: list[tuple[int, int]] | None = None
        self._arm_functions: list[tuple[int, int]] | None = None
        self.frames = self._archived_frames() if self.elf is None else CallFrames.of_elf(self.elf)
        self.has_code = self.elf is not None
        if self.elf is None and self._archive is None and file.is_image:
            self.elf = self._symbol_file()
        self.mapper = file.mapper
        if self.mapper is None and self.elf is not None:
            with suppress(ObjectError):
                self.mapper = AddressMapper.of_file(self.elf, file.is_image)
        elif self.mapper is None and self._archive is not None:
            self.mapper = AddressMapper.of_stored(self._archive.about.segments, file.is_image)
        self._go: GoFrames | Literal[False] | None = False
        self._debug: tuple[ObjectFile, CallFrames] | None = None
        self._looked_for_debug = False

    def close(self) -> None:
        if self.elf is not None:
            self.elf.close()
        if self._archive is not None:
            self._archive.close()
        if self._debug is not None:
            self._debug[0].close()

    def read(self, offset: int, size: int) -> bytes | None:
        """Return bytes at an offset, as its mappings count; None if the file does not have them."""
        elf = self.elf
        if elf is None:
            return None
        if self.file.is_image:
            with suppress(ObjectError):
                return elf.read_vaddr(elf.image_base + offset, size)
            return None
        return bytes(elf.data[offset : offset + size]) if offset + size <= elf.size else None

    def _open(self) -> ObjectFile | None:
        file = self.file
        path = self._own
        if path:
            pass
        elif file.build_id:
            path = self._find(EXECUTABLE)
            self.why = "" if path else f"no file with build-id {file.build_id} ({file.path}) was found"
        elif _is_unchanged(file):
            path = file.local_path
        else:
            fault = "was not given" if file.is_image else "was changed or replaced"
            self.why = f"{file.path} has no build-id and {fault}"
        if path:
            try:
                return open_object(path)
            except (OSError, WhenceError) as error:
                self.why = f"{path} cannot be read: {error}"
        return None

    def _archived_frames(self) -> CallFrames:
        """Return the tables of the build-id's archive (`lidia create --unwind`)."""
        path = self._find(ARCHIVE) if self.file.build_id else ""
        if path:
            with suppress(OSError, WhenceError):
                self._archive = open_archive(path)
                tables = self._archive.unwind()
                if tables is not None:
                    frames, self._others = archived_frames(tables, self._archive.about.segments)
                    return frames
                self.why = f"the archive {path} has no unwind tables (add them with whence lidia create --unwind)"
        return CallFrames([])

    def _symbol_file(self) -> ObjectFile | None:
        """Return the Breakpad symbol file or the PDB file of the build-id, whose rules are for offsets in the image."""
        path = self._find(DEBUGINFO) if self.file.build_id else ""
        if path:
            with suppress(OSError, WhenceError):
                file = open_object(path)
                if file.format in SYMBOL_FILES:
                    return file
                file.close()
        return None

    def _find(self, kind: str) -> str:
        if self._locator is None:
            return ""
        file = self.file
        return self._locator.find(build_id=file.build_id, path=file.path, kinds=(kind,), module=file.module).path

    @property
    def calls_of_main(self) -> list[tuple[int, int]]:
        """[start, end) of the functions that call main, by their symbols."""
        if self._calls_of_main is None:
            self._calls_of_main = []
            with suppress(ObjectError):
                symbols = self.elf.symbols(".symtab") if self.elf is not None else None
                if symbols is not None:
                    indexes = [index for name in CALL_MAIN if (index := symbols.find(name)) is not None]
                    self._calls_of_main = [(symbols.value[i], symbols.value[i] + symbols.size[i]) for i in indexes]
        return self._calls_of_main

    @property
    def arm_functions(self) -> list[tuple[int, int]]:
        """The functions of a 32-bit ARM file by its symbols, sorted: (value with Thumb bit, size)."""
        if self._arm_functions is None:
            functions = set[tuple[int, int]]()
            with suppress(ObjectError):
                elf = self.elf if self.elf is not None and self.elf.machine == EM_ARM else None
                for symbols in () if elf is None else (elf.symbols(".symtab"), elf.symbols(".dynsym")):
                    functions |= {(value, size) for value, size in symbols.functions() if size}
            self._arm_functions = sorted(functions)
        return self._arm_functions

    @property
    def go(self) -> GoFrames | None:
        """The function table of a Go program; None for other files and for damaged tables."""
        if self._go is False:
            self._go = None
            if self.elf is not None and any(GO_MARK.search(section.name) for section in self.elf.sections):
                from whence.gopclntab import Pclntab

                with suppress(ObjectError, GopclntabError):
                    table = Pclntab.find(self.elf)
                    self._go = table.frames() if table is not None else None
        return self._go

    def fde(self, vaddr: int) -> Fde | None:
        """Return the FDE that covers `vaddr`, or None. Raises DwarfError if it is malformed.

        Searched are the file's call frame information, .debug_frame of its debug file, then the file's tables of other
        formats.
        """
        fde = self.frames.find(vaddr)
        if fde is None and self.elf is not None:
            debug = self._debug_frames()
            fde = debug.find(vaddr) if debug is not None else None
            if self._others is None:
                self._others = [table for table in other_tables(self.elf) if table is not None]
        for table in self._others or ():
            fde = fde or table.find(vaddr)
        return fde

    def needs_no_table(self, vaddr: int) -> bool:
        """Return True if code without an entry saves nothing: in PE files of 64 bits and in stubs of Mach-O files."""
        if self.elf is None:
            return False
        if self.elf.format == "PE":
            return bool(self._others)  # .pdata is the only table that is not call frame information
        if self.elf.format != "Mach-O":
            return False
        from whence.objects.macho import MachoFile

        assert isinstance(self.elf, MachoFile)
        sections = (section for section in self.elf.sections if section.vaddr <= vaddr < section.vaddr + section.size)
        return any(section.own_name in STUBS for section in sections)

    def frame_data(self, vaddr: int) -> FrameData | None:
        """Return the frame data of a vaddr: that of the file itself, of its debug file, or of its archive."""
        if self._frame_data is False:
            self._frame_data = self._read_frame_data()
        return None if self._frame_data is None else self._frame_data.find(vaddr)

    def _read_frame_data(self) -> FrameTable | None:
        from whence.unwind.frame_data import FrameTable

        if self.elf is None:
            tables = self._archive.unwind() if self._archive is not None else None
            stored = (table for table in tables.tables if table.name == FRAME_DATA) if tables is not None else ()
            return next((FrameTable.of_archive(memoryview(table.data), table.vaddr) for table in stored), None)
        table = FrameTable.of_file(self.elf)
        if table is None and self.elf.machine == EM_386:
            self._debug_frames()
            table = FrameTable.of_file(self._debug[0]) if self._debug is not None else None
        return table

    def _debug_frames(self) -> CallFrames | None:
        """Return the tables of the debug file, if the file itself has no debug info."""
        if not self._looked_for_debug:
            self._looked_for_debug = True
            assert self.elf is not None
            path = self._find(DEBUGINFO) if self.file.build_id and self.elf.section(".debug_info") is None else ""
            if path:
                with suppress(OSError, WhenceError):
                    elf = open_object(path)
                    if elf.format == "PDB":
                        from whence.objects.pdb import PdbFile

                        assert isinstance(elf, PdbFile)
                        elf.rebase(self.elf.image_base)
                    self._debug = elf, CallFrames.of_elf(elf)
        return self._debug[1] if self._debug is not None else None


def other_tables(file: ObjectFile) -> Iterator[UnwindSource | None]:
    """Yield the tables of a file other than call frame information. The readers of other formats are not imported."""
    if file.format == "ELF":
        from whence.unwind.exidx import ExceptionIndex
        from whence.unwind.sframe import SFrame

        yield SFrame.of_elf(file)
        yield ExceptionIndex.of_elf(file)
    elif file.format == "PE":
        from whence.unwind.pdata import FunctionTable

        yield FunctionTable.of_file(file)
    elif file.format == "Mach-O":
        from whence.unwind.compact import CompactUnwind

        yield CompactUnwind.of_file(file)
    elif file.format == "Breakpad":
        from whence.unwind.stack_cfi import StackCfi

        yield StackCfi.of_file(file)


def archived_frames(
    tables: UnwindTables, segments: Sequence[tuple[int, int, int]]
) -> tuple[CallFrames, list[UnwindSource]]:
    """Return the tables of an archive. `segments` is the file's code: (file offset, vaddr, size)."""
    code = [(vaddr, vaddr + size) for _, vaddr, size in segments]
    target = Target(tables.bits, "big" if tables.big else "little", tables.text_vaddr)
    sections: list[FrameSection] = []
    others: list[UnwindSource] = []
    for table in tables.tables:
        with suppress(DwarfError):
            if table.name == SFRAME:
                from whence.unwind.sframe import SFrame

                others.append(SFrame(table.data, table.vaddr, tables.bits))
            elif table.name != FRAME_DATA:
                sections.append(
                    FrameSection(
                        table.data, table.vaddr, name=table.name, target=target,
                        code=code if code and table.name != ".eh_frame" else None,
                    )
                )  # fmt: skip
    return CallFrames(sections), others


def _is_unchanged(file: SnapshotFile) -> bool:
    try:
        return file.is_unchanged()
    except OSError:
        return False


class Modules:
    """The mapped files of a process by path and build-id, each opened once."""

    def __init__(self, snapshot: SnapshotMappings, locator: Locator | None) -> None:
        self.snapshot, self._locator = snapshot, locator
        self._opened: dict[tuple[str, str], Module] = {}
        self._of_entry: dict[int, Module | None] = {}
        self._by_name: dict[str, list[tuple[int, SnapshotFile]]] = {}
        for mapping, file in zip(snapshot.mappings, snapshot.file_of, strict=True):
            if file is not None:
                self._by_name.setdefault(mapping.path, []).append((mapping.start, file))

    def close(self) -> None:
        for module in self._opened.values():
            module.close()
        self._opened.clear()

    def of_file(self, file: SnapshotFile, mapping: Mapping | None = None) -> Module:
        """Return a mapped file; `mapping` is one of its mappings."""
        key = file.path, file.build_id
        if key not in self._opened:
            own = mapping.openable_path() if mapping is not None and mapping.process else ""
            self._opened[key] = Module(file, self._locator, own)
        return self._opened[key]

    def read_entry(self, entry: FileEntry, offset: int, size: int) -> bytes | None:
        """Return bytes of a mapped part of a file; None if the file is not available or has no code."""
        module = self._of_entries(entry)
        return None if module is None else module.read(entry.offset + offset, size)

    def _of_entries(self, entry: FileEntry) -> Module | None:
        if entry.start not in self._of_entry:
            # of several files with this name, the one whose code is nearest
            mapped = self._by_name.get(kind_of(entry.name)[1], [])
            nearest = min(mapped, key=lambda item: abs(item[0] - entry.start), default=None)
            self._of_entry[entry.start] = None if nearest is None else self.of_file(nearest[1])
        return self._of_entry[entry.start]


class CoreCode:
    """The executable memory of a process whose mappings are known: of a core, a live process, or samples."""

    def __init__(self, modules: Modules, memory: Memory | None = None) -> None:
        """Prepare the code of a process; the vDSO is read from `memory`."""
        self._modules, self._memory = modules, memory
        self._mappings = modules.snapshot.mappings
        self._starts = [mapping.start for mapping in self._mappings]
        self._vdso: CallFrames | None = None
        self._vdso_bias = 0
        self._loaded: dict[int, FunctionTable | None] = {}  # by base address

    def _index(self, address: int) -> int | None:
        index = bisect_right(self._starts, address) - 1
        return index if index >= 0 and address < self._mappings[index].end else None

    def module_at(self, address: int) -> tuple[Module, int] | tuple[None, int]:
        """Return the file whose code is at a runtime address, and the vaddr; (None, 0) without a file."""
        index = self._index(address)
        file = self._modules.snapshot.file_of[index] if index is not None else None
        if index is None or file is None:
            return None, 0
        module = self._modules.of_file(file, self._mappings[index])
        vaddr = module.mapper.vaddr(self._mappings[index], address) if module.mapper is not None else None
        return (None, 0) if vaddr is None else (module, vaddr)

    def is_code(self, address: int) -> bool:
        return self._index(address) is not None

    def is_generated(self, address: int) -> bool:
        index = self._index(address)
        if index is None:
            return False
        mapping, file = self._mappings[index], self._modules.snapshot.file_of[index]
        if file is None:
            return mapping.kind is not Kind.VDSO
        # compilers such as Erlang's and .NET's write their code into a memfd
        return mapping.kind is Kind.MEMFD and not file.build_id and self._modules.of_file(file, mapping).elf is None

    def read(self, address: int, size: int) -> bytes:
        """Return bytes of a mapped file by runtime address. Raises Unreadable."""
        index = self._index(address)
        if index is not None:
            mapping, file = self._mappings[index], self._modules.snapshot.file_of[index]
            content = None
            if file is not None and address + size <= mapping.end:
                begin = mapping.offset + address - mapping.start
                content = self._modules.of_file(file, mapping).read(begin, size)
            if content is not None:
                return content
        raise Unreadable(address)

    def ranges(self) -> list[tuple[int, int]]:
        """Return [start, end) of each mapping with code, in order of address."""
        return [(mapping.start, mapping.end) for mapping in self._mappings]

    def loaded(self) -> Iterator[tuple[int, int, int, Module]]:
        """Yield the segments of the mapped files: [start, end) in memory, the bias, and the file."""
        biases = set[tuple[int, int]]()
        for mapping, file in zip(self._mappings, self._modules.snapshot.file_of, strict=True):
            module = None if file is None else self._modules.of_file(file, mapping)
            if module is None or module.elf is None or module.mapper is None:
                continue
            vaddr = module.mapper.vaddr(mapping, mapping.start)
            if vaddr is None or (id(module), mapping.start - vaddr) in biases:
                continue
            bias = mapping.start - vaddr
            biases.add((id(module), bias))
            for segment in module.elf.segments:
                if segment.is_loaded and segment.memory_size:
                    yield segment.vaddr + bias, segment.vaddr + segment.memory_size + bias, bias, module

    def tables(self, index: int) -> tuple[int, list[CfiTable]]:
        """Return the bias (runtime address - vaddr) and the tables of a mapping, in the order they are searched.

        No tables for code that needs more than ordinary call frame information.
        """
        mapping, file = self._mappings[index], self._modules.snapshot.file_of[index]
        if mapping.kind is Kind.VDSO:
            frames = self._vdso_frames(mapping)
            return self._vdso_bias, [section.table for section in frames.sections]
        module = None if file is None else self._modules.of_file(file, mapping)
        if module is None or module.mapper is None or module.go is not None:  # Go code has its own tables
            return 0, []
        first, last = module.mapper.vaddr(mapping, mapping.start), module.mapper.vaddr(mapping, mapping.end - 1)
        if first is None or last is None or last - first != mapping.end - 1 - mapping.start:
            return 0, []
        return mapping.start - first, [section.table for section in module.frames.sections]

    def fde(self, address: int) -> tuple[Fde, int] | None:
        index = self._index(address)
        if index is None:
            return None
        mapping = self._mappings[index]
        if mapping.kind is Kind.VDSO:
            fde = self._vdso_frames(mapping).find(address - self._vdso_bias)
            return None if fde is None else (fde, self._vdso_bias)
        module, vaddr = self.module_at(address)
        fde = None if module is None else module.fde(vaddr)
        if fde is None and (module is None or not module.has_code):
            return self._in_loaded_file(index, address)
        return None if fde is None else (fde, address - vaddr)

    def frame_data(self, address: int) -> FrameData | None:
        module, vaddr = self.module_at(address)
        data = None if module is None else module.frame_data(vaddr)
        if data is None:
            return None
        return data._replace(start=data.start + address - vaddr, end=data.end + address - vaddr)

    def _in_loaded_file(self, index: int, address: int) -> tuple[Fde, int] | None:
        """Return the FDE by the tables in memory of a PE file that is not available itself."""
        file = self._modules.snapshot.file_of[index]
        if self._memory is None or file is None or not file.is_image:
            return None
        base = self._mappings[index].start - self._mappings[index].offset
        if base not in self._loaded:
            from whence.unwind.pdata import FunctionTable

            self._loaded[base] = FunctionTable.in_memory(self._memory, base)
        table = self._loaded[base]
        fde = None if table is None else table.find(address)
        return None if fde is None else (fde, 0)

    def entry_before(self, address: int) -> int | None:
        module, vaddr = self.module_at(address)
        if module is None or module.elf is None or not module.elf.entry:
            return None
        entry = module.elf.entry
        return address - vaddr + entry if entry <= vaddr < entry + ENTRY_BYTES else None

    def function(self, address: int) -> tuple[int, int, bool] | None:
        module, vaddr = self.module_at(address)
        index = bisect_right(module.arm_functions, (vaddr, 1 << 64)) - 1 if module is not None else -1
        if module is None or index < 0:
            return None
        value, size = module.arm_functions[index]
        start = (value & ~1) + address - vaddr
        return (start, start + size, bool(value & 1)) if start <= address < start + size else None

    def calls_main(self, address: int) -> bool:
        module, vaddr = self.module_at(address)
        return module is not None and any(start <= vaddr < end for start, end in module.calls_of_main)

    def needs_no_table(self, address: int) -> bool:
        module, vaddr = self.module_at(address)
        return module is not None and module.needs_no_table(vaddr)

    def go(self, pc: int, lookup: int) -> GoFunction | None:
        module, vaddr = self.module_at(lookup)
        return None if module is None or module.go is None else module.go.find(vaddr + pc - lookup, vaddr)

    def _vdso_frames(self, mapping: Mapping) -> CallFrames:
        if self._vdso is None:
            self._vdso = CallFrames([])
            with suppress(ObjectError, LookupError):
                data = b"" if self._memory is None else self._memory.read(mapping.start, min(mapping.size, VDSO_LIMIT))
                elf = ElfFile.from_bytes(data, "[vdso]")
                first = next((segment.vaddr for segment in elf.segments if segment.is_loaded), 0)
                self._vdso_bias = mapping.start - first
                self._vdso = CallFrames.of_elf(elf)
        return self._vdso

    def why_not(self, address: int) -> str:
        index = self._index(address)
        if index is None:
            return f"{address:#x} is not in executable memory"
        mapping, file = self._mappings[index], self._modules.snapshot.file_of[index]
        if file is None or self.is_generated(address):
            return f"{address:#x} is in {mapping.path or 'generated code'}, which has no call frame information there"
        module = self._modules.of_file(file, mapping)
        return module.why or f"{mapping.path} has no call frame information for {address:#x}"
