"""Variables of the frames of a core as gdb has them, and how they compare with whence's."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from whence.symbolize import Stack

# Run by gdb's Python: writes a line for each frame. `format_string` has the defaults of `bt full`.
SCRIPT = r"""
import json, sys
import gdb
for setting in ("print elements 200", "width 0", "height 0", "print static-members off", "print symbol on"):
    gdb.execute("set " + setting)
out = open(@OUT@, "w")
SHOWN = (gdb.SYMBOL_LOC_OPTIMIZED_OUT, gdb.SYMBOL_LOC_CONST, gdb.SYMBOL_LOC_CONST_BYTES)
FATAL, count = @FATAL@, 0
def text(symbol, frame):
    global count
    count += 1
    if count in FATAL:
        return "<gdb ends>"
    out.write(json.dumps(count) + "\n")
    out.flush()
    try:
        value = symbol.value(frame)
        return value.format_string(deref_refs=True@RAW@)
    except gdb.error as error:
        return "<error: %s>" % error
    except UnicodeDecodeError:
        return "<error: not UTF-8>"
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame is not None:
        variables = []
        frame.select()  # bounds of arrays are those of the selected frame
        try:
            block = frame.block()
        except RuntimeError:
            block = None
        while block is not None and block.function is None or block is not None and not block.is_global:
            for symbol in block:
                if symbol.type is None:  # a label
                    continue
                if symbol.is_variable or symbol.is_argument or symbol.addr_class in SHOWN:
                    variables.append((symbol.print_name, symbol.is_argument, text(symbol, frame)))
            if block.function is not None:
                break
            block = block.superblock
        line = {"thread": thread.ptid[1] or thread.ptid[2], "pc": frame.pc(), "name": frame.name()}
        line["variables"] = variables
        out.write(json.dumps(line) + "\n")
        try:
            frame = frame.older()
        except gdb.error:
            frame = None
out.close()
"""
PLAIN = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"<error(?: reading variable)?: [^>]*>|<optimized out>|<synthetic pointer>|<incomplete type>", "<missing>"),
        (r"^\{[^{}]*\} (?=0x)", ""),  # the type of a function
        (r'(?:", |")<incomplete sequence (.*?)>', r'\1"'),  # of UTF-8
        (r"@0x[0-9a-f]+: ", ""),  # of references
        (r"@<missing>.*", "<missing>"),
        (r"\((?:[^()]|\([^()]*\))*\) (?=0x)", ""),  # a cast of a pointer to a member
    )
]
RUST = [  # gdb writes paths and type parameters before values
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<![\w\"'])(?:\w+::)+(?=[\w{])", ""),
        (r"\b([A-Z]\w*)<[^<>()\[\]={]*>(?=[ :({])", r"\1"),
        (r"\b[A-Z]\w*::(?=[A-Z])", ""),
        (r"\b(\w+) (?=\()", r"\1"),
        (r"^&\[\w+\] |^\{closure_env#\d+\} (?=.*<missing>)|\{_ref__\w+: (?=<missing>\}$)|(?<=<missing>)\}$", ""),
        (r"\\x([0-9a-f]{2})", lambda match: chr(int(match[1], 16))),
    )
]
SYMBOL = re.compile(r"(?<=[0-9a-f]) <(?!missing|repeats)")
STRUCTURES = re.compile(
    r"\b(?:MaybeDangling|RawVec|RcInner|ArcInner|NonNull|UnsafeCell|RawTable|NodeRef|RangeInclusive|Box)\b"
)
ADDRESS = re.compile(r"0x[0-9a-f]+")
MOST_FATAL = 200
GO_NOTHING = re.compile(r"(?:\[\][\w.*/]+)?")  # a value of Go or libstdc++ without its members
INNERMOST = re.compile(r"<[^<>]*>")  # of nested angle brackets
NAMES = re.compile(r"(static )?[\w.$~()]+ = |std::\w+")


class Compared(NamedTuple):
    """The outcome for one variable: `equal`, `both missing`, `whence missing`, `gdb missing`, `different`, others."""

    outcome: str
    function: str
    name: str
    ours: str
    theirs: str


def gdb_frames(
    core: Path,
    program: Path,
    folder: Path,
    *,
    raw: bool = False,
    commands: tuple[str, ...] = (),
    gdb: str = "gdb",
    scripts: str = "/",
) -> list[dict[str, object]]:
    """Return the frames of all threads with their variables, as gdb prints them. Skips without gdb and its Python.

    `scripts` is the folder whose scripts gdb may load. A value at which gdb ends by an internal error (gdb 13 does so
    for enums of new Rust) is `<gdb ends>`.
    """
    if shutil.which(gdb) is None:
        pytest.skip(f"{gdb} is not on this machine")
    out = folder / f"{core.name}.gdb"
    script = folder / "values.py"
    text = SCRIPT.replace("@OUT@", repr(str(out))).replace("@RAW@", ", raw=True" if raw else "")
    options = ["-iex", f"set auto-load safe-path {scripts}"]
    options += [option for command in commands for option in ("-ex", command)]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "DEBUGINFOD_URLS": ""}
    fatal: list[int] = []
    while True:
        script.write_text(text.replace("@FATAL@", repr(fatal)))
        subprocess.run(
            [gdb, "-nx", "-batch", *options, "-x", str(script), str(program), str(core)],
            env=environment, capture_output=True, timeout=300, check=False, preexec_fn=no_core,
        )  # fmt: skip
        if not out.exists():
            pytest.skip("gdb has no Python")
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        if not lines or not isinstance(lines[-1], int) or len(fatal) >= MOST_FATAL:
            return [line for line in lines if not isinstance(line, int)]
        fatal.append(lines[-1])


def no_core() -> None:
    """Let a program that fails leave no core."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def plain_text(text: str) -> str:
    """Return a value without the names of symbols, and with one text for everything that is missing."""
    for pattern, replacement in PLAIN:
        text = pattern.sub(replacement, text)
    text = without_symbols(text)
    left = text
    while (inner := INNERMOST.sub("", left)) != left:
        left = inner
    return "<missing>" if "<missing>" in text and not re.search(r"\w", NAMES.sub("", left)) else text


