"""Finding the command, running it, and turning errors into one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

from whence._base import streams
from whence._base.errors import WhenceError, WrongUse
from whence._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any

    from whence.cli.parser import Parser

ANSWERED, SOME_UNKNOWN, WRONG_USE, BROKEN_INPUT = 0, 1, 2, 3
NO_THREAD = "can't start new thread"  # what Python says in a RuntimeError

# command -> its module in whence.cli, and the line `whence --help` shows
COMMANDS = {
    "addr": ("addr", "functions, files and lines of addresses in an ELF file or an archive"),
    "lidia": ("lidia", "create, inspect and verify lidia archives"),
    "symbols": ("symbols", "functions of an ELF file's symbol tables"),
    "build-id": ("build_id", "build-ids of ELF files"),
    "dwarf": ("dwarf", "units, functions, inlined calls and lines of debug info, to explore"),
    "maps": ("maps", "executable mappings of a process, with build-ids"),
    "pid": ("pid", "frames of runtime addresses in a live process, or where each of its threads is"),
    "core": ("core", "frames of addresses in a core file, or where each thread was"),
    "trace": ("trace", "raw Go execution traces: text, wire, info, verify, filter, anonymize and more"),
    "profile": ("profile", "name the addresses of pprof, OTLP and perf profiles"),
    "filter": ("filter", "copy a log with the frames in it named"),
    "columns": ("columns", "name the addresses of a table: Parquet, Arrow, CSV, JSON lines"),
    "store": ("store", "keep the best debug files of every build-id, and archives of them, for everyone"),
    "serve": ("serve", "a store over HTTP: debuginfod, symbolication, named profiles, uploads"),
    "explain": ("explain", "the whole chain for one address: what was tried and what answered"),
}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {line}" for name, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: whence [-V | --version] [--debug] COMMAND ...",
            "",
            "From address to source.",
            "",
            *lines,
            "",
            "whence help COMMAND prints a command's options.",
        ]
    )


class Plain:
    """The options of a command that was given none, without argparse: it costs milliseconds to import and to ask."""

    def __init__(self, words: list[str], debug: bool, defaults: dict[str, object]) -> None:
        self.__dict__ |= {"words": words, "debug": debug, **defaults}


def plainly(words: list[str], debug: bool, command: Any) -> Plain | None:
    """The options of a command line that needs no argparse; None for another one."""
    plain = getattr(command, "PLAIN", None)
    if plain is not None and not any(word.startswith("-") for word in words):
        return Plain(words, debug, plain)
    without_argparse = getattr(command, "without_argparse", None)
    found = without_argparse(words) if without_argparse is not None else None
    return None if found is None else Plain(words, debug, found)


def parser_of(name: str, debug: bool, command: Any) -> Parser:
    """The parser of a command. --debug is an option of each subcommand, too."""
    from whence.cli.parser import Parser, formatter

    parser = Parser(prog=f"whence {name}", description=COMMANDS[name][1], allow_abbrev=False, formatter_class=formatter)
    command.configure(parser)
    for one in (parser, *parser.subparsers()):
        one.add_argument("--debug", action="store_true", default=debug, help="show tracebacks of errors")
    return parser


def parsed(words: list[str], debug: bool, command: Any) -> Namespace:
    """What argparse makes of a command's words, its name first."""
    parser = parser_of(words[0], debug, command)
    # options may stand between FILE and the addresses: argparse allows that only where it is configured so
    parse = parser.parse_intermixed_args if getattr(command, "INTERMIXED", False) else parser.parse_args
    return parse(words[1:])


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit code (0 answered, 1 some unknown, 2 wrong use, 3 broken input)."""
    if arguments is not None:
        return guarded(list(arguments))
    program = program_named(os.path.basename(sys.argv[0]))
    return stand_in(program) if program else alone(lambda: guarded(sys.argv[1:]))


def llvm_symbolizer() -> int:
    """`whence-llvm-symbolizer`"""
    return stand_in("llvm_symbolizer")


def addr2line() -> int:
    """`whence-addr2line`"""
    return stand_in("addr2line")


def stand_in(program: str) -> int:
    """Run a module that stands in for another program; returns the exit code."""
    return alone(lambda: import_module(f"whence.dropin.{program}").main())


def alone(run: Callable[[], int]) -> int:
    """Run a command as the whole program, with few garbage collections: imports make little garbage."""
    gc.set_threshold(50_000)
    try:
        return run()
    finally:
        gc.freeze()


def program_named(name: str) -> str:
    """The module of the program that `whence` stands in for when it is started through a link of this name; else ""."""
    if name.startswith(("llvm-symbolizer", "llvm-addr2line")):
        return "llvm_symbolizer"
    if name.startswith("eu-addr2line"):
        return "eu_addr2line"
    return "addr2line" if name == "addr2line" or name.endswith("-addr2line") else ""


def guarded(words: list[str]) -> int:
    """Let a command line be answered, and word its errors."""
    streams.prepare()
    debug, words = without_debug(words)
    try:
        status = answer(words, debug)
        sys.stdout.flush()
    except BrokenPipeError:
        streams.give_up()
        return SOME_UNKNOWN
    except (WhenceError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # in a class that was being made, before Python 3.12
            return interrupted()
        streams.give_up()
        if debug or (isinstance(error, RuntimeError) and str(error) != NO_THREAD):
            raise
        streams.complain(message_of(error))
        return WRONG_USE if isinstance(error, WrongUse) else BROKEN_INPUT
    except KeyboardInterrupt:
        return interrupted()
    return status


def interrupted() -> int:
    """Say that Ctrl-C ended the command; returns the exit code."""
    print("whence: interrupted", file=sys.stderr)
    return 130


def without_debug(words: list[str]) -> tuple[bool, list[str]]:
    """Whether --debug is given, wherever it stands, and the other words."""
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return len(kept) < end, [*kept, *words[end:]]


def answer(words: list[str], debug: bool) -> int:
    """Do what the words of a command line ask for."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help"):
        print(usage(), file=sys.stdout if words else sys.stderr)
        return ANSWERED if words else WRONG_USE
    if words[0] in ("-V", "--version"):
        print(f"whence {__version__}")
        return ANSWERED
    if words[0] not in COMMANDS:
        from whence.cli.parser import did_you_mean

        guess = did_you_mean(words[0], [*COMMANDS, "help", "--help", "--version", "--debug"])
        streams.complain(f"no command named {words[0]!r}{guess} (whence help lists them)")
        return WRONG_USE
    command = import_module(f"whence.cli.{COMMANDS[words[0]][0]}")
    options: Any = plainly(words[1:], debug, command) or parsed(words, debug, command)
    options.command = words[0]
    status: int = command.run(options)
    return status


def message_of(error: WhenceError | OSError | MemoryError | RuntimeError) -> str:
    """An error in a line, with its remedy."""
    if isinstance(error, RuntimeError):
        return "the system refuses a thread (ulimit -u and a container's pids.max say how many there may be)"
    if isinstance(error, OSError):
        prefix = f"{error.filename}: " if error.filename else ""
        return f"{prefix}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    hint = f" ({error.hint})" if error.hint else ""
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    return f"{error}{notes}{hint}"
