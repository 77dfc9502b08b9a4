"""OTLP's dictionary and samples as columns, filled from binary or JSON, then checked and converted to a profile.

Entry 0 of every table is empty and means "none"; the locations of the profile start at entry 1. Indices are 32-bit and
signed; in columns a negative index is larger than any table, and raises the same error.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence._base.records import NamedTuple, Record, field
from whence.profiles.formats.schema import Document
from whence.samples import bounds, wire
from whence.samples.kernels import stacks as stacks_kernel
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, Samples, SampleType

BUILD_IDS = ("process.executable.build_id.gnu", "process.executable.build_id.go", "process.executable.build_id.htlhash")
PID = "process.pid"

# fields that both forms read, in the order of the columns below
FUNCTION = ("nameStrindex", "systemNameStrindex", "filenameStrindex", "startLine")
VALUE_TYPE = ("typeStrindex", "unitStrindex")


def column() -> array[int]:
    return array("Q")


class Lists(Record):
    """Lists of numbers: row i has values[first[i]:first[i + 1]]."""

    values: array[int] = field(default_factory=column)
    first: array[int] = field(default_factory=lambda: array("Q", [0]))

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, row: int) -> array[int]:
        return self.values[self.first[row] : self.first[row + 1]]

    def rows(self) -> Iterator[tuple[int, ...]]:
        for start, end in pairwise(self.first):
            yield tuple(self.values[start:end])

    def add(self, values: Sequence[int]) -> None:
        self.values.extend(values)
        self.first.append(len(self.values))


class OtlpProfile(Record):
    """One OTLP profile: its sample type (string indices), the pid of its resource (0: unknown), its samples."""

    type: int
    unit: int
    time_ns: int = 0
    duration_ns: int = 0
    period: int = 0
    period_type: tuple[int, int] = (0, 0)
    pid: int = 0
    stack: array[int] = field(default_factory=column)
    value: array[int] = field(default_factory=lambda: array("q"))
    attributes: Lists = field(default_factory=Lists)


class OtlpTables(Record):
    """The tables of a dictionary as columns, and its profiles.

    `strings` is the number of strings, `text(i)` returns string i. Lines are rows of location, function and line.
    """

    strings: int = 0
    text: Callable[[int], str] = str
    # start, end, file offset, file name, attributes
    mappings: list[tuple[int, int, int, int, Sequence[int]]] = field(default_factory=list)
    location_mapping: array[int] = field(default_factory=column)
    location_address: array[int] = field(default_factory=column)
    line_location: array[int] = field(default_factory=column)
    line_function: array[int] = field(default_factory=column)
    line: array[int] = field(default_factory=column)
    functions: list[tuple[int, int, int, int]] = field(default_factory=list)  # name, system name, file, start line
    stacks: Lists = field(default_factory=Lists)
    attributes: list[tuple[int, str, int, int]] = field(default_factory=list)  # key, text, number, unit
    kinds: list[OtlpProfile] = field(default_factory=list)


def first_location(tables: OtlpTables) -> int:
    """Return 1 if entry 0 of the location table is empty, as it should be; else 0."""
    empty = bool(len(tables.location_address)) and not tables.location_address[0] and not tables.location_mapping[0]
    return int(empty and not (tables.line_location and tables.line_location[0] == 0))


def signed(value: int) -> int:
    """Return the 64 bits of a column as a signed number."""
    return value - (1 << 64) if value >> 63 else value


class TableReference(NamedTuple):
    """A field that has indices into a table."""

    part: str
    field: str
    table: str

    def error(self, row: str, index: int, size: int) -> ProfileError:
        """Return the error for an index that is out of range."""
        problem = f"{self.field} {signed(index)} is out of range: {self.table} has {size} entries"
        return ProfileError(f"{self.part} {row}".rstrip(), None, problem)


MAPPING_OF_LOCATION = TableReference("location", "mapping_index", "mapping_table")
FUNCTION_OF_LINE = TableReference("line", "function_index", "function_table")
LOCATION_OF_STACK = TableReference("stack", "location_indices", "location_table")
STACK_OF_SAMPLE = TableReference("sample", "stack_index", "stack_table")
ATTRIBUTE_OF_SAMPLE = TableReference("sample", "attribute_indices", "attribute_table")


def check(reference: TableReference, indices: array[int], size: int, first: Sequence[int] | None = None) -> None:
    """Raise ProfileError unless all indices are below `size`; `first` has the start of each row of several indices."""
    wrong = wire.first_beyond(indices, size)
    if wrong >= 0:
        row = wrong if first is None else next(row for row, (a, b) in enumerate(pairwise(first)) if a <= wrong < b)
        raise reference.error(f"{row}", indices[wrong], size)


class CheckedTables:
    """Tables with access by checked indices."""

    def __init__(self, tables: OtlpTables, budget: Budget) -> None:
        self.tables = tables
        self.budget = budget
        self._labels: dict[int, Label] = {}

    def string(self, index: int, part: str) -> str:
        if not 0 <= index < self.tables.strings:
            if index == 0:
                return ""
            raise TableReference(part, "string index", "string_table").error("", index, self.tables.strings)
        return self.tables.text(index)

    def label(self, index: int, part: str) -> Label:
        label = self._labels.get(index)
        if label is None:
            table = self.tables.attributes
            if not 0 <= index < len(table):
                raise TableReference(part, "attribute_indices", "attribute_table").error("", index, len(table))
            key, text, number, unit = table[index]
            label = Label(self.string(key, "attribute"), text, number, self.string(unit, "attribute"))
            self._labels[index] = label
        return label

    def mapping(self, index: int) -> Mapping:
        start, end, offset, name, attributes = self.tables.mappings[index]
        labels = {label.key: label.text for label in (self.label(row, f"mapping {index}") for row in attributes)}
        build_id = next((labels[key] for key in BUILD_IDS if labels.get(key)), "")
        return Mapping(start, end, offset, self.string(name, f"mapping {index}"), build_id)


def profile_of(tables: OtlpTables, budget: Budget) -> ProfileData:
    """Return a profile with the distinct sample types of the profiles inside. Samples are decoded on first use."""
    checked = CheckedTables(tables, budget)
    profile = ProfileData()
    profile.mappings = [checked.mapping(index) for index in range(len(tables.mappings))]
    has_empty = bool(profile.mappings) and profile.mappings[0] == Mapping()
    skip = first_location(tables)
    mappings = len(profile.mappings)
    check(MAPPING_OF_LOCATION, tables.location_mapping, max(mappings, 1))
    profile.mapping = array("q", tables.location_mapping[skip:].tobytes())
    if has_empty or not mappings:
        profile.mapping = array("q", [index or NO_MAPPING for index in profile.mapping])
    profile.address = tables.location_address[skip:]
    profile.frames = [()] * len(profile.address)
    _names(profile, checked, skip)
    _kinds(profile, checked)
    _check_samples(tables)
    profile.load = lambda: _samples(profile, checked, skip)
    return profile


def _names(profile: ProfileData, checked: CheckedTables, skip: int) -> None:
    """Decode the frames of locations with lines."""
    tables = checked.tables
    check(FUNCTION_OF_LINE, tables.line_function, len(tables.functions))
    chains: dict[int, list[Frame]] = {}
    for location, function, line in zip(tables.line_location, tables.line_function, tables.line, strict=True):
        name, system, file, start = tables.functions[function]
        part = f"function {function}"
        text = checked.string(name, part) or checked.string(system, part)
        path = checked.string(file, part)
        frame = Frame(text, path, max(0, signed(line)), True, start_line=max(0, signed(start)))
        chains.setdefault(location, []).append(frame)
    for location, chain in chains.items():
        chain[-1] = chain[-1]._replace(inlined=False)
        profile.frames[location - skip] = tuple(chain)


def _kinds(profile: ProfileData, checked: CheckedTables) -> None:
    """Set the sample types, times and periods."""
    kinds: dict[SampleType, int] = {}
    for kind in checked.tables.kinds:
        kinds.setdefault(_type(checked, kind), len(kinds))
        profile.time_ns = profile.time_ns or kind.time_ns
        profile.duration_ns = max(profile.duration_ns, kind.duration_ns)
        profile.period = profile.period or kind.period
        if not profile.period_type.type:
            profile.period_type = SampleType(*(checked.string(index, "period_type") for index in kind.period_type))
    profile.sample_types = list(kinds)
    samples = [0] * len(kinds)
    for kind in checked.tables.kinds:
        samples[kinds[_type(checked, kind)]] += len(kind.stack)
    # each sample has a value of one type only, so the type with most samples shows most of the profile
    profile.default_type = max(range(len(kinds)), key=lambda index: (samples[index], index), default=0)
    checked.budget.charge(bounds.ENTRY * len(kinds) * sum(samples))


def _type(checked: CheckedTables, kind: OtlpProfile) -> SampleType:
    return SampleType(checked.string(kind.type, "profile"), checked.string(kind.unit, "profile"))


def _check_samples(tables: OtlpTables) -> None:
    """Check every index of stacks and samples."""
    check(LOCATION_OF_STACK, tables.stacks.values, len(tables.location_address), tables.stacks.first)
    for kind in tables.kinds:
        check(STACK_OF_SAMPLE, kind.stack, max(len(tables.stacks), 1))
        check(ATTRIBUTE_OF_SAMPLE, kind.attributes.values, len(tables.attributes), kind.attributes.first)


def _samples(profile: ProfileData, checked: CheckedTables, skip: int) -> Samples:
    """Return the samples of all the profiles inside, which share their stacks.

    A profile inside has one sample type: rows of equal stack and labels and of different types are one sample.
    """
    tables = checked.tables
    stacks = tables.stacks if len(tables.stacks) else Lists(first=array("Q", [0, 0]))
    out = Samples(first=wire.zeros("Q", len(stacks.first)), stack=wire.zeros("I", len(stacks.values)))
    length, _, _ = stacks_kernel.without_none(stacks.values, stacks.first, skip, out.stack, out.first)
    del out.stack[length:]
    out.values = [array("q") for _ in profile.sample_types]
    columns = {kind: index for index, kind in enumerate(profile.sample_types)}
    parts: list[tuple[int, int]] = []  # of each profile inside, its column and the number of its rows
    for kind in tables.kinds:
        out.of.extend(array("I", kind.stack))
        column = columns[_type(checked, kind)]
        parts.append((column, len(kind.stack)))
        for index, values in enumerate(out.values):
            values.extend(kind.value if index == column else wire.zeros("q", len(kind.value)))
        of_resource = (Label(PID, number=kind.pid),) if kind.pid else ()
        if not len(kind.attributes.values):
            out.labels += [of_resource] * len(kind.stack)
            continue
        label_sets: dict[tuple[int, ...], tuple[Label, ...]] = {}
        for row in kind.attributes.rows():
            labels = label_sets.get(row)
            if labels is None:
                checked.budget.charge(bounds.LABELS + bounds.ENTRY * len(row))
                labels = tuple(checked.label(index, "sample") for index in row)
                labels = labels if any(label.key == PID for label in labels) else labels + of_resource
                label_sets[row] = labels
            out.labels.append(labels)
    return _joined(out, parts, checked.budget) if len(columns) > 1 else out


def _joined(samples: Samples, parts: list[tuple[int, int]], budget: Budget) -> Samples:
    """Join the nth rows of all types that have equal stacks and labels; equal rows of one type stay separate.

    `parts` are (column, rows) of consecutive rows with values of that column only.
    """
    budget.charge(bounds.SAMPLE * len(samples))
    numbers: dict[tuple[Label, ...], int] = {}
    label_sets: dict[int, int] = {}  # by identity: equal sets are mostly the same object
    counts: list[dict[tuple[int, int], int]] = [{} for _ in samples.values]
    joined: dict[tuple[int, int, int], int] = {}
    out = Samples(samples.first, samples.stack)
    target = array("I")  # of each row
    for column, size in parts:
        count = counts[column]
        for row in range(len(target), len(target) + size):
            labels = samples.labels[row]
            number = label_sets.get(id(labels))
            if number is None:
                number = label_sets[id(labels)] = numbers.setdefault(labels, len(numbers))
            key = samples.of[row], number
            nth = count[key] = count.get(key, 0) + 1
            index = joined.setdefault((*key, nth), len(out.of))
            if index == len(out.of):
                out.of.append(samples.of[row])
                out.labels.append(labels)
            target.append(index)
    for values in samples.values:
        out.values.append(array("q", [0]) * len(out.of))
        for index, value in zip(target, values, strict=True):
            if value:
                out.values[-1][index] = value
    return out


class OtlpNames:
    """Builds the string and function tables; new entries are in order of their indices."""

    def __init__(self, profile: ProfileData, tables: OtlpTables | None = None) -> None:
        self.profile = profile
        self.new_strings: list[str] = []
        self.new_functions: list[Document] = []
        self.strings: dict[str, int] = {}
        self._strings = tables.strings if tables else 0
        self._functions = len(tables.functions) if tables else 0
        self._function_numbers: dict[tuple[str, str, int], int] = {}
        for index in range(self._strings):
            self.strings.setdefault(tables.text(index) if tables else "", index)
        self.string("")
        if not self._functions:
            self.new_functions.append({})
            self._functions = 1

    def string(self, text: str) -> int:
        index = self.strings.get(text)
        if index is None:
            index = self.strings[text] = self._strings
            self._strings += 1
            self.new_strings.append(text)
        return index

    def function(self, frame: Frame) -> int:
        """Return the index of a frame's function."""
        name, file, start = frame.function, frame.file, frame.start_line
        index = self._function_numbers.get((name, file, start))
        if index is None:
            index = self._function_numbers[name, file, start] = self._functions
            self._functions += 1
            system = self.profile.system_names.get(name, name)
            entry = {"nameStrindex": self.string(name), "systemNameStrindex": self.string(system)}
            entry |= {"filenameStrindex": self.string(file)}
            self.new_functions.append(entry | ({"startLine": start} if start else {}))
        return index
