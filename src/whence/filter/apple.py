"""Crash reports of macOS and iOS.

A text report (.crash) lists its images (programs and libraries) at the end, each with its addresses, UUID and path. A
report in JSON (.ips) is a line about the report and an object with `usedImages` and, in lists, frames: the index of an
image and an offset in it. Frames get the members that Apple's tools write: `symbol`, `sourceFile`, `sourceLine`, and
`inline` for the inlined calls, which precede their function.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from whence._base.model import Frames
from whence.locate.identity import comparable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    NameOffset = Callable[["Image", int, int], Frames]

TITLE = b"Binary Images:"
IMAGE_LINE = re.compile(
    rb"\s*0x(?P<start>[0-9a-f]{1,16}) - +0x(?P<end>[0-9a-f]{1,16}) \+?(?P<name>[^\n<]{1,1024}?)"
    rb"(?: +(?P<architecture>arm\w+|x86_64h?|i386))?(?: \([^()\n]{0,256}\))? +"
    rb"<(?P<uuid>[0-9A-Fa-f]{32}|[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})> (?P<path>[^\r\n]{1,4096})"
)
NO_UUID = "0" * 32
FLAT_OBJECT = re.compile(rb'\{(?>(?:[^{}"]|"(?>(?:[^"\\]|\\.)*)")*)\}')
IMAGE_INDEX = b'"imageIndex"'
NAMED_KEYS = ("sourceFile", "inline")  # of frames that have names


class Image(NamedTuple):
    """A program or library of a process: where it starts, its size in bytes, its name, UUID in hex and path."""

    start: int
    size: int
    name: str
    uuid: str
    path: str


def images_of(lines: bytes) -> list[Image]:
    """Return the images in lines of the list at the end of a text report."""
    images = []
    for match in IMAGE_LINE.finditer(lines):
        start, last = int(match["start"], 16), int(match["end"], 16)
        uuid = comparable(match["uuid"].decode())
        if uuid != NO_UUID and start <= last:
            name, path = (match[group].decode("utf-8", "surrogateescape").strip() for group in ("name", "path"))
            images.append(Image(start, last - start + 1, name, uuid, path))
    return images


def named_report(text: bytes, frames_at: NameOffset) -> bytes:
    """Return a report in JSON with names in its frames; the text itself if it is not such a report.

    `frames_at` returns the frames of an offset in an image, looked up some bytes before it.
    """
    start = text.find(b"\n") + 1
    try:
        report = json.loads(text[start:])
        images = [image_of(fields) for fields in report["usedImages"]]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return text
    out: list[bytes] = []
    done = 0
    for match in FLAT_OBJECT.finditer(text, start):
        if IMAGE_INDEX not in match[0]:
            continue
        first = text[: match.start()].rstrip()[-1:] == b"["
        named = named_frame(match[0], images, frames_at, 0 if first else 1)
        if named:
            out += text[done : match.start()], named
            done = match.end()
    return b"".join([*out, text[done:]])


def image_of(fields: Any) -> Image | None:
    """Return an image of a report in JSON; None if it has no UUID or is malformed."""
    uuid, base, size = fields.get("uuid"), fields.get("base"), fields.get("size", 0)
    path, name = fields.get("path", ""), fields.get("name", "")
    if not all(isinstance(field, str) for field in (uuid, path, name)) or not isinstance(base, int):
        return None
    uuid = comparable(uuid)
    return Image(base, size if isinstance(size, int) else 0, name, uuid, path) if uuid.strip("0") else None


def named_frame(raw: bytes, images: list[Image | None], frames_at: NameOffset, back: int) -> bytes:
    """Return a frame in JSON as one for each inlined call and the function; b"" if it stays as it is."""
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return b""
    index, offset = fields.get("imageIndex"), fields.get("imageOffset")
    if any(key in fields for key in NAMED_KEYS) or not isinstance(index, int) or not isinstance(offset, int):
        return b""
    image = images[index] if 0 <= index < len(images) else None
    frames = frames_at(image, offset, back) if image is not None else ()
    if not any(frame.file for frame in frames) and "symbol" in fields:
        return b""
    out = []
    for number, frame in enumerate(frames, 1):
        entry = dict(fields)
        if number < len(frames):
            entry["inline"] = True
            entry.pop("symbolLocation", None)
        if frame.function:
            entry["symbol"] = frame.function
        if frame.file:
            entry |= {"sourceFile": frame.file, "sourceLine": frame.line}
        out.append(json.dumps(entry, separators=(",", ":")).encode())
    return b",".join(out)
