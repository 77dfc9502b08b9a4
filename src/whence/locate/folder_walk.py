"""The files in a folder and in the folders below it, up to a limit.

Folders are visited level by level, so that the files nearest to the top are found first. Links to folders are not
followed, and hidden folders are left out, except .debug, in which debuggers look.
"""

from __future__ import annotations

import os
from collections import deque
from itertools import islice

from whence._base.records import Record

FOLDERS_VISITED = 1024
ENTRIES_VISITED = 1 << 15
TOO_MANY_FILES = "has more files than are looked at: add them to a store (whence store add STORE FOLDER)"


class FolderContents(Record, frozen=True):
    """The regular files found below a folder, when each visited folder was modified, and if there is nothing else."""

    files: tuple[str, ...]
    modified: dict[str, int]
    complete: bool

    def is_current(self) -> bool:
        """Return True if no file was added to the visited folders or removed from them."""
        try:
            return all(os.stat(folder).st_mtime_ns == modified for folder, modified in self.modified.items())
        except OSError:
            return False


def contents_of(folder: str) -> FolderContents:
    """Return the files below a folder, those of each folder by name. Folders below that can't be read are left out.

    Raises OSError if the folder itself can't be read.
    """
    files: list[str] = []
    modified: dict[str, int] = {}
    waiting, entries_left, complete = deque([folder]), ENTRIES_VISITED, True
    while waiting and len(modified) < FOLDERS_VISITED and entries_left:
        visited = waiting.popleft()
        try:
            modified[visited] = os.stat(visited).st_mtime_ns
            with os.scandir(visited) as scan:
                entries = sorted(islice(scan, entries_left), key=lambda entry: entry.name)
                complete = complete and next(scan, None) is None
        except OSError:
            if visited == folder:
                raise
            continue
        entries_left -= len(entries)
        for entry in entries:
            if is_file(entry):
                files.append(entry.path)
            elif is_folder(entry):
                waiting.append(entry.path)
    return FolderContents(tuple(files), modified, complete and not waiting)


def is_file(entry: os.DirEntry[str]) -> bool:
    """Return True for a regular file, or a link to one."""
    try:
        return entry.is_file()
    except OSError:
        return False


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder whose files are looked at."""
    try:
        return (not entry.name.startswith(".") or entry.name == ".debug") and entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
