"""The object files and archives directly in a folder, by build-id.

CI and package builds leave debug files in a plain folder: `app.debug`, `libfoo.so.debug`, `app.dwp`. Each folder is
indexed once, and again after files were added or removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from whence._base.errors import WhenceError, without_file
from whence._base.files import DELETED_MARK
from whence.locate.identity import comparable
from whence.locate.names import same_name
from whence.locate.search import FileQuery, Outcome, Tried
from whence.locate.sources import ENDINGS, Candidate, identify
from whence.objects.opening import is_magic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDERS = 64  # whose index is kept


def files_of(folder: str, build_id: str) -> tuple[str, ...]:
    """Return the paths of the files in a folder with a build-id."""
    return by_build_id(folder).get(comparable(build_id), ())


def by_build_id(folder: str) -> Mapping[str, tuple[str, ...]]:
    """Return the paths of the files in a folder by build-id; "" for files without one. Empty without a folder."""
    try:
        return _indexed(folder, os.stat(folder).st_mtime_ns)
    except OSError:
        return {}


@lru_cache(FOLDERS)
def _indexed(folder: str, _modified: int) -> Mapping[str, tuple[str, ...]]:
    """Return the index of a folder that was modified at a time. Raises OSError."""
    files: dict[str, tuple[str, ...]] = {}
    with os.scandir(folder) as entries:
        paths = sorted(entry.path for entry in entries if is_binary(entry))
    for path in paths:
        try:
            with identify(path, "") as candidate:
                build_ids = candidate.build_ids
        except (WhenceError, OSError):  # a damaged file only lacks its own names
            continue
        for build_id in map(comparable, build_ids or ("",)):
            files[build_id] = (*files.get(build_id, ()), path)
    return files


def is_binary(entry: os.DirEntry[str]) -> bool:
    """Return True if a file is an object file by its first bytes, or an archive by its name."""
    try:
        if not entry.is_file():
            return False
        if entry.name.endswith(ENDINGS):
            return True
        with open(entry.path, "rb") as file:
            return is_magic(file.read(4))
    except OSError:
        return False


class FolderFiles:
    """Folders whose files are used like given files: by build-id; by name if there is no build-id to compare.

    Args:
        folders: the folders; files in folders below them are not used.
        how: how their files were found, in words.
        by_name: also use a file without a build-id, or for a mapping without one, if its name matches.
    """

    def __init__(self, folders: Iterable[str], how: str, *, by_name: bool = False) -> None:
        self.folders, self.how, self._by_name = tuple(folders), how, by_name

    def __repr__(self) -> str:
        return f"<FolderFiles {', '.join(self.folders) or 'none'}>"

    def find(self, wanted: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        """Yield the files of a build-id in each folder, then those of its name."""
        for folder in self.folders:
            index = by_build_id(folder)
            paths = list(index.get(comparable(wanted.build_id), ())) if wanted.build_id else []
            if self._by_name:
                unproven = index.get("", ()) if wanted.build_id else chain.from_iterable(index.values())
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
            if index:
                tried.append(Tried(folder, self.how, Outcome.ABSENT, "no other file in this folder matches"))
