"""Decompress sections: SHF_COMPRESSED (zlib, zstd), .zdebug_* (zlib), .gnu_debugdata (xz).

The size that a header claims may be at most RATIO times the stored bytes plus SLACK. (Of Debian 12's debug files
measured here, the best compressed section of more than 200 KB is 34 times as large decompressed.) The output is an
anonymous mapping, whose pages take memory only once they are written, so a false claim costs none.
"""

from __future__ import annotations

import lzma
import mmap
import os
import sys
import threading
from contextlib import suppress

from whence._base.budget import Budget
from whence._base.deflate import fastest_zlib
from whence._base.errors import ElfError
from whence._base.window import ByteOrder, Window
from whence.objects.elf import layout
from whence.objects.elf.kernels import constants
from whence.objects.elf.layout import ELF32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

RATIO = 64
SLACK = 1 << 20  # bytes of one section beyond that
FILE_SLACK = 4 << 20  # bytes of all sections of a file beyond RATIO times the file
# Compressed bytes per step: the output stays in the cache until it is copied. Each step takes the GIL, which is busy
# while modules are imported, so smaller steps wait for it too often.
STEP = 1 << 18
NOTIFY_EVERY = 8 * STEP  # compressed bytes between two calls of `consumed`
FORGET_UNIT = 2 << 20  # memory is given back in multiples of this
XZ_RATIO = 32  # .gnu_debugdata is compressed 4:1 or so
XZ_MEMORY = 128 << 20
ZDEBUG_MAGIC = b"ZLIB"
ZDEBUG_HEAD = 12
INTERRUPTED = -1


def size_budget(part: str, stored: int, allowance: int = SLACK) -> Budget:
    """Return the budget of decompressed bytes for `stored` compressed bytes."""
    return Budget(part, "unpacked bytes", stored, times=RATIO, allowance=allowance, error=ElfError)


def section_stream(
    stored: memoryview, bits: int, order: ByteOrder, part: str, consumed: Callable[[int], object] | None = None
) -> SectionStream:
    """Return the stream of a SHF_COMPRESSED section: a compression header, then the compressed bytes.

    `consumed` is called from time to time with the number of compressed bytes that are no longer needed.
    """
    window = Window(stored, part, order, ElfError)
    fields = window.unpack(layout.COMPRESSION[bits], 0)
    method, size = (fields[0], fields[1]) if bits == ELF32 else (fields[0], fields[2])
    compressed = stored[12 if bits == ELF32 else 24 :]
    if method == constants.ELFCOMPRESS_ZLIB:
        return SectionStream(fastest_zlib().decompressobj(), compressed, size, part, consumed)
    if method == constants.ELFCOMPRESS_ZSTD:
        return SectionStream(_zstd_decompressor(), compressed, size, part, consumed)
    raise ElfError(part, 0, f"unknown compression method {method}, neither zlib (1) nor zstd (2)")


def zdebug_stream(stored: memoryview, part: str) -> SectionStream:
    """Return the stream of a .zdebug_* section: "ZLIB", the size as 8 big-endian bytes, the compressed bytes."""
    window = Window(stored, part, "big", ElfError)
    magic = window.raw(0, min(4, len(stored)))
    if magic != ZDEBUG_MAGIC:
        raise ElfError(part, 0, f'bytes {magic.hex(" ")} instead of "ZLIB" at the start')
    return SectionStream(fastest_zlib().decompressobj(), stored[ZDEBUG_HEAD:], window.u64(4), part)


def decompress_xz(compressed: memoryview, part: str, stored: int) -> bytes:
    """Return the content of .gnu_debugdata.

    An xz stream has its size at the end, so the output is bounded by `stored`, the section's bytes in the file (fewer
    than the compressed ones if the section itself is compressed).
    """
    limit = XZ_RATIO * stored + (1 << 20)
    try:
        decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        content = decompressor.decompress(compressed, limit)
    except lzma.LZMAError as error:
        raise ElfError(part, None, f"invalid xz stream: {error}") from None
    if not decompressor.eof:
        if len(content) >= limit:
            raise ElfError(part, None, f"the xz stream is more than {XZ_RATIO} times as large as the section")
        raise ElfError(part, None, f"the xz stream is cut off after {len(content)} decompressed bytes")
    return content


def _zstd_decompressor() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.ZstdDecompressor()