def without_symbols(text: str) -> str:
    """Return a value without the names of symbols after addresses, whose angle brackets may be nested.

    >>> without_symbols("{0x8 <f(A<B<int> >)+4>, 0x9 <missing>}")
    '{0x8, 0x9 <missing>}'
    """
    parts, position = [], 0
    for match in SYMBOL.finditer(text):
        if match.start() < position:
            continue
        depth, end = 1, match.end()
        while end < len(text) and depth:
            depth += (text[end] == "<") - (text[end] == ">")
            end += 1
        parts.append(text[position : match.start()])
        position = end
    return "".join(parts) + text[position:]


def rust_text(text: str) -> str:
    """Return a value of Rust as gdb prints it, without paths and type parameters, as Debug prints it."""
    for pattern, replacement in RUST:
        text = pattern.sub(replacement, text)
    return text


def compared(stacks: list[Stack], theirs: list[dict[str, object]], *, rust: bool = False) -> Iterator[Compared]:
    """Compare the variables of equal frames: those with the same thread, pc and function, in their order.

    With `rust`, values are compared in the form of Debug; gdb shows containers as structures.
    """
    by_frame: dict[tuple[object, object], list[dict[str, object]]] = {}
    for other in theirs:
        by_frame.setdefault((other["thread"], other["pc"]), []).append(other)
    for stack in stacks:
        for frame in stack.frames:
            group = by_frame.get((stack.tid, frame.pc), [])
            if not frame.variables or not group:
                continue
            functions = group[: len(frame.variables)]
            del group[: len(frame.variables)]
            for function, variables, other in zip(frame.place.frames, frame.variables, functions, strict=False):
                yield from _compared(function.function, [(v.name, str(v.value)) for v in variables], other, rust)


def _compared(function: str, ours: list[tuple[str, str]], theirs: dict[str, object], rust: bool) -> Iterator[Compared]:
    left: dict[str, list[str]] = {}
    for name, _, text in theirs["variables"]:  # type: ignore[attr-defined]
        left.setdefault(name, []).append(text)
    for name, text in ours:
        others = left.get(name)
        if not others:
            yield Compared("only whence", function, name, text, "")
            continue
        match = next((other for other in others if plain_text(other) == plain_text(text)), others[0])
        others.remove(match)
        if match == "<gdb ends>":
            yield Compared("gdb ends", function, name, text, match)
            continue
        a, b = plain_text(text), plain_text(match)
        if GO_NOTHING.fullmatch(b) and a == "<missing>":
            b = "<missing>"
        if rust:
            a, b = rust_text(a), rust_text(b)
        if "the value of register" in text and a != b:
            outcome = "unknown register"  # gdb assumes that a function left the registers that it may change
        elif rust and a != b and STRUCTURES.search(match):
            outcome = "structure in gdb"
        elif a == b:
            outcome = "both missing" if a == "<missing>" else "equal"
        elif "<missing>" in a and "<missing>" not in b:  # gdb shows zeros for bytes that no piece describes
            outcome = "whence missing"
        else:  # of an array whose length gdb does not know, it shows the address
            is_missing = b == "<missing>" or (a.startswith("{") and ADDRESS.fullmatch(b))
            outcome = "gdb missing" if is_missing else "different"
        yield Compared(outcome, function, name, text, match)
    for name, others in left.items():
        for text in others:
            is_label = plain_text(text) == "<missing>"  # or a variable of the abstract function, repeated
            yield Compared("repeated by gdb" if is_label else "only gdb", function, name, "", text)
