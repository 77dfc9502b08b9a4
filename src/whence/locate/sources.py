"""Sources of files: each yields the candidates for an identity, best first.

    GivenFiles       files that a person named: by build-id; by name if one of the two has no build-id
    ArchiveFolders   BUILD-ID.lidia, ab/cdef.lidia, or any archive with the build-id
    CachedArchives   archives that this machine made or fetched before
    NearArchives     an archive next to the mapped path: module.so.lidia
    OwnPath          the mapped path, if the build-id is the same or unknown
    BuildIdFolders   DIR/.build-id/ab/cdef.debug
    Servers          debuginfod, if a client was given
    SymbolServers    symbol servers, for modules of Windows programs

A source is anything with `find`; a store is another one. Unfit files are noted in `tried`, with a code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from os import PathLike

from whence._base import rooted
from whence._base.closing import Closing
from whence._base.errors import WRONG_KIND, ElfError, WhenceError, without_file
from whence._base.files import DELETED_MARK, open_regular
from whence._base.reasons import NOT_VERIFIED
from whence.lidia.compressed import SUFFIX_OF, is_archive
from whence.lidia.table import open as open_archive
from whence.locate.folder_walk import TOO_MANY_FILES, contents_of
from whence.locate.identity import comparable, is_hex, is_same
from whence.locate.names import same_name
from whence.locate.search import FileKind, FileQuery, Outcome, Tried
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object
from whence.objects.zipped import MARK, split_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Protocol

    from whence.locate.cache import Cache
    from whence.locate.symbol_server import SymbolServer

    class Fetcher(Protocol):
        """Something that has files by build-id: a debuginfod client, a store, the server's line to its parent."""

        def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None: ...

    class FileSource(Protocol):
        """A place that may have files for an identity: the classes of this module, and stores."""

        def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
            """Yield candidates, best first; what does not fit is added to `tried`.

            The caller closes each candidate. Raises only for wrong use.
            """
            ...


PACKAGE_INDEX = ".debug_cu_index"  # the section that makes an ELF file a .dwp
PACKED = {b"\xfd7": "xz", b"\x1f\x8b": "gzip", b"\x28\xb5": "zstd"}  # kernel modules mostly are
OWN_PATH = "own path"
SUFFIXES = ("", *SUFFIX_OF.values())  # of archives, after .lidia
ENDINGS = tuple(f".lidia{suffix}" for suffix in SUFFIXES)


class Candidate(Closing):
    """A file that may answer, with its build-ids. An ELF file stays open until it is taken or closed."""

    __slots__ = ("_waiting", "build_ids", "how", "is_archive", "is_package", "path")

    def __init__(
        self, path: str, how: str, build_ids: tuple[str, ...] = (), *, is_archive: bool = False,
        elf: ObjectFile | None = None,
    ) -> None:  # fmt: skip
        self.path, self.how, self.build_ids, self.is_archive = path, how, build_ids, is_archive
        self.is_package = elf is not None and elf.section(PACKAGE_INDEX) is not None  # of split units
        self._waiting = [] if elf is None else [elf]  # taken from by one thread only

    def __repr__(self) -> str:
        return f"<Candidate {self.path} ({self.how}), build-id {self.build_id or 'none'}>"

    @property
    def build_id(self) -> str:
        return self.build_ids[0] if self.build_ids else ""

    def elf(self) -> ObjectFile:
        """Return the open file, which is the caller's. Raises OSError, ElfError if it must be opened again."""
        try:
            return self._waiting.pop()
        except IndexError:
            return open_object(self.path)

    def close(self) -> None:
        """Close the file, unless it was taken."""
        with suppress(IndexError):
            self._waiting.pop().close()

    def is_of(self, query: FileQuery) -> bool:
        """Return True if it is the wanted file, by build-id if both have one, else by the name of the file."""
        if query.build_id and self.build_ids:
            return any(is_same(query.build_id, build_id) for build_id in self.build_ids)
        return same_name(self.path, query.path.removesuffix(DELETED_MARK))

    def difference(self, query: FileQuery) -> str:
        """Return why it is not the wanted file."""
        if query.build_id and self.build_ids:
            return f"the build-id is {self.build_id}, expected {query.build_id}"
        return f"the file is not named {os.path.basename(query.path) or 'like anything'}"