class SectionStream:
    """A section that is decompressed as far as any thread has waited for it.

    The first `done` bytes of `content` are there, except those before `forgotten`. Any thread may call `wait`: one of
    them decompresses a step at a time, the others wait for it. zlib and zstd release the GIL.

    Raises ElfError if the claimed `size` is too large for the compressed bytes.
    """

    def __init__(
        self,
        decompressor: Any,
        compressed: memoryview,
        size: int,
        part: str,
        consumed: Callable[[int], object] | None = None,
    ) -> None:
        size_budget(part, len(compressed)).charge(size)
        self._decompressor, self._compressed, self._consumed, self.part = decompressor, compressed, consumed, part
        self._pages = new_pages(size) if size else None
        self.content = memoryview(self._pages or b"").toreadonly()
        self.size = size
        self.done = 0
        self.forgotten = 0
        self._offset = 0  # into the compressed bytes
        self._changed = threading.Condition()
        self._process = 0  # ID of the process that has a thread in `_step`; 0 if no thread is; or INTERRUPTED
        self._ended = not size
        self._error: BaseException | None = None

    def wait(self, size: int) -> None:
        """Decompress until `size` bytes are there; for all of them also check that the stream ends there.

        Raises ElfError if the section has fewer bytes, or more than it claims.
        """
        while not self._has(size):
            with self._changed:
                if self._has(size):
                    return
                if self._process == os.getpid():
                    self._changed.wait()
                    continue
                if self._process:
                    raise ElfError(self.part, None, "decompression was interrupted by a signal or a fork")
                self._process = os.getpid()
            process = 0
            try:
                self._step()
            except Exception as error:
                self._error = error
            except BaseException:
                process = INTERRUPTED
                raise
            finally:
                with self._changed:
                    self._process = process
                    self._changed.notify_all()

    @property
    def is_reusable(self) -> bool:
        """True if all bytes can still be read, in this process."""
        return not self.forgotten and self._process in (0, os.getpid())

    def run(self) -> memoryview:
        """Decompress the rest, and return all of the content. Raises ElfError."""
        self.wait(self.size)
        return self.content

    def _has(self, size: int) -> bool:
        if size <= self.done and size < self.size:
            return True
        if self._error is not None:
            raise self._error
        return self._ended

    def _step(self) -> None:
        pages, decompressor, left = self._pages, self._decompressor, self.size - self.done
        assert pages is not None
        try:
            piece = decompressor.decompress(self._compressed[self._offset : self._offset + STEP], left + 1)
        except MemoryError:
            raise
        except Exception as error:  # zlib.error, ZstdError
            raise ElfError(self.part, None, f"invalid compressed data: {error}") from None
        self._offset += STEP
        if len(piece) > left:
            raise ElfError(self.part, None, f"decompresses to more than the {self.size} bytes in its header")
        pages[self.done : self.done + len(piece)] = piece
        self.done += len(piece)
        if self._consumed is not None and self._offset % NOTIFY_EVERY == 0:
            self._consumed(self._offset)
        self._ended = decompressor.eof or self._offset >= len(self._compressed)
        if self._ended and (self.done < self.size or not decompressor.eof):
            raise ElfError(self.part, None, f"decompresses to {self.done} of the {self.size} bytes in its header")

    def forget(self, end: int) -> None:
        """Give back the memory of the bytes before `end`, which will not be read again."""
        end -= end % FORGET_UNIT
        with self._changed:
            if self._pages is not None and end > self.forgotten:
                give_back(self._pages, self.forgotten, end)
                self.forgotten = end


def new_pages(size: int) -> mmap.mmap:
    """Return `size` bytes of anonymous memory, which is freed with its last view. Raises MemoryError."""
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError from error


def give_back(pages: mmap.mmap, start: int, end: int) -> None:
    """Give the memory of [start, end), whole pages, back to the system; does nothing to locked memory."""
    if hasattr(mmap, "MADV_DONTNEED"):
        with suppress(OSError):
            pages.madvise(mmap.MADV_DONTNEED, start, end - start)


def decompress_all(streams: Iterable[tuple[SectionStream, int]]) -> None:
    """Decompress the first bytes of streams, one after the other. Errors are raised to the readers instead."""
    for stream, size in streams:
        with suppress(ElfError, MemoryError):
            stream.wait(min(size, stream.size))
