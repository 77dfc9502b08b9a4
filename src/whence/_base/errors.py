"""The errors whence raises: one small tree.

    WhenceError
      FormatError          bytes that break a rule of their format; says what was found, where, and which rule
        ObjectError: ElfError  DwarfError  GopclntabError  LidiaError  TraceError  ProfileError  MapsError
      ChecksumError        a stored checksum and the bytes disagree (also a FormatError)
      Unsupported          a valid thing this version does not read
      WrongUse             what was asked for makes no sense; nothing is wrong with any input
      Mismatch             two things that must belong together do not (a build-id, a CRC of a debug link)

A message names the file, then what is wrong with it, then the rule:

    empty.bin: the file is empty
    app.cpp: neither an ELF file nor an archive
    libc.debug: not an ELF file: the magic at 0x0 is 45 4c 46 21, expected 7f 45 4c 46 ("\\x7fELF")
    cut.trace: the last generation is cut off at byte 4711
    libc.lidia: lidia header+0x4: the version is 3, expected 1
    libc.debug: dwarf debug_info+0x2f: found an end beyond it (rule: a unit's length stays inside the section)

Rules are worded as truths ("the version is 1"), which `worded` makes into a message. Each error has a `code` that
programs can test, and the `path` of the file where one is known. A remedy is kept apart in ``hint``: only the command
line prints it. More context is added with ``add_note``. All of it survives pickling.
"""

from __future__ import annotations

import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TypeVar

# what `code` can be; one of these words for ever
EMPTY_FILE = "empty-file"
WRONG_KIND = "wrong-kind"  # another kind of file than the one that was asked for
NOT_REGULAR = "not-regular"  # a FIFO, a device, a socket
CUT_OFF = "cut-off"  # bytes that should be there lie behind the end
MALFORMED = "malformed"  # any other broken rule
CHECKSUM = "checksum"
CHANGED = "changed"  # the file was cut or written to while it was read
UNSUPPORTED = "unsupported"
WRONG_USE = "wrong-use"
MISMATCH = "mismatch"

FOUND_BYTES = 64  # of a found value, at most so many are kept: it may be a view of a whole file
SHOWN_BYTES = 16


class WhenceError(Exception):
    """The root of every error whence raises on purpose. `path` is the file it is about; "" when none is known."""

    code = MALFORMED
    hint = ""
    path = ""

    def with_hint(self, hint: str) -> Self:
        """The same error, carrying what a person may try next."""
        self.hint = hint
        return self

    def in_file(self, path: str) -> Self:
        """The same error, naming the file it is about, unless one is named already."""
        self.path = self.path or path
        return self

    @property
    def message(self) -> str:
        """What is wrong, without the file."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class WrongUse(WhenceError):
    """What was asked for makes no sense, for instance an option's value."""

    code = WRONG_USE


class FormatError(WhenceError):
    """Malformed input.

    `part` names the table or structure, "" for the file as a whole. `offset` is in bytes from the start of that part,
    None for the part as a whole. `fault` says what is wrong, for people. `rule` is the rule of the format that is
    broken, and `found` the value that breaks it (the first 64 bytes of a longer one), where that adds to `fault`.
    """

    format = "format"

    def __init__(
        self,
        part: str,
        offset: int | None,
        problem: str = "",
        *old: object,
        fault: str = "",
        rule: str = "",
        found: object = None,
        code: str = "",
        path: str = "",
    ) -> None:
        if old:
            found, rule = old[0], problem
            problem = problem and worded(problem, found)
        if fault:
            rule = rule or problem
        if isinstance(found, (bytes, bytearray, memoryview)):
            found = bytes(found[:FOUND_BYTES])
        super().__init__(part, offset, problem)
        self.part, self.offset, self.rule, self.found, self.fault = part, offset, rule, found, fault
        self.problem = problem
        self.path = path
        if code:
            self.code = code

    @classmethod
    def place(cls, part: str, offset: int | None) -> str:
        """Return a part of the format, and an offset in it, as messages name them."""
        named = part if part.startswith(".") else f"{cls.format} {part}"
        return named if offset is None else f"{named}+{offset:#x}"

    @property
    def message(self) -> str:
        if self.fault:
            return self.fault
        return f"{self.place(self.part, self.offset)}: {self.problem}" if self.part else self.problem


class ObjectError(FormatError):
    """A damaged object file: each format has its own subclass."""

    format = "object"


class ElfError(ObjectError):
    format = "elf"


class DwarfError(FormatError):
    format = "dwarf"


class GopclntabError(FormatError):
    format = "gopclntab"


class LidiaError(FormatError):
    format = "lidia"


class TraceError(FormatError):
    format = "trace"


class ProfileError(FormatError):
    format = "profile"


class MapsError(FormatError):
    format = "maps"


class ChecksumError(FormatError):
    """A stored checksum and the bytes it covers disagree."""

    format = "checksum"
    code = CHECKSUM


class Unsupported(WhenceError):
    """A valid thing that this version of whence does not read; says which."""

    code = UNSUPPORTED


