"""Values that Python hands to the kernels: whatever they are, the answer is an answer or an exception.

A fault in memory may go unseen here; `make sanitized` runs these tests with kernels under AddressSanitizer.
WHENCE_EXAMPLES says how many examples of each there are.
"""

from __future__ import annotations

import importlib
import io
import os
from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whence
from tests.forge.cfi import CODE, section
from whence import lidia
from whence.dwarf.kernels import units as units_kernel
from whence.dwarf.kernels.units import WIDTH, DwarfSections
from whence.elf.kernels import symbols as symbols_kernel
from whence.errors import WhenceError
from whence.gotrace import Event, Version
from whence.gotrace.kernels import event as event_kernel
from whence.gotrace.kernels.batches import BatchColumns
from whence.gotrace.kernels.layout import Layout
from whence.gotrace.specs import layout
from whence.kernels.columns import Column
from whence.lidia.kernels import encode as encode_kernel
from whence.lidia.kernels import inspect as inspect_kernel
from whence.lidia.kernels import queries as queries_kernel
from whence.lidia.kernels import strings as strings_kernel
from whence.lidia.render import Renderer
from whence.mapped import MappedFile
from whence.model import Source
from whence.procmap.maps import parse
from whence.profiles.kernels.wire import IdLists
from whence.ranges import Ranges, Rows, Scopes, StringSpace
from whence.ranges.merge import merge
from whence.ranges.overlay import overlay_groups
from whence.unwind.kernels import cfi as cfi_kernel
from whence.unwind.kernels import walk as walk_kernel
from whence.unwind.registers import X86_64

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
    with suppress(*REFUSED):
        event = Event(version, kind, args, data, padding)
        event.encode()


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
    made = Layout()
    for kind, (count, flag) in enumerate(zip(counts, flags)):
        with suppress(*REFUSED):
            made.add(kind, b"Name%d" % kind, count, flag, [b"word "] * count)

    waiting = iter(windows)

    class Feed:
        def window(self, used: int, cut: bool) -> Any:
            return (data, *next(waiting, (0, 0)))

        def fail(self, fault: int, where: int, kind: int) -> None:
            raise ValueError

    feed: Any = Feed()
    for events in (made, layout(Version.GO1_23)):
        with suppress(*REFUSED):
            for _ in event_kernel.Stream(feed, Version.GO1_23, events, True):
                pass


@many
@given(tables(), st.sampled_from([{}, {"strings": "nul"}, {"compat": "go"}, {"lines": False, "files": False}]))
def test_a_table_of_any_columns_is_refused_or_written_as_an_archive(ranges: Ranges, options: dict[str, Any]) -> None:
    with suppress(*REFUSED):
        out = io.BytesIO()
        lidia.write(ranges, out, **options)
        with lidia.from_bytes(out.getvalue()) as table:
            list(table)


@many
@given(st.lists(tables(), max_size=3))
def test_tables_of_any_columns_are_refused_or_merged(several: list[Ranges]) -> None:
    for table in several[1:]:
        table.strings = several[0].strings
    with suppress(*REFUSED):
        merge(several)


@many
@given(st.data())
def test_scopes_and_rows_of_any_columns_are_refused_or_overlaid(data: st.DataObject) -> None:
    even = data.draw(st.booleans())
    scopes, rows = fill(data.draw, Scopes(), even), fill(data.draw, Rows(), even)
    ends = data.draw(columns("I", 4)) if not even else array("I", [len(scopes)])
    row_ends = data.draw(columns("I", 4)) if not even else array("I", [len(rows)])
    out = Ranges(StringSpace())
    with suppress(*REFUSED):
        overlay_groups(scopes, ends, rows, row_ends, out, Source.DWARF)


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
            with suppress(*REFUSED):
                ask()


@many
@given(st.data(), st.sampled_from(["_function_at", "_file_at", "line", "range_index", "starts", "_source"]))
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
            with suppress(*REFUSED):
                ask()


