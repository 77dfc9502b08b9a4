"""The questions of llvm-symbolizer and addr2line, a line each, and their answers, each written in one piece.

llvm_symbolizer.py and addr2line.py make `SymbolizerSettings` of their command lines. A caller writes a line to stdin
and reads until the answer's terminator, usually without a timeout. So each line gets exactly one answer in the expected
form, even if the line is junk, the file is missing or its debug info is damaged:

    style   terminator      unknown
    LLVM    an empty line   ??, ??:0:0, an empty line
    GNU     none            ??, ??:0
    JSON    the line's end  an object whose Symbol has empty strings and zeros

The form of answers is that of the original programs: LLVM's docs/CommandGuide/llvm-symbolizer.rst, and addr2line of
binutils.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress

from whence._base import streams
from whence._base.errors import ElfError, WhenceError
from whence._base.files import open_regular, write_all
from whence._base.model import Frame, FrameStart, Source
from whence._base.options import ReadOptions
from whence._base.records import NamedTuple
from whence.dropin.modules import ApproximateFrame, FileEntryFrame, OpenModules, address_digits
from whence.dropin.spelling import spelling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol, TypeVar

    from whence._base.model import Frames, NameStyle, PathStyle
    from whence.dropin.modules import OpenModule
    from whence.dropin.nearest import Symbol
    from whence.dwarf.variables import Local
    from whence.lidia.kernels.render import Replies

    T = TypeVar("T")

    class CommandSettings(Protocol):
        """The settings that all of these programs have."""

        program: str
        inputs: list[str]
        style: str

    class LineResponder(Protocol):
        """An object that answers questions."""

        @property
        def settings(self) -> CommandSettings: ...

        def answer(self, line: bytes) -> bytes: ...


BLOCK = 1 << 16  # bytes of a read, and of answers written at once
LINE_MAX = 1 << 16  # bytes of a question; longer lines are truncated
SOURCE_MAX = 16 << 20  # bytes of a source file, for context lines
ADDRESS_BITS = 64
ADDRESS_END = 1 << ADDRESS_BITS
RESPONSE_FILES = 64  # @FILEs of a command line
RESPONSE_MAX = 1 << 20  # bytes of a @FILE

BARE_BYTES = "binary"  # addr2line's -b for a file without a format, which has no names
INLINED_BY = " (inlined by) "  # between two frames on one line

# questions are parsed without regular expressions, as importing `re` takes longer than the first answer
NOT_QUICK = (b'"', b"\0", b"\r", b"\n")  # bytes in names of modules that the kernel does not parse
COMMANDS = (b"CODE", b"DATA", b"FRAME")
QUOTES = (b'"', b"'")
BLANKS = b" \r\n"
ALL_SPACES = bytes.maketrans(BLANKS, b"   ")
# the prefixes that llvm::StringRef::getAsInteger accepts with radix 0
BASES = {b"0x": 16, b"0X": 16, b"0b": 2, b"0B": 2, b"0o": 8}
DIGITS = {2: b"01", 8: b"01234567", 10: b"0123456789", 16: b"0123456789abcdefABCDEF"}
HEX_DIGITS = DIGITS[16]
DEFAULT_VERSION = 14  # of llvm-symbolizer, if the program's name has no version
# first versions of llvm-symbolizer that
SYMBOLS_SINCE = 16  # accept a symbol instead of an address
SHORT_PATHS_SINCE = 16  # print a relative compilation directory once, not twice
UNKNOWN_SINCE = 19  # print unknown for a question without an address, not an error

UNKNOWN = Frame("")
NO_START = FrameStart("", 0, 0)


CR = "\r"
APPROXIMATE = " (approximate)"


def columned(frame: Frame) -> str:
    """Return the text after a line number in LLVM's style."""
    return f":{frame.column}"


def discriminated(frame: Frame) -> str:
    """Return the text after a line number in GNU's style."""
    return f" (discriminator {frame.discriminator})" if frame.discriminator else ""


