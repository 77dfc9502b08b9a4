"""Which file answers for a mapping: asked in this order, everything tried is noted.

    1. files given by hand           ELF files or archives, by build-id; by name where the mapping has no build-id
    2. archive folders               BUILD-ID.lidia, ab/cdef.lidia, or any archive there that carries the build-id
    3. the archive cache             archives this machine made or fetched before
    4. the mapping's own path        when the build-id is the same, or the profile gives none
    5. debug folders                 .build-id/ab/cdef.debug
    6. debuginfod                    when a client was given

A candidate that can't be read is passed over. An ELF file without debug info answers with that of its debug file: the
one the debug folders have, one given by hand, one that debuginfod has. Where there is none, its own symbols answer.

An ELF file with debug info that must answer for many addresses is archived in the cache first, so that the next profile
need not. One without is not: tomorrow its debug file may be there. The kernel's files have names and places of their
own (whence.profiles.kernel).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from whence.binary import Binary, is_archive, open_binary
from whence.elf import ElfFile
from whence.elf.kernels.constants import ET_REL, PF_R, PF_X, PT_LOAD
from whence.elf.segments import Segment
from whence.errors import WRONG_KIND, ElfError, WhenceError, without_file
from whence.files import open_regular
from whence.locate.cache import ARCHIVE, SEGMENTS, Cache
from whence.locate.debug_files import Outcome
from whence.locate.identity import comparable, key
from whence.profiles.addresses import can_translate, has_nobits, vaddrs
from whence.profiles.kernel import Placing, is_kernel, named_alike, placing
from whence.profiles.lists import Lists
from whence.profiles.model import Mapping
from whence.profiles.reasons import GIVE_KERNEL, Missing
from whence.reasons import Reason
from whence.symbolize.binaries import Names
from whence.symbolize.internal_error import reason_of

ARCHIVE_FROM = 64  # addresses from which on an archive is made for the cache
PACKED = {b"\xfd7": "xz", b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}  # kernel modules mostly are
CACHE = "cache"
DELETED = " (deleted)"  # as the kernel marks a path in /proc/PID/maps
DEBUG_DIRS = ("/usr/lib/debug",)
"""Where debug files lie when nobody says otherwise."""


class Fetcher(Protocol):
    """What the debuginfod client does: the file of a build-id, or None."""

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None: ...


@dataclass(slots=True)
class Opened:
    """A file that answers for a mapping. `segments` is None when only an archive is at hand."""

    binary: Names
    segments: Sequence[Segment] | None
    how: str  # in words: which file, and how it was found
    build_id: str = ""  # of the file
    placing: Placing | None = None  # the kernel's files have rules of their own

    def vaddrs(self, mapping: Mapping, addresses: array[int]) -> array[int]:
        """Where a mapping's addresses lie in the file; NOWHERE for those that are in no code of it."""
        return self.placing(mapping, addresses) if self.placing else vaddrs(self.segments, mapping, addresses)


class Tried(NamedTuple):
    """A step of a search in words, and what came of it."""

    line: str
    outcome: Outcome

    def __str__(self) -> str:
        return self.line


@dataclass(slots=True)
class Search:
    """What became of the search for one mapping's file."""

    mapping: Mapping
    opened: Opened | None = None
    missing: Missing | None = None
    tried: list[Tried] = field(default_factory=list)


@dataclass(slots=True)
class Candidate:
    """A file given by hand or found in a folder, and its identity."""

    path: Path
    build_ids: tuple[str, ...]
    archive: bool


