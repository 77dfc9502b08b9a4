"""Whole answers as text, in the three forms of `whence addr`, many at once.

    llvm   llvm-symbolizer's: function, file:line:column for each frame, an empty line after each address. What is not
           an address is given back as it came
    gnu    `addr2line -a -f -i`'s: the address, then function, file:line for each frame. What is not an address is 0
    json   a line per address: {"address": "0x...", "frames": [{"function": "...", "file": "...", "line": 0,
           "column": 0, "start_line": 0, "inlined": false, "source": "symtab"}], "reason": null}; the reason is a word
           where there are no frames

Unknown functions and files are ?? in the first two; an unknown line or column is 0.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from whence._base.model import SOURCES
from whence._base.reasons import Reason
from whence.lidia.kernels.queries import Queries, ReadableNames
from whence.lidia.kernels.render import FrameWriter
from whence.lidia.layout import NAMES_ALLOWANCE, NAMES_TIMES, STRINGS, too_many_names
from whence.lidia.table import as_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from whence.lidia.table import Table

    Style = Literal["llvm", "gnu", "json"]

__all__ = ["NAMES_EACH", "Queries", "Renderer", "render_many"]

_CACHED = 1 << 18
_CACHED_BYTES = 1 << 26
NAMES_EACH = 1 << 12  # bytes of names that each answer may have beyond what the archive justifies


class Renderer:
    """Renders answers of one archive, for one thread; demangled names are kept from call to call.

    `demangle` turns a linkage name into a readable one (None: names as they are stored). It is called once for each
    name that begins like a linkage name. With `return_address` each address is one past a call. The JSON form's reasons
    are words of _base.reasons. `width` is the number of hex digits of the gnu form's address. ValueError for another
    style than those of the module's docstring.

    `unknown` counts the addresses without an answer so far.
    """

    def __init__(
        self, table: Table, style: Style = "llvm", *, demangle: Callable[[str], str] | None = None,
        return_address: bool = False, width: int = 16,
    ) -> None:  # fmt: skip
        if style not in ("llvm", "gnu", "json"):
            raise ValueError(f"no style {style!r}: it is llvm, gnu or json")
        self._table, self._style, self._demangle = table, style, demangle
        self._back, self._width = return_address, width
        self._lock = allocate_lock()  # of the names
        self._names = ReadableNames(int.from_bytes(os.urandom(8), "little"), _CACHED, _CACHED_BYTES)
        self._writer = _json_writer() if style == "json" else FrameWriter()
        self.unknown = 0

    def another(self) -> Renderer:
        """One that renders the same, for another thread: the two share the demangled names."""
        other = Renderer(
            self._table, self._style, demangle=self._demangle, return_address=self._back, width=self._width
        )
        other._names, other._lock = self._names, self._lock
        return other

    def __repr__(self) -> str:
        return f"<lidia.Renderer of {self._table!r}: {self._style}>"

    def lines(self, text: bytes) -> bytes:
        """The answers to lines of text: an address each, in hex with or without 0x."""
        return self.answers(Queries(text))

    def vaddrs(self, vaddrs: Iterable[int]) -> bytes:
        """The answers to vaddrs; one that has no 64 bits has none."""
        return self.answers(Queries(b"", as_words(vaddrs)))

    def answers(self, queries: Queries) -> bytes:
        """The answers to lines that were parsed already.

        LidiaError when the names of the answers overlap beyond what the archive's size justifies, or when its file was
        changed meanwhile; MemoryError.
        """
        frames = self._table.find_frames(queries.vaddrs, return_address=self._back, discriminators=False)
        self.unknown += frames.unknown
        texts = self._table.texts_of(frames)
        stored = self._table.header.strings.size
        if texts.written > NAMES_TIMES * stored + NAMES_EACH * len(queries) + NAMES_ALLOWANCE:
            raise too_many_names(STRINGS, f"the names of {len(queries)} answers", stored)
        if self._demangle is not None:
            with self._lock:
                self._names.replace(texts, self._demangle)
        if self._style == "llvm":
            self._writer.write_llvm(queries, frames, texts)
        elif self._style == "gnu":
            self._writer.write_gnu(queries, frames, texts, self._width)
        else:
            self._writer.write_json(queries, frames, texts)
        text: bytes = self._writer.take()
        self._table.check()
        return text


def render_many(
    table: Table, addresses: bytes | Iterable[int], style: Style = "llvm", *,
    demangle: Callable[[str], str] | None = None, return_address: bool = False,
) -> bytes:  # fmt: skip
    """The answers to addresses, or to lines of text with one each; see Renderer, which keeps names between calls."""
    renderer = Renderer(table, style, demangle=demangle, return_address=return_address)
    return renderer.lines(addresses) if isinstance(addresses, bytes) else renderer.vaddrs(addresses)


def _json_writer() -> FrameWriter:
    """A writer that knows the names of sources, and the reasons of an address that nothing covers and of what is no
    address. Only JSON has them, and an enum of reasons is noticed at start-up."""
    reasons = (f'"{reason.word}"'.encode() for reason in (Reason.NOT_IN_ARCHIVE, Reason.NOT_AN_ADDRESS))
    return FrameWriter(tuple(source.encode() for source in SOURCES), *reasons)