class Mismatch(WhenceError):
    """Two files that must belong together do not."""

    code = MISMATCH


class naming:
    """A block that reads a file: what it raises names that file, unless it names one already.

    >>> with naming("libc.so"):
    ...     raise ElfError("header", 4, "the class is 1 (32-bit) or 2 (64-bit)", 3)
    Traceback (most recent call last):
    whence._base.errors.ElfError: libc.so: elf header+0x4: the class is 3, expected 1 (32-bit) or 2 (64-bit)
    """

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, WhenceError):
            error.in_file(self.path)


# The faults that every format has, worded once

if TYPE_CHECKING:
    Kind = TypeVar("Kind", bound=FormatError)


def empty_file(error: type[Kind]) -> Kind:
    """The error for a file without bytes."""
    return error("file", None, "the file has bytes", "none", fault="the file is empty", code=EMPTY_FILE)


def wrong_magic(error: type[Kind], what: str, found: bytes | memoryview, *magics: bytes) -> Kind:
    """The error for a file that does not start as `what` ("an archive") does: with one of so many magics."""
    expected = " or ".join(f'{magic.hex(" ")} ("{shown(magic.decode("latin-1"))}")' for magic in magics)
    fault = f"not {what}: the magic at 0x0 is {shown(found)}, expected {expected}"
    return error("header", 0, f"the magic is {expected}", found, fault=fault, code=WRONG_KIND)


def what_it_is(mode: int) -> str:
    """What something is that is no regular file; `mode` is its st_mode."""
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a directory",
    }
    return f"{kinds.get(stat.S_IFMT(mode), 'a special file')}, not a regular file"


def not_regular(error: type[Kind], mode: int) -> Kind:
    """The error for a path that leads to something else than a regular file; `mode` is its st_mode."""
    return error("file", None, "it is a regular file", stat.filemode(mode), fault=what_it_is(mode), code=NOT_REGULAR)


def cut_off(error: type[Kind], part: str, offset: int | None, needed: int, left: int) -> Kind:
    """The error for a structure that its part, or the file, ends inside of."""
    fault = (
        f"{error.place(part, offset)}: cut off: {needed} bytes are needed, {left} {'is' if left == 1 else 'are'} left"
    )
    return error(part, offset, f"{needed} bytes fit", f"{left} left", fault=fault, code=CUT_OFF)


# how what a rule says of its subject begins where it is a value, so that what was found can stand in its place
VALUES = (*'0123456789"', "a ", "an ", "empty", "not 0", "not a ", "not an ", "one ", "the ", "zero")


def worded(rule: str, found: object = None) -> str:
    """What is wrong, in words: what was found in place of the value that the rule names, or what was found, then the
    rule.

    >>> worded("the version is 1", 3)
    'the version is 3, expected 1'
    >>> worded("a field ends inside its message", b"\\x0a\\x05")
    'found 0a 05 (rule: a field ends inside its message)'
    >>> worded("rows are in order")
    'breaks the rule that rows are in order'
    """
    if found is None:
        return f"breaks the rule that {rule}"
    for verb in (" is ", " are "):
        subject, _, value = rule.partition(verb)
        if value.startswith(VALUES) and not any(mark in subject for mark in ":;,("):
            return f"{subject}{verb}{shown(found)}, expected {value}"
    return f"found {shown(found)} (rule: {rule})"


def without_file(error: Exception) -> str:
    """What an error says, for a line that names the file itself."""
    return error.message if isinstance(error, WhenceError) else str(error)


def shown(found: object) -> str:
    """A found value as an error shows it: bytes in hex (at most 16), text in ASCII (at most 80), others as they print.

    >>> shown(b"ELF!")
    '45 4c 46 21'
    """
    if isinstance(found, (bytes, bytearray, memoryview)):
        head = bytes(found[:SHOWN_BYTES]).hex(" ")
        return f"{head} …" if len(found) > SHOWN_BYTES else head or "no bytes"
    if isinstance(found, str):
        return ascii(found if len(found) <= 80 else found[:77] + "...")[1:-1]
    return str(found)


def plain(what: object) -> str:
    r"""Text with everything unprintable escaped: it comes from files and processes, and goes to a terminal.

    Not only bytes that move a cursor: line ends too, and what turns the direction of writing.

    >>> plain("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\x0ac'
    """
    text = str(what)
    if text.isprintable():
        return text
    return text.translate(_ESCAPES)


class _Escapes(dict[int, "int | str"]):
    """What each character is printed as, made when it is first met; the first KEPT are kept."""

    KEPT = 4096

    def __missing__(self, code: int) -> int | str:
        c = chr(code)
        printed = code if c.isprintable() else escaped(c)
        if len(self) < self.KEPT:
            self[code] = printed
        return printed


_ESCAPES = _Escapes()


def escaped(c: str) -> str:
    """A character, or a byte that is not UTF-8 (surrogateescape), as an escape."""
    if "\udc80" <= c <= "\udcff":
        return f"\\x{ord(c) - 0xDC00:02x}"
    return f"\\x{ord(c):02x}" if c <= "\xff" else f"\\u{ord(c):04x}"
