"""Packages of ELF files: .deb, .tar (plain, gzip, bzip2, xz, zstd) and .zip, read member by member; packed ELF files.

Nothing of a package is written under a name that it gives: members are read as streams, and only those that begin as
ELF files do are handed on. Links, devices and folders are passed over. A .deb is an `ar` file (deb(5)): an eight-byte
magic, then members with a head of 60 bytes each, padded to two; `data.tar.*` has the files.

All members of a package together may unpack to TIMES its bytes and ALLOWANCE more: what asks for more is refused.
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
from lzma import LZMAError
from typing import TYPE_CHECKING, Any, BinaryIO

from whence._base.budget import Budget
from whence._base.errors import FormatError, Unsupported, naming, plain
from whence.objects.elf.layout import MAGIC as ELF_MAGIC
from whence.store.packing import unpacking

if TYPE_CHECKING:
    from typing import IO

TIMES, ALLOWANCE = 64, 1 << 26
AR_MAGIC = b"!<arch>\n"
AR_HEAD, AR_END = 60, b"`\n"
AR_NAME, AR_SIZE = slice(0, 16), slice(48, 58)
DEB_FIRST = b"debian-binary"
RPM_MAGIC = b"\xed\xab\xee\xdb"
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
ZIP_MAGIC = b"PK\x03\x04"
DEB, TAR, ZIP, RPM, ONE = "deb", "tar", "zip", "rpm", "one"  # ONE: a single packed file, such as a kernel module
PACKED = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zst"}
TAR_ENDINGS = (".tar", ".tgz", ".txz", ".tbz2", ".tzst", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, LZMAError, EOFError, ValueError, NotImplementedError,
          RuntimeError, OverflowError)  # fmt: skip


class PackageError(FormatError):
    format = "package"


class PackageMember:
    """A file in a package, to be read from its start to its end. `origin` names it, its package first."""

    def __init__(self, file: IO[bytes], origin: str, budget: Budget, *, charged: bool) -> None:
        self.origin = origin
        self._file, self._budget, self._charged = file, budget, charged
        self._head: bytes | None = None

    @property
    def spent(self) -> bool:
        """Whether the budget of the whole package is used up."""
        return self._budget.spent > self._budget.most

    @property
    def is_elf(self) -> bool:
        if self._head is None:
            self._head = self.read(len(ELF_MAGIC))
        return self._head == ELF_MAGIC

    def read(self, size: int = -1) -> bytes:
        """The next bytes; PackageError when they can't be had."""
        if self._head:
            head, self._head = self._head, b""
            return head
        try:
            found = self._file.read(size if size >= 0 else 1 << 20)
        except OSError as error:
            if not is_of_package(error):
                raise
            raise broken(error) from error
        except BROKEN as error:
            raise broken(error) from error
        if not self._charged:
            self._budget.charge(len(found))
        return found


def is_of_package(error: OSError) -> bool:
    """Whether an error is about what a package says: gzip's and bz2's own, or a place that no file has."""
    return error.errno is None or error.errno == errno.EINVAL


def broken(error: Exception) -> PackageError:
    fault = f"a damaged package: {plain(error)}"
    return PackageError("file", None, "it is whole", fault=fault)


def kind_of(path: str, head: bytes) -> str | None:
    """Which package a file is, by its first bytes (and of a packed tar by its name); None when it is none."""
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
    return ONE if packed else None


def members(kind: str, file: BinaryIO, path: str) -> Iterator[PackageMember]:
    """The ELF files of a package, each to be read before the next is asked for. Raises PackageError, Unsupported."""
    stored = os.fstat(file.fileno()).st_size
    budget = Budget("members", "unpacked bytes", stored, times=TIMES, allowance=ALLOWANCE, error=PackageError)
    with naming(path):
        if kind == RPM:
            raise Unsupported("an .rpm, which is not read").with_hint("rpm2archive makes a .tar of it")
        read = {DEB: _deb, TAR: _tar, ZIP: _zip, ONE: _one}[kind]
        try:
            for member in read(file, path, budget):
                if member.is_elf:
                    yield member
        except OSError as error:
            if not is_of_package(error):
                raise
            raise broken(error) from error
        except BROKEN as error:
            raise broken(error) from error


def _deb(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    end = os.fstat(file.fileno()).st_size
    at = len(AR_MAGIC)
    while at + AR_HEAD <= end:
        file.seek(at)
        head = file.read(AR_HEAD)
        size = head[AR_SIZE].strip()
        if not head.endswith(AR_END) or not size.isdigit():
            raise PackageError("ar", at, "a member begins with a head of 60 bytes", head)
        start, length = at + AR_HEAD, int(size)
        if start + length > end:
            fault = f"ar+{at:#x}: cut off: a member has {length} bytes, {end - start} are left"
            raise PackageError("ar", at, "a member ends inside the file", fault=fault)
        if head[AR_NAME].rstrip(b" /").startswith(b"data.tar"):
            yield from _tar(io.BufferedReader(_Part(file, start, length)), path, budget)
        at = start + length + length % 2


class _Part(io.RawIOBase):
    """Bytes of a file as a stream."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file, self._at, self._end = file, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        self._file.seek(self._at)
        found = self._file.read(min(len(view), self._end - self._at))
        view[: len(found)] = found
        self._at += len(found)
        return len(found)


def _tar(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    stream: Any = _Counted(_unpacked(file), budget)
    tar: Any
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for one in tar:
            tar.members.clear()  # it keeps every head it saw
            if not one.isreg() or one.issparse():
                continue
            content = tar.extractfile(one)
            if content is not None:
                with content:
                    yield PackageMember(content, f"{path}: {plain(one.name)}", budget, charged=True)


class _Counted:
    """A stream of a tar, charged to a budget as it is unpacked: what is passed over has to be unpacked, too."""

    def __init__(self, file: IO[bytes], budget: Budget) -> None:
        self._file, self._budget = file, budget

    def read(self, size: int) -> bytes:
        found = self._file.read(size)
        self._budget.charge(len(found))
        return found


def _unpacked(file: BinaryIO) -> IO[bytes]:
    """The stream unpacked, by what it begins with."""
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


def _one(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    with _unpacked(file) as content:
        yield PackageMember(content, os.path.splitext(path)[0], budget, charged=False)


def _zip(file: BinaryIO, path: str, budget: Budget) -> Iterator[PackageMember]:
    with zipfile.ZipFile(file) as package:
        for one in package.infolist():
            if one.is_dir() or one.flag_bits & 1:  # a folder, or encrypted
                continue
            with package.open(one) as content:
                yield PackageMember(content, f"{path}: {plain(one.filename)}", budget, charged=False)