class UsageError(Exception):
    """An invalid command line, with the message that the original prints on stderr."""


class Printed(Exception):
    """The text that --help or --version prints on stdout."""


class SymbolizerSettings:
    """The settings of a command line; the defaults are those of llvm-symbolizer."""

    def __init__(self) -> None:
        self.program = "llvm-symbolizer"
        self.version = DEFAULT_VERSION  # of llvm-symbolizer
        self.module = ""  # "": each question names a module
        self.filter_markup = False
        self.build_id = ""
        self.inputs: list[str] = []
        self.style = "LLVM"
        self.functions = "linkage"  # short, none
        self.demangle = True
        self.inlines = True
        self.pretty = False
        self.addresses = False
        self.paths = "absolute"  # base: without folders; relative: without the compilation directory
        self.verbose = False
        self.context = 0
        self.skip_line_zero = False
        self.adjust = 0
        self.relative = False  # addresses in PE files count from the image base
        self.section = ""
        self.target: str | None = None  # addr2line's -b
        self.debug_dirs: list[str] = []
        self.bundles: list[str] = []  # dSYM bundles
        self.architecture = ""  # of fat files without one in their name
        self.package = ""  # of split units
        self.hexadecimal = False  # addresses, with or without 0x
        self.binutils = False  # questions and answers of GNU addr2line


class Question(NamedTuple):
    """A line. Without a valid address `symbol` has the name given instead, to which `offset` is added."""

    kind: str
    module: str
    address: int | None
    line: bytes
    symbol: str = ""
    offset: int = 0


def number(text: bytes, hexadecimal: bool) -> int | None:
    """Parse an unsigned 64-bit number as LLVM does; None for other text.

    >>> number(b"0x10", False), number(b"010", False), number(b"10", False), number(b"10", True), number(b"08", False)
    (16, 8, 10, 16, None)
    """
    prefixed = BASES.get(text[:2])
    if hexadecimal:
        base, digits = 16, text[2:] if prefixed == 16 else text
    elif prefixed:
        base, digits = prefixed, text[2:]
    else:
        base, digits = 8 if text[:1] == b"0" and text != b"0" else 10, text
    if not digits or digits.strip(DIGITS[base]):
        return None
    digits = digits.lstrip(b"0") or b"0"
    if len(digits) > ADDRESS_BITS:  # too large in any base, and maybe too long for int()
        return None
    value = int(digits, base)
    return value if value < ADDRESS_END else None


def leading_hex(line: bytes) -> int | None:
    """Parse the number at the start of a line as addr2line does; None for other lines.

    >>> leading_hex(b" 0x1f:"), leading_hex(b"0xg"), leading_hex(b"main")
    (31, 0, None)
    """
    text = line.lstrip(b" \t")
    if BASES.get(text[:2]) == 16 and text[2:3] and text[2] in HEX_DIGITS:
        text = text[2:]
    digits = text[: len(text) - len(text.lstrip(HEX_DIGITS))]
    return min(int(digits, 16), ADDRESS_END - 1) if digits else None


def token_of(text: bytes) -> bytes:
    """Return the text before the first blank."""
    return text.translate(ALL_SPACES).partition(b" ")[0]


