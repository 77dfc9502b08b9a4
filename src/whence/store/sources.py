"""Bundles of the source files that the debug info of a build-id names.

    sources/ID.zip      each file under its path in the debug info, without the first slash

Debug info may name any file of the machine: only files below the folders that the user gave, after all links are
resolved, are opened. A bundle has at most BUNDLE_BYTES, and each file FILE_BYTES.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from whence._base.files import read_below
from whence._base.records import Record

if TYPE_CHECKING:
    from whence.lidia.table import Table

FILE_BYTES = 16 << 20
BUNDLE_BYTES = 1 << 30
BUNDLE_FILES = 200_000
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same files make the same bundle


class Bundled(Record, frozen=True):
    """A bundle: the number of its files, their size in bytes, and the number of files that the debug info names."""

    files: int
    size: int
    named: int


def named_files(table: Table) -> list[str]:
    """Return the absolute paths of source files in an archive, in order."""
    paths = set()
    for row in table:
        paths |= {row.file, row.call_file}
    return sorted(path for path in paths if path.startswith("/"))


def below(paths: Iterable[str], folders: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of these paths that exist below `folders`."""
    allowed = [os.path.realpath(folder) for folder in folders]
    for path in paths:
        content = read_below(path, allowed, FILE_BYTES)
        if content is not None:
            yield path, content


def bundle(files: Iterable[tuple[str, bytes]], named: int, output: BinaryIO) -> Bundled:
    """Write a bundle of paths with contents, of `named` paths in all. Raises OSError if it can't be written."""
    count = size = 0
    seen = set()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for path, content in files:
            name = os.path.normpath(path).lstrip("/")
            if name in seen or size + len(content) > BUNDLE_BYTES:
                continue
            if count >= BUNDLE_FILES:
                break
            seen.add(name)
            archive.writestr(zipfile.ZipInfo(name, ZIP_DATE), content, zipfile.ZIP_DEFLATED)
            count += 1
            size += len(content)
    return Bundled(count, size, named)


def read(file: BinaryIO, path: str) -> bytes | None:
    """Return a file of a bundle by its path in the debug info; None if it is missing. Raises BadZipFile."""
    with zipfile.ZipFile(file) as archive:
        try:
            info = archive.getinfo(os.path.normpath(path).lstrip("/"))
        except KeyError:
            return None
        if info.file_size > FILE_BYTES:
            return None
        with archive.open(info) as content:
            return content.read(FILE_BYTES)
