"""Reader and writer of pprof profiles: perftools.profiles.Profile, in gzip or plain.

    read     checks every index and id of the profile; decodes mappings, locations and frames at once, samples on demand
    write    a profile read from pprof: the same bytes with new lines of locations, and new functions and strings
             appended; any other profile: all of its tables

Lines of a location are innermost first, the function they are all inlined into last. An address is a byte of the
instruction itself: the recorder adjusts callers, so nothing is subtracted here.
Reference: github.com/google/pprof, proto/profile.proto.

>>> from whence.samples.model import Mapping, ProfileData, SampleType
>>> profile = ProfileData([SampleType("cpu", "nanoseconds")], [Mapping(0x400000, 0x500000, 0, "/bin/app", "ab12")])
>>> profile.samples.add([profile.location(0, 0x401000)], [7])
>>> again = read(write(profile))
>>> again.mappings[0].path, hex(again.address[0]), again.samples.values[0][0]
('/bin/app', '0x401000', 7)
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from itertools import count, pairwise

from whence._base import cores
from whence._base.budget import Budget
from whence._base.errors import ProfileError, shown
from whence._base.model import Frame, Frames
from whence._base.records import Record
from whence.kernels.rows import numbered, taken
from whence.lidia.chains import u32_array, u64_array
from whence.profiles.formats import gz
from whence.profiles.formats.schema import PPROF, Document
from whence.samples import bounds, wire
from whence.samples.chains import ALL_KINDS, HAS_FILE, HAS_LINE, IS_INLINED, Chains, FunctionColumns
from whence.samples.kernels import encode as encode_kernel
from whence.samples.kernels.fields import NO_ROOM
from whence.samples.kernels.stacks import count_up
from whence.samples.kernels.wire import IdLists
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, Samples, SampleType
from whence.samples.wire import Ids, Messages, NewNames

# Fields that are indices into string_table
TEXTS = {
    "ValueType": ("type", "unit"),
    "Mapping": ("filename", "build_id"),
    "Function": ("name", "system_name", "filename"),
    "Label": ("key", "str", "num_unit"),
}
TABLES = ("sample_type", "sample", "mapping", "location", "function", "string_table")
PART_BYTES = 1 << 20  # of samples, checked by one thread
TEXTS_OF_PROFILE = ("drop_frames", "keep_frames", "default_sample_type", "doc_url")


class PprofOrigin(Record):
    """The bytes a pprof profile was read from, and its tables."""

    data: bytes
    compressed: bool
    message: Messages
    strings: Messages
    function_ids: Ids

    def __repr__(self) -> str:
        return f"<PprofOrigin: {len(self.data):,} bytes>"


def read(data: bytes, *, compressed: bool = False, budget: Budget | None = None) -> ProfileData:
    """Read a profile, which may be gzip. Raises ProfileError.

    `compressed`: the caller decompressed `data`, and it is compressed again when the profile is written; `budget` is
    that of the stored bytes.
    """
    plain, compressed, budget = gz.plain_bytes(data, compressed=compressed, budget=budget)
    message = Messages.from_bytes(plain, "profile", budget)
    types, samples, mappings, locations, functions, strings = PPROF.parts(message, "Profile", *TABLES)
    if not len(strings):
        raise ProfileError("string_table", None, 'the table is empty; its first string must be ""')
    if strings.raw(0):
        raise ProfileError("string_table", None, f'the first string is "{shown(strings.text(0))}", must be ""')
    tables = PprofTables(strings)
    budget.charge(bounds.TYPE * len(types) + bounds.MAPPING * len(mappings))
    (function_ids,) = PPROF.columns(functions, "Function", "id")
    origin = PprofOrigin(plain, compressed, message, strings, tables.ids(function_ids, "function"))
    profile = ProfileData(origin=origin)
    text = strings.text
    profile.sample_types = tables.types(types)
    mapping_ids, *rows = tables.columns(
        mappings, "Mapping", "id", "memory_start", "memory_limit", "file_offset", "filename", "build_id"
    )
    profile.mappings = [
        Mapping(start, end, offset, text(path), text(build_id))
        for start, end, offset, path, build_id in zip(*rows, strict=True)
    ]
    location_ids, mappings_of, profile.address = PPROF.columns(locations, "Location", "id", "mapping_id", "address")
    ids = tables.ids(location_ids, "location")
    profile.mapping = _mappings(mappings_of, tables.ids(mapping_ids, "mapping"))
    profile.frames = [()] * len(locations)
    _names(profile, locations, functions, tables, origin.function_ids)
    _read_header(profile, tables, message)
    profile.stored = bounds.stored(budget)
    kinds = len(profile.sample_types)
    lists = _lists(samples, ids, kinds)
    entries, has_labels = _checked(samples, ids, kinds, lists)
    if entries < 0:
        _raise_for_samples(samples, ids, kinds)
    labels = PPROF.inside(samples if has_labels else samples.empty(), "Sample", "label")
    label_columns = tables.columns(labels, "Label", "key", "str", "num", "num_unit")
    profile.load = lambda: _samples(kinds, samples, lists, entries, labels, label_columns, strings)
    return profile


def write(profile: ProfileData, *, compress: bool | None = None) -> bytes:
    """Return the profile as pprof; in gzip, unless it was read from plain bytes or `compress` is false."""
    origin = profile.unchanged_origin
    if isinstance(origin, PprofOrigin):
        plain: bytes | memoryview = renamed(profile, origin.message, origin.strings, origin.function_ids.ids)
        compress = origin.compressed if compress is None else compress
    else:
        plain = encoded(profile)
    return gz.deflated(plain) if compress or compress is None else bytes(plain)


class PprofTables:
    """The tables of a profile as columns, with checked indices into string_table."""

    def __init__(self, strings: Messages) -> None:
        self.strings = strings

    def columns(self, messages: Messages, kind: str, *fields: str) -> list[array[int]]:
        columns = PPROF.columns(messages, kind, *fields)
        for name, column in zip(fields, columns, strict=True):
            if name in TEXTS[kind]:
                wire.check_string_indices(column, len(self.strings), messages.part, name)
        return columns

    def types(self, messages: Messages) -> list[SampleType]:
        text = self.strings.text
        types, units = self.columns(messages, "ValueType", "type", "unit")
        return [SampleType(text(type), text(unit)) for type, unit in zip(types, units, strict=True)]

    def ids(self, column: array[int], part: str) -> Ids:
        self.strings.budget.charge(bounds.ID * len(column))
        return Ids(column, part)


def _mappings(ids: array[int], mapping_ids: Ids) -> array[int]:
    """Return the index of the mapping of each location, by its id; NO_MAPPING for 0."""
    nonzero = array("Q", filter(None, ids))
    indices = mapping_ids.positions(nonzero, "location", "mapping_id")
    if len(nonzero) == len(ids):
        return array("q", indices)
    rest = iter(indices)
    return array("q", (next(rest) if id else NO_MAPPING for id in ids))


def _names(
    profile: ProfileData, locations: Messages, functions: Messages, tables: PprofTables, function_ids: Ids
) -> None:
    """Decode the frames of locations with lines. The functions are checked in any case."""
    columns = tables.columns(functions, "Function", "name", "system_name", "filename", "start_line")
    lines = PPROF.inside(locations, "Location", "line")
    if not len(lines):
        return
    lines.budget.charge(bounds.FRAME * len(lines))
    ids, numbers = PPROF.columns(lines, "Line", "function_id", "line")
    text = tables.strings.text
    names: dict[int, tuple[str, str, int]] = {}
    previous = -1
    chain: list[Frame] = []
    frames: list[Frames] = profile.frames
    indices = function_ids.positions(ids, "line", "function_id")
    for parent, function, line in zip(lines.parent, indices, numbers, strict=True):
        if parent != previous:
            if chain:
                frames[previous] = _chain(chain)
            chain = []
            previous = parent
        if function not in names:
            name, system, file, start = (column[function] for column in columns)
            names[function] = text(name or system), text(file), max(0, _signed(start))
        name_text, file_text, start = names[function]
        chain.append(Frame(name_text, file_text, line if line < 1 << 63 else 0, True, start_line=start))
    frames[previous] = _chain(chain)


def _chain(chain: list[Frame]) -> Frames:
    chain[-1] = chain[-1]._replace(inlined=False)
    return tuple(chain)


def _read_header(profile: ProfileData, tables: PprofTables, message: Messages) -> None:
    """Decode times, period, comments and the default sample type."""
    strings = tables.strings
    comments, _ = PPROF.lists(message, "Profile", "comment")
    wire.check_string_indices(comments, len(strings), "comment", "index")
    numbers = ("time_nanos", "duration_nanos", "period")
    columns = PPROF.columns(message, "Profile", *numbers, *TEXTS_OF_PROFILE)  # one scan of the whole profile
    values = {name: column[0] for name, column in zip((*numbers, *TEXTS_OF_PROFILE), columns, strict=True)}
    for name in TEXTS_OF_PROFILE:
        if values[name] >= len(strings):
            problem = f"index {values[name]} is out of range: string_table has {len(strings)} strings"
            raise ProfileError(name, None, problem)
    profile.comments = [strings.text(index) for index in comments]
    profile.time_ns, profile.duration_ns, profile.period = (_signed(values[name]) for name in numbers)
    profile.period_type = (tables.types(PPROF.inside(message, "Profile", "period_type")) or [SampleType("", "")])[-1]
    default = strings.text(values["default_sample_type"])
    names = [kind.type for kind in profile.sample_types]
    profile.default_type = names.index(default) if default in names else max(0, len(names) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _checked(samples: Messages, ids: Ids, kinds: int, lists: IdLists) -> tuple[int, int]:
    """Return the number of locations in all samples (-1: a sample is invalid), and whether any has labels.

    Samples of a large profile are checked on several threads.
    """
    workers = min(cores.available(), len(samples.data) // PART_BYTES) if len(samples.data) >= 2 * PART_BYTES else 1
    if workers < 2 or not len(samples):
        result: tuple[int, int] = lists.check()
        return result
    size = -(-len(samples) // workers)
    parts = [_lists(samples.slice(low, low + size), ids, kinds) for low in range(0, len(samples), max(1, size))]
    results = [(0, 0)] * len(parts)

    def check(_worker: int, part: int) -> None:
        results[part] = parts[part].check()

    cores.share(range(len(parts)), range(len(parts)), check)
    if any(entries < 0 for entries, _ in results):
        return -1, 0
    return sum(entries for entries, _ in results), sum(has_labels for _, has_labels in results)


def _lists(samples: Messages, ids: Ids, kinds: int) -> IdLists:
    return ids.lists(samples, PPROF.number("Sample", "location_id"), PPROF.number("Sample", "value"), kinds)


def _raise_for_samples(samples: Messages, ids: Ids, kinds: int) -> None:
    """Raise the error of the first invalid sample."""
    stack, _ = PPROF.lists(samples, "Sample", "location_id")
    ids.positions(stack, "sample", "location_id")
    _, per_sample = PPROF.lists(samples, "Sample", "value")
    wrong = next(i for i in range(len(samples)) if per_sample[i + 1] - per_sample[i] != kinds)
    count = per_sample[wrong + 1] - per_sample[wrong]
    raise ProfileError(f"sample {wrong}", None, f"{count} values for {kinds} sample types")


def _samples(
    kinds: int, samples: Messages, lists: IdLists, entries: int, labels: Messages, label_columns: list[array[int]],
    strings: Messages,
) -> Samples:  # fmt: skip
    count = len(samples)
    samples.budget.charge(
        bounds.ENTRY * (entries + kinds * count) + 2 * bounds.ENTRY * count + bounds.LABELS * len(labels)
    )
    first, stack, values, own = (
        wire.zeros(*column) for column in (("Q", count + 1), ("I", entries), ("q", kinds * count), ("I", count))
    )
    if not lists.read(first, stack, values):
        raise ProfileError("samples", None, wire.FAULTS[NO_ROOM])
    count_up(own)
    columns = [values[kind * count : (kind + 1) * count] for kind in range(kinds)] if kinds > 1 else [values] * kinds
    out = Samples(first, stack, own, columns, [()] * count)
    label_of: dict[tuple[int, ...], Label] = {}
    parents = labels.parent
    of_sample: list[Label] = []
    for row, (parent, key) in enumerate(zip(parents, zip(*label_columns, strict=True), strict=True)):
        label = label_of.get(key)
        if label is None:
            labels.budget.charge(bounds.LABEL)
            name, text, number, unit = key
            label = Label(strings.text(name), strings.text(text), _signed(number), strings.text(unit))
            label_of[key] = label
        of_sample.append(label)
        if row + 1 == len(parents) or parents[row + 1] != parent:
            out.labels[parent] = tuple(of_sample)
            of_sample = []
    return out


# writing: `renamed` appends functions and strings, replaces the lines of locations that got frames, and sets the has_*
# flags of mappings; all other bytes are copied

RENAMED_LINE = 64  # bytes of columns and of the message
HAS_FUNCTIONS, HAS_FILENAMES, HAS_LINES, HAS_INLINES = 1, 2, 4, 8  # has_functions and the three fields after it
FLAGS = ("has_functions", "has_filenames", "has_line_numbers", "has_inline_frames")
FLAGS_OF_KIND = bytes(
    HAS_FUNCTIONS
    | (HAS_FILENAMES if kind & HAS_FILE else 0)
    | (HAS_LINES | HAS_INLINES if kind & HAS_LINE else HAS_INLINES if kind & IS_INLINED else 0)
    for kind in range(ALL_KINDS)
)  # flags of a mapping, by the kinds of its frames

FUNCTION = ("id", "name", "system_name", "filename", "start_line")  # fields 1 to 5


class PprofNames:
    """Builds the string and function tables, each string and each function once."""

    def __init__(self, profile: ProfileData, strings: Messages | None = None, next_function: int = 1) -> None:
        self.system_names = profile.system_names
        self.strings: dict[str, int] = {}
        self._new_strings: list[str] = []
        self._new_functions = array("Q")  # rows of FUNCTION
        self._next_string = len(strings) if strings else 0
        self._next_function = next_function
        if strings:
            for index in range(self._next_string):
                self.strings.setdefault(strings.text(index), index)
        self.string("")

    def string(self, text: str) -> int:
        return self.strings_of([text])[0]

    def strings_of(self, texts: Iterable[str]) -> list[int]:
        """Return the index of each of some distinct texts."""
        strings = self.strings
        texts = list(texts)
        new = [text for text in texts if text not in strings]
        strings.update(zip(new, count(self._next_string)))
        self._next_string += len(new)
        self._new_strings += new
        return list(map(strings.__getitem__, texts))

    def add_functions(self, functions: FunctionColumns) -> array[int]:
        """Append functions, and return their ids."""
        numbers_of_texts, names, system_names = functions.texts, functions.name, self.system_names
        systems = names
        if system_names:
            numbers, distinct = numbered(names, "I")
            system_of = u32_array(distinct)
            texts = list(numbers_of_texts)
            for row, name in enumerate(system_of):
                if texts[name] in system_names:
                    system_of[row] = numbers_of_texts.setdefault(system_names[texts[name]], len(numbers_of_texts))
            systems = u32_array(taken(system_of, "I", numbers.numbers()))
        texts = list(numbers_of_texts)
        three = array("I", bytes(12 * len(names)))
        three[::3], three[1::3], three[2::3] = names, systems, functions.file
        numbers, distinct = numbered(three, "I")
        indices = array("Q", self.strings_of([texts[number] for number in distinct.numbers()]))
        of_three = u64_array(taken(indices, "Q", numbers.numbers()))
        ids = array("Q", range(self._next_function, self._next_function + len(names)))
        self._next_function += len(names)
        new = array("Q", bytes(8 * len(FUNCTION) * len(names)))
        columns = ids, of_three[::3], of_three[1::3], of_three[2::3], functions.start_line
        for field, column in enumerate(columns):
            new[field :: len(FUNCTION)] = column
        self._new_functions += new
        return ids

    def tables(self) -> bytes:
        """Return the new functions and strings, as fields of the profile."""
        functions = wire.rows(PPROF.number("Profile", "function"), self._new_functions, len(FUNCTION))
        return bytes(functions) + wire.texts(PPROF.number("Profile", "string_table"), self._new_strings)


def renamed(profile: ProfileData, message: Messages, strings: Messages, function_ids: array[int]) -> bytes | memoryview:
    """Return the bytes of `message` with new lines for the locations in profile.changed."""
    if not profile.changed:
        return message.data
    chains = Chains.of(profile, profile.changed)
    bounds.writing(profile.stored, "the lines of named locations").charge(RENAMED_LINE * chains.lines_in_all())
    names = PprofNames(profile, strings, max(function_ids, default=0) + 1)
    first, functions, lines, flags = _lines(profile, names, chains)
    out = wire.splice(
        message,
        NewNames(
            PPROF.number("Profile", "location"),
            PPROF.number("Location", "line"),
            PPROF.number("Line", "function_id"),
            PPROF.number("Line", "line"),
            first,
            functions,
            lines,
            PPROF.number("Profile", "mapping"),
            PPROF.number("Mapping", FLAGS[0]),
            flags,
        ),
    )
    out.extend(names.tables())
    return memoryview(out)


def _lines(profile: ProfileData, names: PprofNames, chains: Chains) -> tuple[memoryview, memoryview, memoryview, bytes]:
    """Return the lines of all locations that have a chain, as in `NewNames`, and the flags of the mappings."""
    numbers, new_functions = chains.functions()
    first, functions, lines = chains.lines(names.add_functions(new_functions), numbers)
    return first, functions, lines, chains.marks(profile.mapping, FLAGS_OF_KIND, len(profile.mappings))


def encoded(profile: ProfileData) -> bytes:
    """Return a profile encoded from its tables."""
    names = PprofNames(profile)

    def value_type(kind: SampleType) -> Document:
        return {"type": names.string(kind.type), "unit": names.string(kind.unit)}

    head: Document = {"sample_type": [value_type(kind) for kind in profile.sample_types]}
    first, functions, lines, flags = _lines(profile, names, Chains.of(profile))
    fields = (
        PPROF.number("Profile", "location"),
        *(PPROF.number("Location", field) for field in ("id", "mapping_id", "address", "line")),
        PPROF.number("Line", "function_id"),
        PPROF.number("Line", "line"),
    )
    mapping_of, addresses = array("q", profile.mapping), array("Q", profile.address)
    locations = bytes(encode_kernel.locations(mapping_of, addresses, first, functions, lines, fields))
    samples = _encoded_samples(profile, names)
    mappings = [_mapping(index + 1, mapping, flags[index], names) for index, mapping in enumerate(profile.mappings)]
    tables: Document = {"mapping": mappings}
    rest: Document = {"time_nanos": profile.time_ns, "duration_nanos": profile.duration_ns, "period": profile.period}
    if profile.period_type.type:
        rest["period_type"] = value_type(profile.period_type)
    rest["comment"] = [names.string(comment) for comment in profile.comments]
    if profile.default_type < len(profile.sample_types) - 1:
        rest["default_sample_type"] = names.string(profile.sample_types[profile.default_type].type)
    return b"".join(
        [
            PPROF.encoded(head, "Profile"),
            samples,
            PPROF.encoded(tables, "Profile"),
            locations,
            PPROF.encoded(rest, "Profile"),
            names.tables(),
        ]
    )


def _mapping(number: int, mapping: Mapping, flags: int, names: PprofNames) -> Document:
    document: Document = {
        "id": number,
        "memory_start": mapping.start,
        "memory_limit": mapping.end,
        "file_offset": mapping.file_offset,
        "filename": names.string(mapping.path),
        "build_id": names.string(mapping.build_id),
    }
    return document | {name: flags >> bit & 1 for bit, name in enumerate(FLAGS)}


def _encoded_samples(profile: ProfileData, names: PprofNames) -> bytes:
    samples = profile.samples
    label_field = PPROF.number("Sample", "label")
    budget = bounds.writing(profile.stored, "samples of pprof, each with its stack,")
    sizes = [end - start for start, end in pairwise(samples.first)]
    locations = sum(map(sizes.__getitem__, samples.of))
    budget.charge(bounds.STRING * len(samples) + bounds.ENTRY * (locations + len(samples) * len(samples.values)))
    encoded: dict[Label, bytes] = {}
    sets: dict[tuple[Label, ...], int] = {}
    seen: dict[int, int] = {}  # equal sets are mostly the same object
    first, data = array("Q", [0]), bytearray()
    of = array("I")
    for labels in samples.labels:
        number = seen.get(id(labels))
        if number is None:
            number = seen[id(labels)] = sets.setdefault(labels, len(sets))
            if number == len(first) - 1:
                for label in labels:
                    if label not in encoded:
                        text = {"key": names.string(label.key), "str": names.string(label.text), "num": label.number}
                        body = PPROF.encoded(text | {"num_unit": names.string(label.unit)}, "Label")
                        encoded[label] = wire.payload(label_field, body)
                    data += encoded[label]
                first.append(len(data))
        of.append(number)
    values = array("q")
    for column in samples.values:
        values.extend(column)
    fields = (
        PPROF.number("Profile", "sample"),
        PPROF.number("Sample", "location_id"),
        PPROF.number("Sample", "value"),
        len(profile.address),
    )
    return bytes(encode_kernel.samples(samples.first, samples.stack, samples.of, values, (of, first, data), fields))
