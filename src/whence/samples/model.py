"""The tables of a profile, which readers fill and writers read.

The public class with operations (symbolize, write) is `whence.profiles.Profile`. It depends on the formats, which
depend only on this module.

    mappings    addresses of files in a process (`Mapping`), and their build-ids
    locations   a mapping (NO_MAPPING: none), an address, and a chain of frames: () if it has no name, with a reason
    samples     stacks of locations, leaf first, with one value for each sample type, and labels (thread, CPU, event,
                time): keys with a text or a number and its unit

`origin` is the object that the profile was read from: a writer of that format replaces only the names in it, and
copies all other bytes. It is dropped if the samples are replaced or samples are added. Samples are decoded on first
use.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self
from weakref import ref

from whence._base.errors import WRONG_KIND, ProfileError, shown
from whence._base.model import Frames
from whence._base.records import Record, as_dict, field
from whence.procmap import mapping as procmap_mapping
from whence.samples.bounds import NO_BOUND

if TYPE_CHECKING:
    from whence.lidia.chains import ChainTable
    from whence.locator.locator import Locator

NO_MAPPING = -1


class SampleType(NamedTuple):
    """The quantity and unit of a sample's value, for instance ("cpu", "nanoseconds")."""

    type: str
    unit: str


NO_TYPE = SampleType("", "")
SHOWN_TYPES = 4  # in a profile's repr
SHOWN_CHARACTERS = 200


class Label(NamedTuple):
    """A property of a sample: a key with a text, or with a number and its unit."""

    key: str
    text: str = ""
    number: int = 0
    unit: str = ""


class Mapping(procmap_mapping.Mapping):
    """A mapping of a process in a profile: the addresses [start, end) of the file `path`, from byte `file_offset`.

    If a profile has vaddrs instead of runtime addresses, start and end are 0, or don't contain the address. Properties
    that a profile does not have keep their defaults.
    """

    __slots__ = ()

    def __new__(
        cls, start: int = 0, limit: int = 0, file_offset: int = 0, path: str = "", build_id: str = ""
    ) -> Mapping:
        return super().__new__(cls, path, start, limit, file_offset, build_id)

    def __getnewargs__(self) -> tuple[int, int, int, str, str]:
        return self.start, self.limit, self.offset, self.path, self.build_id

    @property
    def file_offset(self) -> int:
        """The offset of the first mapped byte in the file, like `offset`."""
        return self.offset


class LostSamples(NamedTuple):
    """A number of samples that the recorder lost, at a time (nanoseconds of its clock), of a thread."""

    samples: int
    time: int = 0
    pid: int = 0
    tid: int = 0


