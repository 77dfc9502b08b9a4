"""Find the command, run it, and turn errors into one line and an exit code."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

from whence._base import streams
from whence._base.errors import WRONG_KIND, WhenceError, WrongUse
from whence._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any

    from whence.cli.parser import Parser

    Raised = WhenceError | OSError | MemoryError | RuntimeError

ANSWERED, SOME_UNKNOWN, WRONG_USE, BROKEN_INPUT = 0, 1, 2, 3
TOO_LARGE = 4  # of `whence size --max-growth`
NO_THREAD = "can't start new thread"  # the message of CPython's RuntimeError

# group -> command -> its module in whence.cli, and the line that `whence help` prints
GROUPS = {
    "Files": {
        "addr": ("addr", "name addresses of an ELF file or an archive"),
        "explain": ("explain", "show each step from an address to its names, or why there are none"),
        "listing": ("listing", "print source lines and instructions of functions"),
        "size": ("size", "measure a file by function, file, unit or section, and its growth since another build"),
        "symbols": ("symbols", "list the functions of an ELF file"),
        "build-id": ("build_id", "print the build-ids, UUIDs or debug ids of files"),
        "dwarf": ("dwarf", "list the units, functions, inlined calls and lines of debug info"),
    },
    "Processes": {
        "pid": ("pid", "name addresses of a live process, print its stacks or profile it"),
        "core": ("core", "print the stacks in a core dump, or name addresses of it"),
        "cores": ("cores", "list the crashes whose cores are in a folder, grouped by signature"),
        "maps": ("maps", "list the executable mappings of a process with their build-ids"),
    },
    "Profiles, logs, traces and tables": {
        "record": ("record", "run a command or watch a process, and draw its flame graph"),
        "profile": ("profile", "name, convert, merge, compare and draw profiles of any format"),
        "filter": ("filter", "insert names into logs and crash reports"),
        "trace": ("trace", "convert, check and summarize Go execution traces"),
        "columns": ("columns", "add names to tables of addresses: Parquet, Arrow, CSV, JSON lines"),
    },
    "Archives and servers": {
        "convert": ("convert", "write names as an archive, GSYM or Breakpad symbols, for other tools"),
        "lidia": ("lidia", "create, dump and verify lidia archives"),
        "store": ("store", "keep debug files and archives by build-id, in a folder or a bucket"),
        "mcp": ("mcp", "answer questions of assistants about profiles, cores and programs (MCP, stdio)"),
        "serve": ("serve", "serve a store over HTTP: debuginfod, symbolication, uploads"),
    },
    "Getting started": {
        "demo": ("demo_files", "write the files that the documentation uses"),
        "completion": ("completion", "print the completion script of bash, zsh or fish"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def usage() -> str:
    """Return the text of `whence help`."""
    width = max(map(len, COMMANDS))
    lines = [
        "usage: whence COMMAND ...            run a command",
        "       whence FILE [ADDRESS...]      do what the file is for: name addresses, print stacks, a profile, a log",
        "       whence PID                    print the stacks of a process",
        "       whence help COMMAND           print the options and examples of a command",
        "       whence --version",
    ]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *(f"  {name:{width}}  {line}" for name, (_, line) in commands.items())]
    return "\n".join(lines)


class PlainOptions:
    """The options of a command line without options, made without argparse, whose import takes milliseconds."""

    def __init__(self, words: list[str], debug: bool, defaults: dict[str, object]) -> None:
        self.__dict__ |= {"words": words, "debug": debug, **defaults}


def plain_options(words: list[str], debug: bool, command: Any) -> PlainOptions | None:
    """Return the options of a command line that does not need argparse; None if it does."""
    defaults = getattr(command, "PLAIN", None)
    if defaults is not None and not any(word.startswith("-") for word in words):
        return PlainOptions(words, debug, defaults)
    without_argparse = getattr(command, "without_argparse", None)
    options = without_argparse(words) if without_argparse is not None else None
    return None if options is None else PlainOptions(words, debug, options)


def parser_of(name: str, debug: bool, command: Any) -> Parser:
    """Return the parser of a command. Every subcommand has the option --debug."""
    from whence.cli.parser import Parser, formatter

    line = COMMANDS[name][1]
    parser = Parser(prog=f"whence {name}", description=f"{line[0].upper()}{line[1:]}.", allow_abbrev=False,
                    formatter_class=formatter)  # fmt: skip
    command.configure(parser)
    for each in (parser, *parser.subparsers()):
        each.add_argument("--debug", action="store_true", default=debug, help="print tracebacks of errors")
    return parser


def parsed(words: list[str], debug: bool, command: Any) -> Namespace:
    """Parse the words of a command line, the first of which is the command."""
    parser = parser_of(words[0], debug, command)
    # argparse accepts options between FILE and the addresses only in its intermixed mode
    return parser.parse_intermixed(words[1:]) if getattr(command, "INTERMIXED", False) else parser.parse_args(words[1:])


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0 answered, 1 some unknown, 2 wrong use, 3 broken input."""
    if arguments is not None:
        return guarded(list(arguments))
    program = imitated_program(os.path.basename(sys.argv[0]))
    return imitate(program) if program else run_process(lambda: guarded(sys.argv[1:]))


