"""The release of Go that a program was built with, as written by the linker (debug/buildinfo).

A blob, aligned to 16 bytes: the magic, the pointer size (byte 14) and flags (byte 15). Since Go 1.18 (flag 2) the
version is at byte 32, after a varint of its length; before, there is a pointer to a string's (pointer, length).
"""

from __future__ import annotations

import re

from whence._base.errors import ObjectError
from whence.gopclntab.image import Image
from whence.objects.interface import ObjectFile

MAGIC = b"\xff Go buildinf:"
ALIGNMENT, STRING_OFFSET, INLINE = 16, 32, 2
MORE_BYTES = 0x80  # of a varint: another byte follows
LONGEST = 256
RELEASE = re.compile(r"\bgo1\.(\d{1,4})(?!\d)")


def go_version(elf: ObjectFile) -> str:
    """Return the version as Go writes it, such as "go1.27.3"; "" if the program does not have it."""
    for segment in elf.segments:
        if not segment.is_loaded or segment.executable:
            continue
        data = bytes(elf.data[segment.file_offset : segment.file_offset + segment.file_size])
        offset = data.find(MAGIC)
        while offset >= 0:
            if (segment.vaddr + offset) % ALIGNMENT == 0 and (version := _version(elf, data, offset)):
                return version
            offset = data.find(MAGIC, offset + 1)
    return ""


def go_release(version: str) -> int | None:
    """Return the minor release of a version, 27 for "go1.27.3"; None if it has none."""
    match = RELEASE.search(version)
    return None if match is None else int(match[1])


def _version(elf: ObjectFile, data: bytes, offset: int) -> str:
    head = data[offset : offset + STRING_OFFSET]
    if len(head) < STRING_OFFSET:
        return ""
    if head[15] & INLINE:
        start = offset + STRING_OFFSET
        if start + 2 > len(data) or data[start] & MORE_BYTES:  # the length is a varint of one byte
            return ""
        return data[start + 1 : start + 1 + data[start]].decode("utf-8", "replace")
    if head[14] not in (4, 8):
        return ""
    image = Image(elf, head[14])
    header = int.from_bytes(head[16 : 16 + head[14]], elf.order)
    string = image.words(header, 2)
    if string is None or not 0 < string[1] <= LONGEST:
        return ""
    try:
        return bytes(elf.read_vaddr(string[0], string[1])).decode("utf-8", "replace")
    except ObjectError:
        return ""
