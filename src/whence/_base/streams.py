"""Standard streams: closed ones, and text that a terminal cannot show.

Names in binaries, paths and processes are bytes. Bytes that are not UTF-8 are written unchanged, and a character that
the stream's encoding lacks is escaped; neither ends a command. Everything that a terminal acts on (escape sequences, C1
controls, marks that change the direction of writing) is written escaped.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import sys
from contextlib import contextmanager

from whence._base.errors import WrongUse, escaped, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, BinaryIO, TextIO

    from _typeshed import ReadableBuffer as Buffer

STDOUT, STDERR = "stdout", "stderr"  # in messages
MESSAGE_LENGTH = 1000  # characters of a message on stderr: arguments of any length are repeated in them
# Everything of C0 and C1 but tab and newline, as characters and as bytes that are not UTF-8; line and paragraph
# separators; marks and overrides of the direction of writing.
ACTIVE = (
    (0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0x61C, 0x61C), (0x200E, 0x200F), (0x2028, 0x202E), (0x2066, 0x2069),
    (0xDC80, 0xDC9F),
)  # fmt: skip
ESCAPES = {code: escaped(chr(code)) for first, last in ACTIVE for code in range(first, last + 1)}


def prepare() -> None:
    """Make sys.stdin, sys.stdout and sys.stderr ready. Writing to a closed stdout raises OSError."""
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
    for stream, name in ((sys.stdout, STDOUT), (sys.stderr, STDERR)):
        if not isinstance(stream.write, _Guard):
            stream.write = _Guard(stream.write, name)  # type: ignore[method-assign]
            stream.flush = naming_stream(name)(stream.flush)  # type: ignore[method-assign]


class _Guard:
    """The `write` of a text stream, which escapes what a terminal acts on. Errors have the stream's name."""

    def __init__(self, write: Callable[[str], int], name: str) -> None:
        self.write, self.name = write, name

    def __call__(self, text: str) -> int:
        try:
            if not (text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()):
                self.write(text.translate(ESCAPES))
                return len(text)
            return self.write(text)
        except OSError as error:
            error.filename = self.name
            raise


@contextmanager
def naming_stream(name: str) -> Iterator[None]:
    """Set the filename of an OSError that has none, for a block that writes to a stream."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or name
        raise


def complain(message: object, program: str = "whence") -> None:
    """Print a message on stderr, with unprintable characters escaped and the middle of a long one left out.

    A message that stderr cannot take is dropped: the exit code still tells.
    """
    try:
        print(f"{program}: {shortened(plain(message))}", file=sys.stderr)
    except OSError:  # what stays in its buffer would fail again at exit
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def shortened(text: str) -> str:
    """Return a text without its middle if it has more than MESSAGE_LENGTH characters.

    >>> len(shortened("a" * 120_000))
    1003
    """
    half = MESSAGE_LENGTH // 2
    return text if len(text) <= MESSAGE_LENGTH else f"{text[:half]}...{text[-half:]}"


def unguarded(stream: TextIO) -> Any:
    """Return the original stream, for moving the cursor on purpose."""
    return _RawStream(stream)


class _RawStream:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        write = self._stream.write
        return write.write(text) if isinstance(write, _Guard) else write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def byte_stream() -> BinaryIO:
    """Return where the bytes of stdout are written.

    Pipes and files get them unchanged, a terminal as text with active characters escaped. The last ones may need
    `flush`. Errors have the stream's name.
    """
    return _Shown() if sys.stdout.isatty() else _NamedStdout()  # type: ignore[return-value]


class _NamedStdout(io.BufferedIOBase):
    """The bytes of stdout. Closing it leaves stdout open."""

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        with naming_stream(STDOUT):
            return sys.stdout.buffer.write(data)

    def flush(self) -> None:
        with naming_stream(STDOUT):
            sys.stdout.buffer.flush()


class _Shown(io.BytesIO):
    """UTF-8 bytes on their way to the guarded stdout."""

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
    """Raise WrongUse if binary output (`what`) would be written to a terminal; "-" is stdout."""
    if _is_terminal(name):
        raise WrongUse(f"{what} is binary: give -o OUT, or pipe the output")


def by_ending(name: str, endings: Sequence[tuple[str, str]], what: str, remedy: str = "") -> str:
    """Return the meaning of an output's file name ending; "" if it has none, like pipes and devices.

    Raises WrongUse for an unknown ending, with the known `endings` (pairs of an ending and its meaning) and a remedy.
    """
    for ending, meaning in endings:
        if name.endswith(ending):
            return meaning
    ending = os.path.splitext(name)[1]
    if not ending or (os.path.exists(name) and not os.path.isfile(name)):
        return ""
    supported = ", ".join(ending for ending, _ in endings)
    raise WrongUse(f"{name}: unknown ending {ending} for {what}: expected {supported}{remedy}")


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
    """Drop what stdout could not write, which would fail again when Python exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _as_it_can(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return a replacement for characters that the stream can't encode."""
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.lookup_error("backslashreplace")(error)