def question_of(line: bytes, settings: SymbolizerSettings) -> Question:
    """Parse a line as llvm-symbolizer does: `[CODE |DATA |FRAME ]MODULE NUMBER`, without MODULE if one is set.

    >>> question_of(b'CODE "/a b" 0x1a', SymbolizerSettings())
    Question(kind='CODE', module='/a b', address=26, line=b'CODE "/a b" 0x1a', symbol='', offset=0)
    """
    line = line.partition(b"\0")[0].rstrip(b"\r\n")
    if settings.binutils:
        return Question("CODE", settings.module, leading_hex(line), line)
    kind, rest = "CODE", line
    command, blank, arguments = line.partition(b" ")
    if blank and command in COMMANDS:
        kind, rest = command.decode(), arguments
    rest = rest.lstrip(BLANKS)
    module = settings.module
    if not module:
        prefix = next((prefix for prefix in (b"FILE:", b"BUILDID:") if rest.startswith(prefix)), b"")
        rest = rest[len(prefix) :]
        if rest[:1] in QUOTES:
            name, quote, rest = rest[1:].partition(rest[:1])
            if not quote or b"\n" in name:
                return Question(kind, "", None, line)
        else:
            name = token_of(rest)
            if not name:
                return Question(kind, "", None, line)
            rest = rest[len(name) :]
        module = (prefix if prefix == b"BUILDID:" else b"").decode() + name.decode("utf-8", "surrogateescape")
        rest = rest.lstrip(BLANKS)
    token = token_of(rest)
    if not token:
        return Question(kind, module, None, line)
    address = number(token, settings.hexadecimal)
    if address is not None or token[:1].isdigit():
        return Question(kind, module, address, line)
    name, plus, digits = token.rpartition(b"+")
    offset = number(digits, False) if plus else None
    if offset is None:
        name, offset = token, 0
    return Question(kind, module, None, line, name.decode("utf-8", "surrogateescape"), offset)


