"""`whence dwarf FILE`: the units of debug info; with `--unit N`, its functions, inlined calls and lines."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from whence._base.options import ReadOptions
from whence._base.words import plain
from whence.cli.main import ANSWERED, BROKEN_INPUT, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import add_json_option, add_locator_options, locator_of
from whence.dwarf import DebugInfo
from whence.dwarf.explore import UnitView
from whence.dwarf.unit_set import Unit
from whence.objects.opening import open_object
from whence.producers import Producers

if TYPE_CHECKING:
    from whence.cli.parser import Parser

KINDS = {1: "compile", 2: "type", 3: "partial", 4: "skeleton", 5: "split", 6: "split type"}
LANGUAGES = {
    0x01: "C89", 0x02: "C", 0x03: "Ada83", 0x04: "C++", 0x07: "Fortran77", 0x08: "Fortran90", 0x0B: "Java", 0x0C: "C99",
    0x0D: "Ada95", 0x0E: "Fortran95", 0x10: "Objective-C", 0x11: "Objective-C++", 0x13: "D", 0x14: "Python",
    0x15: "OpenCL", 0x16: "Go", 0x18: "Haskell", 0x1A: "C++11", 0x1B: "OCaml", 0x1C: "Rust", 0x1D: "C11", 0x1E: "Swift",
    0x1F: "Julia", 0x21: "C++14", 0x22: "Fortran03", 0x23: "Fortran08", 0x27: "Zig", 0x28: "Crystal", 0x2A: "C++17",
    0x2B: "C++20", 0x2C: "C17", 0x8001: "assembly",
}  # fmt: skip


def configure(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="an object file; a separate debug file is found as for addresses")
    parser.add_argument("--unit", type=int, metavar="N", help="print the functions, inlined calls and lines of unit N")
    add_json_option(parser, "print one JSON object per unit, or per function, call and row")
    add_locator_options(parser)
    parser.examples(
        "whence dwarf app                                 the units",
        "whence dwarf app --unit 0                        what unit 0 says",
    )


def run(options: Namespace) -> int:
    """Print units. Return 1 without debug info, 3 if it is damaged beyond use, 2 if the unit does not exist."""
    with (
        locator_of(options) as locator,
        open_object(options.file) as elf,
        Producers(
            elf,
            complete=locator.debug_files.complete,
            options=ReadOptions(symtab=False, gopclntab=False, jobs=locator.jobs),
        ) as producers,
    ):
        info = producers.dwarf
        if info is None or not len(info.units):
            problems = list(producers.all_problems())
            for text in problems:
                print(f"whence: {plain(text)}", file=sys.stderr)
            if problems:
                return BROKEN_INPUT
            print(f"whence: {plain(options.file)}: no debug info in the file or in a debug file", file=sys.stderr)
            return SOME_UNKNOWN
        if options.unit is None:
            lines = units_json(info) if options.json else units_text(info)
        elif 0 <= options.unit < len(info.units):
            view = UnitView(info, options.unit)
            lines = unit_json(view) if options.json else unit_text(view)
            for skipped in view.problems:
                print(f"whence: {plain(skipped)}", file=sys.stderr)
        else:
            print(
                f"whence: unit {options.unit} does not exist: the units are 0 to {len(info.units) - 1}", file=sys.stderr
            )
            return WRONG_USE
        while chunk := list(islice(lines, 4096)):
            producers.check()  # names are read from the file as they are printed
            print("\n".join(chunk))
        for problem in info.problems:
            print(f"whence: {plain(problem)}", file=sys.stderr)
    return ANSWERED


def language(unit: Unit) -> str:
    return LANGUAGES.get(unit.language, f"language {unit.language:#x}" if unit.language else "no language")


def kind(unit: Unit) -> str:
    """Return the type of a unit. Before DWARF 5, only its attributes show that it is a skeleton."""
    return "skeleton" if unit.dwo_name else KINDS.get(unit.kind, str(unit.kind))


def units_text(info: DebugInfo) -> Iterator[str]:
    yield f"{'unit':>6}  {'offset':>10}  {'bytes':>9}  dwarf  {'kind':8}  {'language':10}  name"
    for unit in info.units:
        yield (
            f"{unit.index:>6}  {unit.offset:>#10x}  {unit.end - unit.offset:>9}  {unit.version:>5}  "
            f"{kind(unit):8}  {language(unit):10}  {plain(unit.name or unit.dwo_name) or '-'}"
        )


def unit_text(view: UnitView) -> Iterator[str]:
    unit = view.unit
    yield f"unit {unit.index} at .debug_info+{unit.offset:#x}: DWARF {unit.version}, {kind(unit)}, {language(unit)}"
    yield f"name      {plain(unit.name) or '-'}"
    yield f"comp_dir  {plain(unit.comp_dir) or '-'}"
    if unit.dwo_name:
        yield f"dwo       {plain(unit.dwo_name)} (id {unit.dwo_id:#x})"
    yield "functions and inlined calls"
    for scope in view.scopes():
        tag = "DW_TAG_inlined_subroutine" if scope.depth else "DW_TAG_subprogram"
        called = f"  called at {plain(scope.call_file) or '?'}:{scope.call_line}" if scope.depth else ""
        yield f"  {'  ' * scope.depth}{tag}  [{scope.start:#x}, {scope.end:#x})  {plain(scope.name) or '-'}{called}"
    yield "lines"
    for row in view.rows():
        yield f"  {row.vaddr:#x}  {f'{plain(row.file)}:{row.line}' if row.file else '-'}"


def units_json(info: DebugInfo) -> Iterator[str]:
    for unit in info.units:
        yield json.dumps(
            {
                "unit": unit.index,
                "offset": unit.offset,
                "size": unit.end - unit.offset,
                "version": unit.version,
                "kind": kind(unit),
                "language": language(unit),
                "name": unit.name,
                "comp_dir": unit.comp_dir,
                "dwo": unit.dwo_name,
            }
        )


def unit_json(view: UnitView) -> Iterator[str]:
    for scope in view.scopes():
        call = {"call_file": scope.call_file, "call_line": scope.call_line} if scope.depth else {}
        tag = "inlined_subroutine" if scope.depth else "subprogram"
        fields = {
            "tag": tag, "start": hex(scope.start), "end": hex(scope.end), "depth": scope.depth, "name": scope.name
        }  # fmt: skip
        yield json.dumps(fields | call)
    for row in view.rows():
        yield json.dumps({"vaddr": hex(row.vaddr), "file": row.file, "line": row.line})
