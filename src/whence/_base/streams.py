"""Standard streams that bear whatever comes: some a caller closed, some a terminal has not the letters for.

Names in binaries, paths and processes are bytes. Those that are no UTF-8 go out as they came, and a letter that the
stream's encoding lacks goes out escaped; neither ends a command half-way. What would make a terminal do something
(escape sequences, C1 controls, marks that turn the direction of writing) is written escaped, whatever printed it.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys

from whence._base.errors import WrongUse, escaped, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, BinaryIO, TextIO

    from _typeshed import ReadableBuffer as Buffer

MESSAGE_LENGTH = 1000  # characters of a message on stderr: arguments of any length are repeated in them
# Everything of C0 and C1 but tab and newline, as characters and as bytes that are no UTF-8; line and paragraph
# separators; marks and overrides of the direction of writing.
ACTIVE = "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\udc80-\udc9f]"


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
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream.write, _Guard):
            stream.write = _Guard(stream.write)  # type: ignore[method-assign]


class _Guard:
    """The `write` of a stream of text, which lets nothing through that a terminal acts on."""

    def __init__(self, write: Callable[[str], int]) -> None:
        self.write = write

    def __call__(self, text: str) -> int:
        if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
            self.write(re.sub(ACTIVE, lambda found: escaped(found[0]), text))
            return len(text)
        return self.write(text)


def complain(message: object, program: str = "whence") -> None:
    """Print a message on stderr, with what is unprintable escaped and the middle of a long one left out."""
    print(f"{program}: {shortened(plain(message))}", file=sys.stderr)


def shortened(text: str) -> str:
    """A text with its middle left out if it has more than MESSAGE_LENGTH characters.

    >>> len(shortened("a" * 120_000))
    1003
    """
    half = MESSAGE_LENGTH // 2
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:half]}...{text[-half:]}"


def unguarded(stream: TextIO) -> Any:
    """The stream as it was, for what moves the cursor on purpose."""
    return _Unguarded(stream)


class _Unguarded:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        write = self._stream.write
        return write.write(text) if isinstance(write, _Guard) else write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def byte_stream() -> BinaryIO:
    """Where bytes of stdout go: as they are into pipes and files, as text with its active characters escaped on a
    terminal. The last of them may wait for `flush`."""
    return _Shown() if sys.stdout.isatty() else sys.stdout.buffer


class _Shown(io.BytesIO):
    """Bytes of UTF-8 on their way to the guarded stdout."""

    def __init__(self) -> None:
        super().__init__()
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def write(self, data: Buffer) -> int:
        sys.stdout.write(self._decoder.decode(bytes(data)))
        return memoryview(data).nbytes

    def flush(self) -> None:
        sys.stdout.write(self._decoder.decode(b"", True))
        sys.stdout.flush()


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
