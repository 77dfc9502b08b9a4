r"""The errors that whence raises.

    WhenceError
      FormatError          malformed input: what is wrong, and where
        ObjectError: ElfError  MachoError  PdbError  PeError  WasmError  GsymError  BreakpadError
        DwarfError  GopclntabError  LidiaError  TraceError  ProfileError  MapsError  MinidumpError
      ChecksumError        a stored checksum does not match the bytes (also a FormatError)
      Unsupported          a valid feature that this version does not read
      WrongUse             an argument or option makes no sense; the input is not at fault
      Mismatch             two files do not match (a build-id, the CRC of a debug link)

A message has the file, the place in it, and the fault:

    empty.bin: the file is empty
    app.cpp: neither an object file nor an archive
    libc.debug: not an ELF file: the magic at 0x0 is 45 4c 46 21, expected 7f 45 4c 46 ("\\x7fELF")
    libc.debug: .debug_info+0x2f: unit length 0x4f2 extends past the end of the section

Every error has a `code` for programs, and the `path` of the file if it is known. A remedy is in ``hint``, which only
the command line prints. More context is added with ``add_note``. All of it survives pickling.
"""

from __future__ import annotations

import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, TypeVar

# values of `code`, which never change
EMPTY_FILE = "empty-file"
WRONG_KIND = "wrong-kind"  # another kind of file than expected
NOT_REGULAR = "not-regular"  # a FIFO, a device, a socket
CUT_OFF = "cut-off"  # the file or section ends too early
MALFORMED = "malformed"  # any other fault
CHECKSUM = "checksum"
CHANGED = "changed"  # the file was truncated or written to while it was read
UNSUPPORTED = "unsupported"
WRONG_USE = "wrong-use"
MISMATCH = "mismatch"

FOUND_BYTES = 64  # bytes of a value that are kept: it may be a view of a whole file
SHOWN_BYTES = 16


class WhenceError(Exception):
    """The base class of all errors that whence raises on purpose.

    `code` is one of the constants of this module, for programs. `path` is the file, "" if it is not known; `hint` is a
    remedy for people, or "".

    >>> try:
    ...     raise WrongUse("no addresses")
    ... except WhenceError as error:
    ...     print(error.code, error)
    wrong-use no addresses
    """

    code = MALFORMED
    hint = ""
    path = ""

    def with_hint(self, hint: str) -> Self:
        """Set what a person may try next, and return the error."""
        self.hint = hint
        return self

    def in_file(self, path: str) -> Self:
        """Set the path, unless the error has one, and return the error."""
        self.path = self.path or path
        return self

    @property
    def message(self) -> str:
        """The message without the path."""
        return super().__str__()

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class WrongUse(WhenceError):
    """A value of an argument or an option makes no sense."""

    code = WRONG_USE


class FormatError(WhenceError):
    """Malformed input.

    Args:
        part: the section (".debug_info") or structure ("header"); "" for the file as a whole.
        offset: byte offset in that part; None for the part as a whole.
        fault: what is wrong in plain words, with the offending value and the limit.
        rule: the rule of the format that is broken, if that adds to the fault.
        found: the offending value, if that adds to the fault; at most its first 64 bytes are kept.
        code: a code other than the class's.
        path: the file, if known.
    """

    format = "format"

    def __init__(
        self,
        part: str,
        offset: int | None,
        fault: str,
        *,
        rule: str = "",
        found: object = None,
        code: str = "",
        path: str = "",
    ) -> None:
        if isinstance(found, (bytes, bytearray, memoryview)):
            found = bytes(found[:FOUND_BYTES])
        super().__init__(part, offset, fault)
        self.part, self.offset, self.fault = part, offset, fault
        self.rule, self.found = rule, found
        self.path = path
        if code:
            self.code = code

    @classmethod
    def location(cls, part: str, offset: int | None) -> str:
        """Return a part and an offset in it, as in messages."""
        named = part if part.startswith(".") else f"{cls.format} {part}"
        return named if offset is None else f"{named}+{offset:#x}"

    @property
    def message(self) -> str:
        return f"{self.location(self.part, self.offset)}: {self.fault}" if self.part else self.fault


class ObjectError(FormatError):
    """A damaged object file. Every format has its own subclass."""

    format = "object"


class ElfError(ObjectError):
    format = "elf"


class MachoError(ObjectError):
    format = "mach-o"


