"""Packages of object files: .deb, .tar (plain, gzip, bzip2, xz, zstd), .zip, and single compressed object files.

Members are read as streams; those with the magic of an object file are returned, and no file is written under a name in
the package. Links, devices and folders are skipped. A .deb is an `ar` file (deb(5)): an eight-byte magic, then members
with a header of 60 bytes each, padded to two; `data.tar.*` has the files.

The members of a package may decompress to TIMES its size and ALLOWANCE more in total.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from lzma import LZMAError
from typing import TYPE_CHECKING, Any, BinaryIO

from whence._base.budget import Budget
from whence._base.errors import FormatError, Unsupported, naming, plain, shown
from whence.objects.opening import is_magic
from whence.store.packing import unpacking

if TYPE_CHECKING:
    from typing import IO

TIMES, ALLOWANCE = 64, 1 << 26
MAGIC_SIZE = 4
AR_MAGIC = b"!<arch>\n"
AR_HEAD, AR_END = 60, b"`\n"
AR_NAME, AR_SIZE = slice(0, 16), slice(48, 58)
DEB_FIRST = b"debian-binary"
RPM_MAGIC = b"\xed\xab\xee\xdb"
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
ZIP_MAGIC = b"PK\x03\x04"
DEB, TAR, ZIP, RPM, SINGLE = "deb", "tar", "zip", "rpm", "one"  # SINGLE: a compressed file, such as a kernel module
PACKED = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zst"}
TAR_ENDINGS = (".tar", ".tgz", ".txz", ".tbz2", ".tzst", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, ValueError, NotImplementedError,
          RuntimeError, OverflowError)  # fmt: skip


class PackageError(FormatError):
    """A damaged package."""

    format = "package"


class PackageMember:
    """A file in a package, read from start to end. `origin` is its name, after that of its package."""

    def __init__(self, file: IO[bytes], origin: str, budget: Budget, *, charged: bool) -> None:
        self.origin = origin
        self._file, self._budget, self._charged = file, budget, charged
        self._head: bytes | None = None

    @property
    def spent(self) -> bool:
        """True if the budget of the package is exceeded."""
        return self._budget.spent > self._budget.most

    @property
    def is_object(self) -> bool:
        """True if the file has the magic of an object file."""
        if self._head is None:
            self._head = self.read(MAGIC_SIZE)
        return is_magic(self._head)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes. Raises PackageError."""
        if self._head:
            head, self._head = self._head, b""
            return head
        with package_errors():
            data = self._file.read(size if size >= 0 else 1 << 20)
        if not self._charged:
            self._budget.charge(len(data))
        return data


@contextmanager
def package_errors() -> Iterator[None]:
    """Open a block whose errors about the content of a package become PackageError."""
    try:
        yield
    except (OSError, *BROKEN) as error:
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):  # those are of the content
            raise
        raise PackageError("", None, f"damaged package: {plain(error)}") from error


def kind_of(path: str, head: bytes) -> str | None:
    """Return the kind of a package by its first bytes, or the name of a compressed tar; None for other files."""
    if head.startswith(AR_MAGIC) and head[len(AR_MAGIC) :].startswith(DEB_FIRST):
        return DEB
    if head.startswith(ZIP_MAGIC):
        return ZIP
    if head.startswith(RPM_MAGIC):
        return RPM
    if head[TAR_MAGIC_AT:].startswith(TAR_MAGIC):
        return TAR
    packed = any(head.startswith(magic) for magic in PACKED)
    if packed and os.path.basename(path).lower().endswith(TAR_ENDINGS):
        return TAR
    return SINGLE if packed else None


def members(kind: str, file: BinaryIO, path: str) -> Iterator[PackageMember]:
    """Yield the object files of a package; each has to be read before the next. Raises PackageError, Unsupported."""
    stored = os.fstat(file.fileno()).st_size
    budget = Budget("members", "unpacked bytes", stored, times=TIMES, allowance=ALLOWANCE, error=PackageError)
    with naming(path):
        if kind == RPM:
            raise Unsupported(".rpm packages are not supported").with_hint("convert the package with rpm2archive")
        read = {DEB: _deb, TAR: _tar, ZIP: _zip, SINGLE: _single}[kind]
        with package_errors():
            for member in read(file, path, budget):
                if member.is_object:
                    yield member


def _deb(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    end = os.fstat(file.fileno()).st_size
    offset = len(AR_MAGIC)
    while offset + AR_HEAD <= end:
        file.seek(offset)
        head = file.read(AR_HEAD)
        size = head[AR_SIZE].strip()
        if not head.endswith(AR_END) or not size.isdigit():
            raise PackageError("ar", offset, f"invalid header of a member: {shown(head)}")
        start, length = offset + AR_HEAD, int(size)
        if start + length > end:
            fault = f"cut off: the member has {length} bytes, {end - start} are left"
            raise PackageError("ar", offset, fault)
        if head[AR_NAME].rstrip(b" /").startswith(b"data.tar"):
            yield from _tar(io.BufferedReader(_FilePart(file, start, length)), path, budget)
        offset = start + length + length % 2


class _FilePart(io.RawIOBase):
    """A part of a file as a stream."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._offset, self._end = file, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        self._file.seek(self._offset)
        data = self._file.read(min(len(view), self._end - self._offset))
        view[: len(data)] = data
        self._offset += len(data)
        return len(data)


def _tar(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    for info, content in _tar_members(file, budget):
        yield PackageMember(content, f"{path}: {plain(info.name)}", budget, charged=True)


def tar_members(file: BinaryIO, stored: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """Yield the regular files of a tar of `stored` bytes; each has to be read before the next. Raises PackageError."""
    budget = Budget("members", "unpacked bytes", stored, times=TIMES, allowance=ALLOWANCE, error=PackageError)
    with package_errors():
        yield from _tar_members(file, budget)


def _tar_members(file: BinaryIO, budget: Budget) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    stream: Any = _ChargedStream(_unpacked(file), budget)
    tar: Any
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for info in tar:
            tar.members.clear()  # which would grow with each header
            content = tar.extractfile(info) if info.isreg() and not info.issparse() else None
            if content is not None:
                with content:
                    yield info, content


class _ChargedStream:
    """The stream of a tar, charged to a budget: skipped members are decompressed, too."""

    def __init__(self, file: IO[bytes], budget: Budget) -> None:
        self._file, self._budget = file, budget

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._budget.charge(len(data))
        return data


def _unpacked(file: BinaryIO) -> IO[bytes]:
    """Return the decompressed stream, by its magic."""
    head = file.peek(8)[:8] if hasattr(file, "peek") else b""
    kind = next((kind for magic, kind in PACKED.items() if head.startswith(magic)), "")
    if kind == "gz":
        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if kind == "bz2":
        return bz2.BZ2File(file)
    if kind == "xz":
        return lzma.LZMAFile(file)
    if kind == "zst":
        return unpacking(file)
    return file


def _single(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    with _unpacked(file) as content:
        yield PackageMember(content, os.path.splitext(path)[0], budget, charged=False)


def _zip(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    with zipfile.ZipFile(file) as package:
        for info in package.infolist():
            if info.is_dir() or info.flag_bits & 1:  # a folder, or encrypted
                continue
            with package.open(info) as content:
                yield PackageMember(content, f"{path}: {plain(info.filename)}", budget, charged=False)
