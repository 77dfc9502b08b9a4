"""The command line, questions and answers of elfutils' addr2line (eu-addr2line 0.188).

`main` is `whence` started through a link named eu-addr2line. Differences to GNU addr2line: lines have columns, -f
prints where the innermost call was inlined, -S prints a symbol and an offset, questions may be symbols.

    question      0x1180, 1180, main, main+0x4
    -f            mix inlined at /t.c:3:115 in spin⏎/t.c:2:89
    -f -i         as with -f, then spin⏎/t.c:3:115
    -S, -x        spin+0x12, spin+0x12 (.text), ()+0x1030 without a symbol
    unknown       ??:0, with -f ??⏎??:0

The original prints nothing on stdout for an empty line, an unknown symbol, and junk, so a caller that waits for an
answer would wait forever. Here the answer is the unknown location, with the original's message on stderr and exit code.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from whence._base import streams
from whence._base.errors import MapsError, WhenceError, plain
from whence._base.files import open_input
from whence._base.model import Source
from whence._base.options import ReadOptions
from whence._version import __version__
from whence.dropin.getopt_long import FLAG, MAY_HAVE_VALUE, NEEDS_VALUE, Option, OptionError, parsed
from whence.dropin.modules import OpenModules, address_digits, fault_of
from whence.dropin.spelling import spelling
from whence.dropin.symbolizer_protocol import ADDRESS_END, INLINED_BY, Printed, UsageError, discriminated, number, serve
from whence.procmap import maps
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.reader import covering
from whence.symbolize import Core, Process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from whence._base.model import Frame, Frames
    from whence.dropin.modules import OpenModule
    from whence.procmap.mapping import Mapping

WRONG_USE = 64  # EX_USAGE of sysexits.h
NUMBER = re.compile(r"\s*([-+]?)(?:0[xX](?=[0-9a-fA-F]))?([0-9a-fA-F]+)\Z")
SYMBOL = re.compile(r"([^-+]+)(?:([-+])([0-9][0-9a-fA-FxX]*))?\Z")
MAPS_MAX = 64 << 20  # bytes of a list of mappings

OPTIONS = {
    "core": Option("", NEEDS_VALUE, "addresses are of the process of this core file"),
    "debuginfo-path": Option("", NEEDS_VALUE, "search these folders, separated by :, for debug files"),
    "executable": Option("e", NEEDS_VALUE, "the file to look up addresses in (default a.out)"),
    "kernel": Option("k", FLAG, "not supported: use whence pid or whence addr for addresses of the kernel"),
    "offline-kernel": Option("K", MAY_HAVE_VALUE, "not supported: give vmlinux with -e"),
    "linux-process-map": Option("M", NEEDS_VALUE, "addresses are of a process with this /proc/PID/maps"),
    "pid": Option("p", NEEDS_VALUE, "addresses are of this process"),
    "section": Option("j", NEEDS_VALUE, "addresses are offsets in this section"),
    "addresses": Option("a", FLAG, "print the address before the answer"),
    "absolute": Option("A", FLAG, "print file names with the compilation directory (default)"),
    "demangle": Option("C", MAY_HAVE_VALUE, "print readable names (the value is ignored)"),
    "functions": Option("f", FLAG, "print function names"),
    "flags": Option("F", FLAG, "print the line table's discriminator; its other flags are not read"),
    "inlines": Option("i", FLAG, "print a location for each inlined call"),
    "pretty-print": Option("", FLAG, "print each answer on one line"),
    "relative": Option("", FLAG, "print file names as in the line table"),
    "basenames": Option("s", FLAG, "print file names without folders"),
    "symbols": Option("S", FLAG, "print symbols, or sections without a symbol"),
    "symbols-sections": Option("x", FLAG, "print symbols and their sections"),
    "help": Option("?", FLAG, "print this"),
    "usage": Option("", FLAG, "print a short form of this"),
    "version": Option("V", FLAG, "print the version"),
}
KERNEL = {"kernel": "-k", "offline-kernel": "-K"}
IN_A_PROCESS = ("core", "linux-process-map", "pid")


class EuSettings:
    """The settings of a command line."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.style = "GNU"
        self.module = "a.out"
        self.process: tuple[str, str] | None = None  # one of IN_A_PROCESS, and its value
        self.debug_dirs: list[str] = []
        self.section = ""
        self.inputs: list[str] = []
        self.flags: set[str] = set()  # long names of the given flags


def settings_of(program: str, arguments: list[str]) -> EuSettings:
    """Parse a command line. Raises UsageError, and Printed for --help, --usage and --version."""
    settings = EuSettings(program)
    try:
        for name, given in parsed(arguments, OPTIONS):
            value = given or ""
            if not name:
                settings.inputs.append(value)
            elif name in IN_A_PROCESS:
                settings.process = name, value
            elif name == "executable":
                settings.module = value
            elif name == "section":
                settings.section = value
            elif name == "debuginfo-path":
                settings.debug_dirs += [path for path in value.split(":") if path.startswith("/")]
            elif name in KERNEL:
                raise UsageError(f"{program}: option '{KERNEL[name]}' is not supported: give vmlinux with -e\n")
            elif name in ("help", "usage"):
                raise Printed(usage(program))
            elif name == "version":
                raise Printed(f"{program} (elfutils) as whence {__version__} answers\n")
            else:
                settings.flags.add(name)
    except OptionError as error:
        raise UsageError(
            f"{program}: {error}\nTry `{program} --help' or `{program} --usage' for more information.\n"
        ) from None
    return settings


