"""Forge jitdump files, of either byte order."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from whence.perfdata.jitdump import HEADER, MAGIC


class Dump:
    """A growing dump; `size` is the size of the header, which may be longer in later versions."""

    def __init__(
        self, pid: int = 7, big: bool = False, *, size: int = HEADER, flags: int = 0, padding: int = 0
    ) -> None:  # fmt: skip
        self.order = ">" if big else "<"
        self.pid = pid
        magic = MAGIC[::-1] if big else MAGIC
        head = struct.pack(self.order + "IIIIIQQ", 1, size, 62, padding, pid, 0, flags)
        self.data = (magic + head).ljust(size, b"\0")

    def record(self, kind: int, time: int, body: bytes) -> Dump:
        self.data += struct.pack(self.order + "IIQ", kind, 16 + len(body), time) + body
        return self

    def load(self, time: int, address: int, size: int, name: str, index: int = 0) -> Dump:
        fixed = struct.pack(self.order + "IIQQQQ", self.pid, self.pid, address, address, size, index)
        return self.record(0, time, fixed + name.encode() + b"\0" + b"\xc3" * size)

    def move(self, time: int, old: int, new: int, size: int, index: int = 0) -> Dump:
        return self.record(1, time, struct.pack(self.order + "IIQQQQQ", self.pid, self.pid, new, old, new, size, index))

    def unwinding(self, eh_frame: bytes, header: bytes = bytes(12)) -> Dump:
        """How to unwind what is loaded next."""
        sizes = struct.pack(self.order + "QQQ", len(eh_frame) + len(header), len(header), 0)
        return self.record(4, 0, sizes + eh_frame + header)

    def lines(self, address: int, rows: Iterable[tuple[int, int, str]]) -> Dump:
        rows = list(rows)
        body = struct.pack(self.order + "QQ", address, len(rows))
        before = ""
        for offset, line, file in rows:
            body += (
                struct.pack(self.order + "QII", offset, line, 0)
                + (b"\xff" if file == before else file.encode())
                + b"\0"
            )
            before = file
        return self.record(2, 0, body)
