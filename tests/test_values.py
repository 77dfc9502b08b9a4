"""Arbitrary arguments of the kernels: each call returns or raises an expected exception.

A fault in memory may go unseen here; `make sanitized` runs these tests with kernels under AddressSanitizer.
WHENCE_EXAMPLES says how many examples of each there are.
"""

from __future__ import annotations

import ast
import importlib
import io
import os
import resource
import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.forge import dwarf as d
from tests.forge.cfi import CODE, section
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.forge.lines import program
from tests.helpers.survive import survives
from whence import lidia
from whence._base.errors import WhenceError
from whence._base.mapped import MappedFile
from whence._base.model import Source
from whence.columns.kernels.answers import AnswerStore
from whence.columns.kernels.batch import Elements, RecordBatch
from whence.columns.kernels.stream import BatchStream
from whence.demangle.kernels.names import Demangler
from whence.dwarf.kernels import units as units_kernel
from whence.dwarf.kernels.dies import ScopeReader
from whence.dwarf.kernels.lines import LineProgramReader
from whence.dwarf.kernels.units import WIDTH, DwarfSections, UnitRangeColumns
from whence.dwarf.kernels.variables import VariableReader
from whence.flamegraph.kernels.tree import Growth
from whence.gopclntab.kernels.ranges import InlineTrees, PcValues, RangeBuilder, RangeColumns
from whence.gotrace import Event, Version
from whence.gotrace.kernels import event as event_kernel
from whence.gotrace.kernels.batches import BatchColumns
from whence.gotrace.kernels.columns import Decoder
from whence.gotrace.kernels.filter import EventFilter
from whence.gotrace.kernels.layout import EventLayout
from whence.gotrace.specs import layout
from whence.interpreters.cpython_layout import old_layout
from whence.interpreters.kernels.cpython import FrameWalker
from whence.kernels.columns import Column
from whence.kernels.mapped import Pages
from whence.lidia.kernels import encode as encode_kernel
from whence.lidia.kernels import inspect as inspect_kernel
from whence.lidia.kernels import queries as queries_kernel
from whence.lidia.kernels import strings as strings_kernel
from whence.lidia.kernels.located import LocatedLines
from whence.lidia.kernels.queries import Texts
from whence.lidia.kernels.render import Replies
from whence.lidia.layout import ArchiveSections
from whence.lidia.render import Renderer
from whence.objects.elf.kernels import symbols as symbols_kernel
from whence.pdb.kernels.modules import ModuleReader, ProgramLayout
from whence.pdb.kernels.names import FunctionNames, TypeRecords
from whence.perfdata.kernels import constants as perf
from whence.perfdata.kernels import records as records_kernel
from whence.perfdata.kernels.replay import Replay
from whence.procmap.maps import parse
from whence.ranges import Ranges, Rows, Scopes, StringSpace
from whence.ranges.kernels.caller_files import FileSplitter
from whence.ranges.kernels.merge import MergePlan
from whence.ranges.kernels.overlay import Sweep
from whence.ranges.merge import merge
from whence.ranges.overlay import overlay_groups
from whence.samples.kernels.wire import IdLists
from whence.unwind.kernels import cfi as cfi_kernel
from whence.unwind.kernels import walk as walk_kernel
from whence.unwind.kernels.ptrace import ThreadGroup
from whence.unwind.registers import X86_64
from whence.unwind.stopping import StoppedRows