@many
@given(st.lists(st.tuples(*[ANYTHING] * 4), max_size=6))
def test_ranges_of_any_values_are_refused_or_built(rows: list[tuple[Any, Any, Any, Any]]) -> None:
    builder = lidia.Builder()
    with suppress(*REFUSED):
        for vaddr, length, depth, table in rows:
            builder.add(lidia.Range(vaddr=vaddr, length=length, function="f", depth=depth, line_table=table))
        with lidia.from_bytes(builder.to_bytes()) as archive:
            list(archive)


@many
@given(st.binary(max_size=200), ANY_NUMBER)
def test_any_text_is_parsed_as_maps_or_refused(text: bytes, wanted: int) -> None:
    with suppress(*REFUSED):
        parse(text, "/proc/7", wanted)


@many
@given(ANY_NUMBER, ANY_NUMBER)
def test_any_part_of_a_mapped_file_may_be_forgotten(start: int, stop: int) -> None:
    with open(__file__, "rb") as file:
        mapped = MappedFile(file.fileno(), __file__, WhenceError)  # type: ignore[arg-type]
    with suppress(*REFUSED):
        mapped.forget(start, stop)
    assert bytes(mapped.view[:3]) == b'"""'


# Entries of kernels, called with columns that do not belong together

ROOMS = [
    "elf", "ranges", "lidia", "filter", "profiles", "profiles/flamegraph", "profiles/perfdata", "dwarf", "gopclntab",
    "gotrace", "unwind",
]  # fmt: skip
VIEWS = {"uchar": "B", "uint": "I", "ulonglong": "Q", "longlong": "q", "double": "d"}  # item types and typecodes
NUMBERS = ("Py_ssize_t", "longlong", "ulonglong", "int", "uint", "bint")
MADE = {  # classes that are made of a few numbers, and columns that entries take as attributes of one object
    "ranges.kernels.merge.Plan": 2,
    "ranges.kernels.caller_files.Pieces": 1,
    "ranges.kernels.overlay.Sweep": 3,
}
GO_FUNCTIONS = {
    "entry": "Q", "end": "Q", "tree": "Q", "name": "I", "pcsp": "I", "pcfile": "I", "pcln": "I", "cu": "I",
    "pcinl": "I", "start": "I",
}  # fmt: skip
OBJECTS = {
    "elf.kernels.symbols.read.columns": {
        "name_offset": "I", "value": "Q", "size": "Q", "info": "B", "other": "B", "section": "I"
    },
    "elf.kernels.relocate.apply.rules": {"section_vaddr": "Q", "kinds": "B"},
    "profiles.kernels.splice.splice.new": {"first": "Q", "functions": "Q", "lines": "Q", "flags": "B"},
    "gopclntab.kernels.functions.read.columns": GO_FUNCTIONS,
    "gopclntab.kernels.functions.rows_holding.columns": GO_FUNCTIONS,
    "layout": {
        "section_start": "Q", "section_end": "Q", "section_kind": "B", "range_start": "Q", "range_end": "Q",
        "descriptors": "B",
    },
    "ranges": {
        "vaddr": "Q", "length": "Q", "depth": "I", "function": "I", "file": "I", "line_index": "I", "line_count": "I",
        "call_file": "I", "call_line": "I", "line_offset": "I", "line_number": "I",
    },
}  # fmt: skip


def entries() -> dict[str, Callable[..., Any]]:
    """Every function of the rooms' kernels, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for room in ROOMS:
        for source in sorted((Path(whence.__file__).parent / room / "kernels").glob("*.py")):
            name = f"{room.replace('/', '.')}.kernels.{source.stem}"
            if source.stem == "__init__":
                continue
            module = importlib.import_module(f"whence.{name}")
            for attribute, value in vars(module).items():
                if type(value).__name__ == "cython_function_or_method" and not attribute.startswith("__"):
                    found[f"{name}.{attribute}"] = value
    return found


ENTRIES = entries()


def column_of(draw: Any, code: str) -> array[Any]:
    """A column: small numbers, which are likely to be places of others, or any; each of a length of its own."""
    size = draw(st.sampled_from([0, 1, 4, 5, 12, 64]))
    if code == "d":
        return array("d", draw(st.lists(st.floats(), min_size=size, max_size=size)))
    bits = {"B": 8, "I": 32, "Q": 64, "q": 63}[code]
    number = st.integers(0, 6) if draw(st.booleans()) else NUMBER.map(lambda value: value & ((1 << bits) - 1))
    numbers = draw(st.lists(number, min_size=size, max_size=size))
    return array(code, sorted(numbers) if draw(st.booleans()) else numbers)


def argument(draw: Any, name: str, kind: str) -> Any:
    """A value of an argument of a kernel's entry, by its annotation."""
    for item, code in VIEWS.items():
        if kind.endswith("[::1]") and f"cython.{item}]" in kind.replace("[::1]", "]"):
            return column_of(draw, code)
    if kind.removeprefix("cython.") in NUMBERS:
        return draw(st.one_of(st.integers(0, 20), st.integers(0, 20), ANY_NUMBER))
    if kind in BUILT:
        return BUILT[kind](draw)
    if name in OBJECTS:
        return attributes(draw, name)
    return draw(ANYTHING)


