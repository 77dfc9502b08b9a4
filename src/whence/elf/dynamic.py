"""The dynamic table, as the loader reads it: the way to .dynsym in a file without section headers.

Nothing there says how many symbols there are; the hash tables do (DT_HASH: nchain; DT_GNU_HASH: the end of the chain
of the highest bucket), as the gABI and the GNU extension describe them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from whence.elf import layout
from whence.elf.kernels import constants
from whence.errors import ElfError
from whence.window import Window

if TYPE_CHECKING:
    from whence.elf.file import ElfFile

MAX_CHAIN = 1 << 16  # linkers make as many buckets as it takes for chains of a few links


def dynamic_tags(elf: ElfFile) -> dict[int, int]:
    """The first value of each tag of PT_DYNAMIC; empty when there is none. Stops at DT_NULL."""
    form = layout.ORDER_MARK[elf.order] + layout.DYNAMIC[elf.bits]
    tags: dict[int, int] = {}
    for segment in elf.segments:
        if segment.type == constants.PT_DYNAMIC:
            data = elf.data[segment.file_offset : segment.file_offset + min(segment.file_size, 1 << 16)]
            whole = len(data) - len(data) % struct.calcsize(form)
            for tag, value in struct.iter_unpack(form, data[:whole]):
                if tag == constants.DT_NULL:
                    break
                tags.setdefault(tag, value)
    return tags


def dynamic_symbols(elf: ElfFile) -> tuple[memoryview, memoryview] | None:
    """The bytes of .dynsym and of .dynstr; None when the file does not say where they are."""
    tags = dynamic_tags(elf)
    if constants.DT_SYMTAB not in tags or constants.DT_STRTAB not in tags:
        return None
    symbols_at = elf.file_offset_of(tags[constants.DT_SYMTAB])
    names_at = elf.file_offset_of(tags[constants.DT_STRTAB])
    if symbols_at is None or names_at is None:
        return None
    try:
        count = _count(elf, tags)
    except ElfError:
        count = 0
    size = layout.SYMBOL_SIZE[elf.bits]
    if not count and names_at > symbols_at:
        count = (names_at - symbols_at) // size  # no hash table that tells: linkers put the names behind
    if not count:
        return None
    names_size = tags.get(constants.DT_STRSZ, 0)
    return elf.data[symbols_at : symbols_at + count * size], elf.data[names_at : names_at + names_size]


def _count(elf: ElfFile, tags: dict[int, int]) -> int:
    """How many symbols the hash tables know of; 0 when there is no table."""
    window = Window(elf.data, "file", elf.order, ElfError)
    at = elf.file_offset_of(tags[constants.DT_HASH]) if constants.DT_HASH in tags else None
    if at is not None:
        return window.u32(at + 4)
    at = elf.file_offset_of(tags[constants.DT_GNU_HASH]) if constants.DT_GNU_HASH in tags else None
    if at is None:
        return 0
    buckets, first, bloom, _ = window.unpack("IIII", at)
    buckets_at = at + 16 + bloom * (elf.bits // 8)
    window.need(buckets_at, 4 * buckets)
    filled = struct.iter_unpack(layout.ORDER_MARK[elf.order] + "I", elf.data[buckets_at : buckets_at + 4 * buckets])
    last = max((first_symbol for (first_symbol,) in filled), default=0)
    if last < first:
        return first
    chain_at = buckets_at + 4 * buckets + 4 * (last - first)
    for _ in range(MAX_CHAIN):
        if window.u32(chain_at) & 1:
            return last + 1
        chain_at += 4
        last += 1
    raise ElfError("dynamic table", None, f"a chain of its hash table has at most {MAX_CHAIN} links")
