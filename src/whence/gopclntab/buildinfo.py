"""The release of Go that a program was built with, as the linker writes it (debug/buildinfo).

A blob, aligned to 16 bytes: the magic, the pointer size (byte 14) and flags (byte 15). Since Go 1.18 (flag 2) the
version follows at byte 32, a varint of its length before it; earlier a pointer to a string's (pointer, length) does.
"""

from __future__ import annotations

import re

from whence._base.errors import ObjectError
from whence.gopclntab.image import Image
from whence.objects.interface import ObjectFile

MAGIC = b"\xff Go buildinf:"
ALIGNED, STRING_AT, INLINE = 16, 32, 2
MORE_BYTES = 0x80  # bit of a varint's byte that another follows
LONGEST = 256
RELEASE = re.compile(r"\bgo1\.(\d{1,4})(?!\d)")


def go_version(elf: ObjectFile) -> str:
    """The version in Go's own words, such as "go1.27.3"; "" where the program does not say."""
    for segment in elf.segments:
        if not segment.is_loaded or segment.executable:
            continue
        data = bytes(elf.data[segment.file_offset : segment.file_offset + segment.file_size])
        found = data.find(MAGIC)
        while found >= 0:
            if (segment.vaddr + found) % ALIGNED == 0 and (version := _version(elf, data, found)):
                return version
            found = data.find(MAGIC, found + 1)
    return ""


def go_release(version: str) -> int | None:
    """The minor release of a version: 27 for "go1.27.3"; None where it names none."""
    match = RELEASE.search(version)
    return None if match is None else int(match[1])


def _version(elf: ObjectFile, data: bytes, offset: int) -> str:
    head = data[offset : offset + STRING_AT]
    if len(head) < STRING_AT:
        return ""
    if head[15] & INLINE:
        at = offset + STRING_AT
        if at + 2 > len(data) or data[at] & MORE_BYTES:  # versions are shorter than a varint of one byte
            return ""
        return data[at + 1 : at + 1 + data[at]].decode("utf-8", "replace")
    if head[14] not in (4, 8):
        return ""
    image = Image(elf, head[14])
    header = int.from_bytes(head[16 : 16 + head[14]], elf.order)
    words = image.words(header, 2)
    if words is None or not 0 < words[1] <= LONGEST:
        return ""
    try:
        return bytes(elf.read_vaddr(words[0], words[1])).decode("utf-8", "replace")
    except ObjectError:
        return ""
