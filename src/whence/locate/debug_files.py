"""The files on this machine that complete an ELF file: its debug file, dwz's shared file, .dwo and .dwp files.

A search tries candidates in the order debuggers agree on and keeps what became of each, so that an address without an
answer can say where nobody looked yet:

    debug file   the file itself; debug files given by hand; DEBUG_DIR/.build-id/xx/rest.debug; the .gnu_debuglink name
                 in the file's folder, in .debug/ there, and in DEBUG_DIR/the file's folder
    dwz's        the .gnu_debugaltlink name (relative to the file that has it); DEBUG_DIR/.build-id; DEBUG_DIR/.dwz
    .dwp         FILE.dwp beside the file; DEBUG_DIR/.build-id/xx/rest.dwp
    .dwo         its name in the compilation's folder; beside the file; in the file's folder under its bare name

A candidate belongs to the file when their build-ids are equal. Where one of them has none, the CRC of the debug link
decides. A candidate that is there and does not belong is recorded as MISMATCH, and never used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from whence import rooted
from whence.elf import ElfFile
from whence.errors import ElfError, Mismatch, WhenceError, without_file
from whence.files import open_regular
from whence.locate.crc import stored_crc32
from whence.records import Record, field

DEBUG_DIRS = ("/usr/lib/debug",)
DEBUG_INFO = ".debug_info"


class Outcome(Enum):
    """What became of a candidate."""

    TAKEN = "taken"
    ABSENT = "not there"
    MISMATCH = "belongs to another file"
    BROKEN = "damaged or unreadable"
    EMPTY = "holds no debug info"
    REPLACED = "lies where the wanted file was, with another build-id"
    UNVERIFIED = "nothing tells whether it is the wanted file"


class Tried(Record, frozen=True):
    """A candidate: its path, how it came to be one ("build-id", "debug link", ...), what became of it and why."""

    path: str
    how: str
    outcome: Outcome
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.path} ({self.how}): {self.outcome.value}{': ' + self.detail if self.detail else ''}"


class Search(Record):
    """The end of a search: `elf` is the open file that was taken (the caller closes it), or None."""

    wanted: str
    elf: ElfFile | None = None
    path: str = ""
    how: str = ""
    tried: list[Tried] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.elf is not None

    @property
    def mismatches(self) -> list[Tried]:
        """Files that were there and belong to another binary: worth telling, for a person may have put them there."""
        return [one for one in self.tried if one.outcome is Outcome.MISMATCH]

    def require(self) -> ElfFile:
        """The file; without one Mismatch when a wrong one was there, else FileNotFoundError with all that was tried."""
        if self.elf is not None:
            return self.elf
        if self.mismatches:
            raise Mismatch("; ".join(map(str, self.mismatches)))
        raise FileNotFoundError(2, f"no {self.wanted} ({'; '.join(map(str, self.tried)) or 'nothing names one'})")


Candidates = Iterable[tuple[str, str]]  # path, how


class DebugFiles:
    """Looks for files under the given debug folders and beside the files themselves. Holds no state; thread-safe."""

    def __init__(
        self,
        debug_dirs: Iterable[str | os.PathLike[str]] = DEBUG_DIRS,
        debug_files: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        self.debug_dirs = tuple(os.fspath(one) for one in debug_dirs)
        self.debug_files = tuple(os.fspath(one) for one in debug_files)

    def debug_file(self, elf: ElfFile) -> Search:
        """The file with the DWARF of a file: `elf` itself when it has some."""
        search = Search("debug file")
        if len_of(elf, DEBUG_INFO):
            search.elf, search.path, search.how = elf, elf.path, "itself"
            search.tried.append(Tried(elf.path, "itself", Outcome.TAKEN))
            return search
        search.tried.append(Tried(elf.path, "itself", Outcome.EMPTY))
        crc = -1
        candidates = [(one, "given") for one in self.debug_files]
        candidates += self._build_id_files(elf.build_id, ".debug")
        try:
            link = elf.debug_link
        except WhenceError as error:
            link = None
            search.tried.append(Tried(elf.path, "debug link", Outcome.BROKEN, error.message))
        if link is not None and os.path.basename(link.name):
            crc = link.crc
            candidates += self._linked(elf.path, os.path.basename(link.name))
        self._take(search, candidates, lambda found: belongs(found, elf, crc), elf.path)
        return search

    def by_build_id(self, build_id: str) -> Search:
        """The debug file of a build-id, when the file itself is not at hand."""
        search = Search(f"debug file of build-id {build_id}")
        self._take(search, self._build_id_files(build_id, ".debug"), lambda found: same_id(found, build_id))
        return search

    def alt_file(self, elf: ElfFile) -> Search:
        """The supplementary file that dwz made for the DWARF in `elf`, if it has one; EMPTY search if it has none."""
        search = Search("supplementary file")
        try:
            link = elf.alt_link
        except WhenceError as error:
            search.tried.append(Tried(elf.path, "alt link", Outcome.BROKEN, error.message))
            return search
        if link is None:
            return search
        candidates = [(inside_of(folder, link.name), "alt link") for folder in folders_of(elf.path)]
        candidates += self._build_id_files(link.build_id, ".debug")
        name = os.path.basename(link.name)
        candidates += [(os.path.join(folder, ".dwz", name), "dwz folder") for folder in self.debug_dirs]
        self._take(search, candidates, lambda found: same_id(found, link.build_id), elf.path)
        return search

    def dwp_for(self, path: str | os.PathLike[str], build_id: str = "") -> Search:
        """The package of split units beside a file. Its units have ids, which the DWARF reader compares."""
        search = Search("package of split units")
        beside = [(f"{path}.dwp", "beside")]
        self._take(search, [*beside, *self._build_id_files(build_id, ".dwp")], lambda _: "")
        return search

    def dwo(self, comp_dir: str, name: str, near: str | os.PathLike[str] = "") -> Search:
        """The split unit a skeleton names; `near` is the file that holds the skeleton."""
        search = Search("split unit")
        folders = folders_of(os.fspath(near)) if near else []
        root, _ = rooted.split(os.fspath(near))
        elsewhere = _leads_elsewhere(os.fspath(near))
        candidates = [(root + os.path.join("/" if root else "", comp_dir, name), "compilation folder")]
        if elsewhere:  # names of files of that process are none of ours
            candidates = []
        candidates += [(os.path.join(folder, name), "beside") for folder in folders if not os.path.isabs(name)]
        candidates += [(os.path.join(folder, os.path.basename(name)), "bare name") for folder in folders]
        self._take(search, candidates, lambda _: "")
        return search

    def _build_id_files(self, build_id: str, suffix: str) -> Iterator[tuple[str, str]]:
        if len(build_id) > 2:
            for folder in self.debug_dirs:
                yield os.path.join(folder, ".build-id", build_id[:2], build_id[2:] + suffix), "build-id"

    def _linked(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        folders = folders_of(path)
        for folder in folders:
            yield os.path.join(folder, name), "debug link"
            yield os.path.join(folder, ".debug", name), "debug link"
        for top in self.debug_dirs:
            for folder in folders:
                inside = os.path.abspath(rooted.split(folder)[1])
                yield os.path.join(top, inside.lstrip("/"), name), "debug link"

    @staticmethod
    def _take(search: Search, candidates: Candidates, check: Callable[[ElfFile], str], itself: str = "") -> None:
        """Open candidates in turn until `check` finds no fault; what became of each is recorded."""
        seen = {rooted.real_path(itself)} if itself else set()
        for path, how in candidates:
            if "\0" in path or (real := rooted.real_path(path)) in seen:
                continue
            seen.add(real)
            found = None
            try:
                found = ElfFile.open(path)
                fault = check(found)
            except FileNotFoundError:
                search.tried.append(Tried(path, how, Outcome.ABSENT))
                continue
            except (OSError, WhenceError) as error:
                if found is not None:
                    found.close()
                absent = isinstance(error, NotADirectoryError)
                outcome = Outcome.ABSENT if absent else Outcome.BROKEN
                search.tried.append(Tried(path, how, outcome, without_file(error)))
                continue
            if fault:
                found.close()
                search.tried.append(Tried(path, how, Outcome.MISMATCH, fault))
                continue
            search.elf, search.path, search.how = found, path, how
            search.tried.append(Tried(path, how, Outcome.TAKEN))
            return


def len_of(elf: ElfFile, name: str) -> int:
    """The bytes of a section as they lie in the file; 0 when it is not there or only claimed (SHT_NOBITS)."""
    section = elf.section(name)
    return section.size if section is not None and section.in_file else 0


def folders_of(path: str) -> list[str]:
    """The folder of a file, as it was named and with links resolved: / and /usr hold the same files under two names."""
    root, inside = rooted.split(path)
    if root:
        return [root + folder for folder in _spelled(os.path.dirname(inside), rooted.real_path(path)[len(root) :])]
    if not path or _leads_elsewhere(path):
        return []
    return _spelled(os.path.dirname(path) or ".", os.path.realpath(path))


def inside_of(folder: str, name: str) -> str:
    """A name as it is meant in a folder: an absolute one starts at the root of the process that the folder is in."""
    root, _ = rooted.split(folder + "/")
    return root + name if root and os.path.isabs(name) else os.path.join(folder, name)


def _leads_elsewhere(path: str) -> bool:
    """Whether a path is /proc's link to a file of a process with another root, so that its name is none of ours."""
    head, _, name = path.rpartition("/")
    process = head.removesuffix("/map_files") if head.endswith("/map_files") else head if name == "exe" else ""
    return process.rpartition("/")[2].isdecimal() and rooted.is_foreign(process)


def _spelled(named: str, real: str) -> list[str]:
    """The folders of a file, as it was named and with links resolved."""
    real = os.path.dirname(real)
    folders = [named, real] if os.path.abspath(named) != real else [named]
    return folders + [folder[4:] for folder in folders if folder.startswith("/usr/")]


def same_id(found: ElfFile, build_id: str) -> str:
    """ "" when a file has that build-id, else the fault in words."""
    if not build_id or found.build_id == build_id:
        return ""
    return f"its build-id is {found.build_id or 'missing'}, not {build_id}"


def belongs(found: ElfFile, elf: ElfFile, crc: int) -> str:
    """ "" when `found` is the debug file of `elf`, else the fault in words. Only for a CRC is all of it read."""
    if elf.build_id and found.build_id:
        return same_id(found, elf.build_id)
    if crc < 0:
        return "" if not elf.build_id else same_id(found, elf.build_id)
    with open_regular(found.path, ElfError) as (descriptor, size):
        actual = stored_crc32(descriptor, size)
    return "" if actual == crc else f"its CRC is {actual:08x}, not {crc:08x}"
