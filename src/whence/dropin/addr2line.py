"""The command line of GNU addr2line (binutils 2.40) for `symbolizer_protocol`: addresses in hex, answers in GNU's form.

`main` is `whence-addr2line`, and `whence` started through a link named addr2line or TARGET-addr2line.
"""

from __future__ import annotations

import os
import re
import sys

from whence._base import streams
from whence._version import __version__
from whence.dropin.getopt_long import FLAG, MAY_HAVE_VALUE_IF_LONG, NEEDS_VALUE, Option, OptionError, parsed
from whence.dropin.symbolizer_protocol import (
    Printed,
    SymbolizerResponder,
    SymbolizerSettings,
    UsageError,
    serve,
    with_response_files,
)

OPTIONS = {
    "addresses": Option("a", FLAG, "print the address before the answer"),
    "target": Option("b", NEEDS_VALUE, "the file's format; known formats are accepted and ignored"),
    "demangle": Option("C", MAY_HAVE_VALUE_IF_LONG, "print readable names (=STYLE is accepted)"),
    "exe": Option("e", NEEDS_VALUE, "the file to look up addresses in (default a.out)"),
    "functions": Option("f", FLAG, "print function names"),
    "inlines": Option("i", FLAG, "print a frame for each inlined call"),
    "section": Option("j", NEEDS_VALUE, "addresses are offsets in this section"),
    "pretty-print": Option("p", FLAG, "print each answer on one line"),
    "basenames": Option("s", FLAG, "print file names without folders"),
    "recurse-limit": Option("R", FLAG, "accepted and ignored"),
    "no-recurse-limit": Option("r", FLAG, "accepted and ignored"),
    "help": Option("hH", FLAG, "print this help"),
    "version": Option("vV", FLAG, "print the version"),
}
# formats of binutils for x86 (objdump -i)
TARGETS = frozenset(
    [
        "default",
        "elf64-x86-64",
        "elf32-i386",
        "elf32-iamcu",
        "elf32-x86-64",
        "pei-i386",
        "pe-x86-64",
        "pei-x86-64",
        "elf64-little",
        "elf64-big",
        "elf32-little",
        "elf32-big",
        "pe-bigobj-x86-64",
        "pe-i386",
        "pdb",
        "srec",
        "symbolsrec",
        "verilog",
        "tekhex",
        "binary",
        "ihex",
        "plugin",
    ]
)
STYLES = ("none", "auto", "gnu-v3", "java", "gnat", "dlang", "rust")  # of demangling; all except "none" are equal here
TRIPLET = r"(?:x86_64|i[3-7]86)-[\w.-]+"  # of a system, as in configure
# option -> setting and value (None: the option's value)
EFFECTS: dict[str, tuple[str, object]] = {
    "addresses": ("addresses", True),
    "demangle": ("demangle", True),
    "exe": ("module", None),
    "target": ("target", None),
    "functions": ("functions", "linkage"),
    "inlines": ("inlines", True),
    "section": ("section", None),
    "pretty-print": ("pretty", True),
    "basenames": ("paths", "base"),
}


def usage(program: str) -> str:
    lines = [
        f"Usage: {program} [option(s)] [addr(s)]",
        " Convert addresses into line number/file name pairs.",
        " If no addresses are specified on the command line, they will be read from stdin",
        " The options are:",
        "  @<file>                Read options from <file>",
    ]
    for name, option in OPTIONS.items():
        argument = "=<value>" if option.value == NEEDS_VALUE else ""
        lines.append(f"  {' '.join('-' + letter for letter in option.letters):5} --{name + argument:20} {option.help}")
    return "\n".join(lines) + "\n"


def settings_of(program: str, arguments: list[str]) -> SymbolizerSettings:
    """Parse a command line. Raises UsageError, and Printed for --help and --version."""
    settings = SymbolizerSettings()
    settings.program, settings.module, settings.style, settings.functions = program, "a.out", "GNU", "none"
    settings.demangle = settings.inlines = False
    settings.binutils = settings.hexadecimal = True
    try:
        for name, value in parsed(with_response_files(arguments), OPTIONS):
            if not name:
                settings.inputs.append(value or "")
            elif name == "help":
                raise Printed(usage(program))
            elif name == "version":
                raise Printed(f"GNU addr2line as whence {__version__} answers\n")
            elif name == "demangle" and value is not None and value not in STYLES:
                raise UsageError(f"{program}: unknown demangling style `{value}'\n")
            elif name in EFFECTS:
                setting, effect = EFFECTS[name]
                setattr(settings, setting, value if effect is None else effect)
                if name == "demangle" and value == STYLES[0]:
                    settings.demangle = False
    except OptionError as error:
        raise UsageError(f"{program}: {error}\n{usage(program)}") from None
    return settings


def is_target(name: str) -> bool:
    """Return True if binutils accept a name as a format or a kind of system."""
    return name in TARGETS or re.fullmatch(TRIPLET, name) is not None


def startup_error(responder: SymbolizerResponder) -> str:
    """Return the error with which addr2line exits before the first answer; or ""."""
    settings = responder.settings
    path = settings.module
    if not os.path.exists(path):
        return f"{settings.program}: '{path}': No such file\n"
    if settings.target is not None and not is_target(settings.target):
        return f"{settings.program}: {path}: invalid bfd target\n"
    module = responder.modules[path]
    if module is None:
        return f"{settings.program}: {path}: file format not recognized\n"
    if settings.section and module.section_range(settings.section) is None:
        return f"{settings.program}: {path}: cannot find section {settings.section}\n"
    return ""


def main() -> int:
    streams.prepare()
    program = os.path.basename(sys.argv[0])
    try:
        settings = settings_of(program, sys.argv[1:])
    except Printed as printed:
        sys.stdout.write(str(printed))
        return 0
    except UsageError as error:
        sys.stderr.write(str(error))
        return 1
    responder = SymbolizerResponder(settings)
    if problem := startup_error(responder):
        sys.stderr.write(problem)
        return 1
    return serve(responder)
