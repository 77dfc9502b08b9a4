"""Standard streams that bear whatever comes: some a caller closed, some a terminal has not the letters for.

Names in binaries, paths and processes are bytes. Those that are no UTF-8 go out as they came, and a letter that the
stream's encoding lacks goes out escaped; neither ends a command half-way.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import sys
from collections.abc import Sequence

from whence.errors import WrongUse


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


def refuse_terminal(name: str, what: str) -> None:
    """Raise WrongUse when output that is no text (`what` it is) would go to a terminal; "-" is stdout."""
    if _is_terminal(name):
        raise WrongUse(f"{what} is no text for a terminal: give -o OUT, or pipe it")


def by_ending(name: str, endings: Sequence[tuple[str, str]], what: str, remedy: str = "") -> str:
    """What an output's ending stands for; "" where it has none, as pipes and devices have.

    Raises WrongUse when it is none of `endings` (pairs of an ending and its meaning), with what else may be done.
    """
    for ending, meaning in endings:
        if name.endswith(ending):
            return meaning
    ending = os.path.splitext(name)[1]
    if not ending or (os.path.exists(name) and not os.path.isfile(name)):
        return ""
    known = ", ".join(ending for ending, _ in endings)
    raise WrongUse(f"{name}: {ending} is no ending of {what}: known are {known}{remedy}")


def _is_terminal(name: str) -> bool:
    if name == "-":
        return sys.stdout.isatty()
    try:
        if not stat.S_ISCHR(os.stat(name).st_mode):
            return False
        descriptor = os.open(name, os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.isatty(descriptor)
    finally:
        os.close(descriptor)


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