def sections_of(draw: Any) -> DwarfSections:
    """Debug info of any bytes, most of which look like units; with a unit table, where one is taken."""
    unit = b"\x08\0\0\0\x04\0\0\0\0\0\x08\x01"
    pieces = st.lists(st.sampled_from([unit, b"\0" * 12, b"\xff" * 12, b"\1\x11\1\x03\x08\0\0\0"]), max_size=4)
    names = ("info", "abbrev", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists")
    views = SimpleNamespace(**{f"debug_{name}": memoryview(b"".join(draw(pieces))) for name in names})
    sections = DwarfSections(views, (0, 1 << 48, 2 << 48), draw(st.booleans()), array("Q", [0, 1 << 40]))
    if draw(st.booleans()):
        rows = array("Q", bytes(8 * WIDTH * 4))
        units_kernel.read_headers(sections, rows, 0, 4)
        sections.set_units(rows)
    else:
        with suppress(ValueError):
            sections.set_units(array("Q", [draw(NUMBER) for _ in range(WIDTH)]))
    return sections


BUILT: dict[str, Callable[[Any], Any]] = {
    "DwarfSections": sections_of,
    "Optional[DwarfSections]": lambda draw: sections_of(draw) if draw(st.booleans()) else None,
    "Layout": lambda draw: layout(draw(VERSION)),
    "BatchColumns": lambda draw: BatchColumns(draw(st.integers(0, 5))),
}


def attributes(draw: Any, name: str) -> Any:
    numbers = dict.fromkeys(
        ("elf64", "big", "mips64", "machine", "relative", "descriptors_section", "location", "line", "line_function",
         "line_line", "mapping", "flag", "functab", "count", "field", "records", "cu_at", "last_at", "wide_last",
         "pcdata", "funcdata", "pointer", "start_at"),
        draw(st.integers(0, 8)),
    )  # fmt: skip
    return SimpleNamespace(**numbers, **{key: column_of(draw, code) for key, code in OBJECTS[name].items()})


def called(draw: Any, name: str, entry: Callable[..., Any]) -> None:
    hints = {key: kind for key, kind in entry.__annotations__.items() if key != "return"}
    code: Any = entry.__code__
    names = [one for one in code.co_varnames[: code.co_argcount] if one != "self"]
    with suppress(*REFUSED, MemoryError):
        entry(*[argument(draw, one if one in hints else f"{name}.{one}", hints.get(one, "")) for one in names])


@pytest.mark.parametrize("name", sorted(ENTRIES))
@many
@given(st.data())
def test_an_entry_of_a_kernel_refuses_columns_that_do_not_belong_together(name: str, data: st.DataObject) -> None:
    called(data.draw, name, ENTRIES[name])


@pytest.mark.parametrize("name", sorted(MADE))
@many
@given(st.data())
def test_a_kernels_object_refuses_columns_that_it_has_no_room_for(name: str, data: st.DataObject) -> None:
    module, _, kind = name.rpartition(".")
    with suppress(*REFUSED, MemoryError):
        one = getattr(importlib.import_module(f"whence.{module}"), kind)(
            *[data.draw(st.integers(-1, 20)) for _ in range(MADE[name])]
        )
        for _ in range(4):
            method = data.draw(st.sampled_from([key for key in dir(one) if not key.startswith("_")]))
            if callable(getattr(one, method)):
                called(data.draw, name, getattr(one, method))


@many
@given(st.data())
def test_kernels_of_symbols_and_archives_refuse_columns_of_different_lengths(data: st.DataObject) -> None:
    columns = attributes(data.draw, "ranges")
    tables = SimpleNamespace(
        entries=column_of(data.draw, "B"), names=column_of(data.draw, "B"), extended=column_of(data.draw, "B")
    )
    vaddrs, starts, offsets = (column_of(data.draw, "Q") for _ in range(3))
    low, high, width = data.draw(NUMBER), data.draw(NUMBER), data.draw(st.sampled_from([2, 4, 8, 0, 3]))

    def symbols() -> None:
        table = symbols_kernel.CodeSymbols(tables, attributes(data.draw, "layout"))
        queries = symbols_kernel.Queries(vaddrs, starts)
        queries.find_starts(table)
        candidates = symbols_kernel.Candidates(data.draw(st.integers(0, 20)))
        candidates.collect(table, 1 << 48, 3, 2, data.draw(st.integers(0, 1 << 20)), queries)
        candidates.resolve_overlaps()

    def written() -> None:
        encoded = encode_kernel.Ranges(columns, offsets, True)
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
        with suppress(*REFUSED, MemoryError):
            ask()


SECTIONS = "va_offset ranges range_offset string_offset string_size line_offset entries source_offset run_offset runs"


@many
@given(st.data(), st.binary(max_size=200))
def test_sections_outside_of_an_archive_are_refused(data: st.DataObject, archived: bytes) -> None:
    place = st.one_of(st.integers(0, 20), ANY_NUMBER)
    names = [*SECTIONS.split(), "start_offset", "starts", "sources"]
    sections = SimpleNamespace(**{name: data.draw(place) for name in names}, nul=data.draw(st.booleans()), tidy=False)
    for width in ("va_width", "field_width", "line_width"):
        setattr(sections, width, data.draw(st.sampled_from([2, 4, 8, 8, 0, -4, 3])))
    for kind in (inspect_kernel.StoredRows, inspect_kernel.Inspection):
        with suppress(*REFUSED):
            kind(archived, sections)
    with suppress(*REFUSED):
        archive = queries_kernel.Archive(archived, sections, 7)
        archive.find_frames(column_of(data.draw, "Q"), 0)


@many
@given(st.data(), st.binary(max_size=300), st.booleans(), ANYTHING)
def test_call_frame_information_of_any_bytes_is_refused_or_compiled(
    data: st.DataObject, content: bytes, is_debug: bool, anything: Any
) -> None:
    number = st.one_of(st.integers(-1, 5), ANYTHING)
    with suppress(*REFUSED):
        cfi_kernel.CfiTable(anything, data.draw(number), data.draw(number), data.draw(number), is_debug)
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
        table.told,
        *(
            lambda name=name: getattr(table, name)(data.draw(number))
            for name in ("entry", "compile", "rows_of", "state_of", "cie", "entry", "compile", "rows_of", "state_of")
        ),
        table.compile_all,
    ):
        with suppress(*REFUSED):
            ask()


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
    found = SimpleNamespace(pc=Column("Q"), end=column_of(data.draw, "Q"), how=bytearray(data.draw(st.integers(0, 3))))
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
        lambda: walker.walk_on(data.draw(st.integers(-2, 20))),
        walker.frame,
        lambda: walker.walk_samples(samples, found, data.draw(number), 9),
        lambda: walker.walk_samples(plain, good, 0, data.draw(st.integers(-2, 20))),
        lambda: walk_kernel.Walker(data.draw(ANYTHING), "big"),
    ):
        with suppress(*REFUSED):
            ask()


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
        held, _ = lists.check()
        room = data.draw(st.sampled_from([max(held, 0), 0, 3]))
        first, stack, out = array("Q", [0] * 3), array("I", [0] * room), array("q", [0] * 2 * values)
        if lists.read(first, stack, out):
            assert first[2] == held <= room
            assert all(one < len(ids) for one in stack[:held])
        stack.append(1)  # nothing holds on to the columns
