"""The errors whence raises: one small tree.

    WhenceError
      FormatError          bytes that break a rule of their format; says which part, where, which rule, what was found
        ElfError  DwarfError  GopclntabError  LidiaError  TraceError  ProfileError  MapsError
      ChecksumError        a stored checksum and the bytes disagree (also a FormatError)
      Unsupported          a valid thing this version does not read
      WrongUse             what was asked for makes no sense; nothing is wrong with any input
      Mismatch             two things that must belong together do not (a build-id, a CRC of a debug link)

Rules are worded as the truth that failed: ``lidia header+0x0: the magic is ".dia" (found 45 4c 46 21)``. A remedy is
kept apart in ``hint``: only the command line prints it. Context is added with ``add_note``.
"""

from __future__ import annotations


class WhenceError(Exception):
    """The root of every error whence raises on purpose."""

    hint: str = ""

    def with_hint(self, hint: str) -> WhenceError:
        """The same error, carrying what a person may try next."""
        self.hint = hint
        return self


class WrongUse(WhenceError):
    """What was asked for makes no sense, for instance an option's value."""


class FormatError(WhenceError):
    """Bytes that break a rule of their format.

    `part` names the table or structure, `offset` is in bytes from that part's start (None: the part as a whole), `rule`
    is the truth that failed, `found` is what was there instead.
    """

    format = "format"

    def __init__(self, part: str, offset: int | None, rule: str, found: object = None) -> None:
        self.part, self.offset, self.rule, self.found = part, offset, rule, found
        where = part if offset is None else f"{part}+{offset:#x}"
        what = "" if found is None else f" (found {shown(found)})"
        super().__init__(f"{self.format} {where}: {rule}{what}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.part, self.offset, self.rule, self.found)


class ElfError(FormatError):
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


class Unsupported(WhenceError):
    """A valid thing that this version of whence does not read; says which."""


class Mismatch(WhenceError):
    """Two files that must belong together do not."""


def shown(found: object) -> str:
    """A found value as an error shows it: bytes in hex (at most 16), text in ASCII (at most 80), others as they print.

    >>> shown(b"ELF!")
    '45 4c 46 21'
    """
    if isinstance(found, (bytes, bytearray, memoryview)):
        head = bytes(found[:16]).hex(" ")
        return f"{head} …" if len(found) > 16 else head or "no bytes"
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
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(c: str) -> str:
    if "\udc80" <= c <= "\udcff":  # a byte that is not UTF-8
        return f"\\x{ord(c) - 0xDC00:02x}"
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}"
