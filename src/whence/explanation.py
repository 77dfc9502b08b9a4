"""Why an address of a binary has its frames, or none: each step with its outcome.

For an object file: segment and section, every search for a debug file, the frames by each source of names, what was
read and why, other names at the address, the range and line row that answered; or what is missing and what to do.
"""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from whence import lidia
from whence._base.errors import WhenceError, plain
from whence._base.model import Frame, Frames
from whence._base.reasons import NAMELESS, NOT_CODE, Missing, Reason, remedy_for
from whence.demangle import demangle
from whence.lidia.writer import write
from whence.objects.elf.function_symbols import aliases
from whence.objects.pe import PeFile

if TYPE_CHECKING:
    from whence.lidia.table import Table
    from whence.locate.search import Search
    from whence.objects.interface import ObjectFile
    from whence.planner import Plan
    from whence.producers import Producers


SOURCES = {"DWARF": "dwarf", ".gopclntab": "gopclntab", "symbols": "symtab"}
"""What each source of names is called, and its name among the options of `whence.open`."""
ALIASES_SHOWN = 8
PROBLEMS_SHOWN = 5


class Step(NamedTuple):
    """A step, its outcome, and whether that is good (None: neither)."""

    what: str
    outcome: str
    good: bool | None = None

    def __str__(self) -> str:
        mark = {True: "+", False: "-", None: " "}[self.good]
        return f"{mark} {self.what:<22} {plain(self.outcome)}"


class Explanation(NamedTuple):
    """The steps for one address, its frames, or a remedy. Prints one step per line."""

    vaddr: int
    steps: tuple[Step, ...]
    frames: Frames = ()
    remedy: str = ""
    in_code: bool = True

    def __bool__(self) -> bool:
        """Return True if there are frames."""
        return bool(self.frames)

    def __repr__(self) -> str:
        summary = short(self.frames[0]) if self.frames else "no frames"
        return f"<whence.Explanation of {self.vaddr:#x}: {summary}, {len(self.steps)} steps>"

    def __str__(self) -> str:
        to_do = [Step("to do", self.remedy)] if self.remedy else []
        return "\n".join(map(str, [*self.steps, *to_do]))


def explain_archive(path: str, build_id: str, table: Table, vaddr: int) -> Explanation:
    """Explain the frames that the table of an archive has for a vaddr."""
    head = Step("archive", f"{path}, build-id {build_id or 'none'}")
    frames, steps = what_answers(table, vaddr, "the archive names nothing at this address")
    return Explanation(vaddr, (head, *steps), frames, "" if frames else Reason.NOT_IN_ARCHIVE.remedy)


def explain_elf(
    producers: Producers, searches: Sequence[Search], plan: Plan, table: Table, vaddr: int, mapped: str = ""
) -> Explanation:
    """Explain the frames that `table`, which was built by `plan`, has for a vaddr.

    `searches` are those for the files that complete the ELF file, and may grow when sources are read. `mapped` is the
    path that a process knows the file by, if that is another one.
    """
    elf = producers.elf
    kind = ", ".join([elf.format, f"{elf.bits}-bit", f"{elf.order}-endian"])
    steps = [Step("file", f"{elf.path}: {kind}, build-id {elf.build_id or elf.go_build_id or 'none'}")]
    steps += [Step(name, value) for name, value in elf.details.items()]
    in_code, more = where_in(elf, vaddr)
    steps += more
    steps.append(Step("plan", str(plan)))
    if producers.names_file is not None:
        steps.append(source(producers, producers.names_file.format, vaddr))
    steps += [source(producers, name, vaddr) for name in SOURCES if producers.names_file is not elf]
    for search in searches:
        steps += [Step(search.wanted, str(tried), tried.outcome.code == "taken" or None) for tried in search.tried]
    steps += other_names(elf, vaddr)
    reason = producers.why_unnamed() if in_code else Reason.OUTSIDE_SEGMENTS
    frames, more = what_answers(table, vaddr, reason.sentence)
    steps += more
    steps += [Step("skipped", problem) for problem in islice(producers.all_problems(), PROBLEMS_SHOWN)]
    remedy = "" if frames else what_helps(producers, in_code, mapped or os.path.abspath(elf.path))
    return Explanation(vaddr, tuple(steps), frames, remedy, in_code)


