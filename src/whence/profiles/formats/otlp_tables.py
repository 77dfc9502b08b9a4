"""OTLP's dictionary and samples as columns: filled from binary or JSON, checked and read by one road into a Profile.

Entry 0 of every table stands for "none". Locations of the profile are those of the table without that entry. Indices
are 32-bit and signed; as columns hold them a negative one is larger than any table, and refused like one.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence._base.records import Record, field
from whence.profiles.formats.schema import Document
from whence.samples import bounds, wire
from whence.samples.kernels import stacks as stacks_kernel
from whence.samples.model import NO_MAPPING, Label, Mapping, ProfileData, Samples, SampleType

BUILD_IDS = ("process.executable.build_id.gnu", "process.executable.build_id.go", "process.executable.build_id.htlhash")
PID = "process.pid"

# What the two forms read in the order of the tables below
FUNCTION = ("nameStrindex", "systemNameStrindex", "filenameStrindex", "startLine")
VALUE_TYPE = ("typeStrindex", "unitStrindex")


def column() -> array[int]:
    return array("Q")


class Lists(Record):
    """A list of numbers for each row of a table: row i has values[first[i]:first[i + 1]]."""

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
    """One OTLP profile: what it counts (string indices), the process its resource names (0: none), its samples."""

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
    """`text(i)` is string i of `strings`. Lines are rows of location, function and line."""

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
    """1 where entry 0 of the location table stands for none, as it should; else 0."""
    empty = bool(len(tables.location_address)) and not tables.location_address[0] and not tables.location_mapping[0]
    return int(empty and not (tables.line_location and tables.line_location[0] == 0))


def signed(value: int) -> int:
    """The 64 bits of a column as the number that was meant."""
    return value - (1 << 64) if value >> 63 else value


def inside(indices: array[int], size: int, part: str, rule: str, first: Sequence[int] | None = None) -> None:
    """Raise unless every index is below the size of its table; `first` distinguishes rows of several."""
    index = wire.first_beyond(indices, size)
    if index >= 0:
        row = index if first is None else next(row for row, (a, b) in enumerate(pairwise(first)) if a <= index < b)
        raise ProfileError(f"{part} {row}", None, rule, f"{signed(indices[index])} of {size}")


class Checked:
    """Tables whose indices are looked at before they are used."""

    def __init__(self, tables: OtlpTables, budget: Budget) -> None:
        self.tables = tables
        self.budget = budget
        self._labels: dict[int, Label] = {}

    def string(self, index: int, part: str) -> str:
        if not 0 <= index < self.tables.strings:
            if index == 0:
                return ""
            raise ProfileError(
                part, None, "it is an index into string_table", f"{signed(index)} of {self.tables.strings}"
            )
        return self.tables.text(index)

    def label(self, index: int, part: str) -> Label:
        found = self._labels.get(index)
        if found is not None:
            return found
        table = self.tables.attributes
        if not 0 <= index < len(table):
            rule = "attribute_indices are indices into attribute_table"
            raise ProfileError(part, None, rule, f"{signed(index)} of {len(table)}")
        key, text, number, unit = table[index]
        found = Label(self.string(key, "attribute"), text, number, self.string(unit, "attribute"))
        self._labels[index] = found
        return found

    def mapping(self, index: int) -> Mapping:
        start, end, offset, name, attributes = self.tables.mappings[index]
        labels = {one.key: one.text for one in (self.label(row, f"mapping {index}") for row in attributes)}
        build_id = next((labels[key] for key in BUILD_IDS if labels.get(key)), "")
        return Mapping(start, end, offset, self.string(name, f"mapping {index}"), build_id)


def profile_of(tables: OtlpTables, budget: Budget) -> ProfileData:
    """The profile: sample types are the distinct ones of the profiles inside. Samples come when asked for."""
    checked = Checked(tables, budget)
    profile = ProfileData()
    profile.mappings = [checked.mapping(index) for index in range(len(tables.mappings))]
    none = bool(profile.mappings) and profile.mappings[0] == Mapping()
    skip = first_location(tables)
    known = len(profile.mappings)
    rule = "mapping_index is an index into mapping_table"
    inside(tables.location_mapping, max(known, 1), "location", rule)
    profile.mapping = array("q", tables.location_mapping[skip:].tobytes())
    if none or not known:
        profile.mapping = array("q", [one or NO_MAPPING for one in profile.mapping])
    profile.address = tables.location_address[skip:]
    profile.frames = [()] * len(profile.address)
    _names(profile, checked, skip)
    _kinds(profile, checked)
    _check_samples(tables)
    profile.load = lambda: _samples(profile, checked, skip)
    return profile


def _names(profile: ProfileData, checked: Checked, skip: int) -> None:
    """Frames of the locations that come with lines."""
    tables = checked.tables
    inside(tables.line_function, len(tables.functions), "line", "function_index is an index into function_table")
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


def _kinds(profile: ProfileData, checked: Checked) -> None:
    """What the profiles inside count, and when they were taken."""
    kinds: dict[SampleType, int] = {}
    for kind in checked.tables.kinds:
        kinds.setdefault(_type(checked, kind), len(kinds))
        profile.time_ns = profile.time_ns or kind.time_ns
        profile.duration_ns = max(profile.duration_ns, kind.duration_ns)
        profile.period = profile.period or kind.period
        if not profile.period_type.type:
            profile.period_type = SampleType(*(checked.string(one, "period_type") for one in kind.period_type))
    profile.sample_types = list(kinds)
    samples = [0] * len(kinds)
    for kind in checked.tables.kinds:
        samples[kinds[_type(checked, kind)]] += len(kind.stack)
    # Each sample has a value of one type only, so a type with most samples shows most of the profile.
    profile.default_type = max(range(len(kinds)), key=lambda index: (samples[index], index), default=0)
    checked.budget.charge(bounds.ENTRY * len(kinds) * sum(samples))


def _type(checked: Checked, kind: OtlpProfile) -> SampleType:
    return SampleType(checked.string(kind.type, "profile"), checked.string(kind.unit, "profile"))


def _check_samples(tables: OtlpTables) -> None:
    """Every index of stacks and samples."""
    rule = "location_indices are indices into location_table"
    inside(tables.stacks.values, len(tables.location_address), "stack", rule, tables.stacks.first)
    for kind in tables.kinds:
        inside(kind.stack, max(len(tables.stacks), 1), "sample", "stack_index is an index into stack_table")
        rule = "attribute_indices are indices into attribute_table"
        inside(kind.attributes.values, len(tables.attributes), "sample", rule, kind.attributes.first)


def _samples(profile: ProfileData, checked: Checked, skip: int) -> Samples:
    """Return the samples of all the profiles inside, which share their stacks.

    A profile inside has one sample type: rows of equal stack and labels and of different types are one sample.
    """
    tables = checked.tables
    stacks = tables.stacks if len(tables.stacks) else Lists(first=array("Q", [0, 0]))
    out = Samples(first=wire.zeros("Q", len(stacks.first)), stack=wire.zeros("I", len(stacks.values)))
    left, _, _ = stacks_kernel.without_none(stacks.values, stacks.first, skip, out.stack, out.first)
    del out.stack[left:]
    out.values = [array("q") for _ in profile.sample_types]
    columns = {kind: index for index, kind in enumerate(profile.sample_types)}
    parts: list[tuple[int, int]] = []  # of each profile inside, its column and how many rows it has
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
        known: dict[tuple[int, ...], tuple[Label, ...]] = {}
        for row in kind.attributes.rows():
            labels = known.get(row)
            if labels is None:
                checked.budget.charge(bounds.LABELS + bounds.ENTRY * len(row))
                labels = tuple(checked.label(one, "sample") for one in row)
                labels = known[row] = labels if any(one.key == PID for one in labels) else labels + of_resource
            out.labels.append(labels)
    return _joined(out, parts, checked.budget) if len(columns) > 1 else out


def _joined(samples: Samples, parts: list[tuple[int, int]], budget: Budget) -> Samples:
    """Return the samples with the nth rows of equal stack and labels of all types as one.

    `parts` are (column, rows) of consecutive rows that have values of that column alone. Equal rows of one type stay
    apart, as they came.
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
            found = joined.setdefault((*key, nth), len(out.of))
            if found == len(out.of):
                out.of.append(samples.of[row])
                out.labels.append(labels)
            target.append(found)
    for values in samples.values:
        out.values.append(array("q", [0]) * len(out.of))
        for at, value in zip(target, values, strict=True):
            if value:
                out.values[-1][at] = value
    return out


