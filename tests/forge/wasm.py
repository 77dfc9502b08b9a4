"""Builds WebAssembly modules: functions of 32 bytes, and sections after them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.forge.lines import uleb

BODY = bytes(0x20)


def name(text: str) -> bytes:
    return uleb(len(text.encode())) + text.encode()


def section(number: int, content: bytes) -> bytes:
    return bytes([number]) + uleb(len(content)) + content


def custom(title: str, content: bytes) -> bytes:
    return section(0, name(title) + content)


def names(*rows: tuple[int, str]) -> bytes:
    listed = uleb(len(rows)) + b"".join(uleb(index) + name(text) for index, text in rows)
    return custom("name", b"\x01" + uleb(len(listed)) + listed)


def module(*more: bytes, bodies: int = 3, imports: Sequence[bytes] = ()) -> bytes:
    out = b"\0asm" + struct.pack("<I", 1)
    if imports:
        out += section(2, uleb(len(imports)) + b"".join(imports))
    if bodies:
        out += section(10, uleb(bodies) + (uleb(len(BODY)) + BODY) * bodies)
    return out + b"".join(more)
