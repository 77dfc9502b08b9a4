"""What llvm-symbolizer and addr2line say and hear: a question a line, an answer a question, whole and at once.

llvm_symbolizer.py and addr2line.py turn their command lines into `Settings`; the rest is here. A caller writes a line
to stdin and reads until the answer's terminator, most of them without a time limit. So each line gets exactly one
answer in the form the caller waits for, also when it is junk, the file is missing or its debug info is broken:

    style   terminator      unknown
    LLVM    an empty line   ??, ??:0:0, an empty line
    GNU     none            ??, ??:0
    JSON    the line's end  an object whose Symbol has empty strings and zeros

What the answers look like is defined by the originals: LLVM's docs/CommandGuide/llvm-symbolizer.rst and binutils'
addr2line. Line rows carry no columns here: where llvm-symbolizer prints a column this prints 0, which it prints for an
unknown one.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from whence.binary import Binary, open_binary
from whence.cli import streams
from whence.errors import ElfError, WhenceError, plain
from whence.files import open_regular
from whence.locate.locator import Locator
from whence.model import Frame, Frames, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from whence.elf import ElfFile

BLOCK = 1 << 16
LINE_MAX = 1 << 16  # bytes of a question; what a longer line has beyond is dropped
MODULES_KEPT = 64
SOURCE_MAX = 16 << 20  # bytes of a source file that are read for context lines
ADDRESS_END = 1 << 64
RESPONSE_DEPTH = 8
RESPONSE_MAX = 1 << 20

COMMAND = re.compile(rb"(CODE|DATA|FRAME) ")
QUOTED = re.compile(rb"([\"'])(.*?)\1")
TOKEN = re.compile(rb"[^ \r\n]+")
# Prefixes as C has them, and 0b and 0o: what llvm::StringRef::getAsInteger reads with radix 0.
NUMBER = re.compile(rb"0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0o?([0-7]+)|([0-9]+)")
BASES = (16, 2, 8, 10)
HEX = re.compile(rb"(?:0[xX])?([0-9a-fA-F]+)")
LEADING_HEX = re.compile(rb"[ \t]*(?:0[xX](?=[0-9a-fA-F]))?([0-9a-fA-F]+)")
ARCHITECTURE = re.compile(
    r":(?:x86_64h?|i[3-7]86|arm(?:v[0-9a-z]+|64e?|64_32)?|aarch64|ppc(?:64)?(?:le)?|s390x|riscv(?:32|64))\Z"
)
STT_NOTYPE, STT_OBJECT = 0, 1
SHN_UNDEF, SHN_RESERVED = 0, 0xFFFFFF00

# llvm-symbolizer takes short names from debug info alone.
SYMBOL_TABLES = (Source.SYMTAB, Source.MINIDEBUG, Source.DYNSYM, Source.PLT)
UNKNOWN = Frame("")


class Refused(Exception):
    """A command line that the original refuses, too: the words for stderr."""


class Settings:
    """What a command line asks for; the defaults are llvm-symbolizer's."""

    def __init__(self) -> None:
        self.program = "llvm-symbolizer"
        self.module = ""  # "": each question names its own
        self.build_id = ""
        self.inputs: list[str] = []
        self.style = "LLVM"
        self.functions = "linkage"  # short, none
        self.demangle = True
        self.inlines = True
        self.pretty = False
        self.addresses = False
        self.basenames = False
        self.verbose = False
        self.context = 0
        self.adjust = 0
        self.section = ""
        self.debug_dirs: list[str] = []
        self.hexadecimal = False  # addresses, with 0x or without
        self.binutils = False  # questions and answers as GNU addr2line has them


class Question(NamedTuple):
    """One line. `address` is None where there is none that can be read."""

    kind: str
    module: str
    address: int | None
    text: str


def number(text: bytes, hexadecimal: bool) -> int | None:
    """An unsigned number of at most 64 bits as LLVM reads it; None when the text is none.

    >>> number(b"0x10", False), number(b"010", False), number(b"10", False), number(b"10", True), number(b"-1", False)
    (16, 8, 10, 16, None)
    """
    found = (HEX if hexadecimal else NUMBER).fullmatch(text)
    if found is None:
        return None
    which = found.lastindex or 1
    value = int(found[which], BASES[which - 1])
    return value if value < ADDRESS_END else None


