"""The command line of llvm-symbolizer (versions 14 to 22), and of llvm-addr2line, for `symbolizer_protocol`.

TABLE    all options: their names and settings; options without a setting are accepted and ignored
main     `whence-llvm-symbolizer`, and `whence` started through a link named llvm-symbolizer* or llvm-addr2line*
"""

from __future__ import annotations

import os
import sys

from whence._base import streams
from whence._base.records import NamedTuple
from whence._version import __version__
from whence.dropin.markup import filter_markup
from whence.dropin.symbolizer_protocol import (
    HEX_DIGITS,
    Printed,
    SymbolizerResponder,
    SymbolizerSettings,
    UsageError,
    number,
    serve,
    shell_words,
    with_response_files,
)

TEXT, NUMBER, SIGNED, MANY = "text", "number", "signed", "many"  # kinds of values of options
EXITS_SINCE = 19  # first version that exits before the first question if its file can't be read


class LlvmOption(NamedTuple):
    """Names, the setting ("" for none), its value (TEXT, NUMBER, SIGNED, MANY: the next word), the text in `--help`."""

    names: tuple[str, ...]
    setting: str
    value: object
    help: str


TABLE = (
    LlvmOption(("--addresses", "-a", "--print-address"), "addresses", True, "print the address before the answer"),
    LlvmOption(("--adjust-vma",), "adjust", NUMBER, "subtract this from each address"),
    LlvmOption(("--basenames", "-s"), "paths", "base", "print file names without folders"),
    LlvmOption(("--relativenames",), "paths", "relative", "print paths without the compilation directory"),
    LlvmOption(("--build-id",), "build_id", TEXT, "look up addresses in the file with this build-id"),
    LlvmOption(("--cache-size",), "", TEXT, "accepted and ignored"),
    LlvmOption(("--color",), "", None, "accepted and ignored"),
    LlvmOption(("--color=always", "--color=auto", "--color=never"), "", None, "accepted and ignored"),
    LlvmOption(
        ("--debug-file-directory", "--fallback-debug-path"), "debug_dirs", MANY, "search this folder for debug files"
    ),
    LlvmOption(("--debuginfod", "--no-debuginfod"), "", None, "accepted and ignored: nothing is fetched"),
    LlvmOption(("--default-arch",), "architecture", TEXT, "of fat files, use the slice for this architecture"),
    LlvmOption(("--dsym-hint",), "bundles", MANY, "search this dSYM bundle for debug files"),
    LlvmOption(("--dwp",), "package", TEXT, "the package of split units"),
    LlvmOption(("--demangle", "-C", "-demangle=true"), "demangle", True, "print readable names"),
    LlvmOption(("--no-demangle", "-demangle=false"), "demangle", False, "print linkage names"),
    LlvmOption(("--dia",), "", None, "accepted and ignored"),
    LlvmOption(("--relative-address",), "relative", True, "addresses in PE files count from the image base"),
    LlvmOption(
        ("--filter-markup",), "filter_markup", True, "copy stdin, with LLVM's symbolizer markup replaced by names"
    ),
    LlvmOption(("--functions", "-f"), "functions", "linkage", "print function names: =none, =short or =linkage"),
    LlvmOption(("--functions=none", "-f=none"), "functions", "none", "print no function names"),
    LlvmOption(
        ("--functions=short", "-f=short"), "functions", "short", "print function names without scopes and parameters"
    ),
    LlvmOption(
        ("--inlines", "-i", "--inlining", "--inlining=true", "-inlining", "-inlining=true"),
        "inlines",
        True,
        "print a frame for each inlined call",
    ),
    LlvmOption(
        ("--no-inlines", "--inlining=false", "-inlining=false"), "inlines", False, "print one frame for each address"
    ),
    LlvmOption(("--no-untag-addresses",), "", None, "accepted and ignored"),
    LlvmOption(
        ("--obj", "--exe", "-e"),
        "module",
        TEXT,
        "the file to look up addresses in (default: each question names a file)",
    ),
    LlvmOption(("--output-style",), "style", TEXT, "LLVM, GNU or JSON"),
    LlvmOption(("--pretty-print", "-p"), "pretty", True, "print each frame on one line"),
    LlvmOption(
        ("--print-source-context-lines",), "context", SIGNED, "print this number of source lines around each location"
    ),
    LlvmOption(
        ("--skip-line-zero",),
        "skip_line_zero",
        True,
        "instead of line 0, print the last other line before it as approximate",
    ),
    LlvmOption(("--verbose",), "verbose", True, "print all fields of each frame, each on one line"),
    LlvmOption(("--help", "-h"), "help", True, "print this help"),
    LlvmOption(("--version", "-v"), "version", True, "print the version"),
)
OPTIONS = {name: option for option in TABLE for name in option.names}


def version_in(program: str) -> int:
    """Return the version at the end of a program's name, or 0.

    >>> version_in("llvm-symbolizer-19"), version_in("llvm-symbolizer-14.0.6"), version_in("llvm-symbolizer")
    (19, 14, 0)
    """
    numbers = program.rpartition("-")[2].split(".")
    return int(numbers[0]) if "-" in program and all(map(str.isdecimal, numbers)) else 0


