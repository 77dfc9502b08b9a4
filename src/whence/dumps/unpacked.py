"""Cores inside other files, as collectors keep them: compressed (systemd-coredump), or in a .crash file (apport).

The part that stacks may need is copied into a temporary file by core_stream, within the limits of packed.py and the
space on its disk.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import BinaryIO, NamedTuple, cast

from whence._base.errors import ElfError, MapsError, Unsupported, WhenceError, naming
from whence._base.files import open_regular
from whence.dumps.apport import FIRST_KEY, apport_core, read_apport
from whence.dumps.core_stream import copy_core
from whence.dumps.packed import ExpandedCore, packing_of
from whence.objects.elf import ElfFile

HEAD = 1 << 16  # bytes that tell a compressed core
CORE_HEAD = 20  # bytes that tell a core
ELF_MAGIC, CORE_TYPES = b"\x7fELF", (b"\x04\x00", b"\x00\x04")
RESERVE = 64 << 20  # bytes that stay free on the disk of temporary files


class UnpackedCore(NamedTuple):
    """A copy of a core, in a mapped temporary file without a name.

    `fault` says why the rest was not read ("": it was), `missing` how many bytes are missing at its end, `dropped` how
    many of large segments were left out.
    """

    memory: mmap.mmap
    fault: str
    missing: int
    dropped: int

    def elf(self, name: str) -> ElfFile:
        """Open the copy under the name of the file that it was made of."""
        return ElfFile.from_bytes(self.memory, name)


def is_core_head(head: bytes) -> bool:
    """Return True if a file begins like a core.

    >>> is_core_head(bytes.fromhex("7f454c46020101000000000000000000") + b"\\x04\\x00>\\x00")
    True
    """
    return head.startswith(ELF_MAGIC) and head[16:18] in CORE_TYPES


def is_unpackable(head: bytes, *, if_damaged: bool = False) -> bool:
    """Return True if a file is a compressed core or a report of apport, by its first HEAD bytes.

    `if_damaged` is the result for compressed data that is damaged from the start.
    """
    if head.startswith(FIRST_KEY):
        return True
    packing = packing_of(head)
    if not packing:
        return False
    try:
        stream = ExpandedCore(BytesIO(head), packing, len(head))
    except Unsupported:  # lz4 is not installed: opening says so
        return True
    content = stream.read(CORE_HEAD)
    return is_core_head(content) or (if_damaged and bool(stream.fault) and len(content) < CORE_HEAD)


def unpacked(path: str | os.PathLike[str]) -> UnpackedCore | None:
    """Return a copy of the core in a file; None for other files, cores and minidumps among them.

    Raises OSError, WhenceError: also for compressed data that is damaged before the memory of the core.
    """
    with open_regular(path, ElfError) as (descriptor, size), open(descriptor, "rb", closefd=False) as file:
        head = file.read(HEAD)
        if not is_unpackable(head, if_damaged=True):
            return None
        file.seek(0)
        stream = _core_stream(file, head, size)
        with tempfile.TemporaryFile() as copy:
            free = shutil.disk_usage(tempfile.gettempdir()).free
            try:
                streamed = copy_core(cast("BinaryIO", stream), copy, most=max(0, free - RESERVE))
            except WhenceError as error:
                if stream.fault:
                    raise MapsError("", None, stream.fault) from error
                raise
            copy.flush()
            memory = mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
        return UnpackedCore(memory, stream.fault, streamed.missing, streamed.dropped)


def _core_stream(file: BinaryIO, head: bytes, size: int) -> ExpandedCore:
    """Return the bytes of the core in a file. Raises MapsError, OSError; Unsupported for lz4 without its package."""
    if not head.startswith(FIRST_KEY):
        return ExpandedCore(file, packing_of(head), size)
    report = read_apport(file)
    if report.core_offset < 0:
        raise MapsError("", None, "the report of apport has no core: see its Traceback, if it is of Python")
    file.seek(report.core_offset)
    return apport_core(file, size)


@contextmanager
def opened_core(path: str | os.PathLike[str]) -> Iterator[tuple[ElfFile, UnpackedCore | None]]:
    """Open a core, or a copy of one in another file. Raises OSError, WhenceError."""
    name = os.fspath(path)
    with naming(name):
        copied = unpacked(path)
    if copied is None:
        with ElfFile.open(path) as elf:
            yield elf, None
        return
    with copied.elf(name) as elf:
        yield elf, copied
