"""Packages made by `perf archive`: the files of a recording from perf's cache, in a .tar that is usually compressed.

    usr/bin/app/BUILD-ID/elf            also debug, vdso, kallsyms; [kernel.kallsyms]/BUILD-ID/kallsyms
    .build-id/ab/cdef...                links to the folders above

File names in the package are not used: the files of a build-id are written where debug folders have them. A package may
unpack to at most TIMES its size plus ALLOWANCE.
"""

from __future__ import annotations

import os
import re
import tarfile
import zlib
from lzma import LZMAError

from whence._base.budget import Budget
from whence._base.errors import FormatError, naming, plain
from whence._base.files import open_input

TIMES, ALLOWANCE = 64, 1 << 26
NAME = re.compile(r"(?:.*/)?(?P<id>[0-9a-f]{16,64})(?:/(?P<file>elf|debug|vdso|kallsyms))?")
BROKEN = (tarfile.TarError, zlib.error, LZMAError, EOFError, ValueError, OverflowError)
COPIED = 1 << 20  # bytes at a time


class PerfArchiveError(FormatError):
    """A damaged package of `perf archive`, or one without files."""

    format = "perf archive"


def unpack(path: str, folder: str) -> int:
    """Unpack the files of a package into a folder, as `.build-id/ab/cdef.../elf`; return their number.

    Raises OSError and PerfArchiveError.
    """
    count = 0
    with naming(path), open_input(path, PerfArchiveError) as file:
        stored = os.fstat(file.fileno()).st_size
        budget = Budget("members", "unpacked bytes", stored, times=TIMES, allowance=ALLOWANCE, error=PerfArchiveError)
        try:
            with tarfile.open(fileobj=file, mode="r|*") as tar:
                for member in tar:
                    tar.members.clear()  # type: ignore[attr-defined]  # it caches every header
                    budget.charge(tarfile.BLOCKSIZE + member.size)
                    name = NAME.fullmatch(member.name)
                    if name is not None and member.isreg() and not member.issparse():
                        count += _extract(tar, member, folder, name["id"], name["file"] or "elf")
        except BROKEN as error:
            raise PerfArchiveError("", None, f"the package is damaged: {plain(error)}") from error
        if not count:
            raise PerfArchiveError("", None, "the package has no files named by build-id")
    return count


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: str, build_id: str, name: str) -> bool:
    target = os.path.join(folder, ".build-id", build_id[:2], build_id[2:])
    content = tar.extractfile(member)
    if content is None:
        return False
    os.makedirs(target, exist_ok=True)
    with open(os.path.join(target, name), "wb") as out:
        while data := content.read(COPIED):
            out.write(data)
    return True
