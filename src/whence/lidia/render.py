"""Whole answers as text, in the three forms of `whence addr`, many at once.

    llvm   llvm-symbolizer's: function, file:line:0 for each frame, an empty line after each address. What is not an
           address is given back as it came
    gnu    `addr2line -a -f -i`'s: the address, then function, file:line for each frame. What is not an address is 0
    json   a line per address: {"address": "0x...", "frames": [{"function": "...", "file": "...", "line": 0,
           "start_line": 0, "inlined": false, "source": "symtab"}], "reason": null}; the reason is a word where there
           are no frames

Unknown functions and files are ?? in the first two.
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING, Literal

from whence.lidia.kernels import asked as asked_kernel
from whence.lidia.kernels import render as render_kernel
from whence.lidia.layout import NAMES_ALLOWANCE, NAMES_TIMES, too_many_names
from whence.model import SOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from whence.lidia.table import Table

Style = Literal["llvm", "gnu", "json"]
_STYLES = {"llvm": 0, "gnu": 1, "json": 2}
_WORDS = "".join(SOURCES).encode()
_WORD_START = array("I", (sum(map(len, SOURCES[:i])) for i in range(len(SOURCES) + 1)))
_OTHER = 1 << 63
_KEPT = 1 << 18
_KEPT_BYTES = 1 << 26
NAMES_EACH = 1 << 12  # bytes of names that each answer may have beyond what the archive justifies
_SEED = int.from_bytes(os.urandom(8), "little")


class Asked:
    """Lines of text, read once: an address each, in hex with or without 0x.

    `vaddrs` has 0 and `bad` 1 for a line that is no address; its text without blanks is at `start`, of `size` bytes.
    """

    def __init__(self, text: bytes) -> None:
        count = asked_kernel.count_lines(text)
        self.text = text
        self.vaddrs, self.bad = array("Q", bytes(8 * count)), bytearray(count)
        self.start, self.size = array("I", bytes(4 * count)), array("I", bytes(4 * count))
        asked_kernel.parse(text, self.vaddrs, self.bad, self.start, self.size)

    def bad_lines(self) -> Iterator[bytes]:
        """The lines that are no addresses, without blanks around them."""
        for row, bad in enumerate(self.bad):
            if bad:
                yield self.text[self.start[row] : self.start[row] + self.size[row]]


class Renderer:
    """Renders answers of one archive, for one thread; demangled names are kept from call to call.

    `demangle` turns a linkage name into a readable one (None: names as they are stored). It is asked once for each name
    that begins like a linkage name. The JSON form's reasons are words of whence.reasons. `width` is the number
    of hex digits of the gnu form's address.

    `unknown` counts the addresses without an answer so far.
    """

    def __init__(
        self, table: Table, style: Style = "llvm", *, demangle: Callable[[str], str] | None = None,
        return_addresses: bool = False, width: int = 16,
    ) -> None:  # fmt: skip
        self._table, self._style, self._demangle = table, _STYLES[style], demangle
        self._back, self._width = return_addresses, width
        self._reasons = _reason_words() if style == "json" else b"\n"
        self._names: dict[int, bytes] = {}
        self._names_size = 0
        self._out = render_kernel.Text()
        self.unknown = 0

    def lines(self, text: bytes) -> bytes:
        """The answers to lines of text: an address each, in hex with or without 0x."""
        return self.answers(Asked(text))

    def answers(self, asked: Asked) -> bytes:
        """The answers to lines that were read already."""
        return self._rendered(asked.vaddrs, asked.bad, asked.text, asked.start, asked.size)

    def vaddrs(self, vaddrs: Iterable[int]) -> bytes:
        """The answers to addresses."""
        asked = vaddrs if isinstance(vaddrs, array) and vaddrs.typecode == "Q" else array("Q", vaddrs)
        none = array("I", bytes(4 * len(asked)))
        return self._rendered(asked, bytearray(len(asked)), b"", none, none)

    def _rendered(self, asked: array[int], bad: bytearray, text: bytes, start: array[int], size: array[int]) -> bytes:
        found = self._table.find_frames(asked, return_address=self._back)
        self.unknown += found.unknown
        strings = self._table.strings
        names, name_rows = _numbered(found.function.numbers())
        files, file_rows = _numbered(found.file.numbers())
        offsets = names + files
        text_start, text_size = array("Q", bytes(8 * len(offsets))), array("I", bytes(4 * len(offsets)))
        mangled = array("I", bytes(4 * len(offsets)))
        linkage = asked_kernel.find_texts(
            strings, self._table.encoding == "nul", offsets, text_start, text_size, mangled
        )
        if 0 in files:  # no file, also where the strings begin with another text
            text_size[len(names) + files.index(0)] = 0
        file_rows = _shifted(file_rows, len(names))
        written = asked_kernel.together(name_rows, text_size) + asked_kernel.together(file_rows, text_size)
        if written > NAMES_TIMES * len(strings) + NAMES_EACH * len(asked) + NAMES_ALLOWANCE:
            raise too_many_names("strings", f"the names of {len(asked)} answers", len(strings))
        others = self._demangled(strings, offsets, text_start, text_size, mangled[:linkage], len(names))
        start_lines = self._table.start_lines(found) if self._style == _STYLES["json"] else found.line.numbers()
        out = self._out
        out.write(
            self._style, asked, bad, text, start, size, found.starts.numbers(), name_rows, file_rows,
            found.line.numbers(), start_lines, found.inlined.numbers(), found.source.numbers(), text_start, text_size,
            strings, others, _WORDS, _WORD_START, self._reasons, self._width,
        )  # fmt: skip
        answers_text: bytes = out.take()
        self._table.check()
        return answers_text

    def _demangled(
        self, strings: memoryview, offsets: array[int], start: array[int], size: array[int], rows: array[int],
        names: int,
    ) -> bytearray:  # fmt: skip
        """Point the linkage names among the first `names` texts to readable ones, in the buffer that is given back."""
        others = bytearray()
        demangle, kept = self._demangle, self._names
        if demangle is None:
            return others
        for row in rows:
            if row >= names:
                break
            known = kept.get(offsets[row])
            if known is None:
                raw = bytes(strings[start[row] : start[row] + size[row]])
                known = demangle(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
                self._names_size += len(known)
                if len(kept) >= _KEPT or self._names_size > _KEPT_BYTES:
                    kept.clear()
                    self._names_size = len(known)
                kept[offsets[row]] = known
            start[row], size[row] = _OTHER + len(others), len(known)
            others += known
        return others


def render_many(
    table: Table, addresses: bytes | Iterable[int], style: Style = "llvm", *,
    demangle: Callable[[str], str] | None = None, return_addresses: bool = False,
) -> bytes:  # fmt: skip
    """The answers to addresses, or to lines of text with one each; see Renderer, which keeps names between calls."""
    renderer = Renderer(table, style, demangle=demangle, return_addresses=return_addresses)
    return renderer.lines(addresses) if isinstance(addresses, bytes) else renderer.vaddrs(addresses)


def _reason_words() -> bytes:
    """As JSON: the reason of an address that nothing covers, and that of text that is not an address."""
    from whence.reasons import Reason  # only JSON has reasons, and an enum of this size is noticed at start-up

    return f'"{Reason.NOT_IN_ARCHIVE.word}"\n"{Reason.NOT_AN_ADDRESS.word}"'.encode()


def _numbered(offsets: memoryview) -> tuple[array[int], array[int]]:
    """The distinct offsets, and which of them each is."""
    rows, distinct = array("I", bytes(4 * len(offsets))), array("Q", bytes(8 * len(offsets)))
    found = asked_kernel.number_names(offsets, rows, distinct, _SEED)
    return distinct[:found], rows


def _shifted(rows: array[int], by: int) -> array[int]:
    """The rows, counted from `by`."""
    asked_kernel.add(rows, by)
    return rows