REFUSED = (WhenceError, ValueError, TypeError, OverflowError, IndexError, KeyError, AttributeError, BufferError)
EXAMPLES = int(os.environ.get("WHENCE_EXAMPLES", "60"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

EDGES = [0, 1, 255, 256, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
NUMBER = st.one_of(st.integers(0, 20), st.sampled_from(EDGES), st.integers(0, (1 << 64) - 1))
ANY_NUMBER = st.one_of(NUMBER, st.sampled_from([-1, -(1 << 63), -(1 << 64), 1 << 64, 1 << 200]), st.integers())
ANYTHING: st.SearchStrategy[Any] = st.one_of(
    ANY_NUMBER, st.none(), st.text(max_size=5), st.binary(max_size=12), st.floats(), st.lists(ANY_NUMBER, max_size=6)
)
VERSION = st.sampled_from([version for version in Version if version >= Version.GO1_22])
WIDTHS = {"B": 8, "I": 32, "Q": 64}


@st.composite
def columns(draw: st.DrawFn, code: str, most: int = 12) -> array[int]:
    limit = (1 << WIDTHS[code]) - 1
    number = st.one_of(st.integers(0, min(limit, 9)), NUMBER.map(lambda value: value & limit))
    return array(code, draw(st.lists(number, max_size=most)))


def fill(draw: Any, record: Any, even: bool) -> Any:
    """Arbitrary values for every column of a record, of one length or each of its own."""
    size = draw(st.integers(0, 12))
    for name in dir(record):
        value = getattr(record, name)
        if isinstance(value, array):
            column = draw(columns(value.typecode))
            setattr(record, name, (column * 12 + array(value.typecode, [0] * 12))[:size] if even else column)
    return record


@st.composite
def tables(draw: st.DrawFn) -> Ranges:
    strings = StringSpace()
    strings.add(b"\0one\0two\0three\0")
    return fill(draw, Ranges(strings), draw(st.booleans()))


@many
@given(VERSION, ANYTHING, st.lists(ANYTHING, max_size=12), st.none() | st.binary(max_size=9), ANYTHING)
def test_an_event_of_any_values_is_refused_or_encoded(
    version: Version, kind: Any, args: list[Any], data: bytes | None, padding: Any
) -> None:
    survives(lambda: Event(version, kind, args, data, padding).encode(), refused=REFUSED)


@many
@given(st.data(), VERSION)
def test_an_event_of_the_right_shape_and_any_numbers_is_refused_or_read_back(
    data: st.DataObject, version: Version
) -> None:
    spec = data.draw(st.sampled_from(sorted(version.specs, key=lambda spec: spec.type)))
    args = data.draw(st.lists(ANY_NUMBER, min_size=len(spec.args), max_size=len(spec.args) + 8))
    padding = data.draw(
        st.none() | st.lists(st.integers(0, 255), min_size=len(args), max_size=len(args) + 1).map(bytes)
    )
    with suppress(*REFUSED):
        event = Event(
            version, spec.type, args, b"x" * data.draw(st.integers(0, 300)) if spec.has_data else None, padding
        )
        wire = event.encode()
        assert len(wire) <= 1 + 10 * (len(args) + 1) + len(event.data or b"")


@many
@given(ANY_NUMBER, ANY_NUMBER)
def test_any_number_is_padded_to_ten_bytes_or_refused(value: int, extra: int) -> None:
    with suppress(*REFUSED):
        assert 1 <= len(event_kernel.padded(value, extra)) <= 10


@many
@given(
    st.binary(max_size=300),
    st.binary(max_size=300),
    st.binary(max_size=40),
    st.lists(st.tuples(ANY_NUMBER, ANY_NUMBER)),
)
def test_a_stream_of_any_tables_and_windows_stays_inside_them(
    counts: bytes, flags: bytes, data: bytes, windows: list[tuple[int, int]]
) -> None:
    made = EventLayout()
    for kind, (count, flag) in enumerate(zip(counts, flags)):
        survives(made.add, kind, b"Name%d" % kind, count, flag, [b"word "] * count, refused=REFUSED)

    waiting = iter(windows)

    class Feed:
        def window(self, used: int, cut: bool) -> Any:
            return (data, *next(waiting, (0, 0)))

        def fail(self, fault: int, where: int, kind: int) -> None:
            raise ValueError

    feed: Any = Feed()
    for events in (made, layout(Version.GO1_23)):
        survives(list, event_kernel.Stream(feed, Version.GO1_23, events, True), refused=REFUSED)


@many
@given(tables(), st.sampled_from([{}, {"strings": "nul"}, {"compat": "go"}, {"lines": False, "files": False}]))
def test_a_table_of_any_columns_is_refused_or_written_as_an_archive(ranges: Ranges, options: dict[str, Any]) -> None:
    out = io.BytesIO()
    if survives(lidia.write, ranges, out, **options, refused=REFUSED):
        with lidia.from_bytes(out.getvalue()) as table:
            assert len(survives(list, table, refused=REFUSED) or table) == len(table)


@many
@given(st.lists(tables(), max_size=3))
def test_tables_of_any_columns_are_refused_or_merged(several: list[Ranges]) -> None:
    for table in several[1:]:
        table.strings = several[0].strings
    merged = survives(merge, several, refused=REFUSED)
    assert merged is None or len(merged) <= 2 * sum(map(len, several))


@many
@given(st.data())
def test_scopes_and_rows_of_any_columns_are_refused_or_overlaid(data: st.DataObject) -> None:
    even = data.draw(st.booleans())
    scopes, rows = fill(data.draw, Scopes(), even), fill(data.draw, Rows(), even)
    ends = data.draw(columns("I", 4)) if not even else array("I", [len(scopes)])
    row_ends = data.draw(columns("I", 4)) if not even else array("I", [len(rows)])
    out = Ranges(StringSpace())
    survives(overlay_groups, scopes, ends, rows, row_ends, out, Source.DWARF, refused=REFUSED)
    assert len(set(map(len, (out.vaddr, out.length, out.depth, out.function, out.file)))) == 1


@pytest.fixture(scope="module")
def archive() -> bytes:
    builder = lidia.Builder()
    for number in range(50):
        builder.add(
            lidia.Range(vaddr=0x1000 + 16 * number, length=16, function=f"f{number}", file="a.c", line_table=((0, 3),))
        )
    return builder.to_bytes()


@many
@given(st.lists(ANYTHING, max_size=8), ANYTHING, ANY_NUMBER, st.booleans())
def test_any_addresses_are_looked_up_or_refused(
    archive: bytes, several: list[Any], one: Any, place: int, back: bool
) -> None:
    with lidia.from_bytes(archive) as table:
        for ask in (
            lambda: table.lookup(one, return_address=back),
            lambda: list(table.lookup_many(several, return_address=back)),
            lambda: table[place],
            lambda: Renderer(table, "gnu").vaddrs(several),
            lambda: Renderer(table, "json").lines(one),
        ):
            survives(ask, refused=REFUSED)


@many
@given(st.data(), st.sampled_from(["_function_offset", "_file_offset", "line", "range_index", "starts", "_source"]))
def test_answers_whose_columns_were_overwritten_stay_inside_the_archive(
    archive: bytes, data: st.DataObject, name: str
) -> None:
    with lidia.from_bytes(archive) as table:
        answers = table.lookup_many([0x1000, 0x1010, 0x9999, 0x1020])
        setattr(answers, name, memoryview(data.draw(columns(getattr(answers, name).format))))
        for ask in (
            lambda: answers.function,
            lambda: answers.file,
            lambda: answers.start_line,
            lambda: answers[0:2],
            lambda: list(answers),
            lambda: answers[1],
        ):
            survives(ask, refused=REFUSED)


@many
@given(st.lists(st.tuples(*[ANYTHING] * 4), max_size=6))
def test_ranges_of_any_values_are_refused_or_built(rows: list[tuple[Any, Any, Any, Any]]) -> None:
    builder = lidia.Builder()
    added = 0
    with suppress(*REFUSED):
        for vaddr, length, depth, table in rows:
            builder.add(lidia.Range(vaddr=vaddr, length=length, function="f", depth=depth, line_table=table))
            added += 1
    data = survives(builder.to_bytes, refused=REFUSED)
    if data is not None:
        with lidia.from_bytes(data) as archive:
            assert len(list(archive)) == added


@many
@given(st.binary(max_size=200), ANY_NUMBER)
def test_any_text_is_parsed_as_maps_or_refused(text: bytes, wanted: int) -> None:
    result = survives(parse, text, "/proc/7", wanted, refused=REFUSED)
    assert result is None or len(result.mappings) <= text.count(b"\n") + 1


@many
@given(ANY_NUMBER, ANY_NUMBER)
def test_any_part_of_a_mapped_file_may_be_forgotten(start: int, stop: int) -> None:
    with open(__file__, "rb") as file:
        mapped = MappedFile(file.fileno(), __file__, WhenceError)  # type: ignore[arg-type]
    with suppress(*REFUSED):
        mapped.forget(start, stop)
    assert bytes(mapped.view[:3]) == b'"""'


# Functions of kernels and methods of their classes, called with inconsistent arguments

SOURCES = Path(__file__).parents[1] / "src" / "whence"  # an installed whence has no sources of kernels
VIEWS = {"uchar": "B", "uint": "I", "ulonglong": "Q", "longlong": "q", "double": "d"}  # item types and typecodes
NUMBERS = ("Py_ssize_t", "longlong", "ulonglong", "int", "uint", "uchar", "bint")
NOT_CALLED = {"unwind.kernels.ptrace.copy_threads"}  # would stop threads of any process
MEMORY = 1 << 29  # that a call may ask for beyond what is taken: more is refused
Argument = tuple[str, str]  # a name, and its annotation


class KernelClass(NamedTuple):
    kind: Any
    constructor: list[Argument]
    methods: dict[str, list[Argument]]


def arguments_of(node: ast.FunctionDef) -> list[Argument]:
    return [
        (one.arg, ast.unparse(one.annotation) if one.annotation else "") for one in node.args.args if one.arg != "self"
    ]


def entries() -> tuple[dict[str, tuple[Callable[..., Any], list[Argument]]], dict[str, KernelClass]]:
    """Return every function and every class of the kernels, by name."""
    functions: dict[str, tuple[Callable[..., Any], list[Argument]]] = {}
    classes: dict[str, KernelClass] = {}
    for source in sorted(SOURCES.rglob("kernels/*.py")):
        name = ".".join(source.relative_to(SOURCES).with_suffix("").parts)
        if source.stem == "__init__":
            continue
        module = importlib.import_module(f"whence.{name}")
        for node in ast.parse(source.read_text()).body:
            value = getattr(module, node.name, None) if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else None
            if value is None:
                continue
            if isinstance(node, ast.FunctionDef):
                functions[f"{name}.{node.name}"] = (value, arguments_of(node))
            elif isinstance(node, ast.ClassDef):
                own = {one.name: arguments_of(one) for one in node.body if isinstance(one, ast.FunctionDef)}
                methods = {key: own[key] for key in own if hasattr(value, key) and key not in UNCALLED}
                classes[f"{name}.{node.name}"] = KernelClass(
                    value, own.get("__cinit__") or own.get("__init__") or [], methods
                )
    return functions, classes


UNCALLED = {"__init__", "__cinit__", "__dealloc__", "__getbuffer__", "__releasebuffer__"}
FUNCTIONS, CLASSES = entries()
for not_called in NOT_CALLED:
    del FUNCTIONS[not_called]
KIND_OF = {name.rpartition(".")[2]: one.kind for name, one in CLASSES.items()}
NAME_OF = {one.kind: name for name, one in CLASSES.items()}

# Columns that entries take as attributes of one object, by the argument's name and as much before it as tells it apart
GO_FUNCTIONS = {
    "entry": "Q", "end": "Q", "tree": "Q", "name": "I", "pcsp": "I", "pcfile": "I", "pcln": "I", "cu": "I",
    "pcinl": "I", "start": "I",
}  # fmt: skip
SCOPES = {
    "vaddr": "Q", "end": "Q", "depth": "I", "function": "Q", "call_file": "Q", "call_line": "I", "call_column": "I",
    "call_discriminator": "I",
}  # fmt: skip
ROWS = {"vaddr": "Q", "file": "I", "line": "I", "files": "Q"}
STARTS = {"function": "Q", "file": "Q", "line": "I"}
RANGES = {
    "vaddr": "Q", "length": "Q", "depth": "I", "function": "Q", "file": "Q", "line_index": "I", "line_count": "I",
    "call_file": "Q", "call_line": "I", "line_offset": "I", "line_number": "I",
}  # fmt: skip
NUMBERED = {**RANGES, "function": "I", "file": "I", "call_file": "I"}
STRETCHES = {"start": "Q", "end": "Q", "place": "I", "name": "I"}
DEBUG_SECTIONS = ("info", "abbrev", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists")
OBJECTS = {
    "elf.kernels.symbols.read.columns": {
        "name_offset": "I", "value": "Q", "size": "Q", "info": "B", "other": "B", "section": "I"
    },
    "elf.kernels.relocate.apply.rules": {"section_vaddr": "Q", "kinds": "B"},
    "samples.kernels.splice.splice.new": {"first": "Q", "functions": "Q", "lines": "Q", "flags": "B"},
    "gopclntab.kernels.functions.read.columns": GO_FUNCTIONS,
    "gopclntab.kernels.functions.rows_holding.columns": GO_FUNCTIONS,
    "RangeBuilder.functions": GO_FUNCTIONS,
    "CodeSymbols.table": {"entries": "B", "names": "B", "extended": "B"},
    "layout": {
        "section_start": "Q", "section_end": "Q", "section_kind": "B", "range_start": "Q", "range_end": "Q",
        "descriptors": "B",
    },
    "Survey.columns": RANGES, "RangeEncoder.columns": NUMBERED, "LineTables.add.columns": RANGES,
    "Interner.number.ranges": RANGES, "LocatedLines.add.ranges": RANGES,
    "FileSplitter.cut.table": RANGES, "MergePlan.make.table": RANGES, "list_roots.table": RANGES,
    "MergePlan.make.stretches_found": STRETCHES, "roots": STRETCHES, "best": STRETCHES, "low": STRETCHES,
    "cover.out": STRETCHES, "layer.out": STRETCHES,
    "MergePlan.make.picks": {"place": "I", "name": "I", "depth": "I", "vaddr": "Q", "length": "Q"},
    "scopes": SCOPES, "scopes_found": SCOPES, "rows": ROWS, "rows_found": ROWS, "starts": STARTS,
    "Sweep.fill.out": RANGES, "ranges": RANGES,
    "DwarfSections.sections": {f"debug_{one}": "B" for one in DEBUG_SECTIONS},
    "Inspection.sections": {}, "StoredRows.sections": {}, "Archive.sections": {},
    "RangeBuilder.tables": {"pctab": "B", "file_table": "B"}, "trees": {"data": "B"},
    "walk_samples.samples": {
        "numbers": "I", "stack": "B",
        **dict.fromkeys(["pc", "values", "stack_start", "stack_at", "stack_size"], "Q"),
    },
    "walk_samples.found": {"end": "Q", "how": "B"},
}  # fmt: skip
CODES = {  # of columns that entries take without a type
    "units": "Q", "chosen": "I", "scope_ends": "I", "start_ends": "I", "row_ends": "I", "ends": "I", "numbers": "I",
    "names": "Q", "order": "I", "stack": "I", "functions": "Q", "same": "I", "vaddrs": "Q", "nearest_starts": "Q",
    "bodies": "Q", "times": "Q", "goroutines": "Q", "data": "B",
}  # fmt: skip


def column_of(draw: Any, code: str, size: int | None = None) -> array[Any]:
    """A column: small numbers, which are likely to be places of others, or any; each of a length of its own."""
    chance = Random(draw(st.integers(0, 1 << 32)))
    size = chance.choice([0, 1, 4, 5, 12, 64]) if size is None else size
    if code == "d":
        return array(
            "d", [chance.choice([0.0, 1.5, 7.0, 1e300, float("inf"), float("nan"), -1.0]) for _ in range(size)]
        )
    most = (1 << {"B": 8, "I": 32, "Q": 64, "q": 63}[code]) - 1
    small, top = chance.random() < 0.6, chance.choice([1, 6, size + 1])
    numbers = [
        chance.randrange(top) if small else chance.choice([*EDGES, chance.getrandbits(64)]) & most for _ in range(size)
    ]
    return array(code, sorted(numbers) if chance.random() < 0.6 else numbers)


def argument(draw: Any, name: str, kind: str, size: int | None = None) -> Any:
    """A value of an argument of a kernel's entry, by its annotation; `size` is how long its columns are."""
    bare = name.rpartition(".")[2]
    if draw(st.integers(0, 30)) == 0:
        return draw(ANYTHING)
    for item, code in VIEWS.items():
        if kind.endswith("[::1]") and f"cython.{item}]" in kind.replace("[::1]", "]"):
            return column_of(draw, code, size)
    if kind.removeprefix("cython.") in NUMBERS:
        return draw(st.one_of(st.integers(0, 20), st.integers(0, 20), ANY_NUMBER))
    if kind.startswith("Optional["):
        return None if draw(st.booleans()) else argument(draw, name, kind.removeprefix("Optional[")[:-1], size)
    if kind in KIND_OF:
        return made(draw, KIND_OF[kind])
    if kind in PLAIN:
        return draw(PLAIN[kind])
    if name.endswith((".set_code.starts", ".set_code.ends")):
        return column_of(draw, "Q", size)
    if name.endswith((".begin.pc", ".begin.cfa_before", ".begin.is_exact", ".begin.after_signal")):
        return draw(st.integers(0, 1) | NUMBER)
    if name.endswith(".begin.values"):
        return draw(st.dictionaries(st.integers(0, 17), NUMBER, max_size=3))
    for first in range(name.count(".") + 1):
        if (expected := name.split(".", first)[-1]) in OBJECTS:
            return attributes(draw, expected, size)
    if bare in CODES:
        return column_of(draw, CODES[bare], size)
    return draw(ANYTHING)


PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "bytes": st.binary(max_size=40), "str": st.sampled_from(["", "line", "function", "B", "I", "Q", "x"]),
    "tuple": st.lists(st.binary(max_size=4), max_size=9).map(tuple), "bool": st.booleans(),
    "list": st.lists(st.binary(max_size=9), max_size=4),
}  # fmt: skip


def attributes(draw: Any, name: str, size: int | None = None) -> Any:
    """An object with the columns of OBJECTS, of one length or each of its own, and small numbers for all else."""
    if size is None and draw(st.booleans()):
        size = draw(st.sampled_from([0, 1, 4, 12]))
    some = Record(draw)
    for key, code in OBJECTS[name].items():
        setattr(some, key, column_of(draw, code, size))
    return some


class Record:
    """What is not among its columns is a number, or an object of numbers."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("shape", "columns"):
            return SimpleNamespace(
                line_column=column_of(self._draw, "I"), line_discriminator=column_of(self._draw, "I"),
                size=self._draw(st.sampled_from([0, 12, 16, 20, -4])), name_at=4, parent_width=2,
                pc_at=8, start_at=self._draw(st.sampled_from([-1, 12, 16, 1 << 30])),
            )  # fmt: skip
        value = self._draw(st.one_of(st.integers(0, 8), st.integers(0, 8), ANY_NUMBER))
        setattr(self, name, value)
        return value


def sections_of(draw: Any) -> DwarfSections:
    """Debug info of any bytes, most of which look like units; with a unit table, where one is taken."""
    forged = draw(st.sampled_from(FORGED))
    pieces = st.lists(st.sampled_from([b"\0" * 12, b"\xff" * 12, b"\1\x11\1\x03\x08\0\0\0"]), max_size=3)
    views = SimpleNamespace(
        **{f"debug_{name}": memoryview(forged.get(name, b"") + b"".join(draw(pieces))) for name in DEBUG_SECTIONS}
    )
    sections = DwarfSections(views, (0, 1 << 48, 2 << 48), False, array("Q", [0, 1 << 40]))
    rows = units_of(sections) if draw(st.integers(0, 4)) else array("Q", [draw(NUMBER) for _ in range(WIDTH)])
    with suppress(ValueError):
        sections.set_units(rows)
    return sections


def units_of(sections: DwarfSections) -> array[int]:
    rows = array("Q", bytes(8 * WIDTH * units_kernel.count_units(sections, 4)))
    units_kernel.read_headers(sections, rows, 0, 4)
    units_kernel.read_roots(sections, sections, rows)
    return rows


def forged_sections() -> list[dict[str, bytes]]:
    """Sections with functions, inlined calls, declarations and a line program, of two versions."""
    result = []
    steps = [("set_address", 0x1000), ("copy",), ("special", 4, 2), ("file", 2), ("special", 2, 1), ("end", 8)]
    for version in (4, 5):
        helper = Die(
            d.DW_TAG_subprogram,
            [
                (d.DW_AT_name, d.DW_FORM_string, "helper"),
                (d.DW_AT_decl_file, d.DW_FORM_data1, 1),
                (d.DW_AT_decl_line, d.DW_FORM_data1, 3),
            ],
        )
        main = function("main", 0x1000, 0x40, inlined(helper, 0x1010, 0x10, 7))
        attributes = [
            (d.DW_AT_language, d.DW_FORM_data1, 4),
            (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 64),
        ]
        debug = Debug(version).unit(Die(d.DW_TAG_compile_unit, attributes, [helper, main]))
        debug.line += program(steps, version=version)
        names = ("info", "abbrev", "line", "line_str", "str")
        columns = (debug.info, debug.abbrev, debug.line, debug.line_strings, debug.strings)
        result.append({name: bytes(column) for name, column in zip(names, columns)})
    return result


FORGED = forged_sections()
ARCHIVED = lidia.Builder()
for at in range(20):
    ARCHIVED.add(lidia.Range(vaddr=0x10 * at, length=16, function=f"f{at % 7}", file="a.c", line_table=((0, 3),)))
ARCHIVE = ARCHIVED.to_bytes()


def frames_of(draw: Any) -> tuple[Any, Any, Any]:
    """An archive, and frames and texts of it."""
    with lidia.from_bytes(ARCHIVE) as table:
        archive = table._archive
    frames = archive.find_frames(array("Q", draw(st.lists(st.integers(0, 400), max_size=5))), 0)
    return archive, frames, Texts(archive, frames)


BATCH_NAMES = ("function", "file", "line", "start_line", "inlined", "source", "reason", "x")
BATCH_WORDS = ((b"x",), (b"a", b"b"))


def store_of(draw: Any) -> tuple[AnswerStore, Elements, Any]:
    """Answers to a batch's rows, and the batch."""
    store, rows = AnswerStore(1, 2), Column("I")
    rows.extend(array("I", [0xFFFFFFFF] * 3))
    batch = store.columns(rows, BATCH_NAMES, BATCH_WORDS)
    _, frames, texts = frames_of(draw)
    elements, codes = Elements(batch, "line"), Column("I")
    codes.extend(array("I", [0] * len(elements)))
    answers = store.find(elements, codes, array("I", [0]))
    shown = Column("I")
    while len(shown) < len(frames.starts) - 1:
        shown.extend(array("I", [3]))
    with suppress(ValueError):
        numbers = store.number_texts(texts, lambda text, linkage: text).numbers()
        store.fill(shown, frames, texts, numbers, array("I", bytes(4 * len(frames.line))), 1)
    return store, elements, answers if draw(st.booleans()) else batch


def records_of(draw: Any) -> records_kernel.Records:
    """Records of a perf.data file: maps and samples with call chains."""
    records = records_kernel.Records(False, 7)
    kind = perf.HAS_IP | perf.HAS_TID | perf.HAS_TIME | perf.HAS_CALLCHAIN
    records.set_events(array("Q", [kind, 0, 0, 0, 0, 2]), -1, 0)
    records.add_map(7, 0, 0x1000, 0x1000, 0, records.add_text(b"libc.so"), 1)
    for time in range(draw(st.integers(0, 3))):
        chain = draw(st.lists(NUMBER, max_size=4))
        body = struct.pack(f"<QIIQQ{len(chain)}Q", 0x1010, 7, 7, time, len(chain), *chain)
        sample = struct.pack("<IHH", perf.SAMPLE, perf.IN_USER, 8 + len(body)) + body
        records.feed(sample, 0, len(sample), 0)
    return records


def filled(draw: Any) -> Column:
    code = draw(st.sampled_from(["I", "I", "Q", "Q", "B"]))
    column = Column(code)
    column.extend(column_of(draw, code))
    return column


def batch_of(draw: Any) -> RecordBatch:
    """A batch, a slice of columns of one, or a schema alone."""
    store = store_of(draw)[0]
    rows = Column("I")
    rows.extend(array("I", [0xFFFFFFFF, *range(draw(st.sampled_from([0, 0, 0, 1, 2])))]))
    with suppress(ValueError):
        batch = store.columns(rows, BATCH_NAMES, BATCH_WORDS)
        return RecordBatch(batch.__arrow_c_schema__()) if draw(st.integers(0, 4)) == 0 else batch
    return RecordBatch(None)


def go_tables(draw: Any) -> SimpleNamespace:
    """What a RangeBuilder takes as tables: pc-value tables in which every byte may begin one."""
    table = draw(st.binary(max_size=40)) + b"\2\4\0" * 8
    number = st.integers(0, 50) if draw(st.integers(0, 3)) else ANY_NUMBER
    names = ("lowest_file", "names_size", "names_base", "texts_size", "texts_base")
    return SimpleNamespace(
        pctab=table, file_table=draw(st.binary(max_size=20)), big=False, quantum=draw(st.sampled_from([1, 4])),
        **{name: draw(number) for name in names},
    )  # fmt: skip


def builder_of(draw: Any) -> RangeBuilder:
    functions = attributes(draw, "RangeBuilder.functions", draw(st.integers(0, 4)))
    trees = attributes(draw, "trees") if draw(st.booleans()) else None
    return RangeBuilder(
        functions, go_tables(draw), trees, draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 70)), 99
    )


def growth_of(draw: Any) -> Growth:
    """Return a tree of two stacks; its columns may be smaller than requested."""
    cut = draw(st.sampled_from([0, 0, 0, 1, 5]))

    def room(code: str, size: int) -> array[Any]:
        return array(code, bytes(size * (4 if code == "I" else 8)))[: max(0, size - cut)]

    stacks = array("Q", [0, 2, 3]), array("I", [0, 1, 1]), array("d", [2.0, draw(st.sampled_from([1.0, float("inf")]))])
    locations = array("I", [0, 1, 2]), array("I", [0, 1]), array("I", [0, 1]), array("I", [7, 8])
    return Growth(stacks, locations, 2, draw(st.integers(0, 9)), 9, draw(st.sampled_from([4, 0, -1])), room)


def stream_of(draw: Any) -> event_kernel.Stream:
    """Return events of any bytes; the feed may continue after a fault."""

    class Feed:
        def window(self, used: int, cut: bool) -> Any:
            return draw(st.binary(max_size=20)), *draw(st.sampled_from([(0, 9), (0, 0), (3, 40), (-1, 5)]))

        def fail(self, fault: int, where: int, kind: int) -> None:
            pass

    feed: Any = Feed()
    return event_kernel.Stream(feed, Version.GO1_23, layout(Version.GO1_23), draw(st.booleans()))


def thread_group(draw: Any) -> ThreadGroup:
    """Return threads that are about to be stopped; nothing that can be called from Python stops them."""
    rows = StoppedRows(draw(st.lists(st.integers(0, 9), max_size=3)))
    regions = SimpleNamespace(start=array("Q", [0x1000]), end=array("Q", [0x2000]))
    memory = bytearray(draw(st.integers(0, 64)))
    return ThreadGroup(7, rows, regions, array("Q", bytes(8 * 3)), memory, draw(st.integers(0, 64)), 1 << 16, None)


def program_layout(draw: Any) -> ProgramLayout:
    """Return the addresses of a program of two sections and two contributions."""
    contributions = SimpleNamespace(
        start=array("I", [0x1000, 0x1010]), end=array("I", [0x1008, 0x1020]), module=array("I", [0, 1])
    )
    return ProgramLayout(array("I", [0, 0x1000]), contributions, bytes(draw(st.integers(0, 3))))


def module_reader(draw: Any) -> ModuleReader:
    """Return a reader of modules without types."""
    types = TypeRecords(b"", 0x1000, array("I", [0]))
    names = FunctionNames(types, types, 0, draw(st.integers(0, 99)), draw(st.booleans()))
    flags = [draw(st.booleans()) for _ in range(3)]
    return ModuleReader(program_layout(draw), names, 0, 100, 0, *flags, 7)


def sections_of_archive(draw: Any, data: bytes) -> Any:
    """Where the parts of an archive lie, one of them perhaps elsewhere."""
    with lidia.from_bytes(data) as table:
        sections = table._sections
    result = SimpleNamespace(**{name: getattr(sections, name) for name in sections.__slots__})
    if draw(st.booleans()):
        setattr(result, draw(st.sampled_from(sections.__slots__)), draw(st.one_of(st.integers(-1, 20), ANY_NUMBER)))
    return result


TREE = SimpleNamespace(size=20, name_at=4, parent_width=2, pc_at=8, start_at=-1)  # of nodes of Go's inline trees
MAKERS: dict[str, Callable[[Any], Any]] = {
    "AnswerStore": lambda draw: store_of(draw)[0],
    "Archive": lambda draw: queries_kernel.Archive(ARCHIVE, sections_of_archive(draw, ARCHIVE), 7),
    "BatchColumns": lambda draw: BatchColumns(draw(st.integers(0, 5))),
    "BatchStream": lambda draw: BatchStream(one := batch_of(draw), [one, batch_of(draw)]),
    "CfiTable": lambda _: cfi_kernel.CfiTable(section(b"\x41\x0e\x10\x86\2\x43\x0d\6"), 0x10000, 64, False, False),
    "CodeSymbols": lambda draw: symbols_kernel.CodeSymbols(
        attributes(draw, "CodeSymbols.table"), attributes(draw, "layout")
    ),
    "Column": filled,
    "Decoder": lambda draw: Decoder(
        layout(Version.GO1_23), draw(st.binary(min_size=9)), *(array("Q", [at, at + 3]) for at in (0, 3, 5))
    ),
    "Demangler": lambda draw: Demangler(
        lambda: str.upper, lambda name, limit=9: len(name) < 9, max_name=draw(st.integers(-1, 99)), max_text=9,
        max_references=2, factor=draw(st.integers(-1, 9)), allowance=draw(st.sampled_from([0, 1 << 62])),
    ),
    "DwarfSections": sections_of,
    "Elements": lambda draw: Elements(batch_of(draw), "line"),
    "Event": lambda draw: Event(Version.GO1_23, "GoStart", [1, 2, 3], None, draw(st.sampled_from([None, b"\1\0\2"]))),
    "EventFilter": lambda draw: EventFilter(
        layout(Version.GO1_23), draw(st.binary(min_size=256, max_size=256)), bytes(256), array("Q", [1, 7]), 0, 1 << 60
    ),
    "FrameWalker": lambda draw: FrameWalker(
        old_layout((3, 12), "3.12.1").numbers, draw(ANY_NUMBER), draw(st.booleans())
    ),
    "ModuleReader": module_reader,
    "ProgramLayout": program_layout,
    "FrameColumns": lambda draw: frames_of(draw)[1],
    "Growth": growth_of,
    "IdLists": lambda draw: IdLists(
        (draw(st.binary(min_size=9)), *(array("Q", [at, at + 4]) for at in (0, 4))),
        (array("Q", [1, 2]), array("Q", [0, 1])), 1, 2, 1,
    ),
    "InlineTrees": lambda draw: InlineTrees(
        SimpleNamespace(data=b"tree", base=0, shape=TREE), PcValues(5), False,
    ),
    "Inspection": lambda draw: inspect_kernel.Inspection(ARCHIVE, sections_of_archive(draw, ARCHIVE)),
    "EventLayout": lambda draw: layout.__wrapped__(draw(VERSION)),  # a copy: `add` changes it
    "LineProgramReader": lambda draw: LineProgramReader(
        draw(st.sampled_from(FORGED))["line"], draw(st.binary(max_size=20)), False, 0x1000, draw(st.booleans()),
        draw(st.booleans()),
    ),
    "LineTables": lambda draw: encode_kernel.LineTables(draw(st.sampled_from([2, 4])), 7, 4),
    "LocatedLines": lambda draw: LocatedLines(draw(st.sampled_from([2, 4])), 7),
    "MergePlan": lambda draw: MergePlan(draw(st.integers(0, 12))),
    "Pages": lambda draw: mapped_pages(),
    "PcValues": lambda draw: PcValues(draw(st.integers(0, 70))),
    "FileSplitter": lambda draw: FileSplitter(draw(st.integers(0, 12))),
    "RangeBuilder": builder_of,
    "RangeColumns": lambda draw: RangeColumns(draw(st.integers(0, 9)), 5, draw(st.integers(0, 99))),
    "RecordBatch": batch_of,
    "Records": records_of,
    "Replay": lambda draw: Replay(records_of(draw), 7),
    "Replies": lambda draw: Replies(
        queries_kernel.Archive(ARCHIVE, sections_of_archive(draw, ARCHIVE), 7), draw(st.sampled_from([b"", b"a b"])),
        array("Q", [0, 0x1000]), lambda place: (draw(ANY_NUMBER), b"name", b""), bytes.upper, (b"\n", b"", 1),
    ),
    "ScopeReader": lambda draw: ScopeReader(some := sections_of(draw), some, 0, draw(st.booleans()), array("Q")),
    "Stream": stream_of,
    "StoredRows": lambda draw: inspect_kernel.StoredRows(ARCHIVE, sections_of_archive(draw, ARCHIVE)),
    "Sweep": lambda _: Sweep(),
    "SymbolQueries": lambda draw: symbols_kernel.SymbolQueries(array("Q", [0x1000, 5]), array("Q", [0, 0])),
    "Texts": lambda draw: frames_of(draw)[2],
    "ThreadGroup": thread_group,
    "UnitRangeColumns": lambda draw: UnitRangeColumns(some := sections_of(draw), units_of(some), b""),
    "VariableReader": lambda draw: VariableReader(some := sections_of(draw), some),
    "Walker": lambda draw: walk_kernel.Walker(X86_64, draw(st.sampled_from(["little", "big"]))),
}  # fmt: skip


def mapped_pages() -> Pages:
    with open(__file__, "rb") as file:
        return Pages(file.fileno())


def made(draw: Any, kind: Any) -> Any:
    """Return an object of a kernel's class: mostly valid, sometimes made from any values."""
    name = NAME_OF[kind].rpartition(".")[2]
    if name in MAKERS and draw(st.integers(0, 3)):
        return MAKERS[name](draw)
    size = draw(st.sampled_from([None, 0, 1, 4, 12]))
    return kind(*[argument(draw, f"{NAME_OF[kind]}.{one}", of, size) for one, of in CLASSES[NAME_OF[kind]].constructor])


def called(draw: Any, name: str, entry: Callable[..., Any], arguments: list[Argument]) -> bool:
    """Whether a call was more than refused for the kind of a value."""
    size = draw(st.sampled_from([None, 0, 1, 4, 12]))
    try:
        entry(*[argument(draw, f"{name}.{one}", kind, size) for one, kind in arguments])
    except (TypeError, AttributeError):
        return False
    except (*REFUSED, MemoryError, StopIteration, OSError):
        pass
    return True


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """Limit the memory of these tests, so that a call that requests more fails."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@many
@given(st.data())
def test_an_entry_of_a_kernel_refuses_columns_that_do_not_belong_together(name: str, data: st.DataObject) -> None:
    survives(called, data.draw, name, *FUNCTIONS[name], refused=())


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_an_object_of_a_kernel_refuses_what_does_not_belong_to_it(name: str) -> None:
    """Constructors and methods with any values, in any order; most are reached with values of the right kinds."""
    kind, _, methods = CLASSES[name]
    columns = [key for key in dir(kind) if not key.startswith("_")]
    reached = set()

    @settings(many, max_examples=max(EXAMPLES // 3, 20))
    @given(st.data())
    def calls(data: st.DataObject) -> None:
        one = None
        for _ in range(9):  # some of any values are of the right kinds
            with suppress(*REFUSED, MemoryError, StopIteration, OSError):
                one = made(data.draw, kind)
                break
        if one is None:
            return
        reached.add("")
        for method in data.draw(st.permutations(sorted(methods))):
            if not callable(getattr(kind, method)):
                getattr(one, method)
                reached.add(method)
            elif called(data.draw, f"{name}.{method}", getattr(one, method), methods[method]):
                reached.add(method)
        for key in data.draw(st.lists(st.sampled_from(columns), max_size=2)) if columns else []:
            with suppress(*REFUSED, MemoryError):
                if isinstance(column := getattr(one, key), Column):
                    column.extend(bytes(4096))

    calls()
    assert "" in reached
    assert 2 * len(reached) > len(methods)


def test_every_kernel_has_entries_that_are_called() -> None:
    """An installed whence has no sources of kernels: these tests read them from the tree."""
    assert len(FUNCTIONS) > 60
    assert {"dwarf", "gopclntab", "gotrace", "columns", "unwind", "perfdata", "lidia"} <= {
        one.split(".")[0] for one in CLASSES
    }


@pytest.mark.parametrize("name", sorted(set(CLASSES) - {"gotrace.kernels.event.Event"}))
def test_no_object_of_a_kernel_is_there_before_it_is_made(name: str) -> None:
    """`__new__` alone makes nothing half, and `__init__` again changes nothing: what is made is made in `__cinit__`."""
    kind = CLASSES[name].kind
    assert "__init__" not in vars(kind)
    if CLASSES[name].constructor:
        with suppress(TypeError):
            repr(kind.__new__(kind))


@many
@given(st.data())
def test_kernels_of_symbols_and_archives_refuse_columns_of_different_lengths(data: st.DataObject) -> None:
    columns, numbered = attributes(data.draw, "Survey.columns"), attributes(data.draw, "RangeEncoder.columns")
    tables = SimpleNamespace(
        entries=column_of(data.draw, "B"), names=column_of(data.draw, "B"), extended=column_of(data.draw, "B")
    )
    vaddrs, starts, offsets = (column_of(data.draw, "Q") for _ in range(3))
    low, high, width = data.draw(NUMBER), data.draw(NUMBER), data.draw(st.sampled_from([2, 4, 8, 0, 3]))

    def symbols() -> None:
        table = symbols_kernel.CodeSymbols(tables, attributes(data.draw, "layout"))
        queries = symbols_kernel.SymbolQueries(vaddrs, starts)
        queries.find_starts(table)
        candidates = symbols_kernel.Candidates(data.draw(st.integers(0, 20)))
        candidates.collect(table, 1 << 48, 3, 2, data.draw(st.integers(0, 1 << 20)), queries)
        candidates.resolve_overlaps()

    def written() -> None:
        encoded = encode_kernel.RangeEncoder(numbered, offsets, True)
        encoded.va_table(low, high, width)
        encoded.range_table(low, high, width)

    def interned() -> None:
        names = SimpleNamespace(**{key: column_of(data.draw, "Q") for key in ("function", "file", "call_file")})
        strings_kernel.Interner([bytes(tables.names)], data.draw(st.booleans()), 7, 1 << 20).number(names, True)

    for ask in (
        symbols,
        written,
        interned,
        lambda: encode_kernel.Survey(columns, True),
        lambda: encode_kernel.LineTables(width, 7, 4).add(columns, data.draw(st.booleans())),
    ):
        survives(ask, refused=(ValueError, OverflowError, MemoryError))


@many
@given(st.data(), st.binary(max_size=200))
def test_sections_outside_of_an_archive_are_refused(data: st.DataObject, archived: bytes) -> None:
    location = st.one_of(st.integers(0, 20), ANY_NUMBER)
    sections = SimpleNamespace(**{name: data.draw(location) for name in ArchiveSections.__slots__})
    sections.nul, sections.tidy = data.draw(st.booleans()), False
    for width in ("va_width", "field_width", "line_width", "column_width"):
        setattr(sections, width, data.draw(st.sampled_from([2, 4, 8, 8, 0, -4, 3])))
    for kind in (inspect_kernel.StoredRows, inspect_kernel.Inspection):
        survives(kind, archived, sections, refused=(ValueError, OverflowError))
    archive = survives(queries_kernel.Archive, archived, sections, 7, refused=(ValueError, OverflowError))
    if archive is not None:
        survives(archive.find_frames, column_of(data.draw, "Q"), 0, refused=(ValueError, OverflowError))


@many
@given(st.data(), st.binary(max_size=300), st.booleans(), ANYTHING)
def test_call_frame_information_of_any_bytes_is_refused_or_compiled(
    data: st.DataObject, content: bytes, is_debug: bool, anything: Any
) -> None:
    number = st.one_of(st.integers(-1, 5), ANYTHING)
    numbers = [data.draw(number) for _ in range(3)]
    survives(cfi_kernel.CfiTable, anything, *numbers, is_debug, refused=REFUSED)
    form = data.draw(st.sampled_from([section(bytes.fromhex("41 0e10 8602 0a 43 0d06 0b c6")), content]))
    table = cfi_kernel.CfiTable(form + content, data.draw(ANY_NUMBER) & 0xFFFF, 64, False, is_debug)
    for ask in (
        lambda: table.set_header(data.draw(st.binary(max_size=40)), data.draw(number)),
        lambda: table.set_header(b"\1\x1b\3\x3b" + content, 0x10000),
        lambda: table.set_code(column_of(data.draw, "Q"), column_of(data.draw, "Q")),
        lambda: table.set_base(data.draw(number), data.draw(number)),
        lambda: table.find(data.draw(number)),
        lambda: table.find(CODE),
        table.scanned,
        table.listed_problems,
        *(
            lambda name=name: getattr(table, name)(data.draw(number))
            for name in ("entry", "compile", "rows_of", "state_of", "cie", "entry", "compile", "rows_of", "state_of")
        ),
        table.compile_all,
    ):
        survives(ask, refused=REFUSED)


@many
@given(st.data(), st.binary(max_size=80))
def test_walks_of_any_registers_and_memory_are_refused_or_end(data: st.DataObject, stack: bytes) -> None:
    number = st.one_of(st.integers(-1, 40), st.sampled_from([CODE, CODE + 3, 0x7000]), ANY_NUMBER)
    walker = walk_kernel.Walker(X86_64, "little")
    table = cfi_kernel.CfiTable(section(bytes.fromhex("41 0e10 8602 43 0d06")), 0x10000, 64, False, False)
    samples = SimpleNamespace(
        stack=stack,
        numbers=column_of(data.draw, "I"),
        **{name: column_of(data.draw, "Q") for name in ("pc", "values", "stack_start", "stack_at", "stack_size")},
    )
    some = array("Q", [0x7000, 0, len(stack)])
    plain = SimpleNamespace(
        stack=stack, numbers=array("I", [7, 6]), pc=array("Q", [CODE]), values=array("Q", [0x7000, 0x7010]),
        stack_start=some[:1], stack_at=some[1:2], stack_size=some[2:],
    )  # fmt: skip
    result = SimpleNamespace(pc=Column("Q"), end=column_of(data.draw, "Q"), how=bytearray(data.draw(st.integers(0, 3))))
    good = SimpleNamespace(pc=Column("Q"), end=array("Q", [0]), how=bytearray(1))
    for ask in (
        lambda: walker.add_mapping(data.draw(number), data.draw(number)),
        lambda: walker.add_mapping(CODE, CODE + 0x1000),
        lambda: walker.walk_samples(plain, good, 0, 9),
        lambda: walker.set_module(data.draw(number), data.draw(number), [table]),
        lambda: walker.set_module(0, 0, [table]),
        lambda: walker.set_module(0, 0, data.draw(ANYTHING)),
        lambda: walker.add_segment(data.draw(number), data.draw(ANYTHING)),
        lambda: walker.add_segment(0x7000, stack),
        lambda: walker.set_stack(data.draw(number), stack),
        lambda: walker.begin(data.draw(number), True, True, data.draw(number), {7: 0x7000, 6: data.draw(number)}),
        lambda: walker.begin(CODE, True, True, 0x7000, data.draw(st.dictionaries(number, number, max_size=4))),
        lambda: walker.resume(data.draw(st.integers(-2, 20))),
        walker.frame,
        lambda: walker.walk_samples(samples, result, data.draw(number), 9),
        lambda: walker.walk_samples(plain, good, 0, data.draw(st.integers(-2, 20))),
        lambda: walk_kernel.Walker(data.draw(ANYTHING), "big"),
    ):
        survives(ask, refused=REFUSED)


@many
@given(st.data(), st.binary(max_size=60), st.integers(0, 3))
def test_lists_of_ids_are_read_into_the_room_there_is_or_refused(data: st.DataObject, raw: bytes, values: int) -> None:
    """What `check` counted is what `read` fills, for any bytes and any table of ids."""
    ids = column_of(data.draw, "Q")
    order = array("Q", sorted(range(len(ids)), key=ids.__getitem__)) if data.draw(st.booleans()) else ids
    middle = data.draw(st.integers(0, len(raw)))
    starts, ends = array("Q", [0, middle]), array("Q", [middle, data.draw(st.sampled_from([len(raw), 1 << 40]))])
    with suppress(*REFUSED):
        lists = IdLists((raw, starts, ends), (ids, order), 1, 2, values)
        kept, _ = lists.check()
        room = data.draw(st.sampled_from([max(kept, 0), 0, 3]))
        first, stack, out = array("Q", [0] * 3), array("I", [0] * room), array("q", [0] * 2 * values)
        if lists.read(first, stack, out):
            assert first[2] == kept <= room
            assert all(one < len(ids) for one in stack[:kept])
        stack.append(1)  # nothing holds on to the columns
