"""llvm-symbolizer's command line (versions 14 to 22) over `symbolizer_protocol`; as llvm-addr2line, its GNU mode.

TABLE    every option: its spellings, what it sets; options with nothing to set are accepted and change nothing
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
    Responder,
    Settings,
    UsageError,
    number,
    serve,
    shell_words,
    with_response_files,
)

TEXT, NUMBER, SIGNED, MANY = "text", "number", "signed", "many"  # what the value of an option is
REFUSES_SINCE = 19  # the first version that ends before the first question when its file can't be read


class Option(NamedTuple):
    """Spellings, the setting ("" for none), its value (TEXT, NUMBER, SIGNED, MANY: the word after it), what it does."""

    names: tuple[str, ...]
    setting: str
    value: object
    help: str


TABLE = (
    Option(("--addresses", "-a", "--print-address"), "addresses", True, "print the address before the answer"),
    Option(("--adjust-vma",), "adjust", NUMBER, "subtract this from each address"),
    Option(("--basenames", "-s"), "paths", "base", "file names without folders"),
    Option(("--relativenames",), "paths", "relative", "paths without the compilation directory"),
    Option(("--build-id",), "build_id", TEXT, "the file with this build-id answers"),
    Option(("--cache-size",), "", TEXT, "accepted, changes nothing"),
    Option(("--color",), "", None, "accepted, changes nothing"),
    Option(("--color=always", "--color=auto", "--color=never"), "", None, "accepted, changes nothing"),
    Option(("--debug-file-directory", "--fallback-debug-path"), "debug_dirs", MANY, "look here for debug files"),
    Option(("--debuginfod", "--no-debuginfod"), "", None, "accepted; nothing is ever fetched"),
    Option(("--default-arch", "--dsym-hint"), "", TEXT, "accepted, changes nothing"),
    Option(("--dwp",), "package", TEXT, "the package of split units"),
    Option(("--demangle", "-C", "-demangle=true"), "demangle", True, "readable names"),
    Option(("--no-demangle", "-demangle=false"), "demangle", False, "names as the linker has them"),
    Option(("--dia", "--relative-address"), "", None, "accepted, changes nothing"),
    Option(("--filter-markup",), "filter_markup", True, "copy stdin, with LLVM's symbolizer markup replaced by names"),
    Option(("--functions", "-f"), "functions", "linkage", "function names; =none, =short or =linkage says which"),
    Option(("--functions=none", "-f=none"), "functions", "none", "no function names"),
    Option(("--functions=short", "-f=short"), "functions", "short", "function names without scopes and parameters"),
    Option(
        ("--inlines", "-i", "--inlining", "--inlining=true", "-inlining", "-inlining=true"),
        "inlines",
        True,
        "a frame for each inlined call",
    ),
    Option(("--no-inlines", "--inlining=false", "-inlining=false"), "inlines", False, "one frame for each address"),
    Option(("--no-untag-addresses",), "", None, "accepted, changes nothing"),
    Option(("--obj", "--exe", "-e"), "module", TEXT, "the file that answers; without it each question names one"),
    Option(("--output-style",), "style", TEXT, "LLVM, GNU or JSON"),
    Option(("--pretty-print", "-p"), "pretty", True, "a frame a line"),
    Option(("--print-source-context-lines",), "context", SIGNED, "print so many lines of source around each"),
    Option(("--skip-line-zero",), "skip_line_zero", True, "for line 0, the last other line before it, as approximate"),
    Option(("--verbose",), "verbose", True, "what is known of each frame, a line each"),
    Option(("--help", "-h"), "help", True, "print this"),
    Option(("--version", "-v"), "version", True, "print the version"),
)
OPTIONS = {name: option for option in TABLE for name in option.names}


def version_in(program: str) -> int:
    """The version that a program's name ends with; 0 for none.

    >>> version_in("llvm-symbolizer-19"), version_in("llvm-symbolizer-14.0.6"), version_in("llvm-symbolizer")
    (19, 14, 0)
    """
    numbers = program.rpartition("-")[2].split(".")
    return int(numbers[0]) if "-" in program and all(map(str.isdecimal, numbers)) else 0


def takes_value(option: Option) -> bool:
    return option.value in (TEXT, NUMBER, SIGNED, MANY)


def settings_of(program: str, words: list[str]) -> Settings:
    """What a command line asks for. Raises UsageError with the words that llvm-symbolizer says."""
    settings = Settings()
    settings.program = program
    settings.version = version_in(program) or settings.version
    if "addr2line" in program:
        settings.style, settings.functions, settings.hexadecimal = "GNU", "none", True
        settings.demangle = settings.inlines = False
    words = with_response_files(words)
    problems = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            settings.inputs.append(word)
            continue
        name, equals, value = word.partition("=")
        if word in OPTIONS:
            option = OPTIONS[word]
            if takes_value(option) and not words:
                raise UsageError(f"error: argument to '{word}' is missing (expected 1 value(s))\n")
            apply(settings, option, name, words.pop(0) if takes_value(option) else "")
        elif equals and name in OPTIONS and takes_value(OPTIONS[name]):
            apply(settings, OPTIONS[name], name, value)
        elif name in ("--functions", "-f") and equals:
            settings.functions = "linkage"
        elif word.startswith("--"):
            problems.append(f"error: unknown argument '{word}'\n")
        else:
            problems += short_options(settings, word, words)
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


def short_options(settings: Settings, group: str, words: list[str]) -> list[str]:
    """Apply a group like -Cfpe; what is wrong with it, a line each. The value of -e may follow in the group."""
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
        elif words:
            apply(settings, option, "-" + letter, words.pop(0))
        else:
            raise UsageError(f"error: argument to '-{letter}' is missing (expected 1 value(s))\n")
    return problems


def apply(settings: Settings, option: Option, name: str, value: str) -> None:
    if not option.setting:
        return
    if option.value in (NUMBER, SIGNED):
        negative = option.value == SIGNED and value.startswith("-")
        read = number(os.fsencode(value[negative:]), False)
        if read is None:
            raise UsageError(f"{name}=: expected a non-negative integer, but got '{value}'")
        setattr(settings, option.setting, 0 if negative else read)  # no number below 0 asks for anything
    elif option.value == MANY:
        settings.debug_dirs.append(value)
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
    except UsageError as refused:
        sys.stderr.write(str(refused))
        return 1
    responder = Responder(settings)
    if settings.filter_markup:
        return serve(responder, lambda source, out: filter_markup(responder, source, out))
    return 1 if refuses(responder) else serve(responder)


def refuses(responder: Responder) -> bool:
    """Whether llvm-symbolizer ends before the first question, and says so: its file can't be read."""
    settings = responder.settings
    module = settings.module
    if settings.version < REFUSES_SINCE or not module or settings.build_id or responder.modules[module] is not None:
        return False
    if settings.style == "JSON":
        sys.stdout.buffer.write(responder.unreadable(0, module))
    return True
