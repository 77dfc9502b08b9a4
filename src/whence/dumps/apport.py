"""The .crash files of apport: lines `Key: value`, in which lines that begin with a space continue a value.

    ProblemType: Crash
    ExecutablePath: /usr/bin/app
    Signal: 11
    CoreDump: base64
     H4sICAAAAAAC/0NvcmVEdW1wAA==
     ...

A binary value is base64, a line for each piece of a gzip, zstd or (early versions) zlib stream. Texts are before binary
values.
"""

from __future__ import annotations

import base64
import binascii
import io
from time import mktime, strptime
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from whence._base.errors import MapsError
from whence.dumps.packed import MAGIC_SIZE, ZLIB, ZLIB_HEADS, ExpandedCore, packing_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

FIRST_KEY = b"ProblemType:"
LONGEST_LINE = 8 << 20  # bytes; apport writes 1 MiB of a stream into a line
LONGEST_VALUE = 4096  # bytes that are kept of a text
KEPT = ("ExecutablePath", "Signal", "Date", "ProcStatus", "ProblemType")


class ApportReport(NamedTuple):
    """The facts of a .crash file about a process, and the offset of its core in the file (-1 if missing)."""

    executable: str
    signal: int
    written: float
    pid: int
    core_offset: int


def read_apport(file: BinaryIO) -> ApportReport:
    """Read a .crash file up to its core. Raises MapsError, OSError."""
    values: dict[str, str] = {}
    key, offset = "", -1
    if not file.read(len(FIRST_KEY)).startswith(FIRST_KEY):
        raise MapsError("", None, "not a report of apport: it does not begin with ProblemType")
    file.seek(0)
    while line := file.readline(LONGEST_LINE):
        if line.startswith(b" "):
            if key in KEPT and len(values[key]) < LONGEST_VALUE:
                values[key] += "\n" + line[1:].decode("utf-8", "surrogateescape").rstrip("\n")
            continue
        name, _, value = line.partition(b":")
        key = name.decode("ascii", "replace")
        if key == "CoreDump" and value.strip() == b"base64":
            offset = file.tell()
            break
        values[key] = value.strip().decode("utf-8", "surrogateescape")[:LONGEST_VALUE] if key in KEPT else ""
    return ApportReport(
        values.get("ExecutablePath", "").split("\n")[0],
        _number(values.get("Signal", "")),
        _time(values.get("Date", "")),
        _pid(values.get("ProcStatus", "")),
        offset,
    )


def apport_core(file: BinaryIO, stored: int) -> ExpandedCore:
    """Return the core in a .crash file, `file` being at its offset. Raises MapsError."""
    stream = io.BufferedReader(_Base64Lines(file))
    head = stream.peek(MAGIC_SIZE)[:MAGIC_SIZE]
    packing = packing_of(head) or (ZLIB if head.startswith(ZLIB_HEADS) else "")
    if not packing:
        raise MapsError(
            "", None, f"the core in the report is compressed in an unknown way: it begins with {head.hex()}"
        )
    return ExpandedCore(stream, packing, stored)


class _Base64Lines(io.RawIOBase):
    """The bytes of a binary value."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._rest:
            line = self._file.readline(LONGEST_LINE)
            if not line.startswith(b" "):
                return 0
            try:
                self._rest = base64.b64decode(line)
            except binascii.Error as error:
                raise MapsError("", self._file.tell(), f"damaged base64: {error}") from None
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 0


def _time(text: str) -> float:
    """Return the time of asctime(3), in the local time zone; 0 if it is not one."""
    try:
        return mktime(strptime(text))
    except (ValueError, OverflowError):
        return 0.0


def _pid(text: str) -> int:
    """Return the pid in the text of /proc/PID/status, 0 if it has none."""
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        digits = value.strip()
        if name == "Pid" and digits.isdecimal() and len(digits) < 12:
            return int(digits)
    return 0