def where_in(elf: ObjectFile, vaddr: int) -> tuple[bool, list[Step]]:
    """Return whether an address is in code, and the steps for its segment and section."""
    segment = next(
        (segment for segment in elf.segments if segment.is_loaded and segment.vaddr <= vaddr < segment.end), None
    )
    if segment is None:
        return False, [Step("segment", f"none loads {vaddr:#x}", False)]
    code = segment in elf.code_segments()
    kind = "executable" if segment.executable else "not executable, but code" if code else "not executable"
    offset = elf.file_offset_of(vaddr)
    location = f", byte {offset:#x} of the file" if offset is not None else ", no byte of the file"
    steps = [Step("segment", f"{segment.vaddr:#x}-{segment.end:#x}, {kind}{location}", code)]
    section = next(
        (
            section
            for section in elf.sections
            if section.vaddr and section.vaddr <= vaddr < section.vaddr + section.size
        ),
        None,
    )
    if section is not None:
        steps.append(Step("section", f"{section.name} + {vaddr - section.vaddr:#x}"))
    index = bisect_right(elf.function_starts, vaddr)
    if index:
        start = elf.function_starts[index - 1]
        steps.append(Step("function start", f"{start:#x} + {vaddr - start:#x}"))
    return code, steps


def source(producers: Producers, name: str, vaddr: int) -> Step:
    """Return the step of one source of names."""
    if name == "DWARF" and producers.debug_info is None:
        return Step(name, "none in the file or a debug file of it")
    label = "PDB" if name == "DWARF" and producers.pdb is not None else name
    if name == ".gopclntab" and producers.pclntab is None:
        return Step(name, "; ".join(map(str, producers.problems)) or "none: not a Go program")
    try:
        units = producers.units_at((vaddr,)) if name == "DWARF" else []
        frames = frames_by(producers, SOURCES.get(name, "exchange"), units, vaddr)
    except (WhenceError, OSError) as error:
        return Step(label, str(error), False)
    kind = "unit" if producers.linked is None else "object file"
    if producers.pdb is not None:
        kind = "module"
    where = f" in {len(units)} {kind}{'s' if len(units) != 1 else ''}" if name == "DWARF" else ""
    return Step(label, " < ".join(map(short, frames)) or f"nothing{where} covers the address", bool(frames))


def frames_by(producers: Producers, source: str, units: list[int], vaddr: int) -> Frames:
    """Return the frames of an address by one source."""
    out = io.BytesIO()
    with producers.reading():
        write(producers.ranges(units, near=(vaddr,), only=source), out, crc=False)
    with lidia.from_bytes(out.getvalue()) as table:
        return table.lookup(vaddr)


def other_names(elf: ObjectFile, vaddr: int) -> Iterator[Step]:
    try:
        names = aliases(elf, vaddr)
    except WhenceError:
        return
    if len(names) > 1:
        more = f" and {len(names) - ALIASES_SHOWN} more" if len(names) > ALIASES_SHOWN else ""
        yield Step("aliases", ", ".join(map(demangle, names[:ALIASES_SHOWN])) + more)


def what_answers(table: Table, vaddr: int, otherwise: str) -> tuple[Frames, list[Step]]:
    """Return the frames of a vaddr, and as steps the ranges and line rows that they come from."""
    steps = []
    for index in table.lookup_many([vaddr]).range_index:
        entry = table[index]
        row = next((row for row in reversed(entry.line_table) if row[0] <= vaddr - entry.vaddr), None)
        said = f"line row +{row[0]:#x}: line {row[1]}" if row else "no line row"
        call = f", called at {entry.call_file}:{entry.call_line}" if entry.depth else ""
        steps.append(
            Step(
                "range", f"{entry.vaddr:#x}-{entry.end:#x} depth {entry.depth} {demangle(entry.function)}{call}; {said}"
            )
        )
    frames = table.lookup(vaddr)
    return frames, [*steps, *(frame_steps(frames) if frames else [Step("answer", f"none: {otherwise}", False)])]


def frame_steps(frames: Frames) -> Iterator[Step]:
    for frame in frames:
        inlined = " (inlined)" if frame.inlined else ""
        start = f", which starts on line {frame.start_line}" if frame.start_line else ""
        yield Step("answer", f"{short(frame)}{inlined}{start}, by {frame.source or 'unknown'}", True)


def short(frame: Frame) -> str:
    location = f" {frame.file}:{frame.line}" if frame.file else ""
    return demangle(frame.function) + location


def what_helps(producers: Producers, in_code: bool, path: str) -> str:
    """Return what to do about an address that has no name."""
    if not in_code:
        return NOT_CODE
    if producers.debug_info is not None:
        return NAMELESS
    if isinstance(producers.elf, PeFile):
        name = producers.elf.pdb_name or "its PDB file"
        return f"put {name} beside the file or give it with --binary, or use --symbol-server URL"
    if producers.elf.format == "Mach-O":
        return f"put the dSYM of UUID {producers.elf.build_id or 'unknown'} beside the file, or give it with --binary"
    return remedy_for(Missing(Reason.NO_DEBUG_FILE), path, producers.elf.build_id)
