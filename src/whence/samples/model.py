"""A profile as every reader fills it and every writer reads it.

The class with what can be done with a profile (symbolize, write) is `whence.profiles.Profile`: it knows the formats,
which know only this one.

    mappings    which file lay where (`Mapping`), and its build-id
    locations   a mapping (NO_MAPPING: none), an address, and its chain of frames: () as long as it has no name, with
                the reason beside it
    samples     stacks of locations, leaf first, with one value for each sample type, and labels: what else is known
                of a sample (thread, CPU, event, time), each a key with a text or a number and its unit

`origin` is what the profile was read from: a writer of the same format changes only the names in it and passes every
other byte on. A profile whose samples were set or added to is written whole. Samples are decoded when they are first
asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

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
    """What a sample counts, for instance ("cpu", "nanoseconds")."""

    type: str
    unit: str


NO_TYPE = SampleType("", "")
SHOWN_TYPES = 4  # what repr shows of a profile's types
SHOWN_CHARACTERS = 200


class Label(NamedTuple):
    """What else a sample says: text or a number with its unit."""

    key: str
    text: str = ""
    number: int = 0
    unit: str = ""


class Mapping(procmap_mapping.Mapping):
    """A mapping of a process as a profile has it: [start, end) showed `path` from byte file_offset on.

    Where the addresses are runtime ones, start is where the file was mapped; where they are vaddrs already, start and
    end are 0 or do not hold the address. What a profile does not say of a mapping has its default.
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
        """The first byte of the file that it shows: `offset`."""
        return self.offset


class LostSamples(NamedTuple):
    """Samples that the recorder could not keep: how many, when (nanoseconds of its clock), and of which thread."""

    samples: int
    time: int = 0
    pid: int = 0
    tid: int = 0


