"""GNU addr2line's command line (binutils 2.40) over `symbolizer_protocol`: addresses in hex, answers in GNU's form.

`main` is `whence-addr2line`, and `whence` started through a link named addr2line, eu-addr2line or TARGET-addr2line.
"""

from __future__ import annotations

import os
import sys

from whence._version import __version__
from whence.cli import streams
from whence.cli.symbolizer_protocol import Responder, Settings, UsageError, serve, with_response_files

# long option -> its letters, the setting ("" for none), its value ("=": the word after it), what it does
OPTIONS = {
    "addresses": ("a", "addresses", True, "print the address before the answer"),
    "target": ("b", "", "=", "accepted, changes nothing"),
    "demangle": ("C", "demangle", True, "readable names (=STYLE is accepted)"),
    "exe": ("e", "module", "=", "the file that answers (default a.out)"),
    "functions": ("f", "functions", "linkage", "print function names"),
    "inlines": ("i", "inlines", True, "a frame for each inlined call"),
    "section": ("j", "section", "=", "addresses are offsets in this section"),
    "pretty-print": ("p", "pretty", True, "an answer a line"),
    "basenames": ("s", "paths", "base", "file names without folders"),
    "recurse-limit": ("R", "", None, "accepted, changes nothing"),
    "no-recurse-limit": ("r", "", None, "accepted, changes nothing"),
    "help": ("hH", "help", True, "print this"),
    "version": ("vV", "version", True, "print the version"),
}
BY_LETTER = {letter: name for name, (letters, *_) in OPTIONS.items() for letter in letters}


def usage(program: str) -> str:
    lines = [
        f"Usage: {program} [option(s)] [addr(s)]",
        " Convert addresses into line number/file name pairs.",
        " If no addresses are specified on the command line, they will be read from stdin",
        " The options are:",
        "  @<file>                Read options from <file>",
    ]
    for name, (letters, _, value, text) in OPTIONS.items():
        argument = "=<value>" if value == "=" else ""
        lines.append(f"  {' '.join('-' + letter for letter in letters):5} --{name + argument:20} {text}")
    return "\n".join(lines) + "\n"


def settings_of(program: str, words: list[str]) -> tuple[Settings, str]:
    """What a command line asks for, and "help" or "version" when that is it. Raises UsageError."""
    settings = Settings()
    settings.program, settings.module, settings.style, settings.functions = program, "a.out", "GNU", "none"
    settings.demangle = settings.inlines = False
    settings.binutils = settings.hexadecimal = True
    words = with_response_files(words)
    while words:
        word = words.pop(0)
        if word == "--":
            settings.inputs += words
            break
        if word.startswith("--"):
            given, equals, value = word[2:].partition("=")
            names = [name for name in OPTIONS if name == given] or [name for name in OPTIONS if name.startswith(given)]
            if len(names) != 1:
                raise UsageError(f"{program}: {'option' if names else 'unrecognized option'} '{word}'"
                              f"{' is ambiguous' if names else ''}\n{usage(program)}")  # fmt: skip
            chosen = [(names[0], value if equals else None)]
        elif word.startswith("-") and len(word) > 1:
            chosen = short_options(program, word[1:])
        else:
            settings.inputs.append(word)
            continue
        for name, joined in chosen:
            _, setting, effect, _ = OPTIONS[name]
            if setting in ("help", "version"):
                return settings, setting
            if effect == "=":
                if joined is None and not words:
                    raise UsageError(f"{program}: option '{name}' requires an argument\n{usage(program)}")
                effect = words.pop(0) if joined is None else joined
            if setting:
                setattr(settings, setting, effect)
    return settings, ""


def short_options(program: str, letters: str) -> list[tuple[str, str | None]]:
    """The long names of a group like -Cfpe, with the rest of the group as the value of one that takes a value."""
    found: list[tuple[str, str | None]] = []
    for index, letter in enumerate(letters, 1):
        name = BY_LETTER.get(letter)
        if name is None:
            raise UsageError(f"{program}: invalid option -- '{letter}'\n{usage(program)}")
        takes_value = OPTIONS[name][2] == "="
        found.append((name, letters[index:] or None if takes_value else None))
        if takes_value:
            break
    return found


def refusal(responder: Responder) -> str:
    """Why addr2line would not start to answer; "" when it would."""
    settings = responder.settings
    path = settings.module
    if not os.path.exists(path):
        return f"{settings.program}: '{path}': No such file\n"
    module = responder.modules[path]
    if module is None:
        return f"{settings.program}: {path}: file format not recognized\n"
    if settings.section and module.section_start(settings.section) is None:
        return f"{settings.program}: {path}: cannot find section {settings.section}\n"
    return ""


def main() -> int:
    streams.prepare()
    program = os.path.basename(sys.argv[0])
    try:
        settings, asked = settings_of(program, sys.argv[1:])
    except UsageError as refused:
        sys.stderr.write(str(refused))
        return 1
    if asked:
        sys.stdout.write(usage(program) if asked == "help" else f"GNU addr2line as whence {__version__} answers\n")
        return 0
    responder = Responder(settings)
    if problem := refusal(responder):
        sys.stderr.write(problem)
        return 1
    return serve(responder)
