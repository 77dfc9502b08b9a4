"""whence: from address to source.

    with whence.open("/usr/bin/python3.11") as binary:
        for frame in binary.lookup(0x4f2a10):
            print(frame.function, frame.file, frame.line)

Importing whence is cheap: rooms are loaded when they are used. The rooms and what may import what are in
ARCHITECTURE.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._version import __version__
from whence.errors import WhenceError
from whence.model import Frame, Frames, Source

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.binary import open_binary as open
    from whence.symbolize import Symbolizer

__all__ = ["Binary", "Frame", "Frames", "Source", "Symbolizer", "WhenceError", "__version__", "open"]

_LAZY = {
    "open": ("whence.binary", "open_binary"),
    "Binary": ("whence.binary", "Binary"),
    "Symbolizer": ("whence.symbolize", "Symbolizer"),
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _LAZY:
        module, attribute = _LAZY[name]
        return getattr(import_module(module), attribute)
    raise AttributeError(f"module 'whence' has no attribute {name!r}")
