"""Object files inside zip files, as Android keeps libraries: `base.apk!/lib/arm64-v8a/libx.so`.

Also `base.apk!libx.so`, as Android's crash reports name them, if only one entry has that file name. Android maps stored
libraries from the zip file: a mapping of `base.apk` is the library at its file offset. A stored entry is mapped in
place; a compressed one is decompressed into memory, within a budget. The layout is that of APPNOTE.TXT.
"""

from __future__ import annotations

import os
import struct
import zlib
from bisect import bisect_right
from contextlib import contextmanager, suppress
from functools import lru_cache
from operator import itemgetter

from whence._base.budget import Budget
from whence._base.errors import WRONG_KIND, ElfError, Unsupported, WhenceError, cut_off, empty_file
from whence._base.files import open_regular
from whence._base.mapped import MappedFile
from whence._base.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from zipfile import ZipFile, ZipInfo

MARK = "!"
MAGIC = b"PK\3\4"
LIBRARY = ".so"
LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, ..., sizes of name and extra field
STORED, DEFLATED = 0, 8
ENCRYPTED = 1
RATIO, ALLOWANCE = 16, 64 << 20  # an entry decompresses to at most 16 times the zip file, or 64 MiB
NAMES_SHOWN = 8
LIBRARIES = 1024  # of a zip file
ENDINGS = (".apk", ".zip", ".jar")  # of zip files that are mapped


def split_entry(path: str) -> tuple[str, str]:
    """Return the path of a zip file and the name of an entry in it; "" if the path is that of a file itself.

    >>> split_entry("/nowhere/base.apk!/lib/arm64-v8a/libx.so")
    ('/nowhere/base.apk!/lib/arm64-v8a/libx.so', '')
    """
    file, mark, entry = path.rpartition(MARK)
    if not mark or not entry.strip("/") or os.path.lexists(path) or not os.path.isfile(file):
        return path, ""
    return file, entry.lstrip("/")


def name_in_zip(path: str) -> str:
    """Return the file name of a path, also of an entry of a zip file.

    >>> name_in_zip("/data/base.apk!libx.so"), name_in_zip("/data/base.apk!/lib/arm64-v8a/libx.so"), name_in_zip("/a/b")
    ('libx.so', 'libx.so', 'b')
    """
    return os.path.basename(path).rpartition(MARK)[2]


def with_libraries(paths: Iterable[str]) -> Iterator[str]:
    """Yield paths with each zip file replaced by the libraries in it, if there are any."""
    for path in paths:
        names: list[str] = []
        with suppress(OSError, WhenceError):  # opening the file reports that
            names = libraries_in(path)
        yield from [f"{path}{MARK}/{name}" for name in names] or [path]


def libraries_in(path: str) -> list[str]:
    """Return the names of the libraries in a zip file; [] for other files. Raises OSError, ElfError.

    Libraries that would decompress to more than the bound of one, together with those before them, are left out: they
    are all opened at once.
    """
    with open_regular(path, ElfError) as (descriptor, size):
        if os.read(descriptor, len(MAGIC)) != MAGIC:
            return []
        with opened(descriptor) as archive:
            infos = [info for info in archive.infolist() if info.filename.endswith(LIBRARY)]
        names, left = [], RATIO * size + ALLOWANCE
        for info in infos[:LIBRARIES]:
            needed = 0 if info.compress_type == STORED else info.file_size
            if needed <= left:
                left -= needed
                names.append(info.filename)
        return names


def entry_at(path: str, file_offset: int) -> tuple[str, int]:
    """Return `ZIP!/ENTRY` of the stored library that has a byte of a zip file, and the byte's offset in the library.

    ("", 0) for other files and bytes.
    """
    with suppress(OSError, WhenceError):
        status = os.stat(path)
        entries = stored_libraries(path, (status.st_ino, status.st_size, status.st_mtime_ns))
        index = bisect_right(entries, file_offset, key=itemgetter(0)) - 1
        start, end, name = entries[index] if index >= 0 else (0, 0, "")
        if start <= file_offset < end:
            return f"{path}{MARK}/{name}", file_offset - start
    return "", 0


@lru_cache(maxsize=16)
def stored_libraries(path: str, stamp: tuple[int, ...]) -> list[tuple[int, int, str]]:
    """Return start, end and name of the stored libraries in a zip file, in order; [] for other files.

    `stamp` changes with the file. Raises OSError, ElfError.
    """
    with open_regular(path, ElfError) as (descriptor, _):
        if os.read(descriptor, len(MAGIC)) != MAGIC:
            return []
        with opened(descriptor) as archive:
            infos = [info for info in archive.infolist() if info.filename.endswith(LIBRARY)]
        data = MappedFile(descriptor, path, ElfError).view
        entries = []
        for info in infos[:LIBRARIES]:
            if info.compress_type == STORED and not info.flag_bits & ENCRYPTED:
                with suppress(ElfError):
                    start = data_offset(data, info)
                    entries.append((start, start + info.compress_size, info.filename))
        return sorted(entries)


