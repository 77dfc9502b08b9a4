"""Regular files: opened only when they are such, and written so that they never hold half of something.

A pipe would wait for its other end; a device may never end, or do something when it is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from whence.errors import naming, not_regular

if TYPE_CHECKING:
    from whence.errors import FormatError


@contextmanager
def open_regular(path: str | os.PathLike[str], error: type[FormatError]) -> Iterator[tuple[int, int]]:
    """A descriptor of the file and its size in bytes, until the block ends. Raises OSError, `error`.

    What the block raises names the file.
    """
    name = os.fspath(path)
    descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        with naming(name):
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(21, os.strerror(21), name)
            if not stat.S_ISREG(status.st_mode):
                raise not_regular(error, status.st_mode)
            yield descriptor, status.st_size
    finally:
        os.close(descriptor)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, beside the path, that takes its name when the block ends well and is removed when it does not.

    Of a link the file it leads to is replaced; a pipe or a device is written to. An OSError names the path.
    """
    given = os.fspath(path)
    if os.path.exists(given) and not os.path.isfile(given):
        with open(given, "wb") as file:
            yield file
        return
    place = os.path.realpath(given)
    folder, name = os.path.split(place)
    beside = os.path.join(folder, f".{name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            yield file
        os.replace(beside, place)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(beside)
        if isinstance(error, OSError):
            error.filename = given
        raise