def llvm_symbolizer() -> int:
    """Run `whence-llvm-symbolizer`."""
    return imitate("llvm_symbolizer")


def addr2line() -> int:
    """Run `whence-addr2line`."""
    return imitate("addr2line")


def imitate(program: str) -> int:
    """Run the module of whence.dropin that imitates a program, and return its exit code."""
    return run_process(lambda: import_module(f"whence.dropin.{program}").main())


def run_process(run: Callable[[], int]) -> int:
    """Run a command as the whole process, with few garbage collections: imports make little garbage."""
    gc.set_threshold(50_000)
    try:
        return run()
    finally:
        gc.freeze()


def imitated_program(name: str) -> str:
    """Return the module of the program that a link of this name imitates, "" for none."""
    if name.startswith(("llvm-symbolizer", "llvm-addr2line")):
        return "llvm_symbolizer"
    if name.startswith("eu-addr2line"):
        return "eu_addr2line"
    return "addr2line" if name == "addr2line" or name.endswith("-addr2line") else ""


def guarded(words: list[str]) -> int:
    """Run a command line and report its errors."""
    streams.prepare()
    debug, words = without_debug(words)
    try:
        status = answer(words, debug)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        streams.give_up()
        return ANSWERED
    except (WhenceError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # raised while a class was created, before Python 3.12
            return interrupted()
        streams.give_up()
        if debug or (isinstance(error, RuntimeError) and str(error) != NO_THREAD):
            raise
        streams.complain(message_of(with_command(error, words)))
        return WRONG_USE if isinstance(error, WrongUse) else BROKEN_INPUT
    except KeyboardInterrupt:
        return interrupted()
    return status


def interrupted() -> int:
    """Report Ctrl-C and return the exit code."""
    print("whence: interrupted", file=sys.stderr)
    return 130


def without_debug(words: list[str]) -> tuple[bool, list[str]]:
    """Return True if --debug is among the words, and the other words."""
    end = words.index("--") if "--" in words else len(words)
    others = [word for word in words[:end] if word != "--debug"]
    return len(others) < end, [*others, *words[end:]]


def answer(words: list[str], debug: bool) -> int:
    """Run the command that the words name and return its exit code."""
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help"):
        print(usage(), file=sys.stdout if words else sys.stderr)
        return ANSWERED if words else WRONG_USE
    if words[0] in ("-V", "--version"):
        print(f"whence {__version__}")
        return ANSWERED
    if words[0] not in COMMANDS or (words == ["core"] and os.path.isfile("core")):  # the default name of core dumps
        from whence.cli.dispatch import command_for

        words = command_for(words, COMMANDS)
    command = import_module(f"whence.cli.{COMMANDS[words[0]][0]}")
    options: Any = plain_options(words[1:], debug, command) or parsed(words, debug, command)
    options.command = words[0]
    status: int = command.run(options)
    return status


def with_command(error: Raised, words: list[str]) -> Raised:
    """Return an error; for a file of another kind than the command reads, with the command that reads it as a hint."""
    if not isinstance(error, WhenceError) or error.code != WRONG_KIND or error.hint or not os.path.isfile(error.path):
        return error
    from whence.cli.dispatch import FILE, LOG, kind_of

    try:
        kind = kind_of(error.path)
    except (WhenceError, OSError):  # no command reads it
        return error
    if kind is LOG or not kind.command or kind.command[0] == words[0]:
        return error
    command = " ".join(error.path if word == FILE else word for word in kind.command)
    return error.with_hint(f"it is {kind.what}: whence {command}")


def message_of(error: Raised) -> str:
    """Return an error and its remedy in one line."""
    if isinstance(error, RuntimeError):
        return "the system refused to start a thread: check ulimit -u and the container's pids.max"
    if isinstance(error, OSError):
        prefix = f"{error.filename}: " if error.filename else ""
        return f"{prefix}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return "not enough memory"
    hint = f" ({error.hint})" if error.hint else ""
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
    return f"{error}{notes}{hint}"