@contextmanager
def opened(descriptor: int) -> Iterator[ZipFile]:
    """Return the zip file of a descriptor, which stays the caller's, for a block. Raises ElfError."""
    from zipfile import BadZipFile, ZipFile

    with os.fdopen(os.dup(descriptor), "rb") as file:
        try:
            archive = ZipFile(file)
        except (BadZipFile, NotImplementedError, ValueError, EOFError, struct.error) as error:
            raise ElfError("zip file", None, str(error), code=WRONG_KIND) from None
        with archive:
            yield archive


class EntryContent(NamedTuple):
    """The bytes of an entry. `mapped` is the mapped zip file, in which they start at `start`; None if decompressed."""

    name: str
    data: memoryview
    mapped: MappedFile | None = None
    start: int = 0


def read_entry(path: str, entry: str) -> EntryContent:
    """Return the bytes of an entry of a zip file. Raises OSError, ElfError, Unsupported."""
    with open_regular(path, ElfError) as (descriptor, size):
        if not size:
            raise empty_file(ElfError)
        status = os.fstat(descriptor)
        info = entry_named(entries_of(path, (status.st_ino, size, status.st_mtime_ns)), entry, path)
        name = f"{path}{MARK}/{info.filename}"
        mapped = MappedFile(descriptor, path, ElfError)
        start = data_offset(mapped.view, info)
        stored = mapped.view[start : start + info.compress_size]
        if len(stored) < info.compress_size:
            raise cut_off(ElfError, f"entry {info.filename}", start, info.compress_size, len(stored))
        if info.flag_bits & ENCRYPTED:
            raise Unsupported(f"entry {info.filename} is encrypted").in_file(path)
        if info.compress_type == STORED:
            return EntryContent(name, stored, mapped, start)
        if info.compress_type != DEFLATED:
            fault = f"entry {info.filename} is compressed by method {info.compress_type}"
            raise Unsupported(fault).in_file(path).with_hint("unpack it first")
        return EntryContent(name, memoryview(decompressed(stored, info, size)))


@lru_cache(maxsize=4)
def entries_of(path: str, stamp: tuple[int, ...]) -> dict[str, ZipInfo]:
    """Return the entries of a zip file by name, read once for all its libraries.

    `stamp` changes with the file. Raises OSError, ElfError.
    """
    with open_regular(path, ElfError) as (descriptor, _), opened(descriptor) as archive:
        return dict(archive.NameToInfo)


def entry_named(entries: dict[str, ZipInfo], entry: str, path: str) -> ZipInfo:
    """Return an entry by its name, or by its file name alone. Raises FileNotFoundError, ElfError."""
    if entry in entries:
        return entries[entry]
    infos = [] if "/" in entry else [each for name, each in entries.items() if os.path.basename(name) == entry]
    if len(infos) == 1:
        return infos[0]
    if not infos:
        raise FileNotFoundError(2, f"no entry {entry!r} in the zip file {path!r}")
    names = ", ".join(info.filename for info in infos[:NAMES_SHOWN])
    error = ElfError("zip file", None, f"{len(infos)} entries are named {entry}: {names}", code=WRONG_KIND)
    raise error.with_hint(f"name one of them, as in {path}{MARK}/{infos[0].filename}")


def data_offset(data: memoryview, info: ZipInfo) -> int:
    """Return the file offset of an entry's bytes. Raises ElfError for a malformed local header."""
    start = info.header_offset
    if start < 0 or start + LOCAL_HEADER.size > len(data):
        raise ElfError("zip file", None, f"the header of entry {info.filename} is outside the file")
    magic, name_size, extra_size = LOCAL_HEADER.unpack_from(data, start)
    if magic != MAGIC:
        raise ElfError("zip file", start, f"the header of entry {info.filename} has another signature")
    end: int = start + LOCAL_HEADER.size + name_size + extra_size
    return end


def decompressed(stored: memoryview, info: ZipInfo, file_size: int) -> bytes:
    """Return the bytes of a deflated entry. Raises ElfError if it is damaged, or larger than the file justifies."""
    part = f"entry {info.filename}"
    budget = Budget(part, "its bytes", file_size, times=RATIO, allowance=ALLOWANCE, error=ElfError)
    budget.charge(info.file_size)
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = stream.decompress(stored, info.file_size + 1)
    except zlib.error as error:
        raise ElfError(part, None, f"the compressed bytes are damaged ({error})") from None
    if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
        raise ElfError(part, None, f"it has {len(content)} bytes or another CRC, expected {info.file_size} bytes")
    return content