def identify(path: str | PathLike[str], how: str) -> Candidate:
    """Return a file with the build-ids of the ELF file, or of the archive.

    Raises OSError; ElfError for other files, with a hint for compressed ones.
    """
    name = os.fspath(path)
    try:
        return of_elf(open_object(name), how)
    except ElfError as error:
        if split_entry(name)[1]:
            raise error.in_file(name) from None
        with open_regular(name, ElfError) as (descriptor, _), open(descriptor, "rb", closefd=False) as file:
            head = file.read(4)
            file.seek(0)
            is_archived = is_archive(file)
        if is_archived:
            with open_archive(name) as table:
                build_id = table.about.build_id
            return Candidate(name, how, (build_id,) if build_id else (), is_archive=True)
        packed = PACKED.get(head[:2])
        if packed is None:
            raise error from None
    fault = f"packed by {packed}"
    problem = ElfError("", None, fault, found=head, code=WRONG_KIND, path=name)
    raise problem.with_hint(f"{packed} -dk it first")


def of_elf(elf: ObjectFile, how: str) -> Candidate:
    """Return an open ELF file as a candidate, which owns it."""
    try:
        return Candidate(elf.path, how, tuple(filter(None, (elf.build_id, elf.go_build_id))), elf=elf)
    except BaseException:
        elf.close()
        raise


class GivenFiles(Closing):
    """Files that a person named: ELF files, debug files, archives. Raises OSError, WhenceError for a bad one.

    Each ELF file stays open until it is used, so that it is opened once. Bad files of `optional`, the libraries in
    given zip files, are left out.
    """

    how = "given"

    def __init__(self, paths: Iterable[str | PathLike[str]], optional: Container[str] = ()) -> None:
        self.files: list[Candidate] = []
        try:
            for path in paths:
                with suppress(*((OSError, WhenceError) if path in optional else ())):
                    self.files.append(identify(path, self.how))
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<GivenFiles {', '.join(candidate.path for candidate in self.files) or 'none'}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        for candidate in self.files:
            if candidate.is_of(query):
                yield candidate
            else:
                tried.append(Tried(candidate.path, self.how, Outcome.MISMATCH, candidate.difference(query)))

    def build_ids_with(self, prefix: str) -> list[str]:
        """Return the build-ids of the files that start with a prefix in lowercase hex."""
        return with_prefix(prefix, (build_id for file in self.files for build_id in file.build_ids))

    def close(self) -> None:
        for candidate in self.files:
            candidate.close()


def with_prefix(prefix: str, build_ids: Iterable[str]) -> list[str]:
    """Return those of some build-ids that start with a prefix in lowercase hex.

    >>> with_prefix("ab", ["ABCD", "a1"])
    ['abcd']
    """
    return [key for build_id in build_ids if (key := comparable(build_id)).startswith(prefix)]


def is_shard(folder: str) -> bool:
    """Return True for the name of a folder with the files whose build-ids start with it, such as ab/cdef.lidia."""
    return len(folder) == 2 and is_hex(folder)


