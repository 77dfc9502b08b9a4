"""Write frames like a log: `main at /src/app.c:3`; with columns for Style.LLVM, as JSON objects for Style.JSON."""

from __future__ import annotations

import json
import os
from urllib.parse import quote

from whence._base.errors import plain
from whence._base.model import Frame, Frames
from whence.filter.forms import Style

MAX_RENDERED = 1 << 14  # cached texts of frames
JSON_KEYS = ("function", "file", "line", "column", "inlined")


class FrameText:
    """Writes frames in one style; with `links`, files are hyperlinks of the terminal (OSC 8)."""

    def __init__(self, style: Style, *, links: bool = False) -> None:
        self._style = style
        self._links = links
        self._rendered: dict[tuple[Frame, bytes], bytes] = {}

    def chain(self, frames: Frames) -> bytes:
        """Return the text of all frames of an address, innermost first.

        >>> FrameText(Style.SAME).chain((Frame("get", "/a.h", 3), Frame("main", "/a.c", 7)))
        b'get at /a.h:3 (inlined by) main at /a.c:7'
        """
        if self._style is Style.JSON:
            return json.dumps([{key: getattr(frame, key) for key in JSON_KEYS} for frame in frames]).encode()
        return b" (inlined by) ".join(self.frame(frame, b" at ") for frame in frames)

    def frame(self, frame: Frame, between: bytes) -> bytes:
        """Return the function, `between` and the location.

        Only the function if the file is unknown, except for LLVM.
        """
        key = frame, between
        text = self._rendered.get(key)
        if text is None:
            text = shown(frame.function or "??")
            if frame.file or self._style is Style.LLVM:
                column = b":%d" % frame.column if self._style is Style.LLVM else b""
                text += between + self.location(frame, column)
            if len(self._rendered) >= MAX_RENDERED:
                self._rendered.clear()
            self._rendered[key] = text
        return text

    def location(self, frame: Frame, column: bytes = b"") -> bytes:
        """Return FILE:LINE and `column`; ?? for an unknown file."""
        text = b"%s:%d%s" % (shown(frame.file or "??"), frame.line, column)
        if not (self._links and frame.file.startswith("/")):
            return text
        address = quote(os.fsencode(frame.file)).encode()
        return b"\x1b]8;;file://" + address + b"\x1b\\" + text + b"\x1b]8;;\x1b\\"


def shown(text: str) -> bytes:
    """Return a name with control characters made visible."""
    return os.fsencode(plain(text))