class SymbolizerResponder:
    """Answers questions in the form of the settings."""

    def __init__(self, settings: SymbolizerSettings) -> None:
        self.settings = settings
        paths: PathStyle = (
            "relative"
            if settings.paths == "relative"
            else "once"
            if settings.version >= SHORT_PATHS_SINCE
            else "joined"
        )
        names: NameStyle = "short" if settings.functions == "short" else "linkage"
        self.modules = OpenModules(
            settings.program,
            settings.debug_dirs,
            ReadOptions(names=names, paths=paths),
            settings.package,
            bundles=settings.bundles,
            architecture=settings.architecture,
        )
        spelled = spelling("GNU" if settings.binutils else settings.version)
        self._named: Callable[[str], str] = spelled if settings.demangle else str
        self._gap = " at " if settings.pretty else "\n"
        self._is_plain = not (
            settings.binutils or settings.verbose or settings.context or settings.functions == "none"
            or settings.paths == "base" or settings.skip_line_zero
        )  # fmt: skip
        # the form of the fast path (Replies)
        self._is_quick = self._is_plain and settings.inlines and settings.style == "LLVM" and not (
            settings.addresses or settings.adjust or settings.hexadecimal or settings.relative
        )  # fmt: skip
        self._by_symbols = settings.functions == "linkage"
        self._replies: Replies | None = None  # of the file of the last question

    def answer(self, line: bytes) -> bytes:
        """Return the answer to a line, with its terminator."""
        if self._replies is not None:
            try:
                reply: bytes | None = self._replies.reply(line)
            except (WhenceError, OSError, MemoryError):
                self._replies = None  # the slow path reports the error
            else:
                if reply is not None:
                    return reply
        settings = self.settings
        question = question_of(line, settings)
        if settings.style == "JSON":
            return self._json(question)
        printed = question.address or 0
        head = ""
        if settings.addresses and (question.address is not None or settings.binutils):
            width = 2 + address_digits(self.modules[question.module]) if settings.binutils else 0
            digits = f"{printed:#0{width}x}"
            head = digits + (": " if settings.pretty else "\n")
        foot = "\n" if settings.style == "LLVM" else ""
        if question.kind == "DATA":
            body = self._data(question)
        elif question.kind == "FRAME":
            body = "".join(map(frame_text, self.locals(question))) or "??\n"
        elif question.symbol and (named := self.named(question)):
            body = "".join(self._code((frame,), (start,)) for frame, start in named)
        else:
            frames = self.frames(question)
            body = self._code(frames, self._starts(question, frames) if settings.verbose else ())
        return (head + body + foot).encode("utf-8", "surrogateescape")

    def readable(self, name: str) -> str:
        """Return the printed form of a function's name."""
        return self._named(name) or "??"

    def frames(self, question: Question) -> Frames:
        """Return the frames of a question about code; () if unknown."""
        settings = self.settings
        address = self._vaddr(question)
        module = self.modules[question.module] if address is not None else None
        self._replies = None
        if address is None or module is None:
            return ()
        try:
            if settings.target == BARE_BYTES:
                return ()
            if settings.section:
                section = module.section_range(settings.section)
                if section is None or address >= len(section):
                    return ()
                address += section.start
            if settings.binutils:
                frames = module.bfd_frames(address)
            else:
                frames = module.llvm_frames(address, by_symbols=self._by_symbols)
                if settings.skip_line_zero:
                    frames = module.with_line(address, frames)
        except (WhenceError, OSError, MemoryError) as error:
            self._give_up(question.module, error)
            return ()
        if self._is_quick:
            self._replies = self._replies_of(module, question.module)
        if len(frames) > 1 and not settings.inlines:
            outer = settings.style != "GNU" and settings.functions == "linkage"
            frames = (frames[0]._replace(function=frames[-1 if outer else 0].function),)
        return frames

    def _replies_of(self, module: OpenModule, name: str) -> Replies | None:
        """Return the fast path for questions about a module; None before its table is complete."""
        module_name = b"" if self.settings.module else name.encode("utf-8", "surrogateescape")
        is_plain = not name.startswith("BUILDID:") and not any(byte in module_name for byte in NOT_QUICK)
        if module.replies is None and is_plain:
            separator = INLINED_BY.encode() if self.settings.pretty else b""
            module.reply_by(module_name, self._shown, self._gap.encode(), separator, by_symbols=self._by_symbols)
        return module.replies

    def _shown(self, name: bytes) -> bytes:
        """Return the printed form of a function's name."""
        return self.readable(name.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def variable(self, question: Question) -> tuple[Symbol, tuple[str, int] | None] | None:
        """Return the variable of a question, with its declaration's file and line; None if unknown."""
        return self._from_module(question, lambda module, address: module.variable(address))

    def locals(self, question: Question) -> list[Local]:
        """Return the locals of a question."""
        return self._from_module(question, lambda module, address: module.locals_at(address)) or []

    def _starts(self, question: Question, frames: Frames) -> Sequence[FrameStart]:
        """Return the starts of the functions of the frames, as llvm-symbolizer prints them.

        They are unknown without debug info. The outermost function has the start of its symbol.
        """

        def looked_up(module: OpenModule, vaddr: int) -> tuple[list[FrameStart], Symbol | None]:
            starts = module.frame_starts(vaddr) if frames[0].source == Source.DWARF else []
            return starts, module.symbols.llvm(vaddr) if self._by_symbols and module.symbols is not None else None

        settings = self.settings
        result = self._from_module(question, looked_up) if frames else None
        if result is None:
            return [NO_START for _ in frames]
        starts, symbol = result
        if not settings.inlines:
            starts = starts[:1]
        if len(starts) != len(frames):
            starts = [FrameStart(frame.file if frame.start_line else "", frame.start_line, 0) for frame in frames]
        if symbol is not None and (settings.inlines or settings.style != "GNU"):
            starts[-1] = starts[-1]._replace(vaddr=symbol.start)
        return starts

    def named(self, question: Question) -> list[tuple[Frame, FrameStart]]:
        """Return a frame for each symbol of a question's name that has debug info, and the start of its function."""
        if question.kind != "CODE" or not question.module:
            return []

        def looked_up(module: OpenModule) -> list[tuple[Frame, FrameStart]]:
            symbols = module.named_frames(question.symbol, question.offset)
            return [(frame, module.named_start(symbol)) for symbol, frame in symbols]

        return self._look_up(question.module, looked_up) or []

    def _from_module(self, question: Question, look_up: Callable[[OpenModule, int], T]) -> T | None:
        """Return the result of `look_up` for a question's vaddr; None without a vaddr, and for a damaged file."""
        vaddr = self._vaddr(question)
        if vaddr is None:
            return None
        return self._look_up(question.module, lambda module: look_up(module, vaddr))

    def _look_up(self, name: str, look_up: Callable[[OpenModule], T]) -> T | None:
        """Return the result of `look_up` for a module; None for a damaged file."""
        module = self.modules[name]
        if module is None:
            return None
        try:
            return look_up(module)
        except (WhenceError, OSError, MemoryError) as error:
            self._give_up(name, error)
            return None

    def _give_up(self, name: str, error: Exception) -> None:
        """Report and close a module that turned out to be damaged."""
        self.modules.give_up(name, error)
        self._replies = None

    def _data(self, question: Question) -> str:
        variable = self.variable(question)
        if variable is None:
            return "??\n0 0\n??:?\n"
        symbol, declaration = variable
        name = self._named(symbol.name)
        location = f"{declaration[0]}:{declaration[1]}" if declaration else "??:?"
        return f"{name}\n{symbol.start} {symbol.size}\n{location}\n"

    def _vaddr(self, question: Question) -> int | None:
        """Return the address to look up; None for 2^64 - 1, which callers use as an end mark."""
        if question.address is None or question.address == ADDRESS_END - 1 or not question.module:
            return None
        address = question.address - self.settings.adjust
        if self.settings.relative and (module := self.modules[question.module]) is not None:
            address += module.preferred_base
        return address % ADDRESS_END

    def _code(self, frames: Frames, starts: Sequence[FrameStart] = ()) -> str:
        settings = self.settings
        if settings.binutils and not frames:
            gap = " " if settings.pretty else "\n"
            return (f"??{gap}" if settings.functions != "none" else "") + "??:0\n"
        if self._is_plain:
            named, gap = self._named, self._gap
            located = columned if settings.style == "LLVM" else discriminated
            frames = frames or (UNKNOWN,)
            lines = [
                f"{named(frame.function) or '??'}{gap}{frame.file or '??'}:{frame.line}{located(frame)}\n"
                for frame in frames
            ]
            return (INLINED_BY if settings.pretty else "").join(lines)
        if settings.binutils and len(frames) > 1:  # binutils print the innermost frame's discriminator for all frames
            frames = tuple(frame._replace(discriminator=frames[0].discriminator) for frame in frames)
        parts = []
        for depth, frame in enumerate(frames or (UNKNOWN,)):
            if settings.pretty and depth and (settings.functions != "none" or settings.binutils):
                parts.append(INLINED_BY)
            if settings.functions != "none":
                parts += self._named(frame.function) or "??", self._gap
            if settings.verbose:
                parts.append(self._verbose(frame, starts[depth] if starts else NO_START))
            else:
                parts.append(self._location(frame, frames[0] if frames else frame) + "\n")
                if settings.context:
                    parts.append(source_lines(self._file(frame), frame.line, settings.context))
        return "".join(parts)

    def _path(self, file: str) -> str:
        """Return the printed form of a path."""
        return file.rpartition("/")[2] if self.settings.paths == "base" else file

    def _file(self, frame: Frame) -> str:
        """Return the printed form of a frame's file."""
        return frame.file if isinstance(frame, FileEntryFrame) else self._path(frame.file)

    def _location(self, frame: Frame, innermost: Frame) -> str:
        file = self._file(frame) or "??"
        if self.settings.binutils:
            if isinstance(frame, FileEntryFrame):
                file = self._path(frame.file)
            # binutils print the innermost frame's discriminator for its callers, too
            discriminator = discriminated(innermost) if frame.line else ""
            return f"{file}:{frame.line or '?'}{discriminator}"
        approximate = APPROXIMATE if isinstance(frame, ApproximateFrame) else ""
        if self.settings.style == "LLVM":
            return f"{file}:{frame.line}{columned(frame)}{approximate}"
        return f"{file}:{frame.line}{approximate}{discriminated(frame)}"

    def _verbose(self, frame: Frame, begin: FrameStart) -> str:
        file = self._file(frame) or "??"
        start = ""
        if begin.line:
            start = f"  Function start filename: {self._path(begin.file)}\n  Function start line: {begin.line}\n"
        if begin.vaddr and self.settings.style == "LLVM":
            start += f"  Function start address: {begin.vaddr:#x}\n"
        discriminator = f"  Discriminator: {frame.discriminator}\n" if frame.discriminator else ""
        approximate = "  Approximate: true\n" if isinstance(frame, ApproximateFrame) else ""
        return (
            f"  Filename: {file}\n{start}  Line: {frame.line}\n  Column: {frame.column}\n{discriminator}{approximate}"
        )

    def _json(self, question: Question) -> bytes:
        answer: dict[str, object] = {}
        named = self.named(question) if question.symbol else []
        if question.symbol and (named or self.settings.version >= SYMBOLS_SINCE):
            answer["Loc"] = [self._json_frame(frame, start) for frame, start in named]
            answer["SymName"] = question.symbol
        elif question.address is None and self.settings.version >= UNKNOWN_SINCE:
            answer["Symbol"] = [self._json_frame(UNKNOWN, NO_START)]
        elif question.address is None:
            line = question.line.decode("utf-8", "surrogateescape")
            answer["Error"] = {"Message": f"unable to parse arguments: {line}"}
        else:
            answer["Address"] = f"{question.address:#x}"
            if self.modules[question.module] is None:
                return self.unreadable(question.address, question.module)
            if question.kind == "DATA":
                variable = self.variable(question)
                name, start, size = (self._named(variable[0].name), *variable[0][1:3]) if variable else ("", 0, 0)
                answer["Data"] = {"Name": name, "Size": f"{size:#x}", "Start": f"{start:#x}"}
            elif question.kind == "FRAME":
                answer["Frame"] = [frame_json(local) for local in self.locals(question)]
            else:
                frames = self.frames(question) or (UNKNOWN,)
                pairs = zip(frames, self._starts(question, frames), strict=True)
                answer["Symbol"] = [self._json_frame(frame, start) for frame, start in pairs]
        return self._object(answer, question.module)

    def unreadable(self, address: int, module: str) -> bytes:
        """Return the answer to a question about a file that can't be read."""
        return self._object({"Address": f"{address:#x}", "Error": {"Message": "No such file or directory"}}, module)

    def _object(self, answer: dict[str, object], module: str) -> bytes:
        """Return an answer as a line of JSON, or indented with --pretty-print."""
        build_id = module.removeprefix("BUILDID:")
        answer["ModuleName"] = build_id.upper() if build_id != module else module
        if self.settings.pretty:
            text = json.dumps(answer, sort_keys=True, indent=2, ensure_ascii=False)
        else:
            text = json.dumps(answer, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-8", "surrogateescape") + b"\n"

    def _json_frame(self, frame: Frame, start: FrameStart) -> dict[str, object]:
        file = self._file(frame)
        described: dict[str, object] = {
            "Column": frame.column,
            "Discriminator": frame.discriminator,
            "FileName": file,
            "FunctionName": "" if self.settings.functions == "none" else self._named(frame.function),
            "Line": frame.line,
            "StartAddress": f"{start.vaddr:#x}" if start.vaddr else "",
            "StartFileName": self._path(start.file),
            "StartLine": start.line,
        }
        if isinstance(frame, ApproximateFrame):
            described["Approximate"] = True
        if self.settings.context and (source := source_lines(file, frame.line, self.settings.context)):
            described["Source"] = source
        return described


def frame_text(local: Local) -> str:
    """Return a local in the answer to FRAME."""
    numbers = " ".join("??" if number is None else str(number) for number in local[4:])
    return f"{local.function or '??'}\n{local.name or '??'}\n{local.file or '??'}:{local.line}\n{numbers}\n"


def frame_json(local: Local) -> dict[str, object]:
    """Return a local in the answer to FRAME in JSON."""
    described: dict[str, object] = {
        "DeclFile": local.file,
        "DeclLine": local.line,
        "FunctionName": local.function,
        "Name": local.name,
        "Size": "" if local.size is None else f"{local.size:#x}",
        "TagOffset": "" if local.tag_offset is None else f"{local.tag_offset:#x}",
    }
    if local.frame_offset is not None:
        described["FrameOffset"] = local.frame_offset
    return described


def source_lines(path: str, line: int, count: int) -> str:
    """Return `count` numbered lines of a source file around `line`, which is marked; "" without the file.

    For line 0 these are the first lines. As in llvm-symbolizer, numbers are as wide as the last but one.
    """
    first = max(1, line - count // 2)
    last = first + count - 1
    if not path:
        return ""
    try:
        with open_regular(path, ElfError) as (descriptor, _):
            text = os.pread(descriptor, SOURCE_MAX, 0).decode("utf-8", "surrogateescape")
    except (OSError, WhenceError):
        return ""
    width = len(str(last - 1))
    numbered = enumerate(text.removesuffix("\n").split("\n")[first - 1 : last] if text else (), first)
    return "".join(
        f"{number:>{width}}{' >' if number == line else '  '}: {text.removesuffix(CR)}\n" for number, text in numbered
    )


def with_response_files(arguments: Sequence[str]) -> list[str]:
    """Replace each @FILE of a command line by the arguments in the file, which may be further files.

    Files that can't be read, that include themselves, or after the first RESPONSE_FILES are not replaced.
    """
    unused = RESPONSE_FILES
    cache: dict[str, list[str] | None] = {}

    def arguments_in(path: str) -> list[str] | None:
        """Return the arguments in a file; None if it can't be read."""
        if path not in cache:
            cache[path] = None
            with suppress(OSError, WhenceError), open_regular(path, ElfError) as (descriptor, _):
                cache[path] = shell_words(os.pread(descriptor, RESPONSE_MAX, 0).decode("utf-8", "surrogateescape"))
        return cache[path]

    def expanded(arguments: Sequence[str], parents: tuple[str, ...]) -> Iterator[str]:
        nonlocal unused
        for argument in arguments:
            contents = None
            if argument.startswith("@") and unused and argument not in parents:
                unused -= 1
                contents = arguments_in(argument[1:])
            if contents is None:
                yield argument
            else:
                yield from expanded(contents, (*parents, argument))

    return list(expanded(arguments, ()))


def shell_words(text: str) -> list[str]:
    """Split a text as a shell does; at blanks if a quote does not end."""
    if not text:
        return []
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def lines_of(descriptor: int) -> Iterator[list[bytes]]:
    """Yield the lines of each read; the last line may have no newline. Lines are truncated to LINE_MAX."""
    rest = b""
    while block := os.read(descriptor, BLOCK):
        if rest:
            block = rest + block
        lines = block.split(b"\n")
        rest = lines.pop()[:LINE_MAX]
        if len(block) > LINE_MAX:
            lines = [line[:LINE_MAX] for line in lines]
        yield lines
    if rest:
        yield [rest]


def answer_all(responder: LineResponder, source: int, out: int) -> None:
    """Answer the questions of the command line, or of `source` up to its end. Raises OSError."""
    settings = responder.settings
    if settings.inputs:
        answers = [responder.answer(os.fsencode(word)) for word in settings.inputs]
        if settings.style == "JSON":
            answers = [b"[", b",".join(answer.rstrip(b"\n") for answer in answers), b"]\n"]
        write_all(out, b"".join(answers))
        return
    for lines in lines_of(source):
        written = b""
        for line in lines:
            written += responder.answer(line)
            if len(written) >= BLOCK:
                write_all(out, written)
                written = b""
        write_all(out, written)


def serve(responder: LineResponder, work: Callable[[int, int], None] | None = None) -> int:
    """Answer questions (or do other `work`) from stdin to stdout; return the exit code."""
    try:
        source, out = sys.stdin.fileno(), sys.stdout.fileno()
        if work is not None:
            work(source, out)
        else:
            answer_all(responder, source, out)
    except BrokenPipeError:
        streams.give_up()
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # stdin or stdout can't be used
        print(f"{responder.settings.program}: error: {error.strerror}", file=sys.stderr)
        return 1
    return 0
