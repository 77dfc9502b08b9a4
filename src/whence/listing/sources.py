"""Find source files, in this order.

    embedded       the text in the debug info (LLVM_source, injected sources of a PDB file)
    git            `git cat-file` of a revision, without a work tree
    source folder  below a folder that a person gave: the path, or its last parts
    prefix         the path with one prefix replaced by another
    own path       the path in the debug info
    fetchers       bundles of stores, debuginfod

Paths in debug info are not trusted: only regular files are opened, of at most SOURCE_BYTES, and below a given folder
only what is in it after all links are followed. A file whose MD5 differs from that in the debug info is not used.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import ObjectError, WrongUse
from whence._base.files import read_below, read_regular
from whence._base.forks import cached_property
from whence._base.records import Record
from whence.dwarf.source_files import DebugSource, LineStrings, debug_sources
from whence.objects.pdb import PdbFile
from whence.pdb.sources import PdbSources

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile

SOURCE_BYTES = 16 << 20  # of a file
LINE_CHARACTERS = 4096  # of a line
SUFFIX_PARTS = 64  # of a path that are tried below a folder
GIT_SECONDS = 30.0
LIST_BYTES = 1 << 28  # of the names of a revision's files

Fetcher = Callable[[str, str], "bytes | None"]
"""Returns the source file of a build-id by its path in the debug info; None if it has none."""


class SourceFile(Record):
    """A source file.

    Attributes:
        path: as in the debug info.
        origin: where it was found.
        verified: True if its MD5 is that in the debug info, None if the debug info has none.
        lines: without line ends; long lines are cut.
    """

    path: str
    origin: str
    verified: bool | None
    lines: list[str]

    def __repr__(self) -> str:
        return f"<SourceFile {self.path} from {self.origin}: {len(self.lines):,} lines>"

    def line(self, number: int) -> str | None:
        """Return a line, counted from 1; None if the file is shorter."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else None


class SourceContent(NamedTuple):
    """The bytes of a source file; `origin` and `verified` are those of SourceFile."""

    content: bytes
    origin: str
    verified: bool | None


class GitTree:
    """Files of a revision of a git repository, which may be bare.

    Args:
        text: REPOSITORY@REVISION; REVISION is HEAD if it is missing.

    Raises WrongUse if git cannot be run, or the repository or revision does not exist.
    """

    def __init__(self, text: str) -> None:
        self.folder, mark, self.revision = text.rpartition("@")
        if not mark:
            self.folder, self.revision = text, "HEAD"
        commit = self._git("rev-parse", "--verify", "--end-of-options", f"{self.revision}^{{commit}}")
        if commit is None:
            repository = self.folder or "."
            raise WrongUse(f"--git {text}: {repository} is not a git repository with the revision {self.revision}")
        self.commit = commit.decode().strip()

    def __repr__(self) -> str:
        return f"<GitTree {self.folder}@{self.revision}>"

    def _git(self, *words: str, size: int = SOURCE_BYTES) -> bytes | None:
        """Return the output of git, at most `size` bytes; None if git fails. Raises WrongUse without git."""
        command = ["git", "-C", self.folder or ".", *words]
        quiet = subprocess.DEVNULL
        try:
            with subprocess.Popen(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet) as git:
                assert git.stdout is not None
                output = git.stdout.read(size + 1)
                if len(output) > size:
                    git.kill()
                    return None
                return output if git.wait(GIT_SECONDS) == 0 else None
        except FileNotFoundError:
            raise WrongUse("--git needs the program git, which is not installed") from None

    @cached_property
    def _names(self) -> frozenset[bytes]:
        """Return the paths of all files of the revision."""
        listed = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", self.commit, size=LIST_BYTES)
        return frozenset((listed or b"").split(b"\0"))

    def read(self, path: str) -> bytes | None:
        """Return the file of a path in the debug info: the longest of its endings that the revision has."""
        for ending in endings(path):
            if os.fsencode(ending) in self._names:
                return self._git("cat-file", "blob", f"{self.commit}:{ending}")
        return None


WINDOWS_PATH = re.compile(r"[A-Za-z]:\\")


