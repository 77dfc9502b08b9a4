"""The text of `perf script`, read; perf_lines says what its lines mean.

Addresses of user code in call graphs are offsets in the file since Linux 5.12; before, and in samples of one line, they
are runtime addresses, which can be named when the text says where the file was mapped: by mapping events (perf script
--show-mmap-events), by -F +dsoff, or because the file is not moved when it is loaded. Text is taken for offsets until
an address can't be one. Where only offsets are known, files are placed beside one another above every real address, so
that the profile is one like any other. Callers' addresses are return addresses here; in the profile they are the byte
before, inside the call. Names that perf knew are kept until they are overwritten.
"""

from __future__ import annotations

from array import array

from whence._base.budget import Budget
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence._base.records import Record, field
from whence.profiles.formats.perf_lines import (
    LINE,
    LOST,
    PerfFrame,
    SampleHeader,
    behind,
    header_of,
    looks_like,
    place_of,
)
from whence.profiles.formats.perf_memory import Memories, RuntimeAddresses
from whence.samples import bounds
from whence.samples.kinds import GENERATED
from whence.samples.model import NO_MAPPING, Label, LostSamples, ProfileData, SampleType, Timeline
from whence.samples.text import lines_of

__all__ = ["looks_like", "read"]

LARGEST = (1 << 63) - 1


class PerfSample(Record):
    """One sample as its lines come."""

    pid: int
    labels: tuple[Label, ...]
    event: str
    period: int
    stack: list[int] = field(default_factory=list)
    inlined: list[Frame] = field(default_factory=list)
    time: int | None = None


