"""Standard streams that bear whatever comes: some a caller closed, some a terminal has not the letters for.

Names in binaries, paths and processes are bytes. Those that are no UTF-8 go out as they came, and a letter that the
stream's encoding lacks goes out escaped; neither ends a command half-way.
"""

from __future__ import annotations

import codecs
import io
import os
import sys


def prepare() -> None:
    """Make sys.stdin, sys.stdout and sys.stderr ready. Where the caller closed stdout, writing to it is an OSError."""
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stdout is None:  # not for writing: "Bad file descriptor", if there turns out to be something to write
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    codecs.register_error("whence", _as_it_can)
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="whence")


def give_up() -> None:
    """Drop what stdout could not take: left in its buffer, it would fail once more when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_it_can(error: UnicodeError) -> tuple[str | bytes, int]:
    """What to write for characters that a stream can't encode."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)