class ArchiveFolders:
    """Folders of archives; listed when an archive is not found under its build-id."""

    how = "archive folder"

    def __init__(self, folders: Iterable[str | PathLike[str]]) -> None:
        self.folders = [os.fspath(folder) for folder in folders]
        self._others: list[Candidate] | None = None

    def __repr__(self) -> str:
        return f"<ArchiveFolders {', '.join(self.folders)}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        build_id = query.key
        if not build_id or FileKind.ARCHIVE not in query.kinds:
            return
        for folder in self.folders:
            names = (f"{build_id}.lidia", f"{build_id[:2]}/{build_id[2:]}.lidia")
            for path in (os.path.join(folder, name + suffix) for name in names for suffix in SUFFIXES):
                if os.path.exists(path):
                    yield Candidate(path, self.how, (build_id,), is_archive=True)
        yield from (candidate for candidate in self._all(tried) if build_id in candidate.build_ids)
        tried += [Tried(folder, self.how, Outcome.ABSENT, "no archive of this build-id") for folder in self.folders]

    def build_ids_with(self, prefix: str) -> list[str]:
        """Return the build-ids of the archives that start with a prefix in lowercase hex."""
        names = [build_id for candidate in self._all([]) for build_id in candidate.build_ids]
        for folder in self.folders:
            shard = os.path.join(folder, prefix[:2])
            with suppress(OSError):
                names += [prefix[:2] + name.partition(".")[0] for name in os.listdir(shard) if name.endswith(ENDINGS)]
        return with_prefix(prefix, names)

    def _all(self, tried: list[Tried]) -> list[Candidate]:
        """Return every archive below the folders, of any name. Those in ab/ are found by name."""
        if self._others is None:
            self._others = []
            for folder in self.folders:
                try:
                    contents = contents_of(folder)
                except OSError as error:
                    tried.append(Tried(folder, self.how, Outcome.BROKEN, without_file(error)))
                    continue
                if not contents.complete:
                    tried.append(Tried(folder, self.how, Outcome.ABSENT, f"the folder {TOO_MANY_FILES}"))
                for path in contents.files:
                    if not path.endswith(ENDINGS) or is_shard(os.path.basename(os.path.dirname(path))):
                        continue
                    try:
                        self._others.append(identify(path, self.how))
                    except (WhenceError, OSError) as error:  # costs its own names, not those of the folder
                        tried.append(Tried(path, self.how, Outcome.BROKEN, without_file(error)))
        return self._others


class CachedArchives:
    """Archives in a cache."""

    how = "cache"

    def __init__(self, cache: Callable[[], Cache]) -> None:
        self._cache = cache

    def __repr__(self) -> str:
        return "<CachedArchives>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        build_id = query.key
        if not build_id or FileKind.ARCHIVE not in query.kinds:
            return
        path = self._cache().get(f"{build_id}.{FileKind.ARCHIVE}")
        if path is not None:
            yield Candidate(str(path), self.how, (build_id,), is_archive=True)
        tried.append(Tried("", self.how, Outcome.ABSENT, "no archive of this build-id"))


class OwnPath:
    """The mapped path, on this machine or below the root of another one."""

    how = OWN_PATH

    def __init__(self, root: str = "") -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"<OwnPath below {self.root or '/'}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        if not query.path.startswith("/"):
            return
        path = query.path.removesuffix(DELETED_MARK)
        if path != query.path and not query.build_id:
            tried.append(Tried(path, self.how, Outcome.UNVERIFIED, NOT_VERIFIED))
            return
        try:
            path = below(self.root, path) if self.root else path
            candidate = identify(path, self.how)
        except (FileNotFoundError, NotADirectoryError):
            tried.append(Tried(path, self.how, Outcome.ABSENT))
        except (WhenceError, OSError, ValueError) as error:
            tried.append(Tried(path, self.how, Outcome.BROKEN, without_file(error)))
        else:
            if not query.build_id or candidate.is_of(query):
                yield candidate
            else:
                tried.append(Tried(path, self.how, Outcome.REPLACED, candidate.difference(query)))
                candidate.close()


class NearArchives:
    """An archive next to the mapped path, with its name and .lidia, as packages ship it: module.so.lidia."""

    how = "next to the file"

    def __init__(self, root: str = "") -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"<NearArchives below {self.root or '/'}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        if not query.key or not query.local or FileKind.ARCHIVE not in query.kinds or not query.path.startswith("/"):
            return
        for ending in ENDINGS:
            path = query.path.removesuffix(DELETED_MARK) + ending
            try:
                candidate = identify(below(self.root, path) if self.root else path, self.how)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except (WhenceError, OSError, ValueError) as error:
                tried.append(Tried(path, self.how, Outcome.BROKEN, without_file(error)))
                continue
            if candidate.is_archive and candidate.build_ids and candidate.is_of(query):
                yield candidate
            else:
                tried.append(Tried(path, self.how, Outcome.MISMATCH, candidate.difference(query)))
                candidate.close()


def below(root: str, path: str) -> str:
    """Return a path below a root, with links followed inside it; also of an entry of a zip file. Raises OSError."""
    try:
        return rooted.below(root, path)
    except (FileNotFoundError, NotADirectoryError):
        file, mark, entry = path.rpartition(MARK)
        if not file:
            raise
        return rooted.below(root, file) + mark + entry


