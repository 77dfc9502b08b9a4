"""The files on this machine that complete an ELF file: debug file, dwz's shared file, .dwo and .dwp files.

Candidates are tried in the order of debuggers, and the outcome of each is kept, so that an address without frames can
say where to put a file:

    debug file   the file itself; given debug files; DEBUG_DIR/.build-id/xx/rest.debug; the .gnu_debuglink name in the
                 file's folder, in .debug/ there, in DEBUG_DIR/the file's folder, and in DEBUG_DIR; any file below
                 DEBUG_DIR with the build-id; stores; debuginfod; the PDB file of a PE file (pdb.py); symbol servers
    dwz's        the .gnu_debugaltlink name (relative to the file that has it); DEBUG_DIR/.build-id; DEBUG_DIR/.dwz;
                 any file below DEBUG_DIR with the build-id; stores; debuginfod
    .dwp         given packages; FILE.dwp next to the file; DEBUG_DIR/.build-id/xx/rest.dwp; FILE.dwp below DEBUG_DIR
    object file  of a Mach-O debug map: its path; DEBUG_DIR/its path; its bare name next to the file and in DEBUG_DIR
    .dwo         its name in the compilation's folder; next to the file; in the file's folder and below DEBUG_DIR under
                 its bare name

/usr/lib/debug and the cache of perf have their files under these names only; other debug folders may have them in any
folder below.

A candidate belongs to the file if their build-ids are equal. If one of them has no build-id, the CRC of the debug link
decides. Other candidates are recorded as MISMATCH, and never used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from whence._base import rooted
from whence._base.errors import ElfError, WhenceError, without_file
from whence._base.files import open_regular
from whence.locate.crc import stored_crc32
from whence.locate.folder_index import index_of
from whence.locate.search import FileKind, Outcome, Search
from whence.objects.companions import Companion, CompanionKind
from whence.objects.interface import ObjectFile
from whence.objects.machines import machine_name
from whence.objects.opening import open_linked, open_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.locate.sources import Fetcher
    from whence.objects.parts import LinkedObject

DEBUG_DIRS = ("/usr/lib/debug",)
"""The default debug folders."""

LAST_TIME = 253402300799  # in the year 9999

Candidates = Iterable[tuple[str, str]]  # path, how


class DebugFiles:
    """Finds the files that complete an ELF file: given ones, in debug folders, next to it, on servers. Thread-safe.

    For a file below the root of a process, that root's /usr/lib/debug precedes the debug folders: it has a container's
    debug packages, and links in it do not lead out of it (whence._base.rooted).

    Args:
        debug_dirs: the debug folders.
        build_id_dirs: further debug folders, in which files are found by build-id only.
        given: paths of debug files that are tried first.
        packages: paths of .dwp files.
        fetchers: stores and debuginfod clients in the order in which they are tried, each with a word for the record.
        open_elf: opens a candidate.
        sysroot: a root of another machine.
        log: called with a line for each file tried.
    """

    def __init__(
        self,
        debug_dirs: Iterable[str | os.PathLike[str]] = DEBUG_DIRS,
        given: Iterable[str | os.PathLike[str]] = (),
        *,
        packages: Iterable[str] = (),
        fetchers: Iterable[tuple[str, Fetcher]] = (),
        open_elf: Callable[[str], ObjectFile] = open_object,
        sysroot: str = "",
        build_id_dirs: Iterable[str] = (),
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.debug_dirs = tuple(os.fspath(folder) for folder in debug_dirs)
        self.build_id_dirs = tuple(build_id_dirs)
        self.given = tuple(os.fspath(path) for path in given)
        self.packages = tuple(packages)
        self.fetchers = tuple(fetchers)
        self._open_elf = open_elf
        self._mapped = ""  # the path for an allow-list of servers, if the file is open under another one
        self._sysroot = sysroot
        self._log = log

    def __repr__(self) -> str:
        return f"<DebugFiles in {', '.join(self.debug_dirs) or 'no folder'}>"

    def for_file(
        self,
        mapped: str,
        given: Iterable[str | os.PathLike[str]] = (),
        open_elf: Callable[[str], ObjectFile] | None = None,
    ) -> DebugFiles:
        """Return a copy for a file that a process mapped as `mapped`, with `given` debug files first."""
        files = DebugFiles(
            self.debug_dirs, (*given, *self.given), packages=self.packages, fetchers=self.fetchers,
            open_elf=open_elf or self._open_elf, sysroot=self._sysroot, build_id_dirs=self.build_id_dirs, log=self._log,
        )  # fmt: skip
        files._mapped = mapped
        return files

    def find(self, companion: Companion) -> Search:
        """Find a file that completes another."""
        elf = companion.elf
        if companion.kind is CompanionKind.DEBUG_FILE:
            return self.debug_file(elf)
        if companion.kind is CompanionKind.ALT_FILE:
            return self.alt_file(elf)
        if companion.linked is not None:
            return self.linked_object(elf, companion.linked)
        if companion.kind is CompanionKind.PACKAGE:
            return self.dwp_for(elf.path, elf.build_id)
        return self.dwo(companion.comp_dir, companion.name, elf.path)

    def complete(self, companion: Companion) -> ObjectFile | None:
        """Return a file that completes another, open; None if it is not found."""
        return self.find(companion).elf

    def debug_file(self, elf: ObjectFile) -> Search:
        """Find the file with the DWARF of a file: `elf` itself if it has some."""
        search = Search(CompanionKind.DEBUG_FILE)
        if elf.has_debug_info:
            search.elf, search.path, search.how = elf, elf.path, "itself"
            search.note(elf.path, "itself", Outcome.TAKEN)
            return search
        search.note(elf.path, "itself", Outcome.EMPTY)
        crc = -1
        candidates = [(path, "given") for path in self.given]
        candidates += self._build_id_files(elf.build_id, ".debug", elf.path)
        if elf.format == "Mach-O":
            from whence.locate.dsym import bundled  # most files are ELF files

            candidates += bundled(elf, self._folders(elf.path))
        if elf.format == "PE":
            from whence.locate.pdb import pdb_files

            candidates += pdb_files(elf, folders_of(elf.path, self._sysroot), self._flat_folders())
        if elf.external_debug_info:
            candidates += self._external(elf, elf.external_debug_info, "external_debug_info")
        try:
            link = elf.debug_link
        except WhenceError as error:
            link = None
            search.note(elf.path, "debug link", Outcome.BROKEN, error.message)
        if link is not None and os.path.basename(link.name):
            crc = link.crc
            candidates += self._linked(elf.path, os.path.basename(link.name))
        candidates += self._indexed(elf.build_id)
        self._take(search, candidates, lambda candidate: belongs(candidate, elf, crc), elf.path)
        if not search and elf.source_map:
            self._take_source_map(search, elf)
        if not search and not elf.is_go:  # Go's own tables name all code, stripped or not
            self._fetch(search, elf.build_id, elf.path)
            if elf.format == "PE" and not search:
                self._fetch_pdb(search, elf)
        return self._ended(search, elf)

    def _take_source_map(self, search: Search, elf: ObjectFile) -> None:
        """Open the source map of a WebAssembly module, which may be in its URL."""
        from whence.objects.source_map import SourceMapFile, map_in_url

        url = elf.source_map
        if not url.startswith("data:"):
            self._take(search, self._external(elf, url, "source map"), lambda _: "", elf.path, SourceMapFile.open)
            return
        try:
            search.elf = SourceMapFile.from_bytes(map_in_url(url), f"{elf.path}:sourceMappingURL")
        except WhenceError as error:
            search.note(elf.path, "source map", Outcome.BROKEN, error.message)
        else:
            search.path, search.how = elf.path, "source map"
            search.note(elf.path, "source map", Outcome.TAKEN, "the map is in the module")

    def _external(self, elf: ObjectFile, name: str, how: str) -> Iterator[tuple[str, str]]:
        """Yield the paths that a link of a WebAssembly module may mean; of a URL, only the file name."""
        folders = folders_of(elf.path, self._sysroot)
        if "://" not in name:
            yield from ((inside_of(folder, name, self._sysroot), how) for folder in folders)
        bare = os.path.basename(name.partition("?")[0])
        if bare:
            yield from ((os.path.join(folder, bare), how) for folder in folders)
            yield from ((os.path.join(folder, bare), "debug folder") for folder in self._flat_folders())

    def alt_file(self, elf: ObjectFile) -> Search:
        """Find the supplementary file of dwz for the DWARF in `elf`; an empty search if it needs none."""
        search = Search(CompanionKind.ALT_FILE)
        try:
            link = elf.alt_link
        except WhenceError as error:
            search.note(elf.path, "alt link", Outcome.BROKEN, error.message)
            return search
        if link is None:
            return search
        candidates = [
            (inside_of(folder, link.name, self._sysroot), "alt link") for folder in folders_of(elf.path, self._sysroot)
        ]
        candidates += self._build_id_files(link.build_id, ".debug", elf.path)
        name = os.path.basename(link.name)
        candidates += [(os.path.join(folder, ".dwz", name), "dwz folder") for folder in self._folders(elf.path)]
        candidates += self._indexed(link.build_id)
        self._take(search, candidates, lambda candidate: same_id(candidate, link.build_id), elf.path)
        if not search:
            self._fetch(search, link.build_id, elf.path)
        return self._ended(search, elf)

    def _ended(self, search: Search, elf: ObjectFile) -> Search:
        """Report the steps of a search to `log`, and return it."""
        if self._log is not None:
            for tried in search.tried:
                self._log(f"{self._mapped or elf.path}: {search.wanted}: {tried}")
        return search

    def dwp_for(self, path: str | os.PathLike[str], build_id: str = "") -> Search:
        """Find the package of split units of a file. The DWARF reader compares the units' IDs."""
        search = Search(CompanionKind.PACKAGE)
        candidates = [(path, "given") for path in self.packages]
        candidates += [(f"{path}.dwp", "next to the file"), *self._build_id_files(build_id, ".dwp", os.fspath(path))]
        name = os.path.basename(path) + ".dwp"
        candidates += [(path, "debug folder") for path in self._named(name)]
        self._take(search, candidates, lambda _: "")
        return search

    def dwo(self, comp_dir: str, name: str, near: str | os.PathLike[str] = "") -> Search:
        """Find the split unit of a skeleton; `near` is the file with the skeleton."""
        search = Search(CompanionKind.SPLIT_UNIT)
        folders = folders_of(os.fspath(near), self._sysroot) if near else []
        root, _ = self._split(os.fspath(near))
        elsewhere = _leads_elsewhere(os.fspath(near))
        candidates = [(root + os.path.join("/" if root else "", comp_dir, name), "compilation folder")]
        if elsewhere:  # the process sees other files under these names
            candidates = []
        candidates += [
            (os.path.join(folder, name), "next to the file") for folder in folders if not os.path.isabs(name)
        ]
        bare = os.path.basename(name)
        candidates += [(os.path.join(folder, bare), "bare name") for folder in folders]
        candidates += [(path, "bare name") for path in self._named(bare)]
        self._take(search, candidates, lambda _: "")
        return search

    def linked_object(self, elf: ObjectFile, entry: LinkedObject) -> Search:
        """Find an object file of the debug map of `elf`.

        The time when it was modified has to be that in the map, if both are known.
        """
        search = Search(CompanionKind.LINKED_OBJECT)
        member = f", member {entry.member}" if entry.member else ""
        root, inside = self._split(elf.path)
        name = os.path.basename(entry.path)
        path = entry.path if os.path.isabs(entry.path) else os.path.join("/", os.path.dirname(inside), entry.path)
        candidates = [] if _leads_elsewhere(elf.path) else [(root + path, f"debug map{member}")]
        inner = path.lstrip("/")
        candidates += [(os.path.join(folder, inner), f"debug folder{member}") for folder in self._flat_folders()]
        folders = [*folders_of(elf.path, self._sysroot), *self._flat_folders()]
        candidates += [(os.path.join(folder, name), f"bare name{member}") for folder in folders]
        modified = 0

        def opened(candidate: str) -> ObjectFile:
            nonlocal modified
            file, modified = open_linked(candidate, entry.member, elf.details.get("architecture", ""))
            return file

        def fault_of(candidate: ObjectFile) -> str:
            if candidate.format != elf.format or candidate.machine != elf.machine:
                return f"a {candidate.format} file for {machine_name(candidate.machine)}"
            if entry.time and modified and entry.time != modified:
                return f"modified at {utc(modified)}, expected {utc(entry.time)}: built again after it was linked"
            return "" if candidate.has_debug_info else Outcome.EMPTY.sentence

        self._take(search, candidates, fault_of, elf.path, opened)
        return self._ended(search, elf)

    def _split(self, path: str) -> tuple[str, str]:
        return rooted.split(path, self._sysroot)

    def _folders(self, path: str) -> tuple[str, ...]:
        """Return the debug folders for a file: first that in its process's root."""
        root, _ = rooted.split(path)
        return (*(root + folder for folder in DEBUG_DIRS), *self.debug_dirs) if root else self.debug_dirs

    def _fetch(self, search: Search, build_id: str, path: str) -> None:
        """Request a debug file from stores and servers."""
        for word, fetcher in self.fetchers if build_id else ():
            if hasattr(fetcher, "fetch_pdb"):  # a symbol server, which has no files by build-id
                continue
            how = f"{word} {FileKind.DEBUGINFO}"
            fetched = fetcher.fetch(build_id, FileKind.DEBUGINFO, self._mapped or self._split(path)[1])
            if fetched is None:
                search.note("", how, Outcome.ABSENT, "not found")
            else:
                self._take(search, [(str(fetched), how)], lambda candidate: same_id(candidate, build_id))
            if search:
                return

    def _fetch_pdb(self, search: Search, program: ObjectFile) -> None:
        """Request a program's PDB file from symbol servers."""
        from whence.locate.pdb import pdb_request

        for how, fetcher in self.fetchers:
            request = getattr(fetcher, "fetch_pdb", None)
            wanted = pdb_request(program)
            if request is None or wanted is None or search:
                continue
            fetched = request(wanted.name, wanted.debug_id, self._mapped or self._split(program.path)[1])
            if fetched is None:
                search.note("", how, Outcome.ABSENT, "not found")
            else:
                self._take(search, [(str(fetched), how)], lambda candidate: belongs(candidate, program, -1))

    def _flat_folders(self) -> list[str]:
        """Return the debug folders that may have debug files under any name."""
        return flat_folders(self.debug_dirs, self._sysroot)

    def _indexed(self, build_id: str) -> list[tuple[str, str]]:
        """Return the files with a build-id that are below a debug folder."""
        folders = self._flat_folders() if build_id else []
        return [(path, "debug folder") for folder in folders for path in index_of(folder).of_build_id(build_id)]

    def _named(self, name: str) -> Iterator[str]:
        """Yield the files of a name that are directly in a debug folder, then those without a build-id below it."""
        for folder in self._flat_folders():
            yield os.path.join(folder, name)
        for folder in self._flat_folders():
            yield from index_of(folder).named(name)

    def _build_id_files(self, build_id: str, suffix: str, path: str) -> Iterator[tuple[str, str]]:
        if len(build_id) > 2:
            for folder in (*self._folders(path), *self.build_id_dirs):
                yield os.path.join(folder, ".build-id", build_id[:2], build_id[2:] + suffix), "build-id"

    def _linked(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        folders = folders_of(path, self._sysroot)
        for folder in folders:
            yield os.path.join(folder, name), "debug link"
            yield os.path.join(folder, ".debug", name), "debug link"
        for top in self._folders(path):
            for folder in folders:
                inside = os.path.abspath(self._split(folder)[1])
                yield os.path.join(top, inside.lstrip("/"), name), "debug link"
        for candidate in self._named(name):
            yield candidate, "debug link"

    def _take(
        self,
        search: Search,
        candidates: Candidates,
        check: Callable[[ObjectFile], str],
        itself: str = "",
        open_file: Callable[[str], ObjectFile] | None = None,
    ) -> None:
        """Open candidates in turn until `check` finds no fault, and record each outcome."""
        open_file = open_file or self._open_elf
        seen = {rooted.real_path(itself, self._sysroot)} if itself else set()
        for path, how in candidates:
            if "\0" in path or (real := rooted.real_path(path, self._sysroot)) in seen:
                continue
            seen.add(real)
            candidate = None
            try:
                candidate = open_file(rooted.openable(path, self._sysroot))
                fault = check(candidate)
            except FileNotFoundError:
                search.note(path, how, Outcome.ABSENT)
                continue
            except (OSError, WhenceError) as error:
                if candidate is not None:
                    candidate.close()
                absent = isinstance(error, NotADirectoryError)
                outcome = Outcome.ABSENT if absent else Outcome.BROKEN
                search.note(path, how, outcome, without_file(error))
                continue
            if fault:
                candidate.close()
                search.note(path, how, Outcome.MISMATCH, fault)
                continue
            search.elf, search.path, search.how = candidate, path, how
            search.note(path, how, Outcome.TAKEN)
            return


class Completion:
    """Completes one ELF file by DebugFiles, and keeps every search."""

    def __init__(self, debug_files: DebugFiles) -> None:
        self._debug_files = debug_files
        self.searches: list[Search] = []

    def __repr__(self) -> str:
        return f"<Completion by {self._debug_files!r}: {len(self.searches)} searches>"

    def __call__(self, companion: Companion) -> ObjectFile | None:
        """Return a file that completes the ELF file, open; None if it is not found."""
        search = self._debug_files.find(companion)
        self.searches.append(search)
        return search.elf


def flat_folders(folders: Iterable[str], sysroot: str = "") -> list[str]:
    """Return the debug folders that may have debug files under any name: neither the system's nor perf's cache."""
    systems = {sysroot + folder for folder in DEBUG_DIRS}
    return [folder for folder in folders if folder not in systems and not is_cache_of_perf(folder)]


def is_cache_of_perf(folder: str) -> bool:
    """Return True for ~/.debug of perf-buildid-cache(1), which has a link below .build-id for each of its files."""
    return os.path.basename(folder) == ".debug" and os.path.isdir(os.path.join(folder, ".build-id"))


def folders_of(path: str, sysroot: str = "") -> list[str]:
    """Return the folders of a file, as named and with links resolved: / and /usr have the same files."""
    root, inside = rooted.split(path, sysroot)
    if root:
        real = rooted.real_path(path, sysroot)[len(root) :]
        return [root + folder for folder in _spelled(os.path.dirname(inside), real)]
    if not path or _leads_elsewhere(path):
        return []
    return _spelled(os.path.dirname(path) or ".", os.path.realpath(path))


def inside_of(folder: str, name: str, sysroot: str = "") -> str:
    """Return a name relative to a folder; an absolute one starts at the root that the folder is in."""
    root, _ = rooted.split(folder + "/", sysroot)
    return root + name if root and os.path.isabs(name) else os.path.join(folder, name)


def _leads_elsewhere(path: str) -> bool:
    """Return True if a path is /proc's link to a file of a process with another root."""
    head, _, name = path.rpartition("/")
    process = head.removesuffix("/map_files") if head.endswith("/map_files") else head if name == "exe" else ""
    return process.rpartition("/")[2].isdecimal() and rooted.is_foreign(process)


def _spelled(named: str, real: str) -> list[str]:
    """Return the folders of a file, as named and with links resolved."""
    real = os.path.dirname(real)
    folders = [named, real] if os.path.abspath(named) != real else [named]
    return folders + [folder[4:] for folder in folders if folder.startswith("/usr/")]


def same_id(candidate: ObjectFile, build_id: str) -> str:
    """Return "" if a file has that build-id, else the fault in words."""
    if not build_id or candidate.build_id == build_id:
        return ""
    return f"the build-id is {candidate.build_id or 'missing'}, expected {build_id}"


def same_age(candidate: ObjectFile, elf: ObjectFile) -> str:
    """Return "" unless `candidate` is a PDB file of another age than in its program, else the fault in words."""
    if candidate.format != "PDB" or elf.format != "PE" or candidate.debug_id.age == elf.debug_id.age:
        return ""
    return f"the age is {candidate.debug_id.age}, expected {elf.debug_id.age}"


def belongs(candidate: ObjectFile, elf: ObjectFile, crc: int) -> str:
    """Return "" if `candidate` is the debug file of `elf`, else the fault in words. Reads all of it for a CRC only."""
    if elf.build_id and candidate.build_id:
        return same_id(candidate, elf.build_id) or same_age(candidate, elf)
    if crc < 0:
        return "" if not elf.build_id else same_id(candidate, elf.build_id)
    with open_regular(candidate.path, ElfError) as (descriptor, size):
        actual = stored_crc32(descriptor, size)
    return "" if actual == crc else f"the CRC is {actual:08x}, expected {crc:08x}"


def utc(seconds: int) -> str:
    """Return a time as text.

    >>> utc(0x6B0A6EB6)
    '2026-11-28 06:03:34 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(min(seconds, LAST_TIME)))
