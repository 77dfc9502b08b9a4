"""The dynamic table, as the loader reads it: the way to .dynsym in a file without section headers.

Nothing there says how many symbols there are; the hash tables do (DT_HASH: nchain; DT_GNU_HASH: the end of the chain
of the highest bucket), as the gABI and the GNU extension describe them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from whence._base.errors import ElfError
from whence._base.window import Window
from whence.objects.elf import layout
from whence.objects.elf.header import Header
from whence.objects.elf.kernels import constants
from whence.objects.elf.segments import Segment, Translation
from whence.objects.elf.symbols import SymbolTable

MAX_CHAIN = 1 << 16  # linkers make as many buckets as it takes for chains of a few links
LONGEST_SONAME = 256
MAX_SIZE = 1 << 16  # bytes of the dynamic table that are read


def dynamic_tags(data: memoryview, header: Header, segments: Sequence[Segment]) -> dict[int, int]:
    """Return the first value of each tag of PT_DYNAMIC, up to DT_NULL."""
    form = layout.ORDER_MARK[header.order] + layout.DYNAMIC[header.bits]
    tags: dict[int, int] = {}
    for segment in segments:
        if segment.type == constants.PT_DYNAMIC:
            table = data[segment.file_offset : segment.file_offset + min(segment.file_size, MAX_SIZE)]
            size = len(table) - len(table) % struct.calcsize(form)
            for tag, value in struct.iter_unpack(form, table[:size]):
                if tag == constants.DT_NULL:
                    break
                tags.setdefault(tag, value)
    return tags


def read_soname(data: memoryview, header: Header, segments: Sequence[Segment]) -> str:
    """Return the name that a library gives itself (DT_SONAME); "" if it is missing or not printable."""
    tags = dynamic_tags(data, header, segments)
    if constants.DT_SONAME not in tags or constants.DT_STRTAB not in tags:
        return ""
    names = Translation(segments).file_offset_of(tags[constants.DT_STRTAB])
    if names is None:
        return ""
    offset = names + tags[constants.DT_SONAME]
    name = bytes(data[offset : offset + LONGEST_SONAME]).partition(b"\0")[0]
    return name.decode() if name.isascii() and name.decode().isprintable() else ""


def dynamic_symbols(data: memoryview, header: Header, segments: Sequence[Segment]) -> SymbolTable | None:
    """Return .dynsym and .dynstr; None if the file does not say where they are."""
    tags = dynamic_tags(data, header, segments)
    if constants.DT_SYMTAB not in tags or constants.DT_STRTAB not in tags:
        return None
    translation = Translation(segments)
    symbols_at = translation.file_offset_of(tags[constants.DT_SYMTAB])
    names_at = translation.file_offset_of(tags[constants.DT_STRTAB])
    if symbols_at is None or names_at is None:
        return None
    try:
        count = _count(data, header, translation, tags)
    except ElfError:
        count = 0
    size = layout.SYMBOL_SIZE[header.bits]
    if not count and names_at > symbols_at:
        count = (names_at - symbols_at) // size  # no hash table has their number; linkers place the names after them
    if not count:
        return None
    names = data[names_at : names_at + tags.get(constants.DT_STRSZ, 0)]
    return SymbolTable(data[symbols_at : symbols_at + count * size], names, data[:0])


def _count(data: memoryview, header: Header, translation: Translation, tags: dict[int, int]) -> int:
    """Return the number of symbols in the hash tables; 0 without a table."""
    window = Window(data, "file", header.order, ElfError)
    offset = translation.file_offset_of(tags[constants.DT_HASH]) if constants.DT_HASH in tags else None
    if offset is not None:
        return window.u32(offset + 4)
    offset = translation.file_offset_of(tags[constants.DT_GNU_HASH]) if constants.DT_GNU_HASH in tags else None
    if offset is None:
        return 0
    buckets, first, bloom, _ = window.unpack("IIII", offset)
    buckets_at = offset + 16 + bloom * (header.bits // 8)
    window.need(buckets_at, 4 * buckets)
    filled = struct.iter_unpack(layout.ORDER_MARK[header.order] + "I", data[buckets_at : buckets_at + 4 * buckets])
    last = max((symbol for (symbol,) in filled), default=0)
    if last < first:
        return first
    chain_at = buckets_at + 4 * buckets + 4 * (last - first)
    for _ in range(MAX_CHAIN):
        if window.u32(chain_at) & 1:  # the end of a chain
            return last + 1
        chain_at += 4
        last += 1
    raise ElfError("dynamic table", None, f"a chain of its hash table has more than {MAX_CHAIN} links")
