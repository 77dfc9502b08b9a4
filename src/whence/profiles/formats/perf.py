"""Reader of the text of `perf script`, whose lines are described in perf_lines.

Addresses of user code in call graphs are offsets in the file since Linux 5.12. Before, and in samples of one line, they
are runtime addresses, which can be named if the mapping of the file is known: by mapping events (perf script
--show-mmap-events), by -F +dsoff, or because the file is loaded at its vaddrs. Addresses are read as offsets until one
can't be an offset. If only offsets are known, the files are given consecutive ranges above all real addresses. Return
addresses of callers become the byte before, inside the call. Names from perf are kept until they are overwritten.
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
    frame_of,
    header_of,
    looks_like,
    trailing_frame,
)
from whence.profiles.formats.perf_memory import Memories, RuntimeAddresses
from whence.samples import bounds
from whence.samples.kinds import GENERATED
from whence.samples.model import NO_MAPPING, Label, LostSamples, ProfileData, SampleType, Timeline
from whence.samples.text import lines_of

__all__ = ["looks_like", "read"]

INT64_MAX = (1 << 63) - 1


class PerfSample(Record):
    """The sample whose lines are being read."""

    pid: int
    labels: tuple[Label, ...]
    event: str
    period: int
    stack: list[int] = field(default_factory=list)
    inlined: list[Frame] = field(default_factory=list)
    time: int | None = None


class PerfReader:
    """Builds a profile, line by line."""

    def __init__(self, budget: Budget, runtime: bool = False) -> None:
        self.profile = ProfileData(stored=bounds.stored(budget))
        self.budget = budget
        self.memories = Memories(self.profile, budget, runtime)
        self.locations: dict[tuple[object, ...], int] = {}
        self.events: dict[str, None] = {}
        self.counted: set[str] = set()  # events without a period in some sample
        self.samples: dict[
            tuple[str, tuple[int, ...], tuple[Label, ...]], list[int]
        ] = {}  # (event, stack, labels) -> [count, sum of periods, number]
        self.sample: PerfSample | None = None
        self.one_line = False  # whether there was a sample of one line
        self.has_empty = False  # whether there was a sample without a frame
        self.unsure: tuple[int, str] | None = None  # a line that is a header only if a frame follows
        self.frame_locations: dict[tuple[object, ...], int] = {}  # of frames of a process, until it maps more
        self.frames: dict[str, PerfFrame | None] = {}  # by line, as lines repeat
        self.has_files: bool | None = None  # whether frames have their file
        self.labels: dict[tuple[str, int, int], tuple[Label, ...]] = {}
        self.events_of = array("I")  # of each sample with a time: its number in `samples`, time and period
        self.times = array("q")
        self.periods = array("q")

    def line(self, number: int, text: str) -> None:
        """Read a line."""
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
            self.frame_locations.clear()
        else:
            header = header_of(text)
            if header is None or (text[0].isspace() and self.sample is not None and not header.sure):
                self.frame(number, text)
            else:
                self.header(number, text, header)

    def lost(self, text: str) -> None:
        """Count lost samples, if the line is such an event."""
        match = LOST.search(text)
        if match is not None:
            self.budget.charge(bounds.LABEL)
            header = header_of(text[: match.start()])
            time, pid, tid = (header.time or 0, header.pid, header.tid) if header is not None else (0, 0, 0)
            self.profile.lost.append(LostSamples(int(match["count"]), time, pid, tid or pid))

    def header(self, number: int, text: str, header: SampleHeader) -> None:
        self.finish()
        pid = self.memories.threads.get(header.pid, header.pid)
        key = header.comm, pid, header.tid or header.pid * (pid != header.pid)
        labels = self.labels.get(key)
        if labels is None:
            every = Label("comm", key[0]), Label("pid", number=pid), Label("tid", number=key[2])
            labels = self.labels[key] = tuple(label for label in every if label.text or label.number)
        if header.period is None:
            self.counted.add(header.event)
        period = 1 if header.period is None else header.period
        self.sample = PerfSample(pid, labels, header.event, period, time=header.time)
        self.unsure = None if header.sure else (number, text)
        frame = trailing_frame(header)
        if frame is not None:
            self.one_line = True
            self.add(self.sample, frame, one_line=True)

    def frame(self, number: int, text: str) -> None:
        """Read a frame, or another line of a sample: a source line, an instruction, registers, branches."""
        try:
            frame = self.frames[text]
        except KeyError:
            self.budget.charge(bounds.LOCATION + 2 * len(text))
            frame = self.frames[text] = frame_of(text)
        if frame is not None and (text[0] == "\t" or frame.file is not None):
            if self.has_files is None:
                self.has_files = frame.file is not None
            if self.has_files and frame.file is None:
                return  # an instruction
            if self.sample is None:  # -F without any field of a header
                self.sample = PerfSample(0, (), "", 1)
            self.add(self.sample, frame)
            return
        line = LINE.match(text)
        if line is not None and self.sample is not None and (self.sample.stack or self.sample.inlined):
            self.source_line(line["file"], int(line["line"]))
        elif self.sample is None or (text[0] == "\t" and ":" not in text and "#" not in text):
            expected = "a sample's command, pid, time and event"
            if self.sample is not None or text[0] == "\t":
                expected = "a frame's address, name and file"
            self.profile.skip(f"perf line {number}", expected, text)

    def add(self, sample: PerfSample, frame: PerfFrame, *, one_line: bool = False) -> None:
        """Append a frame to the sample."""
        self.unsure = None
        if frame.inlined:
            sample.inlined.append(Frame(frame.name, inlined=True))
            return
        key = frame, sample.pid, bool(sample.stack), one_line
        if not sample.inlined and key in self.frame_locations:
            sample.stack.append(self.frame_locations[key])
            return
        inlined = bool(sample.inlined)
        mapping, address = self.memories.locate(sample.pid, frame, one_line)
        frames = (*sample.inlined, Frame(frame.name)) if frame.name else ()
        sample.inlined = []
        if sample.stack and address:
            address -= 1
        path = "" if mapping == NO_MAPPING else self.profile.mappings[mapping].path
        process = sample.pid if not path or GENERATED.match(path) else 0  # generated code
        location_key = mapping, address, frames, process
        location = self.locations.get(location_key)
        if location is None:
            self.budget.charge(bounds.LOCATION + bounds.FRAME * len(frames))
            location = self.locations[location_key] = self.profile.location(mapping, address, frames)
        if not inlined:
            self.frame_locations[key] = location
        sample.stack.append(location)

    def source_line(self, file: str, line: int) -> None:
        """Set the line of the previous frame: an inlined call, or a location."""
        assert self.sample is not None
        sample = self.sample
        if sample.inlined:
            sample.inlined[-1] = sample.inlined[-1]._replace(file=file, line=line)
        elif sample.stack and self.profile.frames[sample.stack[-1]]:
            frames = self.profile.frames[sample.stack[-1]]
            if not frames[-1].line:
                self.profile.frames[sample.stack[-1]] = (*frames[:-1], frames[-1]._replace(file=file, line=line))

    def finish(self) -> None:
        """Add the current sample to the samples with equal stacks."""
        sample, self.sample = self.sample, None
        if self.unsure is not None:
            (number, text), self.unsure = self.unsure, None
            self.profile.skip(f"perf line {number}", "a sample's command, pid, time and event", text)
            return
        if sample is None:
            return
        self.has_empty |= not sample.stack
        if not sample.stack:
            return
        self.events[sample.event] = None
        key = sample.event, tuple(sample.stack), sample.labels
        counts = self.samples.get(key)
        if counts is None:
            self.budget.charge(bounds.SAMPLE + bounds.ENTRY * len(sample.stack))
            counts = self.samples[key] = [0, 0, len(self.samples)]
        counts[0] += 1
        counts[1] = min(counts[1] + sample.period, INT64_MAX)
        if sample.time is not None:
            self.events_of.append(counts[2])
            self.times.append(sample.time)
            self.periods.append(min(sample.period, INT64_MAX))

    def result(self) -> ProfileData:
        """Return the profile."""
        self.finish()
        self.memories.map_loose_files(self.one_line)
        self.profile.put_files_first()
        profile = self.profile
        names = [name for name in self.events if name]
        profile.sample_types = [SampleType("samples", "count")]
        profile.sample_types += [
            SampleType(name.partition(":")[0], "count" if name in self.counted else unit_of(name)) for name in names
        ]
        profile.default_type = 1 if len(names) == 1 else 0
        self.budget.charge(bounds.ENTRY * len(self.samples) * (1 + len(names)))
        for (event, stack, labels), (count, period, _) in self.samples.items():
            values = [count, *(period if name == event else 0 for name in names)]
            profile.samples.add(list(stack), values, labels)
        if self.samples and len(self.times) == sum(count for count, _, _ in self.samples.values()):
            profile.samples.timeline = self.timeline(names)
        return profile

    def timeline(self, names: list[str]) -> Timeline:
        """Return the time of each sample."""
        kind = [names.index(event) if event in names else -1 for event, _, _ in self.samples]
        self.budget.charge(bounds.ENTRY * len(self.times) * (2 + len(names)))
        values = [array("q", [1]) * len(self.times)]
        for number in range(len(names)):
            rows = zip(self.events_of, self.periods, strict=True)
            values.append(array("q", (period if kind[row] == number else 0 for row, period in rows)))
        return Timeline(self.events_of, self.times, values)


def unit_of(event: str) -> str:
    """Return the unit of an event's period."""
    return "nanoseconds" if event.startswith(("cpu-clock", "task-clock")) else "count"


def read(text: str, budget: Budget | None = None) -> ProfileData:
    """Read the text of `perf script`: the sample types are the number of samples, and the periods of each event.

    Other lines are counted. Raises ProfileError if there are no samples.
    """
    budget = budget or bounds.reading(len(text))
    spent = budget.spent
    try:
        return read_as(text, budget, runtime=False)
    except RuntimeAddresses:
        budget.spent = spent  # the first attempt is released
        return read_as(text, budget, runtime=True)


def read_as(text: str, budget: Budget, *, runtime: bool) -> ProfileData:
    """Read a text whose addresses in call graphs are runtime addresses, or offsets."""
    reader = PerfReader(budget, runtime)
    for number, line in lines_of(text, budget):
        reader.line(number, line)
    profile = reader.result()
    if not reader.samples:
        profile.check_skipped(0)
    if reader.has_empty and not reader.samples:
        raise ProfileError("perf", None, "samples without addresses: run perf script with -F +ip,sym,dso")
    return profile