def usage(program: str) -> str:
    lines = [
        f"Usage: {program} [OPTION...] [ADDR...]",
        "Locate source files and line information for ADDRs (in a.out by default).",
        "",
    ]
    for name, option in OPTIONS.items():
        value = {NEEDS_VALUE: "=VALUE", MAY_HAVE_VALUE: "[=VALUE]"}.get(option.value, "")
        letters = f"-{option.letters}," if option.letters else ""
        lines.append(f"  {letters:3} --{name + value:26} {option.help}")
    return "\n".join(lines) + "\n"


class EuResponder:
    """Answers questions in the form of the settings; `failed` is True if elfutils would fail for the last question."""

    def __init__(self, settings: EuSettings) -> None:
        self.settings = settings
        self._pretty = "pretty-print" in settings.flags
        self._named = spelling("GNU") if "demangle" in settings.flags else str
        options = ReadOptions(names="linkage", paths="listed" if "relative" in settings.flags else "joined")
        self.modules = OpenModules(settings.program, settings.debug_dirs, options)
        self._translate = translator(settings)
        self.failed = False

    def answer(self, line: bytes) -> bytes:
        """Return the answer to a line."""
        text = line.partition(b"\0")[0].rstrip(b"\r\n").decode("utf-8", "surrogateescape")
        self.failed = False
        address = self._address(text)
        path, vaddr = self._translate(address) if address is not None else ("", None)
        module = self.modules[path] if path else None
        head = ""
        if "addresses" in self.settings.flags:
            head = f"{address or 0:#0{2 + address_digits(module)}x}" + (": " if self._pretty else "\n")
        body = ""
        if module is not None and vaddr is not None:
            try:
                body = self._answer(module, vaddr)
            except (WhenceError, OSError, MemoryError) as error:
                self.modules.give_up(path, error)
        body = body or self._names(None, 0, ()) + "??:0\n"
        return (head + body).encode("utf-8", "surrogateescape")

    def _answer(self, module: OpenModule, vaddr: int) -> str:
        """Return the answer for a vaddr of a module. Raises WhenceError, OSError, MemoryError for a damaged file."""
        flags = self.settings.flags
        frames = module.eu_frames(vaddr) if "functions" in flags else module.frames(vaddr)
        location = "??:0"
        if frames and frames[0].file:
            location = self._where(frames[0]) + (discriminated(frames[0]) if "flags" in flags else "")
        answer = f"{self._names(module, vaddr, frames)}{location}\n{self._calls(frames)}"
        if "inlines" in flags and not (frames and frames[-1].source == Source.DWARF):  # fails without a unit
            producers = module.binary.producers
            self.failed = producers is None or not producers.units_at([vaddr])
        return answer

    def _address(self, text: str) -> int | None:
        """Return the address of a line; None without a valid address or symbol."""
        if digits := NUMBER.match(text):
            value = min(int(digits[2], 16), ADDRESS_END - 1)
            return self._in_section(-value % ADDRESS_END if digits[1] == "-" else value)
        if not text:
            self.failed = True
            return None
        match = SYMBOL.match(text)
        distance = number(match[3].encode(), False) if match is not None and match[3] else 0
        module = self.modules[self.settings.module] if match and self.settings.process is None else None
        symbol = module.eu_symbol_named(match[1]) if match is not None and module is not None else None
        if match is None or symbol is None or distance is None:
            name = match[1] if match is not None else text
            self._complain(f"cannot find symbol '{plain(name)}'")
            self.failed = True
            return None
        offset = distance * (-1 if match[2] == "-" else 1) % ADDRESS_END
        if symbol.size and offset >= symbol.size:
            self._complain(f"offset {offset:#x} lies outside contents of '{plain(match[1])}'")  # quoted
        return (symbol.start + offset) % ADDRESS_END

    def _in_section(self, offset: int) -> int | None:
        """Return the address of an offset in the section of -j; None if the file does not have the section."""
        if not self.settings.section:
            return offset
        module = self.modules[self.settings.module]
        section = module.section_range(self.settings.section) if module is not None else None
        if section is None:
            self.failed = True
            return None
        return (section.start + offset) % ADDRESS_END

    def _complain(self, message: str) -> None:
        print(f"{self.settings.program}: {message}", file=sys.stderr)

    def _names(self, module: OpenModule | None, vaddr: int, frames: Frames) -> str:
        """Return the text before the location: the name of the function, of the symbol, both, or nothing."""
        flags = self.settings.flags
        functions, symbols = "functions" in flags, bool(flags & {"symbols", "symbols-sections"})
        inner = self._named(frames[0].function) if functions and frames else ""
        inlined = len(frames) > 1 and bool(inner) and not self._pretty
        outer = ""
        if symbols:
            outer = self._symbol(module, vaddr)
        elif functions and (inlined or not inner):
            outer = self._outer_name(module, vaddr)
        if inlined:
            names = [f"{inner} inlined {self._inlined_at(frames[1])} in {outer}"]
        else:
            names = [name for name in (inner, outer) if name]
        if not names:
            return ""
        return " ".join(names) + " at " if self._pretty else "\n".join(names) + "\n"

    def _outer_name(self, module: OpenModule | None, vaddr: int) -> str:
        """Return the name of the symbol, of a stub of the PLT, or of a function of .gopclntab; "??" if unknown."""
        if module is None:
            return "??"
        symbol = module.eu_symbol(vaddr)
        frames = module.other_frames(vaddr) if symbol is None else ()
        name = symbol.name if symbol is not None else frames[0].function if frames else ""
        return self._named(name) or "??"

    def _symbol(self, module: OpenModule | None, vaddr: int) -> str:
        """Return the symbol with an offset, and with -x the section; without a symbol the address in a movable file."""
        symbol = module.eu_symbol(vaddr) if module is not None else None
        if module is None or symbol is None:
            movable = module is not None and module.is_movable(vaddr)
            return (f"()+{vaddr:#x}" if vaddr else "()+0") if movable else "??"
        text = self._named(symbol.name) + (f"+{vaddr - symbol.start:#x}" if vaddr != symbol.start else "")
        section = module.section_at(vaddr) if "symbols-sections" in self.settings.flags else ""
        return text + (f" ({section})" if section else "")

    def _inlined_at(self, caller: Frame) -> str:
        if not caller.file:
            return "at ???"
        return f"at {self._where(caller)}" if caller.line else f"from {self._path(caller.file)}"

    def _path(self, file: str) -> str:
        return file.rpartition("/")[2] if "basenames" in self.settings.flags else file

    def _where(self, frame: Frame) -> str:
        return f"{self._path(frame.file)}:{frame.line}" + (f":{frame.column}" if frame.column else "")

    def _calls(self, frames: Frames) -> str:
        """Return the locations of the inlined calls, with the functions that contain them."""
        if "inlines" not in self.settings.flags:
            return ""
        parts = []
        for frame in frames[1:]:
            if self._pretty:
                parts.append(INLINED_BY)
            if "functions" in self.settings.flags:
                parts.append((self._named(frame.function) or "??") + (" at " if self._pretty else "\n"))
            parts.append((self._where(frame) if frame.file else "??:0") + "\n")
        return "".join(parts)