def question_of(line: bytes, settings: Settings) -> Question:
    """Read a line as llvm-symbolizer does: `[CODE |DATA |FRAME ]MODULE NUMBER`, without MODULE when one is set.

    >>> question_of(b'CODE "/a b" 0x1a', Settings())
    Question(kind='CODE', module='/a b', address=26, text='CODE "/a b" 0x1a')
    """
    line = line.partition(b"\0")[0].rstrip(b"\r\n")
    text = line.decode("utf-8", "surrogateescape")
    if settings.binutils:
        found = LEADING_HEX.match(line)
        address = min(int(found[1], 16), ADDRESS_END - 1) if found else None
        return Question("CODE", settings.module, address, text)
    kind, rest = "CODE", line
    if command := COMMAND.match(line):
        kind, rest = command[1].decode(), line[command.end() :]
    rest = rest.lstrip(b" \r\n")
    module = settings.module
    if not module:
        prefix = next((one for one in (b"FILE:", b"BUILDID:") if rest.startswith(one)), b"")
        rest = rest[len(prefix) :]
        named = QUOTED.match(rest) if rest[:1] in (b'"', b"'") else TOKEN.match(rest)
        if named is None:
            return Question(kind, "", None, text)
        name = named[2] if named.re is QUOTED else named[0]
        module = (prefix if prefix == b"BUILDID:" else b"").decode() + name.decode("utf-8", "surrogateescape")
        rest = rest[named.end() :].lstrip(b" \r\n")
    token = TOKEN.match(rest)
    return Question(kind, module, number(token[0], settings.hexadecimal) if token else None, text)


class Module:
    """A file that answers: its frames, and the variables of its symbol tables."""

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        self._variables: tuple[list[int], list[tuple[int, str]]] | None = None

    @property
    def elf(self) -> ElfFile | None:
        return self.binary.producers.elf if self.binary.producers is not None else None

    def frames(self, address: int) -> Frames:
        return self.binary.lookup(address)

    def variable(self, address: int) -> tuple[str, int, int] | None:
        """Name, start and size in bytes of the variable at an address, by the symbol tables."""
        if self._variables is None:
            self._variables = self._read_variables()
        starts, described = self._variables
        at = bisect_right(starts, address) - 1
        if at < 0:
            return None
        size, name = described[at]
        return (name, starts[at], size) if address < starts[at] + max(size, 1) else None

    def _read_variables(self) -> tuple[list[int], list[tuple[int, str]]]:
        found: dict[int, tuple[int, str]] = {}
        producers = self.binary.producers
        if producers is None:
            return [], []
        for elf, table in ((producers.elf, ".dynsym"), (producers.elf, ".symtab"), (producers.debug_elf, ".symtab")):
            symbols = elf.symbols(table)
            for index, info in enumerate(symbols.info):
                if info & 15 not in (STT_NOTYPE, STT_OBJECT):
                    continue
                if not SHN_UNDEF < symbols.section[index] < SHN_RESERVED:
                    continue
                start, size = symbols.value[index], symbols.size[index]
                if start not in found or size >= found[start][0]:
                    found[start] = size, symbols.name(index)
        starts = sorted(found)
        return starts, [found[start] for start in starts]