def takes_value(option: LlvmOption) -> bool:
    return option.value in (TEXT, NUMBER, SIGNED, MANY)


def settings_of(program: str, arguments: list[str]) -> SymbolizerSettings:
    """Parse a command line. Raises UsageError with the message of llvm-symbolizer, and Printed."""
    settings = SymbolizerSettings()
    settings.program = program
    settings.version = version_in(program) or settings.version
    if "addr2line" in program:
        settings.style, settings.functions, settings.hexadecimal = "GNU", "none", True
        settings.demangle = settings.inlines = False
    rest = with_response_files(arguments)
    problems = []
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            settings.inputs.append(word)
            continue
        name, equals, value = word.partition("=")
        if word in OPTIONS:
            option = OPTIONS[word]
            if takes_value(option) and not rest:
                raise UsageError(f"error: argument to '{word}' is missing (expected 1 value(s))\n")
            apply(settings, option, name, rest.pop(0) if takes_value(option) else "")
        elif equals and name in OPTIONS and takes_value(OPTIONS[name]):
            apply(settings, OPTIONS[name], name, value)
        elif name in ("--functions", "-f") and equals:
            settings.functions = "linkage"
        elif word.startswith("--"):
            problems.append(f"error: unknown argument '{word}'\n")
        else:
            problems += short_options(settings, word, rest)
    if problems:
        raise UsageError("".join(problems))
    if settings.module and settings.build_id:
        raise UsageError("error: cannot specify both --build-id and --obj\n")
    if settings.build_id and settings.build_id.strip(HEX_DIGITS.decode()):
        raise UsageError(f"--build-id=: expected a build ID, but got '{settings.build_id}'\n")
    if settings.build_id:
        settings.module = "BUILDID:" + settings.build_id
    if settings.style not in ("GNU", "JSON"):
        settings.style = "LLVM"
    return settings


def short_options(settings: SymbolizerSettings, group: str, following: list[str]) -> list[str]:
    """Apply a group like -Cfpe, and return its errors, a line each. The value of -e may follow in the group."""
    problems = []
    for index, letter in enumerate(group[1:], 2):
        option = OPTIONS.get("-" + letter)
        if option is None:
            problems.append(f"error: unknown argument '-{letter}'\n")
        elif not takes_value(option):
            apply(settings, option, "-" + letter, "")
        elif index < len(group):
            apply(settings, option, "-" + letter, group[index:].removeprefix("="))
            break
        elif following:
            apply(settings, option, "-" + letter, following.pop(0))
        else:
            raise UsageError(f"error: argument to '-{letter}' is missing (expected 1 value(s))\n")
    return problems


def apply(settings: SymbolizerSettings, option: LlvmOption, name: str, value: str) -> None:
    if not option.setting:
        return
    if option.value in (NUMBER, SIGNED):
        negative = option.value == SIGNED and value.startswith("-")
        magnitude = number(os.fsencode(value[negative:]), False)
        if magnitude is None:
            raise UsageError(f"{name}=: expected a non-negative integer, but got '{value}'")
        setattr(settings, option.setting, 0 if negative else magnitude)  # negative numbers have no effect
    elif option.value == MANY:
        getattr(settings, option.setting).append(value)
    elif option.setting in ("help", "version"):
        raise Printed(usage(settings.program) if option.setting == "help" else version(settings.program))
    else:
        setattr(settings, option.setting, value if option.value == TEXT else option.value)


def usage(program: str) -> str:
    lines = [f"OVERVIEW: {program}", "", f"USAGE: {program} [options] addresses...", "", "OPTIONS:"]
    for option in TABLE:
        value = " <value>" if takes_value(option) else ""
        lines += [f"  {', '.join(option.names)}{value}", f"        {option.help}"]
    lines += ["", "Pass @FILE as argument to read options from FILE."]
    return "\n".join(lines) + "\n"


def version(program: str) -> str:
    return f"{program}\n  whence {__version__}, which answers as LLVM's\n"


def main() -> int:
    streams.prepare()
    program = os.path.basename(sys.argv[0])
    variable = "LLVM_ADDR2LINE_OPTS" if "addr2line" in program else "LLVM_SYMBOLIZER_OPTS"
    try:
        settings = settings_of(program, shell_words(os.environ.get(variable, "")) + sys.argv[1:])
    except Printed as printed:
        sys.stdout.write(str(printed))
        return 0
    except UsageError as error:
        sys.stderr.write(str(error))
        return 1
    responder = SymbolizerResponder(settings)
    if settings.filter_markup:
        return serve(responder, lambda source, out: filter_markup(responder, source, out))
    return 1 if exits_early(responder) else serve(responder)


def exits_early(responder: SymbolizerResponder) -> bool:
    """Return True if llvm-symbolizer exits before the first question, as its file can't be read; print its error."""
    settings = responder.settings
    module = settings.module
    if settings.version < EXITS_SINCE or not module or settings.build_id or responder.modules[module] is not None:
        return False
    if settings.style == "JSON":
        sys.stdout.buffer.write(responder.unreadable(0, module))
    return True
