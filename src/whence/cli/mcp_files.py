"""Files that the tools of `whence mcp` may read: those below its folders, and what they say of other paths.

A path of a request is refused unless it is below a folder of --root with all links resolved. Programs and libraries
that a profile or a core names, and source files that debug info names, are read below these folders only; debug files
also from the debug folders, and from the sources that the command line names.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whence._base.errors import ElfError, WrongUse
from whence._base.words import plain
from whence.cli.options import cache_root, locator_fields, store_place
from whence.listing import SourceOptions
from whence.locate.sources import OwnPath
from whence.locator.locator import Locator
from whence.objects.zipped import split_entry

if TYPE_CHECKING:
    from whence.locate.search import FileQuery, Tried
    from whence.locate.sources import Candidate
    from whence.objects.interface import ObjectFile


class AllowedFolders:
    """The folders of --root, with links resolved."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Raise WrongUse for a path that is not a folder."""
        for folder in folders:
            if not os.path.isdir(folder):
                raise WrongUse(f"--root {plain(folder)}: not a folder")
        self.folders = tuple(dict.fromkeys(map(os.path.realpath, folders)))

    def contain(self, path: str) -> bool:
        """Return True if a path with all links resolved is below one of the folders."""
        resolved = os.path.realpath(path)
        return any(os.path.commonpath((resolved, folder)) == folder for folder in self.folders)

    def path(self, path: str) -> str:
        """Return the absolute path of a file of a request; relative ones are below the first folder that has it.

        Raises WrongUse if the path does not exist, or is not below one of the folders. Both have one error, so that
        requests do not find out which other files exist.
        """
        for folder in self.folders:
            candidate = os.path.join(folder, path)
            exists = "\0" not in path and (os.path.lexists(candidate) or split_entry(candidate)[1])
            if exists and self.contain(split_entry(candidate)[0] or candidate):
                return os.path.realpath(candidate) if os.path.lexists(candidate) else candidate
        raise WrongUse(f"{plain(path)}: no such file below {', '.join(map(plain, self.folders))}")

    def sources(self) -> SourceOptions:
        """Return where source files may be read."""
        return SourceOptions(folders=self.folders, own_paths=False)


class AllowedPaths(OwnPath):
    """The mapped path, if it is below the allowed folders."""

    def __init__(self, allowed: AllowedFolders) -> None:
        super().__init__()
        self._allowed = allowed

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        if query.path.startswith("/") and "\0" not in query.path and self._allowed.contain(query.path):
            yield from super().find(query, tried)


class AllowedLocator(Locator):
    """A Locator that opens files named by other files only below the allowed folders, debug folders and given files."""

    def __init__(self, allowed: AllowedFolders, given: Sequence[str], options: Namespace) -> None:
        fields = locator_fields(options, given=list(given))
        fields["local"] = False
        fields["sources"] = [AllowedPaths(allowed), *fields["sources"]]
        self._allowed = allowed
        self._trusted: AllowedFolders | None = None
        super().__init__(**fields)
        folders = [*self.dirs, *self.binary_dirs, *self.archive_dirs, cache_root(options)]
        folders += map(store_place, options.store)
        self._trusted = AllowedFolders([folder for folder in folders if os.path.isdir(folder)])

    def _open_elf(self, path: str) -> ObjectFile:
        if self._trusted is not None and path not in self.files:
            file = split_entry(path)[0] or path
            if not (self._allowed.contain(file) or self._trusted.contain(file)):
                raise ElfError("", None, "the file is not below an allowed folder", path=path)
        return super()._open_elf(path)


@contextmanager
def allowed_locator(allowed: AllowedFolders, given: Sequence[str], options: Namespace) -> Iterator[Locator]:
    """Open a Locator for allowed files of a request and the options of the command line."""
    with AllowedLocator(allowed, given, options) as locator:
        yield locator