class Timeline(Record):
    """The times of samples: event i is of sample[i], at time[i], with value values[t][i] of type t.

    Times are nanoseconds of the recorder's clock, in any order. The values of a sample's events add up to the values of
    the sample.
    """

    sample: array[int] = field(default_factory=lambda: array("I"))
    time: array[int] = field(default_factory=lambda: array("q"))
    values: list[array[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sample)

    def __repr__(self) -> str:
        return f"<Timeline: {len(self):,} events>"

    def in_order(self) -> list[int]:
        """Return the indices of the events in order of time."""
        return sorted(range(len(self.time)), key=self.time.__getitem__)

    def of(self, selected: list[int], samples: int) -> Timeline:
        """Return the events of the selected samples of `samples`, numbered in the order of `selected`."""
        new = array("q", [-1]) * samples
        for row, sample in enumerate(selected):
            new[sample] = row
        events = [event for event, sample in enumerate(self.sample) if new[sample] >= 0]
        return Timeline(
            array("I", [new[self.sample[event]] for event in events]),
            array("q", map(self.time.__getitem__, events)),
            [array("q", map(column.__getitem__, events)) for column in self.values],
        )


class Samples(Record):
    """The samples of a profile: sample i has stack of[i], value values[t][i] of type t, and labels[i].

    Stack s has the locations stack[first[s]:first[s + 1]], leaf first. Samples may share stacks. Equal samples are
    merged; `timeline` has their times, if known. In a difference of two profiles, base[t][i] is the older value.
    """

    first: array[int] = field(default_factory=lambda: array("Q", [0]))
    stack: array[int] = field(default_factory=lambda: array("I"))
    of: array[int] = field(default_factory=lambda: array("I"))
    values: list[array[int]] = field(default_factory=list)
    labels: list[tuple[Label, ...]] = field(default_factory=list)
    added: int = 0  # number of samples added by `add`
    timeline: Timeline | None = None
    base: list[array[int]] = field(default_factory=list)

    __slots__ = ("_profile",)

    def __len__(self) -> int:
        return len(self.of)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Sample:
        """Return a sample of the profile. Raises IndexError, and ReferenceError if the profile was deleted."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of a profile with {len(self):,} samples")
        reference = getattr(self, "_profile", None)
        profile = reference() if reference is not None else None
        if profile is None:
            raise ReferenceError("the profile of these samples was deleted: keep it in a variable")
        return Sample(profile, index % len(self))

    def belong_to(self, profile: ProfileData) -> None:
        """Set the profile whose samples these are, without keeping it in memory."""
        self._profile = ref(profile)

    def __repr__(self) -> str:
        return f"<Samples: {len(self):,} of {len(self.first) - 1:,} stacks, {len(self.values)} values each>"

    def locations(self, sample: int) -> array[int]:
        """Return the stack of a sample: indices of locations, leaf first."""
        return self.locations_of(self.of[sample])

    def locations_of(self, stack: int) -> array[int]:
        """Return the locations of a stack, leaf first."""
        return self.stack[self.first[stack] : self.first[stack + 1]]

    def of_events(self, events: list[int]) -> Samples:
        """Return the samples of some events of the timeline, with the values of these events."""
        assert self.timeline is not None
        rows = sorted({self.timeline.sample[event] for event in events})
        new = {row: index for index, row in enumerate(rows)}
        line = Timeline(
            array("I", [new[self.timeline.sample[event]] for event in events]),
            array("q", map(self.timeline.time.__getitem__, events)),
            [array("q", map(column.__getitem__, events)) for column in self.timeline.values],
        )
        values = [array("q", [0]) * len(rows) for _ in line.values]
        for total, column in zip(values, line.values, strict=True):
            for row, value in zip(line.sample, column, strict=True):
                total[row] += value
        labels = [self.labels[row] for row in rows]
        return Samples(
            self.first, self.stack, array("I", map(self.of.__getitem__, rows)), values, labels, timeline=line
        )

    def add(self, stack: list[int], values: list[int], labels: tuple[Label, ...] = ()) -> None:
        """Append a sample.

        Args:
            stack: indices of locations, leaf first.
            values: one for each sample type.
            labels: properties of the sample.

        Raises:
            ValueError: the number of values differs from earlier samples.
        """
        self.added += 1
        self.of.append(len(self.first) - 1)
        self.stack.extend(stack)
        self.first.append(len(self.stack))
        while len(self.values) < len(values):
            self.values.append(array("q"))
        for column, value in zip(self.values, values, strict=True):
            column.append(value)
        self.labels.append(labels)


class NamedLocations(Record):
    """Locations that a file named, with the index of each one's chain in a table."""

    locations: memoryview
    chains: memoryview
    table: ChainTable


class FileLocations(Record):
    """Locations in one file: their addresses in the image, and the functions there, which may be unknown (size 0).

    Addresses are relative to the image: vaddrs without that of the first page.
    """

    locations: memoryview
    address: memoryview
    function: memoryview
    size: memoryview

    def __reduce__(self) -> tuple[object, ...]:
        columns = self.locations, self.address, self.function, self.size
        return _file_locations, tuple((column.format, column.tobytes()) for column in columns)


def _file_locations(*columns: tuple[str, bytes]) -> FileLocations:
    """Unpickle the columns of FileLocations."""
    return FileLocations(*(memoryview(data).cast(format) for format, data in columns))  # type: ignore[call-overload]


class Sample:
    """A view of one sample of a profile."""

    __slots__ = ("_profile", "index")

    def __init__(self, profile: ProfileData, index: int) -> None:
        self._profile, self.index = profile, index

    def __repr__(self) -> str:
        inner = next(iter(self.functions), "no name")
        return f"<Sample {self.index}: {list(self.values)} in {ascii(inner)[1:-1][:SHOWN_CHARACTERS]}>"

    @property
    def locations(self) -> array[int]:
        """The locations of the stack, leaf first: indices into the profile's columns."""
        return self._profile.samples.locations(self.index)

    @property
    def frames(self) -> Frames:
        """The frames of the stack, innermost first, without locations that have no name."""
        return tuple(frame for location in self.locations for frame in self._profile.frames[location])

    @property
    def functions(self) -> list[str]:
        """The function names of the frames, innermost first."""
        return [frame.function for frame in self.frames]

    @property
    def values(self) -> tuple[int, ...]:
        """The value of each sample type."""
        return tuple(column[self.index] for column in self._profile.samples.values)

    @property
    def labels(self) -> dict[str, str | int]:
        """The labels by key: texts, or numbers if there is no text."""
        return {label.key: label.text or label.number for label in self._profile.samples.labels[self.index]}


class Unwinding(Protocol):
    """Samples with registers and stack copies, to be unwound."""

    def unwind(self, profile: ProfileData, locator: Locator, /) -> None:
        """Set the stacks of the samples, with the files that `locator` finds."""
        ...


class ProfileData(Record):
    """The tables of a profile. Location i is mapping[i], address[i], frames[i], reasons.get(i).

    Chains of frames from files stay in columns, in `named`, until `frames` is used.
    """

    sample_types: list[SampleType] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    mapping: array[int] = field(default_factory=lambda: array("q"))
    address: array[int] = field(default_factory=lambda: array("Q"))
    own_frames: list[Frames] = field(default_factory=list)  # of locations that are not in `named`
    reasons: dict[int, str] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)  # address where the function of an unnamed location starts
    default_type: int = 0
    time_ns: int = 0
    duration_ns: int = 0
    period: int = 0
    period_type: SampleType = NO_TYPE
    comments: list[str] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)  # locations whose frames are from `name`
    system_names: dict[str, str] = field(default_factory=dict)  # readable name -> linkage name, where they differ
    format: str = ""  # of the file it was read from; "" if it was made by hand
    origin: object = None
    stored: int = NO_BOUND  # bytes it was read from: limits the size of output
    lost: list[LostSamples] = field(default_factory=list)
    skipped: int = 0  # lines of text that could not be read
    first_skipped: tuple[str, str, str] | None = None  # where the first one is, what was expected there, its text
    notes: list[str] = field(default_factory=list)  # of its reader: losses, parts that are not read
    unwinding: Unwinding | None = None  # samples to unwind when files are known
    kernel_names: str = ""  # path of the kernel's symbols (kallsyms) recorded with it
    named: list[NamedLocations] = field(default_factory=list)  # from files; the last of a location is valid
    in_files: list[FileLocations] = field(default_factory=list)  # what naming found out about locations in files
    load: Callable[[], Samples] | None = None
    _samples: Samples | None = None
    _read_samples: int = 0  # `added` of the samples that were read

    __slots__ = ("__weakref__",)

    def __repr__(self) -> str:
        types = ", ".join(f"{kind.type} in {kind.unit}" for kind in self.sample_types[:SHOWN_TYPES])
        if len(self.sample_types) > SHOWN_TYPES:
            types += f" and {len(self.sample_types) - SHOWN_TYPES} more"
        samples = "samples unread" if self._samples is None and self.load else f"{len(self.samples):,} samples"
        size = f"{len(self.mappings):,} mappings, {len(self.address):,} locations, {samples}"
        return f"<Profile {ascii(self.format or 'made')[1:-1]}: {ascii(types)[1:-1][:SHOWN_CHARACTERS]}; {size}>"

    @property
    def frames(self) -> list[Frames]:
        """The frames of every location, () if it has none; a list that may be changed."""
        frames = self.own_frames
        for named in self.named:
            chains = named.table.chains()
            for location, number in zip(named.locations, named.chains, strict=True):
                frames[location] = chains[number]
        self.named.clear()
        return frames

    @frames.setter
    def frames(self, frames: list[Frames]) -> None:
        self.named.clear()
        self.own_frames = frames

    @property
    def samples(self) -> Samples:
        """The samples, decoded on first use; can be set. Raises ProfileError if they are damaged."""
        if self._samples is None:
            self._samples = self.load() if self.load else Samples()
            self._read_samples = self._samples.added
        self._samples.belong_to(self)
        return self._samples

    @samples.setter
    def samples(self, samples: Samples) -> None:
        self._samples, self._read_samples, self.origin = samples, samples.added, None

    @property
    def unchanged_origin(self) -> object:
        """`origin`, or None if samples were added."""
        if self._samples is not None and self._samples.added != self._read_samples:
            return None
        return self.origin

    def filter(self, predicate: Callable[[Sample], bool]) -> Self:
        """Return a profile of the samples for which `predicate` is true. It shares locations, mappings and names.

            only = profile.filter(lambda sample: sample.labels.get("comm") == "nginx")

        `predicate` is called once for each sample.
        """
        if not callable(predicate):
            raise TypeError(f"filter() needs a function: filter(lambda sample: {predicate!r} in sample.functions)")
        samples = self.samples
        selected = [index for index in range(len(samples)) if predicate(Sample(self, index))]
        filtered = copy(self)
        if self.unwinding is not None:
            line, rows = samples.timeline, set(selected)
            events = None if line is None else [event for event, row in enumerate(line.sample) if row in rows]
            filtered.unwinding = Derived([self], lambda parents: _filtered(parents[0], events, predicate))
        filtered.samples = Samples(
            samples.first,
            samples.stack,
            array("I", map(samples.of.__getitem__, selected)),
            [array("q", map(column.__getitem__, selected)) for column in samples.values],
            [samples.labels[index] for index in selected],
            timeline=samples.timeline.of(selected, len(samples)) if samples.timeline else None,
            base=[array("q", map(column.__getitem__, selected)) for column in samples.base],
        )
        return filtered

    def timed(self) -> Self:
        """Return a profile with a sample for each event of the timeline, with its time as a label.

        The label is "time", in nanoseconds of the recorder's clock: the only way to store times in pprof and OTLP.
        Locations, mappings and names are shared. Without a timeline the samples are unchanged.
        """
        samples, line = self.samples, self.samples.timeline
        timed = copy(self)
        if self.unwinding is not None:
            timed.unwinding = Derived([self], lambda parents: parents[0].timed())
        if line is None:
            return timed
        order = line.in_order()
        rows = [line.sample[event] for event in order]
        times = array("q", map(line.time.__getitem__, order))
        columns = [array("q", map(column.__getitem__, order)) for column in line.values]
        timed.samples = Samples(
            samples.first,
            samples.stack,
            array("I", map(samples.of.__getitem__, rows)),
            columns,
            [
                (*samples.labels[row], Label("time", number=time, unit="nanoseconds"))
                for row, time in zip(rows, times, strict=True)
            ],
            timeline=Timeline(array("I", range(len(rows))), times, columns),
        )
        return timed

    def location(self, mapping: int, address: int, frames: Frames = ()) -> int:
        """Append a location and return its index.

        Args:
            mapping: index of its mapping, or NO_MAPPING.
            address: runtime address, or vaddr if the mapping does not contain it.
            frames: innermost first.
        """
        self.mapping.append(mapping)
        self.address.append(address)
        self.frames.append(frames)
        return len(self.address) - 1

    def put_files_first(self) -> None:
        """Sort mappings of files before other mappings: readers of pprof take the first mapping for the program."""
        order = sorted(range(len(self.mappings)), key=lambda index: not self.mappings[index].path.startswith("/"))
        rows = {index: row for row, index in enumerate(order)} | {NO_MAPPING: NO_MAPPING}
        self.mappings = [self.mappings[index] for index in order]
        self.mapping = array("q", map(rows.__getitem__, self.mapping))

    def skip(self, part: str, expected: str, line: str) -> None:
        """Count a line of text that could not be read."""
        self.skipped += 1
        self.first_skipped = self.first_skipped or (part, expected, line[:SHOWN_CHARACTERS])

    def check_skipped(self, read: int) -> None:
        """Raise ProfileError if more lines were skipped than `read`: the text is not a profile."""
        if self.first_skipped is not None and self.skipped > read:
            part, expected, line = self.first_skipped
            problem = f"not a profile: {part}: expected {expected}, found {shown(line)}"
            raise ProfileError("", None, problem, found=line, code=WRONG_KIND)

    def name(self, location: int, frames: Frames) -> None:
        """Set the frames of a location."""
        column = self.frames if location in self.changed else self.own_frames  # all locations in `named` are changed
        column[location] = frames
        self.changed.add(location)
        self.reasons.pop(location, None)
        self.starts.pop(location, None)

    def __reduce__(self) -> tuple[object, ...]:
        """Return the state for pickle and deepcopy, without the object that the profile was read from."""
        replaced = {
            "own_frames": self.frames,
            "named": [],
            "_samples": self.samples,
            "load": None,
            "origin": None,
            "unwinding": None,
        }
        return type(self), tuple((as_dict(self) | replaced).values())

    def mapping_of(self, location: int) -> Mapping | None:
        """Return the mapping of a location; None if it has none."""
        index = self.mapping[location]
        return None if index == NO_MAPPING else self.mappings[index]


class Derived:
    """The unwinding of a profile that was made of others: unwinds copies of these, and makes the profile again."""

    def __init__(self, parents: Sequence[ProfileData], make: Callable[[list[ProfileData]], ProfileData]) -> None:
        self._parents, self._make = parents, make

    def unwind(self, profile: ProfileData, locator: Locator) -> None:
        unwound = []
        for parent in self._parents:
            result = parent
            if parent.unwinding is not None:
                result = copy(parent)
                parent.unwinding.unwind(result, locator)
            unwound.append(result)
        for name, value in as_dict(self._make(unwound)).items():
            setattr(profile, name, value)


def _filtered(profile: ProfileData, events: list[int] | None, predicate: Callable[[Sample], bool]) -> ProfileData:
    """Return the events of an unwound profile that were selected before; without times, filter its samples again."""
    if events is None or profile.samples.timeline is None:
        return profile.filter(predicate)
    filtered = copy(profile)
    filtered.samples = profile.samples.of_events(events)
    return filtered
