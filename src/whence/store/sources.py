"""Bundles of source files: those that the debug info of a build-id names and that exist below folders a person named.

    sources/ID.zip      each file under the path that the debug info names it by, without the first slash

Debug info may name any file of the machine: only what lies below the named folders when all links are followed is
taken, and nothing else is opened. A bundle holds MOST_BYTES at most, and a file of it FILE_BYTES.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from whence._base.files import open_looked_at
from whence._base.records import Record

if TYPE_CHECKING:
    from whence.lidia.table import Table

FILE_BYTES = 16 << 20
MOST_BYTES = 1 << 30
MOST_FILES = 200_000
ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same files make the same bundle


class Bundled(Record, frozen=True):
    """How many files of those that are named were taken, and their bytes."""

    files: int
    size: int
    named: int


def named_files(table: Table) -> list[str]:
    """The absolute paths of source files that an archive names, in order."""
    found = set()
    for one in table:
        found |= {one.file, one.call_file}
    return sorted(path for path in found if path.startswith("/"))


def bundle(paths: Iterable[str], folders: Iterable[str | os.PathLike[str]], output: BinaryIO) -> Bundled:
    """Write a bundle of the files that are there and may be taken. Raises OSError where it can't be written."""
    allowed = [os.path.realpath(folder) for folder in folders]
    count = size = named = 0
    seen = set()
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
        for path in paths:
            named += 1
            name = os.path.normpath(path).lstrip("/")
            if count >= MOST_FILES or name in seen:
                continue
            content = taken(path, allowed)
            if content is None or size + len(content) > MOST_BYTES:
                continue
            seen.add(name)
            made.writestr(zipfile.ZipInfo(name, ZIP_DATE), content, zipfile.ZIP_DEFLATED)
            count += 1
            size += len(content)
    return Bundled(count, size, named)


def taken(path: str, allowed: list[str]) -> bytes | None:
    """A source file's bytes; None when it is not there, too large, or lies outside the allowed folders."""
    if "\0" in path:
        return None
    real = os.path.realpath(path)
    if not any(os.path.commonpath([real, folder]) == folder for folder in allowed):
        return None
    try:
        descriptor = open_looked_at(real, follow=False)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_BYTES:
                return None
            if os.path.realpath(f"/proc/self/fd/{descriptor}") != real:  # a folder became a link meanwhile
                return None
            return file.read(FILE_BYTES + 1)[:FILE_BYTES]
    except OSError:
        return None


def read(file: BinaryIO, path: str) -> bytes | None:
    """A file of a bundle by the path that debug info names; None when it is not in it. Raises BadZipFile."""
    with zipfile.ZipFile(file) as made:
        try:
            one = made.getinfo(os.path.normpath(path).lstrip("/"))
        except KeyError:
            return None
        if one.file_size > FILE_BYTES:
            return None
        with made.open(one) as content:
            return content.read(FILE_BYTES)
