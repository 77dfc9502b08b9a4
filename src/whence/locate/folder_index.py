"""The object files and archives in a folder and the folders below it, by build-id.

CI and package builds leave debug files in folders: `app.debug`, `lib/libfoo.so.debug`, `app.dwp`. A folder is indexed
once, and again after files were added or removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from threading import Lock

from whence._base.errors import WhenceError, without_file
from whence._base.files import DELETED_MARK
from whence._base.lru import Lru
from whence._base.records import Record
from whence.locate.dsym import expanded
from whence.locate.folder_walk import TOO_MANY_FILES, FolderContents, contents_of
from whence.locate.identity import comparable
from whence.locate.names import same_name
from whence.locate.search import FileQuery, Outcome, Tried
from whence.locate.sources import ENDINGS, Candidate, identify
from whence.objects.opening import is_magic

FOLDERS_INDEXED = 64  # whose index is kept
BINARIES_INDEXED = 4096  # of one folder


class FolderIndex(Record, frozen=True):
    """The paths of the binaries below a folder by build-id; "" for binaries without one."""

    contents: FolderContents
    by_build_id: Mapping[str, tuple[str, ...]]
    complete: bool

    def of_build_id(self, build_id: str) -> tuple[str, ...]:
        return self.by_build_id.get(comparable(build_id), ()) if build_id else ()

    def named(self, name: str) -> list[str]:
        """Return the paths of binaries without a build-id that have this file name."""
        return [path for path in self.by_build_id.get("", ()) if os.path.basename(path) == name]


NO_FILES = FolderIndex(FolderContents((), {}, True), {}, True)
_indexes: Lru[str, FolderIndex] = Lru(FOLDERS_INDEXED)
_lock = Lock()


def index_of(folder: str) -> FolderIndex:
    """Return the index of a folder; an empty one if the folder can't be read."""
    with _lock:
        index = _indexes.get(folder)
    if index is not None and index.contents.is_current():
        return index
    try:
        index = _indexed(folder)
    except OSError:
        return NO_FILES
    with _lock:
        _indexes[folder] = index
    return index


def _indexed(folder: str) -> FolderIndex:
    contents = contents_of(folder)
    paths: dict[str, list[str]] = {}
    count, complete = 0, contents.complete
    for path in expanded(filter(is_binary, contents.files)):
        if count == BINARIES_INDEXED:
            complete = False
            break
        count += 1
        try:
            with identify(path, "") as candidate:
                build_ids = candidate.build_ids
        except (WhenceError, OSError):  # a damaged file only lacks its own names
            continue
        for build_id in map(comparable, build_ids or ("",)):
            paths.setdefault(build_id, []).append(path)
    return FolderIndex(contents, {build_id: tuple(files) for build_id, files in paths.items()}, complete)


def is_binary(path: str) -> bool:
    """Return True if a regular file is an object file by its first bytes, or an archive by its name."""
    if path.endswith(ENDINGS):
        return True
    try:
        with open(path, "rb") as file:
            return is_magic(file.read(4))
    except OSError:
        return False


class FolderFiles:
    """Folders whose files are used like given files: by build-id; by name if there is no build-id to compare.

    Args:
        folders: the folders; files in the folders below them are used as well.
        how: how their files were found, in words.
        by_name: also use a file without a build-id, or for a mapping without one, if its name matches.
    """

    def __init__(self, folders: Iterable[str], how: str, *, by_name: bool = False) -> None:
        self.folders, self.how, self._by_name = tuple(folders), how, by_name

    def __repr__(self) -> str:
        return f"<FolderFiles {', '.join(self.folders) or 'none'}>"

    def build_ids_with(self, prefix: str) -> list[str]:
        """Return the build-ids of files that start with a prefix in lowercase hex."""
        return [key for folder in self.folders for key in index_of(folder).by_build_id if key.startswith(prefix)]

    def find(self, wanted: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        """Yield the files of a build-id in each folder, then those of its name."""
        for folder in self.folders:
            index = index_of(folder)
            paths = list(index.of_build_id(wanted.build_id))
            if self._by_name:
                files = index.by_build_id
                unproven = files.get("", ()) if wanted.build_id else chain.from_iterable(files.values())
                paths += [path for path in unproven if same_name(path, wanted.path.removesuffix(DELETED_MARK))]
            own = os.path.realpath(wanted.path) if not self._by_name and wanted.path else ""
            for path in dict.fromkeys(path for path in paths if os.path.realpath(path) != own):
                try:
                    candidate = identify(path, self.how)
                except (WhenceError, OSError) as error:
                    tried.append(Tried(path, self.how, Outcome.BROKEN, without_file(error)))
                    continue
                if candidate.is_of(wanted):
                    yield candidate
                else:  # the file was replaced after the folder was indexed
                    tried.append(Tried(path, self.how, Outcome.MISMATCH, candidate.difference(wanted)))
                    candidate.close()
            if not index.complete:
                tried.append(Tried(folder, self.how, Outcome.ABSENT, f"the folder {TOO_MANY_FILES}"))
            elif index.by_build_id:
                tried.append(Tried(folder, self.how, Outcome.ABSENT, "no other file in this folder matches"))