class Binaries:
    """Finds and opens the files of mappings, each once. A context manager: closing closes what it opened."""

    def __init__(
        self,
        *,
        given: Sequence[str | os.PathLike[str]] = (),
        archive_dirs: Sequence[str | os.PathLike[str]] = (),
        debug_dirs: Sequence[str] | None = None,
        cache: Cache | None = None,
        debuginfod: Fetcher | None = None,
        lists: Lists | None = None,
        local: bool = True,
    ) -> None:
        self.archive_dirs = [Path(one) for one in archive_dirs]
        self.debug_dirs = list(DEBUG_DIRS if debug_dirs is None else debug_dirs)
        self.cache = cache
        self.debuginfod = debuginfod
        self.lists = Lists(local=local) if lists is None else lists
        self.local = local
        self.given = [candidate(Path(one)) for one in given]
        self._in_dirs: list[Candidate] | None = None
        self._searches: dict[tuple[str, str], Search] = {}
        self._open: list[Names] = []

    def close(self) -> None:
        for binary in self._open:
            binary.close()
        self._open.clear()
        self._searches.clear()

    def __enter__(self) -> Binaries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def searches(self) -> list[Search]:
        """Every search made, in order."""
        return list(self._searches.values())

    def search(self, mapping: Mapping, addresses: int = 1) -> Search:
        """The file of a mapping, for so many addresses; the same search is made once."""
        key = mapping.path, mapping.build_id
        found = self._searches.get(key)
        if found is None:
            found = self._searches[key] = Search(mapping)
            try:
                self._search(found, addresses)
            except Exception as error:  # costs this mapping its names, not the others theirs
                found.missing = Missing(*reason_of(error, f"looking for the file of {mapping.path}"))
        return found

    def _search(self, search: Search, addresses: int) -> None:
        mapping = search.mapping
        broken: Missing | None = None
        for one, where in self._candidates(mapping, search.tried):
            try:
                opened = self._open_file(one, search, where, addresses)
                if is_kernel(mapping):
                    opened.placing = placing(one.path, opened.segments, self.lists.text_address)
            except (WhenceError, OSError) as error:
                search.tried.append(Tried(f"{where} {one.path}: {without_file(error)}", Outcome.BROKEN))
                if where == CACHE:  # made again, not kept for ever
                    with suppress(OSError):
                        one.path.unlink()
                broken = broken or Missing(Reason.BROKEN_FILE, f"{where} {one.path}: {without_file(error)}")
                continue
            search.tried.append(Tried(f"{where} {one.path}: answers", Outcome.TAKEN))
            opened.build_id = next(iter(one.build_ids), "")
            search.opened = opened
            return
        search.missing = broken or self._why_missing(search)

    def _candidates(self, mapping: Mapping, tried: list[Tried]) -> Iterator[tuple[Candidate, str]]:
        """Files that may answer, best first; what does not fit is noted."""
        build_id = key(mapping.build_id)
        for one in self.given:
            if matches(one, mapping):
                yield one, "given"
            else:
                tried.append(Tried(f"given {one.path}: {difference(one, mapping)}", Outcome.MISMATCH))
        if mapping.build_id and not build_id:
            told = f"caches and folders: {comparable(mapping.build_id)} is no build-id that names a file there"
            tried.append(Tried(told, Outcome.ABSENT))
        if build_id:
            yield from ((one, "archive folder") for one in self._archives(build_id, tried))
            if self.cache is not None:
                path = self.cache.get(f"{build_id}.{ARCHIVE}")
                if path is not None:
                    yield Candidate(path, (build_id,), True), CACHE
                tried.append(Tried("cache: no archive of this build-id", Outcome.ABSENT))
        if self.local and mapping.path.startswith("/"):
            yield from ((one, "this machine's") for one in self._on_this_machine(mapping, tried))
        if build_id:
            for folder in self.debug_dirs:
                path = Path(folder, ".build-id", build_id[:2], build_id[2:] + ".debug")
                try:
                    yield candidate(path), "debug folder's"
                except FileNotFoundError:
                    tried.append(Tried(f"{path}: not there", Outcome.ABSENT))
                except (WhenceError, OSError) as error:
                    tried.append(Tried(f"{path}: {without_file(error)}", Outcome.BROKEN))
        if build_id and self.debuginfod is not None:
            for kind in ("debuginfo", "executable"):
                fetched = self.debuginfod.fetch(build_id, kind, mapping.path)
                if fetched is not None:
                    yield candidate(fetched), f"debuginfod {kind}"
                tried.append(Tried(f"debuginfod {kind}: not found", Outcome.ABSENT))

    def _archives(self, build_id: str, tried: list[Tried]) -> Iterator[Candidate]:
        for folder in self.archive_dirs:
            for name in (f"{build_id}.lidia", f"{build_id[:2]}/{build_id[2:]}.lidia"):
                if (folder / name).exists():
                    yield Candidate(folder / name, (build_id,), True)
                    return
        if self._in_dirs is None:
            self._in_dirs = []
            for path in (path for folder in self.archive_dirs for path in sorted(folder.glob("*.lidia"))):
                try:
                    self._in_dirs.append(candidate(path))
                except (WhenceError, OSError) as error:  # costs its own names, not those of the folder
                    tried.append(Tried(f"archive folder {path}: {without_file(error)}", Outcome.BROKEN))
        yield from (one for one in self._in_dirs if build_id in one.build_ids)
        tried += [Tried(f"{folder}: no archive of this build-id", Outcome.ABSENT) for folder in self.archive_dirs]

    def _on_this_machine(self, mapping: Mapping, tried: list[Tried]) -> Iterator[Candidate]:
        path = Path(mapping.path.removesuffix(DELETED))
        if mapping.path.endswith(DELETED) and not mapping.build_id:
            told = f"{path}: the mapped one was deleted, and no build-id tells whether this is the same"
            tried.append(Tried(told, Outcome.UNVERIFIED))
            return
        if not path.is_file():
            tried.append(Tried(f"{path}: not there", Outcome.ABSENT))
            return
        try:
            one = candidate(path)
        except (WhenceError, OSError) as error:
            tried.append(Tried(f"{path}: {without_file(error)}", Outcome.BROKEN))
            return
        if not mapping.build_id or matches(one, mapping):
            yield one
        else:
            tried.append(Tried(f"{path}: {difference(one, mapping)}", Outcome.REPLACED))

    def _open_file(self, one: Candidate, search: Search, where: str, addresses: int) -> Opened:
        how = f"{where} {one.path}"
        if one.archive:
            binary = open_binary(one.path)
            self._keep(binary)
            told = binary.table().about.segments  # without a size where it was made of a debug file
            said = [Segment(PT_LOAD, 5, at, vaddr, size, size, 0) for at, vaddr, size in told if size]
            return Opened(binary, said or self._segments_beside(one, search.mapping), how)
        segments = segments_of(one.path)
        debug_files: tuple[Path, ...] = ()
        if not can_translate(segments, search.mapping):
            whole = self._whole_file(one, search)
            if whole is not None:
                debug_files, one, segments = (one.path,), whole, segments_of(whole.path)
        binary = open_binary(one.path, debug_dirs=self.debug_dirs, debug_files=debug_files)
        if not described(binary):
            found = self._debug_file(one, search)
            if found is not None:
                binary.close()
                debug_files = (found[0],)
                binary = open_binary(one.path, debug_dirs=self.debug_dirs, debug_files=debug_files)
                how = f"{how} with {found[1]} {found[0]}"
        build_id = key(one.build_ids[0]) if one.build_ids else ""
        worth = addresses >= ARCHIVE_FROM and described(binary) and not has_nobits(segments)
        if self.cache is not None and build_id and worth:
            try:
                archived = self._archive(self.cache, one, build_id, debug_files)
            except OSError as error:  # a cache that can't be written to costs time, no names
                search.tried.append(Tried(f"cache: no archive was made ({error})", Outcome.BROKEN))
            else:
                binary.close()
                binary = open_binary(archived)
        return Opened(self._keep(binary), segments, how)

    def _whole_file(self, one: Candidate, search: Search) -> Candidate | None:
        """The file that a debug file is of, for debug files lose where code lies in it."""
        mapping = search.mapping
        others = [other for other in self.given if not other.archive and set(other.build_ids) & set(one.build_ids)]
        if self.local and mapping.path.startswith("/"):
            others += [other for other in self._on_this_machine(mapping, []) if other.build_ids == one.build_ids]
        for other in others:
            if can_translate(segments_of(other.path), mapping):
                return other
        if self.debuginfod is not None and one.build_ids:
            fetched = self.debuginfod.fetch(one.build_ids[0], "executable", mapping.path)
            return candidate(fetched) if fetched is not None else None
        return None

    def _archive(self, cache: Cache, one: Candidate, build_id: str, debug_files: Sequence[Path]) -> Path:
        """The archive of an ELF file in the cache, and what places its addresses."""
        from whence.lidia.build import create_from_elf

        cache.put(f"{build_id}.{SEGMENTS}", lambda file: file.write(skeleton(one.path) + build_id.encode()))

        def archive(file: BinaryIO) -> None:
            with ElfFile.open(one.path) as elf:
                create_from_elf(elf, file, debug_dirs=self.debug_dirs, debug_files=debug_files)

        return cache.put(f"{build_id}.{ARCHIVE}", archive)

    def _debug_file(self, one: Candidate, search: Search) -> tuple[Path, str] | None:
        """The debug file of a file that has none in the debug folders, and in words where it came from."""
        for build_id in one.build_ids:
            for other in self.given:
                if other.path != one.path and not other.archive and build_id in other.build_ids:
                    return other.path, "given"
            fetched = self.debuginfod.fetch(build_id, "debuginfo", search.mapping.path) if self.debuginfod else None
            if fetched is not None:
                return fetched, "debuginfod debuginfo"
            if self.debuginfod is not None:
                search.tried.append(Tried("debuginfod debuginfo: not found", Outcome.ABSENT))
        return None

    def _segments_beside(self, one: Candidate, mapping: Mapping) -> Sequence[Segment] | None:
        """Segments for an archive: of what the cache kept of its ELF file, or of the file itself if it is here."""
        for build_id in one.build_ids:
            path = self.cache.get(f"{key(build_id)}.{SEGMENTS}") if self.cache is not None else None
            if path is not None:
                return segments_of(path)
        here = next(self._on_this_machine(mapping, []), None) if self.local else None
        return segments_of(here.path) if here is not None and here.build_ids else None

    def _keep(self, binary: Names) -> Names:
        self._open.append(binary)
        return binary

    def _why_missing(self, search: Search) -> Missing:
        mapping = search.mapping
        if is_kernel(mapping):
            return Missing(Reason.NO_FILE, mapping.path, GIVE_KERNEL)
        for tried in search.tried:
            if tried.outcome is Outcome.REPLACED:
                return Missing(Reason.BUILD_ID_MISMATCH, tried.line)
            if tried.outcome is Outcome.UNVERIFIED:
                advice = "give the file it was with --binary, or record with build-ids (perf record --buildid-mmap)"
                return Missing(Reason.NO_FILE, tried.line, advice)
        identity = f"build-id {mapping.build_id}" if mapping.build_id else "no build-id to look for"
        return Missing(Reason.NO_FILE, f"{mapping.path or 'its path is not known'}, {identity}")


