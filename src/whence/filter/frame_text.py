"""Frames as a log has them: `main at /src/app.c:3`; with columns for Style.LLVM, an array of objects for Style.JSON."""

from __future__ import annotations

import json
import os
from urllib.parse import quote

from whence._base.errors import plain
from whence._base.model import Frame, Frames
from whence.filter.forms import Style

MAX_RENDERED = 1 << 14  # frames whose text is kept
JSON_KEYS = ("function", "file", "line", "column", "inlined")


class FrameText:
    """Writes frames in one style; with `links` files are hyperlinks of the terminal (OSC 8)."""

    def __init__(self, style: Style, *, links: bool = False) -> None:
        self._style = style
        self._links = links
        self._rendered: dict[tuple[Frame, bytes], bytes] = {}

    def chain(self, frames: Frames) -> bytes:
        """All frames of an address, innermost first.

        >>> FrameText(Style.SAME).chain((Frame("get", "/a.h", 3), Frame("main", "/a.c", 7)))
        b'get at /a.h:3 (inlined by) main at /a.c:7'
        """
        if self._style is Style.JSON:
            return json.dumps([{key: getattr(frame, key) for key in JSON_KEYS} for frame in frames]).encode()
        return b" (inlined by) ".join(self.frame(frame, b" at ") for frame in frames)

    def frame(self, frame: Frame, between: bytes) -> bytes:
        """The function, `between` and the place; the function alone where the file is unknown (not for LLVM)."""
        key = frame, between
        words = self._rendered.get(key)
        if words is None:
            words = shown(frame.function or "??")
            if frame.file or self._style is Style.LLVM:
                column = b":%d" % frame.column if self._style is Style.LLVM else b""
                words += between + self.place(frame, column)
            if len(self._rendered) >= MAX_RENDERED:
                self._rendered.clear()
            self._rendered[key] = words
        return words

    def place(self, frame: Frame, column: bytes = b"") -> bytes:
        """FILE:LINE, then `column`; ?? for an unknown file."""
        text = b"%s:%d%s" % (shown(frame.file or "??"), frame.line, column)
        if not (self._links and frame.file.startswith("/")):
            return text
        address = quote(os.fsencode(frame.file)).encode()
        return b"\x1b]8;;file://" + address + b"\x1b\\" + text + b"\x1b]8;;\x1b\\"


def shown(text: str) -> bytes:
    """A name with control characters made visible."""
    return os.fsencode(plain(text))