class OtlpNames:
    """The string and function tables as they grow; new entries are listed in the order they get their index."""

    def __init__(self, profile: ProfileData, tables: OtlpTables | None = None) -> None:
        self.profile = profile
        self.new_strings: list[str] = []
        self.new_functions: list[Document] = []
        self.strings: dict[str, int] = {}
        self._strings = tables.strings if tables else 0
        self._functions = len(tables.functions) if tables else 0
        self._known: dict[tuple[str, str, int], int] = {}
        for index in range(self._strings):
            self.strings.setdefault(tables.text(index) if tables else "", index)
        self.string("")
        if not self._functions:
            self.new_functions.append({})
            self._functions = 1

    def string(self, text: str) -> int:
        found = self.strings.get(text)
        if found is None:
            found = self.strings[text] = self._strings
            self._strings += 1
            self.new_strings.append(text)
        return found

    def function(self, frame: Frame) -> int:
        """The index of a frame's function."""
        name, file, start = frame.function, frame.file, frame.start_line
        found = self._known.get((name, file, start))
        if found is None:
            found = self._known[name, file, start] = self._functions
            self._functions += 1
            system = self.profile.system_names.get(name, name)
            entry = {"nameStrindex": self.string(name), "systemNameStrindex": self.string(system)}
            entry |= {"filenameStrindex": self.string(file)}
            self.new_functions.append(entry | ({"startLine": start} if start else {}))
        return found