def described(binary: Binary) -> bool:
    """Whether a binary names more than its symbols do: an archive, or a file with debug info or Go's tables."""
    producers = binary.producers
    return producers is None or producers.dwarf is not None or producers.pclntab is not None


def candidate(path: Path) -> Candidate:
    """A file with its build-ids: an ELF file's, or the one an archive carries."""
    if is_archive(path):
        with open_binary(path) as binary:
            return Candidate(path, (binary.build_id,) if binary.build_id else (), True)
    with open_regular(path, ElfError) as (descriptor, _):
        packed = PACKED.get(os.read(descriptor, 2))
    if packed:
        fault = f"packed by {packed}"
        problem = ElfError("file", None, "it is not packed", path.name, fault=fault, code=WRONG_KIND, path=str(path))
        raise problem.with_hint(f"{packed} -dk it first")
    with ElfFile.open(path) as elf:
        return Candidate(path, tuple(filter(None, (elf.build_id, elf.go_build_id))), False)


def matches(one: Candidate, mapping: Mapping) -> bool:
    """By build-id where both have one; else by the name of the file."""
    if mapping.build_id and one.build_ids:
        return comparable(mapping.build_id) in map(comparable, one.build_ids)
    if is_kernel(mapping) and named_alike(one.path, mapping):
        return True
    name = os.path.basename(mapping.path.removesuffix(DELETED))
    return bool(name) and one.path.name.removesuffix(".lidia").removesuffix(".debug") == name


