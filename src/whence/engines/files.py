"""Files that engines read and write by path or by address: in a folder, or in a bucket by way of a temporary file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.files import failure
from whence.store.places import SCHEME, objects_at

if TYPE_CHECKING:
    from whence.store.objects import Objects

PLACES = 64  # whose connections a process keeps


def is_address(path: str) -> bool:
    """Whether this names an object of a bucket, and not a file: "s3://bucket/profiles/cpu.pb.gz"."""
    return SCHEME.match(path) is not None


def joined(folder: str, name: str) -> str:
    """The path or address of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_address(folder) else os.path.join(folder, name)


def listed(folder: str) -> list[str]:
    """The paths or addresses of the files in a folder or right below an address, in order of their names. OSError."""
    if not is_address(folder):
        paths = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
        return [path for path in paths if os.path.isfile(path)]
    keys = (one.key for one in _objects(folder.rstrip("/")).list(""))
    return [joined(folder, key) for key in sorted(key for key in keys if "/" not in key)]


def exists(path: str) -> bool:
    """OSError for a bucket that can't be reached."""
    if not is_address(path):
        return os.path.exists(path)
    place, key = _split(path)
    return place.head(key) is not None


@contextmanager
def to_read(path: str) -> Iterator[str]:
    """A file with these bytes; one of a bucket is fetched for the time of the block. OSError.

    What is raised of a fetched file names it by its address.
    """
    if not is_address(path):
        yield path
        return
    place, key = _split(path)
    with tempfile.TemporaryDirectory() as folder:
        fetched = os.path.join(folder, key)
        with open(fetched, "wb") as file:
            if place.fetch(key, file) is None:
                problem = failure("ENOENT")
                problem.filename = path
                raise problem
        try:
            yield fetched
        except (WhenceError, OSError) as error:
            raise OSError(str(error).replace(fetched, path)) from error


@contextmanager
def to_write(path: str) -> Iterator[str]:
    """A path to write a file to, whole or not at all; in a bucket it is put when the block ends well. OSError."""
    if not is_address(path):
        yield path
        return
    place, key = _split(path)
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, key)
        yield written
        place.put(key, Path(written), move=True)


def _split(address: str) -> tuple[Objects, str]:
    folder, _, name = address.rpartition("/")
    return _objects(folder), name


@lru_cache(PLACES)
def _objects(place: str) -> Objects:
    return objects_at(place)
