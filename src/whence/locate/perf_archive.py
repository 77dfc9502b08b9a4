"""What `perf archive` packs: the files of a recording that perf's cache had, by build-id, in a .tar (bzip2 as a rule).

    usr/bin/app/BUILD-ID/elf            also debug, vdso, kallsyms; [kernel.kallsyms]/BUILD-ID/kallsyms
    .build-id/ab/cdef...                links to the folders above

Nothing is written under a name that the package gives: what lies in the folder of a build-id is put where debug folders
have it. All together may unpack to TIMES its bytes and ALLOWANCE more.
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
    """A package of `perf archive` that breaks a rule of tar or of its compression."""

    format = "perf archive"


def unpack(path: str, folder: str) -> int:
    """Put the files of a package into a folder, as `.build-id/ab/cdef.../elf`; returns how many there were. OSError,
    PerfArchiveError."""
    count = 0
    with naming(path), open_input(path, PerfArchiveError) as file:
        stored = os.fstat(file.fileno()).st_size
        budget = Budget("members", "unpacked bytes", stored, times=TIMES, allowance=ALLOWANCE, error=PerfArchiveError)
        try:
            with tarfile.open(fileobj=file, mode="r|*") as tar:
                for member in tar:
                    tar.members.clear()  # type: ignore[attr-defined]  # it keeps every head it saw
                    budget.charge(tarfile.BLOCKSIZE + member.size)
                    found = NAME.fullmatch(member.name)
                    if found is not None and member.isreg() and not member.issparse():
                        count += _put(tar, member, folder, found["id"], found["file"] or "elf")
        except BROKEN as error:
            raise PerfArchiveError("file", None, "it is whole", fault=f"a damaged package: {plain(error)}") from error
        if not count:
            raise PerfArchiveError("file", None, "it has a file by build-id", "none")
    return count


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: str, build_id: str, name: str) -> bool:
    place = os.path.join(folder, ".build-id", build_id[:2], build_id[2:])
    content = tar.extractfile(member)
    if content is None:
        return False
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, name), "wb") as out:
        while data := content.read(COPIED):
            out.write(data)
    return True