class PdbError(ObjectError):
    format = "pdb"


class PeError(ObjectError):
    format = "pe"


class WasmError(ObjectError):
    format = "wasm"


class GsymError(ObjectError):
    format = "gsym"


class BreakpadError(ObjectError):
    format = "breakpad"


class SourceMapError(ObjectError):
    format = "source map"


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


class MinidumpError(FormatError):
    format = "minidump"


class ChecksumError(FormatError):
    """A stored checksum does not match the bytes that it covers."""

    format = "checksum"
    code = CHECKSUM


class Unsupported(WhenceError):
    """A valid feature that this version of whence does not read."""

    code = UNSUPPORTED


class Mismatch(WhenceError):
    """Two files that should match do not."""

    code = MISMATCH


class naming:
    """A block that reads a file: sets the path of errors raised in it.

    >>> with naming("libc.so"):
    ...     raise ElfError("header", 4, "the class is 3, expected 1 (32-bit) or 2 (64-bit)")
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


# Faults that every format has

if TYPE_CHECKING:
    Kind = TypeVar("Kind", bound=FormatError)


def empty_file(error: type[Kind]) -> Kind:
    """Return the error for a file without bytes."""
    return error("", None, "the file is empty", code=EMPTY_FILE)


def wrong_magic(error: type[Kind], what: str, data: bytes | memoryview, *magics: bytes) -> Kind:
    """Return the error for a file that starts with none of the `magics` of its kind (`what`: "an archive")."""
    expected = " or ".join(f'{magic.hex(" ")} ("{shown(magic.decode("latin-1"))}")' for magic in magics)
    fault = f"not {what}: the magic at 0x0 is {shown(data)}, expected {expected}"
    return error("", None, fault, found=data, code=WRONG_KIND)


def what_it_is(mode: int) -> str:
    """Return what a special file is, by its st_mode."""
    kinds = {
        stat.S_IFIFO: "a FIFO",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
        stat.S_IFDIR: "a directory",
    }
    return f"{kinds.get(stat.S_IFMT(mode), 'a special file')}, not a regular file"


def not_regular(error: type[Kind], mode: int) -> Kind:
    """Return the error for a path that is not a regular file, by its st_mode."""
    return error("", None, what_it_is(mode), found=stat.filemode(mode), code=NOT_REGULAR)


def cut_off(error: type[Kind], part: str, offset: int | None, needed: int, left: int) -> Kind:
    """Return the error for a structure that ends past its part, or past the end of the file."""
    fault = f"truncated: needs {needed} bytes, {left} left"
    return error(part, offset, fault, code=CUT_OFF)


def without_file(error: Exception) -> str:
    """Return the message of an error without the path."""
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    return error.message if isinstance(error, WhenceError) else str(error)


def shown(value: object) -> str:
    """Return a value for a message: bytes in hex (at most 16), text in ASCII (at most 80), others by str().

    >>> shown(b"ELF!")
    '45 4c 46 21'
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        head = bytes(value[:SHOWN_BYTES]).hex(" ")
        return f"{head} …" if len(value) > SHOWN_BYTES else head or "no bytes"
    if isinstance(value, str):
        return ascii(value if len(value) <= 80 else value[:77] + "...")[1:-1]
    return str(value)


def plain(what: object) -> str:
    r"""Return text from a file or a process with everything unprintable escaped, for a terminal.

    Line ends and marks that change the direction of writing are escaped, too.

    >>> plain("a\x1b[2Jb\nc")
    'a\\x1b[2Jb\\x0ac'
    """
    text = str(what)
    if text.isprintable():
        return text
    return text.translate(_ESCAPES)


class _Escapes(dict[int, "int | str"]):
    """The printed form of each character. Filled on demand; at most KEPT entries are cached."""

    KEPT = 4096

    def __missing__(self, code: int) -> int | str:
        c = chr(code)
        printed = code if c.isprintable() else escaped(c)
        if len(self) < self.KEPT:
            self[code] = printed
        return printed


_ESCAPES = _Escapes()


def escaped(c: str) -> str:
    """Return a character, or a byte that is not UTF-8 (surrogateescape), as an escape."""
    if "\udc80" <= c <= "\udcff":
        return f"\\x{ord(c) - 0xDC00:02x}"
    return f"\\x{ord(c):02x}" if c <= "\xff" else f"\\u{ord(c):04x}"