def endings(path: str) -> list[str]:
    r"""Return a path without its first 0, 1, 2, ... parts, longest first. Paths that leave their folder have none.

    >>> endings("/build/./src/../src/a.c")
    ['build/src/a.c', 'src/a.c', 'a.c']
    >>> endings("C:\\build\\a.c")
    ['build/a.c', 'a.c']
    """
    if WINDOWS_PATH.match(path):
        path = path[2:].replace("\\", "/")
    parts = [part for part in os.path.normpath(path).split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        return []
    return ["/".join(parts[first:]) for first in range(max(0, len(parts) - SUFFIX_PARTS), len(parts))]


class SourceOptions(Record, frozen=True):
    """The folders and services that have source files.

    Attributes:
        folders: paths are looked up below them, whole or by their last parts.
        prefixes: pairs (old, new): a path that starts with `old` is read below `new`.
        git: repositories.
        fetchers: names, and functions that return files by build-id and path.
        own_paths: also read the paths in the debug info.
    """

    folders: tuple[str, ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    git: tuple[GitTree, ...] = ()
    fetchers: tuple[tuple[str, Fetcher], ...] = ()
    own_paths: bool = True


class Sources:
    """Finds the source files of one binary, and checks them by the MD5 in its debug info.

    Args:
        options: where to look.
        build_id: of the binary, for fetchers; "" if unknown.
        debug: the file with the debug info, for checksums and embedded text.
    """

    def __init__(
        self, options: SourceOptions | None = None, build_id: str = "", debug: ObjectFile | None = None
    ) -> None:
        self.options = options or SourceOptions()
        self._build_id, self._debug = build_id, debug
        self._files: dict[str, SourceFile | None] = {}
        self._known: dict[str, DebugSource] = {}
        self._differing: dict[str, str] = {}
        self._sections: LineStrings | None = None

    def __repr__(self) -> str:
        return f"<Sources of {self._build_id or 'a binary'}: {len(self._files)} files>"

    def find(self, path: str) -> SourceFile | None:
        """Return a file by its path in the debug info; None if no source has it, or only other versions were found."""
        if path not in self._files:
            content = self.read(path)
            self._files[path] = None if content is None else source_file(path, content)
        return self._files[path]

    def expect(self, paths: Collection[str]) -> None:
        """Read what the debug info has of files that will be requested, in one pass over it."""
        new = [path for path in paths if path not in self._known]
        if new:
            self._known.update(dict.fromkeys(new, DebugSource()) | self._debug_sources(new))

    def read(self, path: str) -> SourceContent | None:
        """Return the bytes of a file, which are not cached."""
        self.expect([path])
        cached = self._known[path]
        embedded = [("the debug info", cached.text)] if cached.text is not None else []
        for origin, content in chain(embedded, self._candidates(path)):  # a candidate is read when it is needed
            if not cached.md5:
                return SourceContent(content, origin, None)
            if hashlib.md5(content, usedforsecurity=False).hexdigest() == cached.md5:
                return SourceContent(content, origin, True)
            self._differing.setdefault(path, origin)
        return None

    def _debug_sources(self, paths: Collection[str]) -> dict[str, DebugSource]:
        """Return what the debug info has of files; nothing if its sections are damaged."""
        if self._debug is None:
            return {}
        pdb = self._pdb
        if pdb is not None:
            return {path: DebugSource(facts.md5, facts.text) for path, facts in pdb.facts(paths).items()}
        if self._sections is None:
            content = self._debug.content
            try:
                self._sections = LineStrings(
                    content(".debug_line"), content(".debug_str"), content(".debug_line_str"), self._debug.order
                )
            except ObjectError:
                self._debug = None
                return {}
        return debug_sources(self._sections, paths)

    @cached_property
    def _pdb(self) -> PdbSources | None:
        """Source files of the PDB file; None for other debug info."""
        return PdbSources(self._debug) if isinstance(self._debug, PdbFile) else None

    def _candidates(self, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield the contents of files with the name of a path, and where each was found."""
        options = self.options
        for tree in options.git:
            content = tree.read(path)
            if content is not None:
                yield f"{tree.folder or '.'}@{tree.revision}", content
        for folder in options.folders:
            for ending in endings(path):
                content = read_below(os.path.join(folder, ending), [folder], SOURCE_BYTES)
                if content is not None:
                    yield folder, content
        for old, new in options.prefixes:
            if path.startswith(old):
                content = read_below(new + path[len(old) :], [new], SOURCE_BYTES)
                if content is not None:
                    yield new, content
        if options.own_paths and path.startswith("/"):
            content = read_regular(path, SOURCE_BYTES)
            if content is not None:
                yield "its own path", content
        for name, fetch in options.fetchers if self._build_id else ():
            content = fetch(self._build_id, path)
            if content is not None:
                yield name, content[:SOURCE_BYTES]

    def why_missing(self, path: str) -> str:
        """Return why a file was not found."""
        if path in self._differing:
            return f"{self._differing[path]} has another version (its MD5 differs from that in the debug info)"
        return f"no {' or '.join(name for name, _ in self.options.fetchers) or 'folder'} has it"

    def remedy(self, path: str) -> str:
        """Return what to do about a file that was not found."""
        if path in self._differing:
            return self.why_missing(path)
        if self.options.own_paths and file_size(path) > SOURCE_BYTES:
            return f"the file has more than {SOURCE_BYTES >> 20} MiB"
        address = self._pdb.address(path) if self._pdb is not None else ""
        if address:
            return f"download {address} into a folder and give it with --source-dir"
        return "give --source-dir, --path-prefix OLD=NEW, --git REPO@REV, --store or --debuginfod"


def file_size(path: str) -> int:
    """Return the size of a regular file in bytes, 0 for other files."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # a path with a NUL
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def source_file(path: str, content: SourceContent) -> SourceFile:
    """Return a source file from its bytes. Lines are cut at LINE_CHARACTERS."""
    text = content.content.decode("utf-8", "replace")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    cut = [line if len(line) <= LINE_CHARACTERS else line[:LINE_CHARACTERS] + "..." for line in lines]
    return SourceFile(path, content.origin, content.verified, cut)