class PerfReader:
    """The profile as it grows, line by line."""

    def __init__(self, budget: Budget, runtime: bool = False) -> None:
        self.profile = ProfileData(stored=bounds.stored(budget))
        self.budget = budget
        self.memories = Memories(self.profile, budget, runtime)
        self.locations: dict[tuple[object, ...], int] = {}
        self.events: dict[str, None] = {}
        self.samples: dict[
            tuple[str, tuple[int, ...], tuple[Label, ...]], list[int]
        ] = {}  # event, stack, labels -> count, period, its number
        self.sample: PerfSample | None = None
        self.alone = False  # whether a sample of one line was seen
        self.bare = False  # whether a sample without any frame was seen
        self.unsure: tuple[int, str] | None = None  # the header, where only a frame behind it makes it one
        self.known: dict[tuple[object, ...], int] = {}  # frames of a process and their locations, until it maps more
        self.places: dict[str, PerfFrame | None] = {}  # lines repeat
        self.files: bool | None = None  # whether frames come with their file
        self.labels: dict[tuple[str, int, int], tuple[Label, ...]] = {}
        self.events_of = array("I")  # of each sample with a time: which of `samples` it is, when, its period
        self.times = array("q")
        self.periods = array("q")

    def line(self, number: int, text: str) -> None:
        if not text.strip():
            self.finish()
        elif text.startswith("\t"):
            self.frame(number, text)
        elif text.startswith("#"):
            return
        elif "PERF_RECORD_" in text:
            self.finish()
            self.lost(text)
            self.memories.record(text)
            self.known.clear()
        else:
            header = header_of(text)
            if header is None or (text[0].isspace() and self.sample is not None and not header.sure):
                self.frame(number, text)
            else:
                self.header(number, text, header)

    def lost(self, text: str) -> None:
        """Samples that were lost, where a line says so."""
        found = LOST.search(text)
        if found is not None:
            self.budget.charge(bounds.LABEL)
            header = header_of(text[: found.start()])
            time, pid, tid = (header.time or 0, header.pid, header.tid) if header is not None else (0, 0, 0)
            self.profile.lost.append(LostSamples(int(found["count"]), time, pid, tid or pid))

    def header(self, number: int, text: str, header: SampleHeader) -> None:
        self.finish()
        pid = self.memories.threads.get(header.pid, header.pid)
        key = header.comm, pid, header.tid or header.pid * (pid != header.pid)
        labels = self.labels.get(key)
        if labels is None:
            found = Label("comm", key[0]), Label("pid", number=pid), Label("tid", number=key[2])
            labels = self.labels[key] = tuple(one for one in found if one.text or one.number)
        self.sample = PerfSample(pid, labels, header.event, header.period, time=header.time)
        self.unsure = None if header.sure else (number, text)
        place = behind(header)
        if place is not None:
            self.alone = True
            self.add(self.sample, place, alone=True)

    def frame(self, number: int, text: str) -> None:
        """A frame, or what may stand among frames: lines, instructions, registers, branches."""
        try:
            place = self.places[text]
        except KeyError:
            self.budget.charge(bounds.LOCATION + 2 * len(text))
            place = self.places[text] = place_of(text)
        if place is not None and (text[0] == "\t" or place.file is not None):
            if self.files is None:
                self.files = place.file is not None
            if self.files and place.file is None:
                return  # an instruction
            if self.sample is None:  # -F without anything that makes a header
                self.sample = PerfSample(0, (), "", 1)
            self.add(self.sample, place)
            return
        line = LINE.match(text)
        if line is not None and self.sample is not None and (self.sample.stack or self.sample.inlined):
            self.source_line(line["file"], int(line["line"]))
        elif self.sample is None or (text[0] == "\t" and ":" not in text and "#" not in text):
            expected = "a sample's command, pid, time and event"
            if self.sample is not None or text[0] == "\t":
                expected = "a frame's address, name and file"
            self.profile.skip(f"perf line {number}", expected, text)

    def add(self, sample: PerfSample, one: PerfFrame, *, alone: bool = False) -> None:
        """A frame behind those the sample has."""
        self.unsure = None
        if one.inlined:
            sample.inlined.append(Frame(one.name, inlined=True))
            return
        key = one, sample.pid, bool(sample.stack), alone
        if not sample.inlined and key in self.known:
            sample.stack.append(self.known[key])
            return
        inlined = bool(sample.inlined)
        mapping, address = self.memories.place(sample.pid, one, alone)
        frames = (*sample.inlined, Frame(one.name)) if one.name else ()
        sample.inlined = []
        if sample.stack and address:
            address -= 1
        path = "" if mapping == NO_MAPPING else self.profile.mappings[mapping].path
        process = sample.pid if not path or GENERATED.match(path) else 0  # code of one process only
        whole = mapping, address, frames, process
        location = self.locations.get(whole)
        if location is None:
            self.budget.charge(bounds.LOCATION + bounds.FRAME * len(frames))
            location = self.locations[whole] = self.profile.location(mapping, address, frames)
        if not inlined:
            self.known[key] = location
        sample.stack.append(location)

    def source_line(self, file: str, line: int) -> None:
        """The line of the frame before: of the inlined call when one was last, else of the location."""
        assert self.sample is not None
        sample = self.sample
        if sample.inlined:
            sample.inlined[-1] = sample.inlined[-1]._replace(file=file, line=line)
        elif sample.stack and self.profile.frames[sample.stack[-1]]:
            frames = self.profile.frames[sample.stack[-1]]
            if not frames[-1].line:
                self.profile.frames[sample.stack[-1]] = (*frames[:-1], frames[-1]._replace(file=file, line=line))

    def finish(self) -> None:
        """The sample is whole: add it to the equal ones before it."""
        sample, self.sample = self.sample, None
        if self.unsure is not None:
            (number, text), self.unsure = self.unsure, None
            self.profile.skip(f"perf line {number}", "a sample's command, pid, time and event", text)
            return
        if sample is None:
            return
        self.bare |= not sample.stack
        if not sample.stack:
            return
        self.events[sample.event] = None
        key = sample.event, tuple(sample.stack), sample.labels
        counts = self.samples.get(key)
        if counts is None:
            self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(sample.stack))
            counts = self.samples[key] = [0, 0, len(self.samples)]
        counts[0] += 1
        counts[1] = min(counts[1] + sample.period, LARGEST)
        if sample.time is not None:
            self.events_of.append(counts[2])
            self.times.append(sample.time)
            self.periods.append(min(sample.period, LARGEST))

    def whole(self) -> ProfileData:
        self.finish()
        self.memories.place_loose_files(self.alone)
        self.profile.put_files_first()
        profile = self.profile
        names = [name for name in self.events if name]
        profile.sample_types = [SampleType("samples", "count")]
        profile.sample_types += [SampleType(name.partition(":")[0], unit_of(name)) for name in names]
        profile.default_type = 1 if len(names) == 1 else 0
        self.budget.charge(bounds.ENTRY * len(self.samples) * (1 + len(names)))
        for (event, stack, labels), (count, period, _) in self.samples.items():
            values = [count, *(period if name == event else 0 for name in names)]
            profile.samples.add(list(stack), values, labels)
        if self.samples and len(self.times) == sum(count for count, _, _ in self.samples.values()):
            profile.samples.timeline = self.timeline(names)
        return profile

    def timeline(self, names: list[str]) -> Timeline:
        """When each sample was taken."""
        kind = [names.index(event) if event in names else -1 for event, _, _ in self.samples]
        self.budget.charge(bounds.ENTRY * len(self.times) * (2 + len(names)))
        values = [array("q", [1]) * len(self.times)]
        for number in range(len(names)):
            some = (
                period if kind[at] == number else 0 for at, period in zip(self.events_of, self.periods, strict=True)
            )
            values.append(array("q", some))
        return Timeline(self.events_of, self.times, values)


def unit_of(event: str) -> str:
    """What an event's period counts."""
    return "nanoseconds" if event.startswith(("cpu-clock", "task-clock")) else "count"


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """A profile from the text of `perf script`: a sample type for the samples, and one for each event's periods.

    Lines that are neither header nor frame are counted; they are an error where there are no samples.
    """
    budget = budget or bounds.reading(len(text))
    spent = budget.spent
    try:
        return read_as(text, budget, runtime=False)
    except RuntimeAddresses:
        budget.spent = spent  # what was made is let go
        return read_as(text, budget, runtime=True)


def read_as(text: str, budget: Budget, *, runtime: bool) -> ProfileData:
    """The same, with addresses of call graphs taken for runtime addresses or for offsets."""
    reader = PerfReader(budget, runtime)
    for number, line in lines_of(text, budget):
        reader.line(number, line)
    profile = reader.whole()
    if not reader.samples:
        profile.check_skipped(0)
    if reader.bare and not reader.samples:
        raise ProfileError("perf", None, "samples have addresses (perf script -F +ip,sym,dso)")
    return profile