CACHED_NAMES = ("debug", "elf", "vdso")  # of files in perf's cache, below the build-id


class BuildIdFolders:
    """Folders with debug files of distributions, or with files of perf (perf-buildid-cache(1)).

    Below .build-id/ab/: cdef.debug is a debug file, cdef the file itself, or a folder with elf, debug or vdso.
    """

    how = "debug folder"

    def __init__(self, folders: Iterable[str], sysroot: str = "") -> None:
        self.folders, self.sysroot = list(folders), sysroot

    def __repr__(self) -> str:
        return f"<BuildIdFolders {', '.join(self.folders) or 'none'}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        build_id = query.key
        if not build_id or set(query.kinds) <= {FileKind.ARCHIVE}:
            return
        for path in self._paths(build_id):
            try:
                path = rooted.openable(path, self.sysroot)
                candidate = identify(path, self.how)
            except (FileNotFoundError, NotADirectoryError):
                tried.append(Tried(path, self.how, Outcome.ABSENT))
            except (WhenceError, OSError) as error:
                tried.append(Tried(path, self.how, Outcome.BROKEN, without_file(error)))
            else:
                if candidate.is_of(query):
                    yield candidate
                else:
                    tried.append(Tried(path, self.how, Outcome.MISMATCH, candidate.difference(query)))
                    candidate.close()

    def build_ids_with(self, prefix: str) -> list[str]:
        """Return the build-ids that start with a prefix of at least two digits in lowercase hex."""
        names: list[str] = []
        for folder in self.folders:
            shard = os.path.join(folder, ".build-id", prefix[:2])
            with suppress(OSError):
                names += [prefix[:2] + name.removesuffix(".debug") for name in os.listdir(shard)]
        return with_prefix(prefix, names)

    def _paths(self, build_id: str) -> Iterator[str]:
        for folder in self.folders:
            path = os.path.join(folder, ".build-id", build_id[:2], build_id[2:])
            yield f"{path}.debug"
            if os.path.isdir(path):
                yield from filter(os.path.exists, (os.path.join(path, name) for name in CACHED_NAMES))
            elif os.path.exists(path):
                yield path


class Servers:
    """Files of debuginfod servers."""

    def __init__(self, client: Fetcher) -> None:
        self.client = client

    def __repr__(self) -> str:
        return f"<Servers {self.client!r}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        build_id = query.key
        for kind in (FileKind.DEBUGINFO, FileKind.EXECUTABLE) if build_id else ():
            if kind not in query.kinds:
                continue
            how = f"debuginfod {kind}"
            fetched = self.client.fetch(build_id, kind, query.path)
            if fetched is not None:
                try:
                    yield identify(fetched, how)
                except (WhenceError, OSError) as error:
                    tried.append(Tried(str(fetched), how, Outcome.BROKEN, without_file(error)))
                    continue
            tried.append(Tried("", how, Outcome.ABSENT, "not found"))


class SymbolServers:
    """Files of symbol servers, for modules of Windows whose programs are not on this machine."""

    how = "symbol server"

    def __init__(self, client: SymbolServer) -> None:
        self.client = client

    def __repr__(self) -> str:
        return f"<SymbolServers {self.client!r}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        module = query.module
        if module is None:
            return
        if FileKind.EXECUTABLE in query.kinds:
            fetched = self.client.fetch_program(module.program, module.code_id, query.build_id, query.path)
            yield from self._candidates(fetched, module.program, tried)
        if FileKind.DEBUGINFO in query.kinds:
            fetched = self.client.fetch_pdb(module.pdb, module.debug_id, query.path)
            yield from self._candidates(fetched, module.pdb, tried)

    def _candidates(self, fetched: Path | None, name: str, tried: list[Tried]) -> Iterator[Candidate]:
        """Yield a fetched file, or note why it is missing."""
        if fetched is None:
            tried.append(Tried("", self.how, Outcome.ABSENT, f"{name} not found"))
            return
        try:
            yield identify(fetched, self.how)
        except (WhenceError, OSError) as error:
            tried.append(Tried(str(fetched), self.how, Outcome.BROKEN, without_file(error)))