class ProcessTranslator:
    """Translates a runtime address to the path of its file and the vaddr there; "" and None if it is in no file."""

    def __init__(self, mappings: Iterable[Mapping]) -> None:
        self._mappings = sorted(mappings, key=lambda mapping: mapping.start)
        self._mappers: dict[str, AddressMapper | None] = {}

    def __call__(self, runtime: int) -> tuple[str, int | None]:
        mapping = covering(self._mappings, runtime)
        if mapping is None or not mapping.path.startswith("/"):
            return "", None
        path = mapping.openable_path() if mapping.process else mapping.path
        if path not in self._mappers:
            try:
                self._mappers[path] = AddressMapper(path)
            except (WhenceError, OSError):
                self._mappers[path] = None
        mapper = self._mappers[path]
        return path, mapper.vaddr(mapping, runtime) if mapper is not None else None


def translator(settings: EuSettings) -> Callable[[int], tuple[str, int | None]]:
    """Return a function from an address to its file and vaddr.

    Raises WhenceError and OSError if the process, core file or list of mappings can't be read.
    """
    if settings.process is None:
        return lambda vaddr: (settings.module, vaddr)
    kind, value = settings.process
    if kind == "linux-process-map":
        with open_input(value, MapsError) as file:  # also of /proc, which is read a page at a time
            text = file.read(MAPS_MAX + 1)
        if len(text) > MAPS_MAX:
            raise MapsError("", None, f"longer than {MAPS_MAX:,} bytes", path=value)
        return ProcessTranslator(maps.parse(text, value).mappings)
    if kind == "core":
        return ProcessTranslator(Core(value).mappings())
    if not value.isdecimal():
        raise UsageError(f"{settings.program}: invalid number '{value}' for option '-p'\n")
    return ProcessTranslator(Process(int(value)).mappings())


def main() -> int:
    streams.prepare()
    program = os.path.basename(sys.argv[0])
    try:
        settings = settings_of(program, sys.argv[1:])
        responder = EuResponder(settings)
    except Printed as printed:
        sys.stdout.write(str(printed))
        return 0
    except UsageError as error:
        sys.stderr.write(str(error))
        return WRONG_USE
    except (WhenceError, OSError) as error:
        named = settings.process[1] if settings.process else ""
        print(f"{program}: {plain(named)}: {plain(fault_of(named, error))}", file=sys.stderr)
        return 1
    if settings.process is None and responder.modules[settings.module] is None:
        return 1
    return serve(responder) or int(responder.failed)
