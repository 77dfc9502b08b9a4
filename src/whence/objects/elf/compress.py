"""Unpacking sections: SHF_COMPRESSED (zlib, zstd), .zdebug_* (zlib), .gnu_debugdata (xz).

The size a header claims is believed only as far as the packed bytes justify it: at most RATIO times those, and SLACK.
(Of Debian 12's debug files measured here, the best packed section of more than 200 KB is 34 times as large unpacked.)
The output is an anonymous mapping, whose pages take memory only once they are written, so a false claim costs none.
A reader that is done with the first bytes calls `forget`, which gives their pages back. zlib and zstd release the GIL,
and other threads may read what has been unpacked so far.
"""

from __future__ import annotations

import lzma
import mmap
import os
import sys
import threading
from _thread import get_ident
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
    from typing import Protocol

    class Decompressor(Protocol):
        @property
        def eof(self) -> bool: ...

        def decompress(self, data: memoryview, max_length: int, /) -> bytes: ...


RATIO = 64
SLACK = 1 << 20  # bytes of one section beyond that
FILE_SLACK = 4 << 20  # bytes of all sections of a file beyond RATIO times the file
# Packed bytes given to the decompressor at a time. What comes out stays in the cache until it is copied. After each it
# needs the interpreter's lock, which is held while modules are imported: smaller pieces wait for it too often.
STEP = 1 << 18
NOTIFY_EVERY = 8 * STEP  # packed bytes between two calls of `consumed`
KEPT_TOGETHER = 2 << 20  # bytes that are given back at once: whole pages
XZ_RATIO = 32  # .gnu_debugdata packs 4:1 or so
XZ_MEMORY = 128 << 20
ZDEBUG_MAGIC = b"ZLIB"
ZDEBUG_HEAD = 12
SOME_THREAD, ANY_THREAD = 0, -1  # who unpacks is not known yet; no thread has these idents


def unpacked_budget(part: str, packed: int, allowance: int = SLACK) -> Budget:
    """What so many packed bytes may unpack to."""
    return Budget(part, "unpacked bytes", packed, times=RATIO, allowance=allowance, error=ElfError)


def unpack_section(
    stored: memoryview, bits: int, order: ByteOrder, part: str, consumed: Callable[[int], object] | None = None
) -> Unpacking:
    """A SHF_COMPRESSED section's content, to be unpacked: a compression header, then the packed bytes.

    `consumed` is called now and then with how many of the packed bytes are no longer needed.
    """
    window = Window(stored, part, order, ElfError)
    fields = window.unpack(layout.COMPRESSION[bits], 0)
    method, size = (fields[0], fields[1]) if bits == ELF32 else (fields[0], fields[2])
    packed = stored[12 if bits == ELF32 else 24 :]
    if method == constants.ELFCOMPRESS_ZLIB:
        return Unpacking(_inflater(), packed, size, part, consumed)
    if method == constants.ELFCOMPRESS_ZSTD:
        return Unpacking(_zstd(), packed, size, part, consumed)
    raise ElfError(part, 0, "it is compressed by zlib (1) or zstd (2)", f"method {method}")


def unpack_zdebug(stored: memoryview, part: str) -> Unpacking:
    """A .zdebug_* section's content: "ZLIB", the size as 8 big-endian bytes whatever the file's order, packed bytes."""
    window = Window(stored, part, "big", ElfError)
    magic = window.raw(0, min(4, len(stored)))
    if magic != ZDEBUG_MAGIC:
        raise ElfError(part, 0, 'it starts with "ZLIB"', magic)
    return Unpacking(_inflater(), stored[ZDEBUG_HEAD:], window.u64(4), part)


def unpack_xz(packed: memoryview, part: str, stored: int) -> bytes:
    """.gnu_debugdata's content. xz says its size only at the end, so output is bounded by the bytes stored alone (fewer
    than the packed ones where the section itself is compressed)."""
    limit = XZ_RATIO * stored + (1 << 20)
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        out = unpacker.decompress(packed, limit)
    except lzma.LZMAError as error:
        raise ElfError(part, None, "its xz stream unpacks", str(error)) from None
    if not unpacker.eof:
        rule = f"it unpacks to at most {XZ_RATIO} times its size" if len(out) >= limit else "its xz stream is whole"
        raise ElfError(part, None, rule, f"{len(out)} bytes from {stored}")
    return out


def _inflater() -> Decompressor:
    unpacker: Decompressor = fastest_zlib().decompressobj()
    return unpacker


def _zstd() -> Decompressor:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    unpacker: Decompressor = zstd.ZstdDecompressor()
    return unpacker


