"""Annotations of Crashpad: of the process and of its modules.

    CrashpadInfo    version, IDs of the report and of the client, annotations of the process, list of modules
    module          the index of a module and its annotations: a list of texts, a dictionary, and typed objects

Texts are UTF-8 with a length before them, anywhere in the file. Reference: minidump_extensions.h of Crashpad.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.errors import MinidumpError
from whence._base.records import Record, field
from whence._base.window import Window
from whence.dumps import minidump_layout as layout

if TYPE_CHECKING:
    from whence._base.budget import Budget

TEXT_LIMIT = 1 << 16  # bytes of a text
HEAD_SIZE = struct.calcsize("<" + layout.CRASHPAD_INFO)


class ModuleAnnotations(Record, frozen=True):
    """Annotations of the module with an index."""

    index: int
    texts: list[str] = field(default_factory=list)
    pairs: dict[str, str] = field(default_factory=dict)


class CrashpadInfo(Record, frozen=True):
    """The additions of Crashpad to a minidump. IDs are "" if they are zero."""

    report_id: str = ""
    client_id: str = ""
    pairs: dict[str, str] = field(default_factory=dict)
    modules: list[ModuleAnnotations] = field(default_factory=list)


def read_crashpad(window: Window, data: memoryview, names: Budget) -> CrashpadInfo:
    """Return the annotations of a stream; texts are charged to `names`. Raises MinidumpError if it is damaged."""
    _, report, client, size, offset, modules_size, modules_offset = window.unpack(layout.CRASHPAD_INFO, 0)
    reader = AnnotationReader(data, window, names)
    modules = []
    for index, info_size, info_offset in reader.rows(modules_size, modules_offset, layout.CRASHPAD_MODULE):
        modules.append(reader.module(index, info_size, info_offset))
    return CrashpadInfo(_guid(report, window), _guid(client, window), reader.pairs(size, offset), modules)


def _guid(raw: object, window: Window) -> str:
    assert isinstance(raw, bytes)
    if not any(raw):
        return ""
    first, second, third, last = struct.unpack(("<" if window.order == "little" else ">") + "IHH8s", raw)
    return f"{first:08x}-{second:04x}-{third:04x}-{last[:2].hex()}-{last[2:].hex()}"


class AnnotationReader:
    """Reads the lists and texts that a stream refers to."""

    def __init__(self, data: memoryview, stream: Window, names: Budget) -> None:
        self._whole = Window(data, "Crashpad annotations", stream.order, MinidumpError)
        self._names = names

    def rows(self, size: int, offset: int, form: str) -> Iterator[tuple[int, ...]]:
        """Yield the fields of each entry of a list that starts with a count."""
        if size < 4:
            return
        stride = struct.calcsize("<" + form)
        count, most = self._whole.u32(offset), (size - 4) // stride
        self._names.charge(min(count, most) * stride)
        for index in range(min(count, most)):
            yield self._whole.unpack(form, offset + 4 + index * stride)

    def text(self, offset: int) -> str:
        """Return a text with a length before it; "" for offset 0."""
        if not offset:
            return ""
        size = min(self._whole.u32(offset), TEXT_LIMIT)
        self._names.charge(size)
        return self._whole.raw(offset + 4, size).decode("utf-8", "replace")

    def pairs(self, size: int, offset: int) -> dict[str, str]:
        """Return a dictionary of texts."""
        return {self.text(key): self.text(value) for key, value in self.rows(size, offset, "II")}

    def module(self, index: int, size: int, offset: int) -> ModuleAnnotations:
        """Return the annotations of one module."""
        if size < struct.calcsize("<" + layout.CRASHPAD_MODULE_INFO):
            return ModuleAnnotations(index)
        fields = self._whole.unpack(layout.CRASHPAD_MODULE_INFO, offset)
        texts = [self.text(text) for (text,) in self.rows(fields[1], fields[2], "I")]
        pairs = self.pairs(fields[3], fields[4])
        for name, type_, _, value in self.rows(fields[5], fields[6], layout.CRASHPAD_OBJECT):
            if type_ == layout.CRASHPAD_TEXT:
                pairs[self.text(name)] = self.text(value)
        return ModuleAnnotations(index, texts, pairs)
