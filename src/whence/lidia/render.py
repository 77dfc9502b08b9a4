"""Render the frames of many addresses as text, in the three styles of `whence addr`.

    llvm   like llvm-symbolizer: function, file:line:column for each frame, an empty line after each address. A line
    that
           is not an address is repeated
    gnu    like `addr2line -a -f -i`: the address, then function, file:line for each frame. A line that is not an
    address
           is 0
    json   a line per address: {"address": "0x...", "frames": [{"function": "...", "file": "...", "line": 0,
           "column": 0, "start_line": 0, "inlined": false, "source": "symtab"}], "reason": null}; the reason is a word
           if there are no frames

Unknown functions and files are ?? in the first two styles; an unknown line or column is 0.
"""

from __future__ import annotations

import os
from _thread import allocate_lock

from whence._base.model import SOURCES
from whence.lidia.kernels.queries import Queries, ReadableNames
from whence.lidia.kernels.render import FrameWriter
from whence.lidia.layout import NAMES_ALLOWANCE, NAMES_TIMES, STRINGS, too_many_names
from whence.lidia.table import u64_column

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Literal

    from whence.lidia.table import Table

    Style = Literal["llvm", "gnu", "json"]

__all__ = ["NAMES_EACH", "Queries", "Renderer", "render_many"]

_CACHED_NAMES = 1 << 18
_CACHED_BYTES = 1 << 26
NAMES_EACH = 1 << 12  # bytes of names for each answer, added to the limit of the archive's size


class Renderer:
    """Renders answers from one archive, for one thread. Demangled names are cached.

    Args:
        table: the archive.
        style: "llvm", "gnu" or "json"; ValueError for any other.
        demangle: a function from a linkage name to a readable one, called once for each name that begins like a linkage
            name. None for stored names.
        return_address: each address is one past a call, so the byte before it is looked up.
        width: the number of hex digits of addresses in the gnu style.

    `unknown` is the number of addresses without frames so far.
    """

    def __init__(
        self, table: Table, style: Style = "llvm", *, demangle: Callable[[str], str] | None = None,
        return_address: bool = False, width: int = 16,
    ) -> None:  # fmt: skip
        if style not in ("llvm", "gnu", "json"):
            raise ValueError(f"unknown style {style!r}: use llvm, gnu or json")
        self._table, self._style, self._demangle = table, style, demangle
        self._return_address, self._width = return_address, width
        self._lock = allocate_lock()  # for the names
        self._names = ReadableNames(int.from_bytes(os.urandom(8), "little"), _CACHED_NAMES, _CACHED_BYTES)
        self._writer = _json_writer() if style == "json" else FrameWriter()
        self.unknown = 0

    def another(self) -> Renderer:
        """Return an equal renderer for another thread; the two share the demangled names."""
        other = Renderer(
            self._table, self._style, demangle=self._demangle, return_address=self._return_address, width=self._width
        )
        other._names, other._lock = self._names, self._lock
        return other

    def __repr__(self) -> str:
        return f"<lidia.Renderer of {self._table!r}: {self._style}>"

    def lines(self, text: bytes) -> bytes:
        """Return the answers to lines of text with an address each, in hex with or without 0x."""
        return self.answers(Queries(text))

    def vaddrs(self, vaddrs: Iterable[int]) -> bytes:
        """Return the answers to vaddrs. Addresses outside of 64 bits have no frames."""
        return self.answers(Queries(b"", u64_column(vaddrs)))

    def answers(self, queries: Queries) -> bytes:
        """Return the answers to parsed lines.

        Raises LidiaError if the names exceed the limit of the archive's size, or if the file has changed.
        """
        frames = self._table.find_frames(queries.vaddrs, return_address=self._return_address, discriminators=False)
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
    """Return the answers to vaddrs, or to lines of text with an address each. See Renderer for the other arguments."""
    renderer = Renderer(table, style, demangle=demangle, return_address=return_address)
    return renderer.lines(addresses) if isinstance(addresses, bytes) else renderer.vaddrs(addresses)


def _json_writer() -> FrameWriter:
    """Return a writer with the names of sources, and the reasons of unknown and of invalid addresses."""
    from whence._base.reasons import Reason  # only JSON has reasons

    reasons = (f'"{reason.word}"'.encode() for reason in (Reason.NOT_IN_ARCHIVE, Reason.NOT_AN_ADDRESS))
    return FrameWriter(tuple(source.encode() for source in SOURCES), *reasons)
