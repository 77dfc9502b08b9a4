"""Read and write files in folders or, by way of temporary files, in buckets."""

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

PLACES = 64  # buckets whose connections a process keeps


def is_address(path: str) -> bool:
    """Return True if `path` names an object of a bucket ("s3://bucket/profiles/cpu.pb.gz") and not a file."""
    return SCHEME.match(path) is not None


def joined(folder: str, name: str) -> str:
    """Return the path or address of a file in a folder."""
    return f"{folder.rstrip('/')}/{name}" if is_address(folder) else os.path.join(folder, name)


def listed(folder: str) -> list[str]:
    """Return the paths or addresses of the files directly in a folder or below an address, sorted. Raises OSError."""
    if not is_address(folder):
        paths = (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
        return [path for path in paths if os.path.isfile(path)]
    keys = (item.key for item in _objects(folder.rstrip("/")).list(""))
    return [joined(folder, key) for key in sorted(key for key in keys if "/" not in key)]


def exists(path: str) -> bool:
    """Return True if a file or object exists. Raises OSError if its bucket can't be reached."""
    if not is_address(path):
        return os.path.exists(path)
    objects, key = _split(path)
    return objects.head(key) is not None


@contextmanager
def to_read(path: str) -> Iterator[str]:
    """Yield the path of a readable file; an object of a bucket is fetched and deleted after the block.

    Raises OSError. Errors about a fetched file name its address.
    """
    if not is_address(path):
        yield path
        return
    objects, key = _split(path)
    with tempfile.TemporaryDirectory() as folder:
        fetched = os.path.join(folder, key)
        with open(fetched, "wb") as file:
            if objects.fetch(key, file) is None:
                problem = failure("ENOENT")
                problem.filename = path
                raise problem
        try:
            yield fetched
        except (WhenceError, OSError) as error:
            raise OSError(str(error).replace(fetched, path)) from error


@contextmanager
def to_write(path: str) -> Iterator[str]:
    """Yield a path to write a file to; an object of a bucket is uploaded if the block succeeds. Raises OSError."""
    if not is_address(path):
        yield path
        return
    objects, key = _split(path)
    with tempfile.TemporaryDirectory() as folder:
        written = os.path.join(folder, key)
        yield written
        objects.put(key, Path(written), move=True)


def _split(address: str) -> tuple[Objects, str]:
    folder, _, name = address.rpartition("/")
    return _objects(folder), name


@lru_cache(PLACES)
def _objects(address: str) -> Objects:
    return objects_at(address)