class Timeline(Record):
    """When samples were taken: event i is one of sample[i], at time[i], and counts values[t][i] of type t.

    Times are nanoseconds of the recorder's clock, in any order. The values of a sample's events add up to its own.
    """

    sample: array[int] = field(default_factory=lambda: array("I"))
    time: array[int] = field(default_factory=lambda: array("q"))
    values: list[array[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.sample)

    def __repr__(self) -> str:
        return f"<Timeline: {len(self):,} events>"

    def in_order(self) -> list[int]:
        """The events in order of time."""
        return sorted(range(len(self.time)), key=self.time.__getitem__)

    def of(self, kept: list[int], samples: int) -> Timeline:
        """The events of some of `samples` samples, which are counted anew in the order given."""
        new = array("q", [-1]) * samples
        for at, index in enumerate(kept):
            new[index] = at
        events = [at for at, index in enumerate(self.sample) if new[index] >= 0]
        return Timeline(
            array("I", [new[self.sample[at]] for at in events]),
            array("q", map(self.time.__getitem__, events)),
            [array("q", map(column.__getitem__, events)) for column in self.values],
        )


class Samples(Record):
    """Sample i has the locations of stack of[i] (leaf first), values[t][i] of type t, and labels[i].

    Stack s is stack[first[s]:first[s + 1]]. Samples may share stacks, as OTLP's do: what they would take apart has no
    bound in the size of the file. Equal samples are one; where it is known when each was taken, `timeline` says so.
    Of a difference of two profiles, base[t][i] is what the older one had.
    """

    first: array[int] = field(default_factory=lambda: array("Q", [0]))
    stack: array[int] = field(default_factory=lambda: array("I"))
    of: array[int] = field(default_factory=lambda: array("I"))
    values: list[array[int]] = field(default_factory=list)
    labels: list[tuple[Label, ...]] = field(default_factory=list)
    added: int = 0  # how many were added by `add`
    timeline: Timeline | None = None
    base: list[array[int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.of)

    def __repr__(self) -> str:
        return f"<Samples: {len(self):,} of {len(self.first) - 1:,} stacks, {len(self.values)} values each>"

    def locations(self, sample: int) -> array[int]:
        """The stack of a sample, leaf first: indices of locations."""
        return self.locations_of(self.of[sample])

    def locations_of(self, stack: int) -> array[int]:
        """The locations of a stack, leaf first."""
        return self.stack[self.first[stack] : self.first[stack + 1]]

    def of_events(self, kept: list[int]) -> Samples:
        """The samples of some events of the timeline, with what those count."""
        assert self.timeline is not None
        rows = sorted({self.timeline.sample[at] for at in kept})
        place = {row: at for at, row in enumerate(rows)}
        line = Timeline(
            array("I", [place[self.timeline.sample[at]] for at in kept]),
            array("q", map(self.timeline.time.__getitem__, kept)),
            [array("q", map(column.__getitem__, kept)) for column in self.timeline.values],
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
        """Append a sample with a stack of its own: locations leaf first, a value of each type. ValueError otherwise."""
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
    """Locations that a file named, and which chain of a table each of them has."""

    locations: memoryview
    chains: memoryview
    table: ChainTable


class Sample:
    """One sample of a profile, as a person asks about it: a view, made anew for each one."""

    __slots__ = ("_profile", "index")

    def __init__(self, profile: ProfileData, index: int) -> None:
        self._profile, self.index = profile, index

    def __repr__(self) -> str:
        inner = next(iter(self.functions), "no name")
        return f"<Sample {self.index}: {list(self.values)} in {ascii(inner)[1:-1][:SHOWN_CHARACTERS]}>"

    @property
    def locations(self) -> array[int]:
        """The locations of its stack, leaf first: indices into the profile's columns."""
        return self._profile.samples.locations(self.index)

    @property
    def frames(self) -> Frames:
        """The named frames of its stack, innermost first; locations without a name have none."""
        return tuple(frame for location in self.locations for frame in self._profile.frames[location])

    @property
    def functions(self) -> list[str]:
        """The functions of its frames, innermost first."""
        return [frame.function for frame in self.frames]

    @property
    def values(self) -> tuple[int, ...]:
        """Its value of each sample type."""
        return tuple(column[self.index] for column in self._profile.samples.values)

    @property
    def labels(self) -> dict[str, str | int]:
        """What else is known of it, by key: texts, or numbers where there is no text."""
        return {one.key: one.text or one.number for one in self._profile.samples.labels[self.index]}


class Unwinding(Protocol):
    """Samples with registers and stack bytes."""

    def unwind(self, profile: ProfileData, locator: Locator, /) -> None:
        """Give them their stacks, by the files that `locator` finds."""
        ...


class ProfileData(Record):
    """One profile. Locations are columns: location i is mapping[i], address[i], frames[i], reasons.get(i).

    What files answered is kept as columns, in `named`, until somebody asks for the frames.
    """

    sample_types: list[SampleType] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    mapping: array[int] = field(default_factory=lambda: array("q"))
    address: array[int] = field(default_factory=lambda: array("Q"))
    own_frames: list[Frames] = field(default_factory=list)  # of the locations that are in no column of `named`
    reasons: dict[int, str] = field(default_factory=dict)
    default_type: int = 0
    time_ns: int = 0
    duration_ns: int = 0
    period: int = 0
    period_type: SampleType = NO_TYPE
    comments: list[str] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)  # locations that got their frames from us
    system_names: dict[str, str] = field(default_factory=dict)  # readable name -> linkage name, where they differ
    format: str = ""  # pprof, otlp, perf or folded: what it was read from; "" when it was made by hand
    origin: object = None
    stored: int = NO_BOUND  # bytes it was read from: what is made of it is bounded by them
    lost: list[LostSamples] = field(default_factory=list)
    skipped: int = 0  # lines of text that could not be read
    first_skipped: tuple[str, str, str] | None = None  # where the first one is, what was expected there, its text
    notes: list[str] = field(default_factory=list)  # what its reader says of it: losses, parts that are not read
    unwinding: Unwinding | None = None  # samples whose stacks wait for the files that say how to unwind them
    kernel_names: str = ""  # a list of the kernel's names (kallsyms) that was kept with it, by its path
    named: list[NamedLocations] = field(default_factory=list)  # what files answered, the last of a location counts
    load: Callable[[], Samples] | None = None
    _samples: Samples | None = None
    _read_samples: int = 0  # of those that were read, how many `add` had made

    def __repr__(self) -> str:
        types = ", ".join(f"{one.type} in {one.unit}" for one in self.sample_types[:SHOWN_TYPES])
        if len(self.sample_types) > SHOWN_TYPES:
            types += f" and {len(self.sample_types) - SHOWN_TYPES} more"
        samples = "samples unread" if self._samples is None and self.load else f"{len(self.samples):,} samples"
        size = f"{len(self.mappings):,} mappings, {len(self.address):,} locations, {samples}"
        return f"<Profile {ascii(self.format or 'made')[1:-1]}: {ascii(types)[1:-1][:SHOWN_CHARACTERS]}; {size}>"

    @property
    def frames(self) -> list[Frames]:
        """The frames of every location, () where there are none; a list that may be changed."""
        frames = self.own_frames
        for one in self.named:
            chains = one.table.chains()
            for location, number in zip(one.locations, one.chains, strict=True):
                frames[location] = chains[number]
        self.named.clear()
        return frames

    @frames.setter
    def frames(self, frames: list[Frames]) -> None:
        self.named.clear()
        self.own_frames = frames

    @property
    def samples(self) -> Samples:
        """The samples, decoded when they are first asked for; may be set. ProfileError where they are damaged."""
        if self._samples is None:
            self._samples = self.load() if self.load else Samples()
            self._read_samples = self._samples.added
        return self._samples

    @samples.setter
    def samples(self, samples: Samples) -> None:
        self._samples, self._read_samples, self.origin = samples, samples.added, None

    @property
    def unchanged_origin(self) -> object:
        """What the profile was read from, as long as its samples are the ones that were read; else None."""
        if self._samples is not None and self._samples.added != self._read_samples:
            return None
        return self.origin

    def filter(self, predicate: Callable[[Sample], bool]) -> Self:
        """A profile of the samples for which the predicate is true; locations, mappings and names are shared.

            only = profile.filter(lambda sample: sample.labels.get("comm") == "nginx")

        Takes a call for each sample. The new profile is written whole, in any format.
        """
        samples = self.samples
        kept = [index for index in range(len(samples)) if predicate(Sample(self, index))]
        found = copy(self)
        if self.unwinding is not None:
            line, chosen = samples.timeline, set(kept)
            events = None if line is None else [at for at, row in enumerate(line.sample) if row in chosen]
            found.unwinding = Derived([self], lambda parents: _filtered(parents[0], events, predicate))
        found.samples = Samples(
            samples.first,
            samples.stack,
            array("I", map(samples.of.__getitem__, kept)),
            [array("q", map(column.__getitem__, kept)) for column in samples.values],
            [samples.labels[index] for index in kept],
            timeline=samples.timeline.of(kept, len(samples)) if samples.timeline else None,
            base=[array("q", map(column.__getitem__, kept)) for column in samples.base],
        )
        return found

    def timed(self) -> Self:
        """A profile with a sample for each event, its time among its labels: "time", in nanoseconds of the recorder's
        clock. Locations, mappings and names are shared. Without a timeline it has the samples there are.

        pprof and OTLP have no other place for times; they grow by as much.
        """
        samples, line = self.samples, self.samples.timeline
        found = copy(self)
        if self.unwinding is not None:
            found.unwinding = Derived([self], lambda parents: parents[0].timed())
        if line is None:
            return found
        order = line.in_order()
        rows = [line.sample[at] for at in order]
        times = array("q", map(line.time.__getitem__, order))
        columns = [array("q", map(column.__getitem__, order)) for column in line.values]
        found.samples = Samples(
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
        return found

    def location(self, mapping: int, address: int, frames: Frames = ()) -> int:
        """Append a location. Returns its index."""
        self.mapping.append(mapping)
        self.address.append(address)
        self.frames.append(frames)
        return len(self.address) - 1

    def put_files_first(self) -> None:
        """Order the mappings: files first, the kernel's and other memory last. Readers of pprof take the first one for
        the program."""
        order = sorted(range(len(self.mappings)), key=lambda index: not self.mappings[index].path.startswith("/"))
        place = {index: row for row, index in enumerate(order)} | {NO_MAPPING: NO_MAPPING}
        self.mappings = [self.mappings[index] for index in order]
        self.mapping = array("q", map(place.__getitem__, self.mapping))

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
        """Give a location its frames."""
        held = self.frames if location in self.changed else self.own_frames  # those in columns are all changed
        held[location] = frames
        self.changed.add(location)
        self.reasons.pop(location, None)

    def __reduce__(self) -> tuple[object, ...]:
        """What pickle and copy keep: all but what the profile was read from, which nobody needs elsewhere."""
        left = {
            "own_frames": self.frames,
            "named": [],
            "_samples": self.samples,
            "load": None,
            "origin": None,
            "unwinding": None,
        }
        return type(self), tuple((as_dict(self) | left).values())

    def mapping_of(self, location: int) -> Mapping | None:
        """The mapping of a location; None where it has none."""
        index = self.mapping[location]
        return None if index == NO_MAPPING else self.mappings[index]


class Derived:
    """What a profile that was made of others has to wait for: their stacks. Then it is made of them once more."""

    def __init__(self, parents: Sequence[ProfileData], again: Callable[[list[ProfileData]], ProfileData]) -> None:
        self._parents, self._again = parents, again

    def unwind(self, profile: ProfileData, locator: Locator) -> None:
        whole = []
        for parent in self._parents:
            one = parent
            if parent.unwinding is not None:
                one = copy(parent)
                parent.unwinding.unwind(one, locator)
            whole.append(one)
        made = self._again(whole)
        for name, value in as_dict(made).items():
            setattr(profile, name, value)


def _filtered(profile: ProfileData, events: list[int] | None, predicate: Callable[[Sample], bool]) -> ProfileData:
    """The events of a profile that were chosen before its stacks were whole; without times samples are asked again."""
    if events is None or profile.samples.timeline is None:
        return profile.filter(predicate)
    found = copy(profile)
    found.samples = profile.samples.of_events(events)
    return found