class Modules:
    """The files that were asked about, each opened once; the least recently asked ones are closed beyond a bound."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._open: OrderedDict[str, Module | None] = OrderedDict()

    def __getitem__(self, name: str) -> Module | None:
        """The module of that name; None when it can't be read, which is said on stderr once."""
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        try:
            self._open[name] = Module(self.open(name))
        except (WhenceError, OSError, ValueError, MemoryError) as error:
            self.complain(name, error)
            self._open[name] = None
        if len(self._open) > MODULES_KEPT:
            _, oldest = self._open.popitem(last=False)
            if oldest is not None:
                oldest.binary.close()
                del oldest
                gc.collect()  # what reads debug info refers to itself, and would keep the file mapped
        return self._open[name]

    def open(self, name: str) -> Binary:
        """Open what a question calls a module: a path, a path with an architecture, or BUILDID:hex."""
        with Locator(dirs=self.settings.debug_dirs or None) as locator:
            if name.startswith("BUILDID:"):
                digits = name.removeprefix("BUILDID:").lower()
                found = locator.find(build_id=digits if len(digits) % 2 == 0 else "0" + digits)
                if not found:
                    raise FileNotFoundError(2, "could not find build ID")
                name = found.path
            elif not os.path.exists(name):
                name = ARCHITECTURE.sub("", name)
            return open_binary(name, locator=locator)

    def forget(self, name: str) -> None:
        """Close a module that turned out to be broken or changed; the next question opens it anew."""
        module = self._open.pop(name, None)
        if module is not None:
            module.binary.close()

    def complain(self, name: str, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
        print(f"{self.settings.program}: error: '{plain(name)}': {plain(reason)}", file=sys.stderr)


class Responder:
    """Answers questions in the form that the settings ask for."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.modules = Modules(settings)

    def answer(self, line: bytes) -> bytes:
        """The whole answer to one line, with its terminator."""
        settings = self.settings
        question = question_of(line, settings)
        if settings.style == "JSON":
            return self._json(question)
        printed = question.address or 0
        head = ""
        if settings.addresses:
            digits = f"0x{printed:0{self._width(question)}x}" if settings.binutils else f"{printed:#x}"
            head = digits + (": " if settings.pretty else "\n")
        foot = "\n" if settings.style == "LLVM" else ""
        if question.kind == "DATA":
            name, start, size = self.variable(question) or ("??", 0, 0)
            body = f"{name}\n{start} {size}\n??:?\n"
        elif question.kind == "FRAME":
            body = "??\n"
        else:
            body = self._code(self.frames(question))
        return (head + body + foot).encode("utf-8", "surrogateescape")

    def _width(self, question: Question) -> int:
        """Digits of an address as addr2line prints it: those of the file's class."""
        module = self.modules[question.module]
        return module.elf.bits // 4 if module is not None and module.elf is not None else 16

    def frames(self, question: Question) -> Frames:
        """The frames of a question about code; () when nothing is known."""
        address = self._vaddr(question)
        module = self.modules[question.module] if address is not None else None
        if address is None or module is None:
            return ()
        try:
            if self.settings.section:
                address += self._section_start(module)
            frames = module.frames(address)
        except (WhenceError, OSError, MemoryError) as error:
            self._give_up(question.module, error)
            return ()
        if frames and not self.settings.inlines:
            name = frames[0 if self.settings.style == "GNU" else -1].function
            frames = (frames[0]._replace(function=name),)
        return frames

    def variable(self, question: Question) -> tuple[str, int, int] | None:
        """Name, start and size of the variable that a question asks about."""
        address = self._vaddr(question)
        module = self.modules[question.module] if address is not None else None
        if address is None or module is None:
            return None
        try:
            return module.variable(address)
        except (WhenceError, OSError, MemoryError) as error:
            self._give_up(question.module, error)
            return None

    def _vaddr(self, question: Question) -> int | None:
        """The address to look up. All ones are a caller's mark for the end, and no address."""
        if question.address is None or question.address == ADDRESS_END - 1 or not question.module:
            return None
        return (question.address - self.settings.adjust) % ADDRESS_END

    def _section_start(self, module: Module) -> int:
        sections = module.elf.sections if module.elf is not None else []
        return next((one.vaddr for one in sections if one.name == self.settings.section), 0)

    def _give_up(self, name: str, error: Exception) -> None:
        self.modules.complain(name, error)
        self.modules.forget(name)

    def _code(self, frames: Frames) -> str:
        settings = self.settings
        if settings.binutils and not frames:
            gap = " " if settings.pretty else "\n"
            return (f"??{gap}" if settings.functions != "none" else "") + "??:0\n"
        parts = []
        for depth, frame in enumerate(frames or (UNKNOWN,)):
            if settings.pretty and depth and (settings.functions != "none" or settings.binutils):
                parts.append(" (inlined by) ")
            if settings.functions != "none":
                parts += self.name(frame) or "??", " at " if settings.pretty else "\n"
            parts.append(self._verbose(frame) if settings.verbose else self._location(frame) + "\n")
            if settings.context:
                parts.append(source_lines(frame.file, frame.line, settings.context))
        return "".join(parts)

    def name(self, frame: Frame) -> str:
        """A frame's function as the settings want it."""
        if self.settings.functions == "none":
            return ""
        if self.settings.functions == "short":
            return "" if frame.source in SYMBOL_TABLES else short_name(readable(frame.function))
        return readable(frame.function) if self.settings.demangle else frame.function

    def file(self, frame: Frame) -> str:
        return frame.file.rpartition("/")[2] if self.settings.basenames else frame.file

    def _location(self, frame: Frame) -> str:
        file = self.file(frame) or "??"
        if self.settings.binutils:
            return f"{file}:{frame.line or '?'}"
        return f"{file}:{frame.line}:0" if self.settings.style == "LLVM" else f"{file}:{frame.line}"

    def _verbose(self, frame: Frame) -> str:
        file = self.file(frame) or "??"
        start = ""
        if frame.start_line:
            start = f"  Function start filename: {file}\n  Function start line: {frame.start_line}\n"
        return f"  Filename: {file}\n{start}  Line: {frame.line}\n  Column: 0\n"

    def _json(self, question: Question) -> bytes:
        import json

        module = question.module.removeprefix("BUILDID:")
        said: dict[str, object] = {}
        if question.address is None:
            said["Error"] = {"Message": f"unable to parse arguments: {question.text}"}
        else:
            said["Address"] = f"{question.address:#x}"
            if self.modules[question.module] is None:
                said["Error"] = {"Message": "No such file or directory"}
            elif question.kind == "DATA":
                name, start, size = self.variable(question) or ("", 0, 0)
                said["Data"] = {"Name": name, "Size": f"{size:#x}", "Start": f"{start:#x}"}
            elif question.kind == "FRAME":
                said["Frame"] = []
            else:
                said["Symbol"] = [self._json_frame(frame) for frame in self.frames(question) or (UNKNOWN,)]
        said["ModuleName"] = module.upper() if question.module != module else module
        if self.settings.pretty:
            text = json.dumps(said, sort_keys=True, indent=2, ensure_ascii=False)
        else:
            text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-8", "surrogateescape") + b"\n"

    def _json_frame(self, frame: Frame) -> dict[str, object]:
        file = self.file(frame)
        described: dict[str, object] = {
            "Column": 0,
            "Discriminator": 0,
            "FileName": file,
            "FunctionName": self.name(frame),
            "Line": frame.line,
            "StartAddress": "",
            "StartFileName": file if frame.start_line else "",
            "StartLine": frame.start_line,
        }
        if self.settings.context and (source := source_lines(frame.file, frame.line, self.settings.context)):
            described["Source"] = source
        return described


def readable(name: str) -> str:
    """A readable form of a linkage name. The demangler is imported when the first such name comes up."""
    if not name.startswith(("_", "$")):
        return name
    from whence.demangle import demangle

    return demangle(name)


def short_name(name: str) -> str:
    """A readable name without parameters and scopes.

    >>> short_name("ns::S<a::b>::sq(int) const"), short_name("main"), short_name("A::operator()(int)")
    ('sq', 'main', 'operator()')
    """
    depth, start = 0, 0
    for at, letter in enumerate(name):
        if letter in "<{" and not name.startswith("operator", start):
            depth += 1
        elif letter in ">}" and depth:
            depth -= 1
        elif not depth and name.startswith("::", at):
            start = at + 2
        elif letter == "(" and not depth:
            if name.startswith("(anonymous namespace)", at):
                depth += 1
            elif not name.startswith("operator()", start) or at != start + len("operator"):
                return name[start:at]
        elif letter == ")" and depth:
            depth -= 1
    return name[start:]


def source_lines(path: str, line: int, count: int) -> str:
    """The lines of a source file around one, numbered, that one marked; "" when there is no such file."""
    first = max(1, line - count // 2)
    last = first + count - 1
    if not path or not line:
        return ""
    try:
        with open_regular(path, ElfError) as (descriptor, _):
            text = os.pread(descriptor, SOURCE_MAX, 0).decode("utf-8", "surrogateescape")
    except (OSError, WhenceError):
        return ""
    width = len(str(last))
    numbered = enumerate(text.split("\n")[first - 1 : last], first)
    return "".join(f"{at:>{width}}{' >' if at == line else '  '}: {words}\n" for at, words in numbered)


def with_response_files(words: Sequence[str], depth: int = RESPONSE_DEPTH) -> list[str]:
    """A command line with each @FILE replaced by the words in it; a file that can't be read stays as it is."""
    found = []
    for word in words:
        inside = None
        if word.startswith("@") and depth:
            try:
                with open_regular(word[1:], ElfError) as (descriptor, _):
                    inside = shell_words(os.pread(descriptor, RESPONSE_MAX, 0).decode("utf-8", "surrogateescape"))
            except (OSError, WhenceError):
                pass
        found += [word] if inside is None else with_response_files(inside, depth - 1)
    return found


def shell_words(text: str) -> list[str]:
    """Split as a shell does; at blanks where a quote does not end."""
    import shlex

    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def lines_of(descriptor: int) -> Iterator[bytes]:
    """Lines as they come; the last one also without its end. What a line has beyond LINE_MAX is dropped."""
    rest = b""
    while block := os.read(descriptor, BLOCK):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line[:LINE_MAX]
        rest = rest[:LINE_MAX]
    if rest:
        yield rest


def serve(responder: Responder) -> int:
    """Answer the questions of the command line, or else those on stdin until it ends; gives the exit code."""
    settings = responder.settings
    out = sys.stdout.fileno()
    try:
        if settings.inputs:
            answers = [responder.answer(os.fsencode(word)) for word in settings.inputs]
            if settings.style == "JSON":
                answers = [b"[", b",".join(one.rstrip(b"\n") for one in answers), b"]\n"]
            write_all(out, b"".join(answers))
            return 0
        for line in lines_of(sys.stdin.fileno()):
            write_all(out, responder.answer(line))
    except BrokenPipeError:
        streams.give_up()
    except KeyboardInterrupt:
        return 130
    except OSError as error:  # stdin or stdout can't be used: nobody is there to answer
        print(f"{settings.program}: error: {error.strerror}", file=sys.stderr)
        return 1
    return 0


def write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