def difference(one: Candidate, mapping: Mapping) -> str:
    if mapping.build_id and one.build_ids:
        return f"its build-id is {one.build_ids[0]}, not {mapping.build_id}"
    return f"it is not named {os.path.basename(mapping.path) or 'like anything'}"


def segments_of(path: str | os.PathLike[str]) -> Sequence[Segment]:
    """The segments of a file, those with code executable; of one without segments (perf inject --jit makes such), its
    code sections as segments."""
    with ElfFile.open(path) as elf:
        if elf.segments or elf.type == ET_REL:
            code = set(elf.code_segments())
            return [executable(one) if one in code else one for one in elf.segments]
        return [
            Segment(PT_LOAD, PF_R | PF_X, one.file_offset, one.vaddr, one.size, one.size, one.align)
            for one in elf.sections
            if one.executable and one.allocated
        ]


def executable(one: Segment) -> Segment:
    """The segment with PF_X set."""
    flags = one.flags | PF_X
    return Segment(one.type, flags, one.file_offset, one.vaddr, one.file_size, one.memory_size, one.align)


def skeleton(path: Path) -> bytes:
    """The ELF header and the segment table: an ELF file of a few hundred bytes that knows where the file is loaded."""
    with ElfFile.open(path) as elf:
        wide = elf.bits == 64
        head = bytearray(elf.data[: 64 if wide else 52])
        order = elf.order
        at, size = (32, 8) if wide else (28, 4)
        table = int.from_bytes(head[at : at + size], order)
        entry, count = (int.from_bytes(head[field : field + 2], order) for field in ((54, 56) if wide else (42, 44)))
        rows = bytes(elf.data[table : table + entry * count])
        head[at : at + size] = len(head).to_bytes(size, order)
        shoff = (40, 8) if wide else (32, 4)
        head[shoff[0] : shoff[0] + shoff[1]] = bytes(shoff[1])
        for field in (60, 62) if wide else (48, 50):
            head[field : field + 2] = bytes(2)
        return bytes(head) + rows