class Unpacking:
    """A section on its way: one thread unpacks it, others may read `content` as far as it has come.

    `run` and `advance` unpack, but wait once another thread has taken that over. Raises ElfError when the size that is
    claimed is not to be believed.
    """

    def __init__(
        self, unpacker: Decompressor, packed: memoryview, size: int, part: str,
        consumed: Callable[[int], object] | None = None,
    ) -> None:  # fmt: skip
        unpacked_budget(part, len(packed)).charge(size)
        self._unpacker, self._packed, self._consumed, self.part = unpacker, packed, consumed, part
        self._pages = new_pages(size) if size else None
        self.content = memoryview(self._pages or b"").toreadonly()
        self.size, self.done = size, 0
        self.forgotten = 0  # bytes from the start that are no longer there
        self._lead: int | None = None  # how many bytes there may be beyond those that were forgotten
        self._wanted = 0  # somebody waits for so many
        self._at = 0  # of the packed bytes
        self._ended = self._stopped = False
        self._turn = threading.Condition()
        self._thread: int | None = None  # that unpacks; SOME_THREAD or ANY_THREAD until it has begun
        self._process = 0  # that has the thread
        self._error: BaseException | None = None

    def run(self) -> memoryview:
        """Unpack it all: exactly `size` bytes, or an ElfError."""
        self.advance(self.size)
        return self.content

    def advance(self, size: int) -> None:
        """Go on until so many bytes are there. ElfError when they can't be unpacked, or when all are wanted and more
        follows."""
        size = min(size, self.size)
        if self._error is not None:  # of a thread that has ended, whose ident this one may have by now
            raise self._error
        if self._thread == ANY_THREAD and self.take():
            size = self.size
        if self._thread not in (None, get_ident()):
            self._await(size, wanted=size)
            return
        if self._thread is None:
            self.want(size)
        try:
            self._advance(size)
        except BaseException as error:
            self._error = error
            self._end()
            raise
        if self.done == self.size:
            self._end()

    def start(self, thread: int = SOME_THREAD) -> None:
        """From now on the thread of this ident unpacks, and the others wait for what comes: SOME_THREAD for one that
        will take it, ANY_THREAD for the first that wants any of it, which then unpacks all."""
        self._thread, self._process = thread, os.getpid()

    def take(self) -> bool:
        """Whether this thread unpacks it, from now on if none has begun."""
        with self._turn:
            if self._thread in (None, SOME_THREAD, ANY_THREAD):
                self.start(get_ident())
            return self._thread == get_ident()

    def complete(self) -> None:
        """Unpack it all on this thread, or wait until the thread that has begun is done, which may keep near to what is
        read. ElfError when it can't be unpacked."""
        if self.take():
            self.run()
        else:
            self._await(self.size)

    def _await(self, size: int, wanted: int = 0) -> None:
        if self._process != os.getpid():
            raise ElfError(self.part, None, "what a thread unpacks is read by its own process")
        self.want(wanted)
        # When all of it is there, more may follow: that is known at the end.
        self._wait_for(lambda: self._ended or size <= self.done < self.size)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Have the thread that unpacks end soon, with an ElfError."""
        with self._turn:
            self._stopped = True
            self._turn.notify_all()

    def keep_near(self, lead: int | None) -> None:
        """Let the thread that unpacks wait when it is so many bytes ahead of what was forgotten, and nobody waits for
        more (None: it goes on to the end)."""
        with self._turn:
            self._lead = lead
            self._turn.notify_all()

    def want(self, size: int) -> None:
        """Somebody waits for so many bytes, or will."""
        with self._turn:
            self._wanted = max(self._wanted, size)
            self._turn.notify_all()

    def _is_near(self) -> bool:
        if self._lead is None or self._stopped or self.done == self.size:  # then its end is looked at
            return True
        return self.done < max(self.forgotten + self._lead, self._wanted)

    def _end(self) -> None:
        with self._turn:
            self._ended = True
            self._turn.notify_all()

    def _advance(self, size: int) -> None:
        pages, packed, unpacker = self._pages, self._packed, self._unpacker
        if pages is None:
            return
        done = self.done
        try:
            while not unpacker.eof and self._at < len(packed) and (done < size or size == self.size):
                if not self._is_near():
                    with self._turn:
                        self._turn.wait_for(self._is_near)
                if self._stopped:
                    break
                piece = unpacker.decompress(packed[self._at : self._at + STEP], self.size - done + 1)
                self._at += STEP
                if self._consumed is not None and self._at % NOTIFY_EVERY == 0:
                    self._consumed(self._at)
                if len(piece) > self.size - done:
                    raise ElfError(self.part, None, f"it unpacks to the {self.size} bytes it claims", "more bytes")
                pages[done : done + len(piece)] = piece
                done += len(piece)
                with self._turn:
                    self.done = done
                    self._turn.notify_all()
        except ElfError:
            raise
        except Exception as error:  # zlib.error, ZstdError
            raise ElfError(self.part, None, "its packed bytes unpack", str(error)) from None
        if done < size or (size == self.size and not unpacker.eof):
            raise ElfError(self.part, None, f"it unpacks to the {self.size} bytes it claims", done)

    def wait(self, size: int) -> int:
        """Wait until so many bytes are there, or all that will be. Returns how many are."""
        self.want(size)
        self._wait_for(lambda: self.done >= size or self._ended)
        return self.done

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        with self._turn:
            self._turn.wait_for(is_so)

    def forget(self, end: int) -> None:
        """The bytes before `end` will not be read again: their memory is given back."""
        end -= end % KEPT_TOGETHER
        if self._pages is not None and end > self.forgotten:
            with self._turn:
                give_back(self._pages, self.forgotten, end)
                self.forgotten = end
                self._turn.notify_all()


def new_pages(size: int) -> mmap.mmap:
    """Memory of its own for so many bytes; it is there until the last view is gone. MemoryError."""
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError from error


def give_back(pages: mmap.mmap, start: int, end: int) -> None:
    """Give the memory of [start, end), whole pages, back to the system, where it takes it: not if it is locked."""
    if hasattr(mmap, "MADV_DONTNEED"):
        with suppress(OSError):
            pages.madvise(mmap.MADV_DONTNEED, start, end - start)


def unpack_all(several: Iterable[Unpacking]) -> None:
    """Unpack one after the other, those that nobody else has begun; those who wait for them meet their errors."""
    for one in several:
        with suppress(ElfError, MemoryError):
            if one.take():
                one.run()
