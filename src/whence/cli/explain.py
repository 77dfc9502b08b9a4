"""`whence explain FILE|PID ADDRESS`: the whole chain for one address, each step with what came of it.

A live process: mapping, how its file was opened, whether the build-id is the same, file offset, vaddr. A file: segment
and section, every debug file that was looked for, what each source of names says, other names of the place, and the
range and line row that answered; or what is missing and what to do.
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from whence.cli.files import add_file_options, files
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.words import address, plain
from whence.demangle import demangle
from whence.errors import WhenceError
from whence.model import Frame, Frames

if TYPE_CHECKING:
    from whence.binary import Binary
    from whence.elf import ElfFile
    from whence.procmap import Mapping
    from whence.symbolize import Answer

SOURCES = {"DWARF": "dwarf", ".gopclntab": "gopclntab", "symbols": "symtab"}  # and the option of whence.open for each


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the chain: what was looked at, what came of it, and whether that was good (None: neither)."""

    what: str
    outcome: str
    good: bool | None = None

    def __str__(self) -> str:
        mark = {True: "+", False: "-", None: " "}[self.good]
        return f"{mark} {self.what:<22} {plain(self.outcome)}"


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("where", metavar="FILE|PID", help="an ELF file, an archive, or a live process")
    parser.add_argument("address", metavar="ADDRESS", help="a vaddr of the file, or a runtime address of the process")
    parser.add_argument("--json", action="store_true", help="the steps as JSON")
    add_file_options(parser)


def run(options: Namespace) -> int:
    try:
        asked = address(options.address)
    except ValueError as error:
        print(f"whence explain: {plain(error)}", file=sys.stderr)
        return WRONG_USE
    steps: list[Step] = []
    live = options.where.isdecimal() and not os.path.exists(options.where)
    chain = of_process(int(options.where), asked, options) if live else of_file(options.where, asked, options)
    for step in chain:
        steps.append(step)
        if not options.json:
            print(step, flush=True)
    answered = any(step.what == "answer" and step.good for step in steps)
    if options.json:
        print(json.dumps({"answered": answered, "steps": [asdict(step) for step in steps]}))
    return ANSWERED if answered else SOME_UNKNOWN


# a process


def of_process(pid: int, runtime: int, options: Namespace) -> Iterator[Step]:
    """From a runtime address to the file and vaddr, then on in the file."""
    from whence.symbolize import Symbolizer

    with Symbolizer() as symbolizer:
        symbolizer.resolver.require(pid)
        answer = symbolizer.lookup(pid, runtime)
        mapping = answer.mapping
        if mapping is None:
            none = (
                "the kernel's half of the addresses" if runtime >> 63 else f"none holds {runtime:#x} in process {pid}"
            )
            yield Step("mapping", none, answer.reason is None)
            yield from the_end(answer)
            return
        yield from of_mapping(mapping, runtime)
        path = ""
        if mapping.kind.has_file:
            try:
                path = mapping.openable_path(prefer_name=True)
            except OSError as error:
                yield Step("opened", str(error), False)
            else:
                yield Step("opened", path or "in no way that leads to the mapped file", bool(path))
        if path:
            found = symbolizer.resolver.build_id(path)
            same = not mapping.build_id or found == mapping.build_id
            yield Step("build-id", f"{found or 'none'}{'' if same else f', but {mapping.build_id} was mapped'}", same)
        if answer.vaddr is None or not path:
            yield from the_end(answer)
            return
        yield Step("vaddr", f"{answer.vaddr:#x}, file offset {answer.file_offset:#x}")
        vaddr = answer.vaddr
    yield from of_file(path, vaddr, options, mapping.path)


def of_mapping(mapping: Mapping, runtime: int) -> Iterator[Step]:
    deleted = ", deleted" if mapping.deleted and str(mapping.kind) != "deleted" else ""
    about = f"{mapping.start:#x}-{mapping.limit:#x} {mapping.shown_permissions} {mapping.kind}{deleted}"
    yield Step("mapping", f"{about} {mapping.path or '(no name)'}", mapping.is_exec)
    offset = mapping.file_offset(runtime)
    yield Step("", f"{runtime - mapping.start:#x} into it; maps the file from {mapping.offset:#x}, so byte {offset:#x}")


def the_end(answer: Answer) -> Iterator[Step]:
    """An answer that needed no file, or the reason why there is none."""
    if answer.frames:
        yield from frames_of(answer.frames)
    elif answer.reason is not None:
        detail = f" ({answer.detail})" if answer.detail else ""
        yield Step("answer", f"none: {answer.reason.sentence}{detail}", False)
        yield Step("to do", answer.reason.remedy)


# a file


def of_file(path: str, vaddr: int, options: Namespace, mapped: str = "") -> Iterator[Step]:
    """What a file says of a vaddr. `mapped` is the name a process knows it by, where that is another."""
    from whence.binary import is_archive, open_binary
    from whence.locate.debug_files import Outcome

    with open_binary(path, debug_dirs=options.debug_dir) as binary:
        if is_archive(path):
            yield Step("archive", f"{path}, build-id {binary.build_id or 'none'}")
            yield from what_answers(binary, vaddr, "the archive names nothing at this address")
            return
        assert binary.producers is not None
        elf = binary.producers.elf
        kind = f"ELF, {elf.bits}-bit, {elf.order}-endian"
        yield Step("file", f"{path}: {kind}, build-id {elf.build_id or elf.go_build_id or 'none'}")
        inside = yield from of_address(elf, vaddr)
        for search in binary.producers.searches:
            for tried in search.tried:
                yield Step(search.wanted, str(tried), tried.outcome is Outcome.TAKEN or None)
        for name in SOURCES:
            yield source(path, name, vaddr, options)
        yield from other_names(elf, vaddr)
        answered = yield from what_answers(binary, vaddr, missing(binary, inside))
        lines = any(frame.line for frame in binary.lookup(vaddr))
        for problem in binary.problems[:5]:
            yield Step("skipped", problem)
        identity = elf.build_id
        named = mapped or os.path.abspath(path)
        described = binary.producers.dwarf is not None
    if not lines and inside and (options.debuginfod or options.binary or options.archive_dir):
        yield from elsewhere(path, identity, vaddr, options)
    elif not answered:
        yield Step("to do", remedy(inside, named, identity, described))


def of_address(elf: ElfFile, vaddr: int) -> Generator[Step, None, bool]:
    """Where the address lies in the file; returns whether that is code."""
    segment = next((one for one in elf.segments if one.is_loaded and one.vaddr <= vaddr < one.end), None)
    if segment is None:
        yield Step("segment", f"none loads {vaddr:#x}", False)
        return False
    end = segment.vaddr + segment.memory_size
    code = segment in elf.code_segments()
    kind = "executable" if segment.executable else "not executable, but code" if code else "not executable"
    offset = elf.file_offset_of(vaddr)
    at = f", byte {offset:#x} of the file" if offset is not None else ", no byte of the file"
    yield Step("segment", f"{segment.vaddr:#x}-{end:#x}, {kind}{at}", code)
    section = next((one for one in elf.sections if one.vaddr and one.vaddr <= vaddr < one.vaddr + one.size), None)
    if section is not None:
        yield Step("section", f"{section.name} + {vaddr - section.vaddr:#x}")
    return code


def source(path: str, name: str, vaddr: int, options: Namespace) -> Step:
    """What one source of names says by itself."""
    from whence.binary import open_binary

    dwarf, gopclntab, symtab = (option == SOURCES[name] for option in ("dwarf", "gopclntab", "symtab"))
    try:
        with open_binary(path, debug_dirs=options.debug_dir, dwarf=dwarf, gopclntab=gopclntab, symtab=symtab) as binary:
            producers = binary.producers
            assert producers is not None
            if name == "DWARF" and producers.dwarf is None:
                return Step(name, "none in the file or a debug file of it")
            if name == ".gopclntab" and producers.pclntab is None:
                return Step(name, "; ".join(map(str, producers.problems)) or "none: not a Go program")
            frames = binary.lookup(vaddr)
            units = len(producers.units_at((vaddr,))) if name == "DWARF" else 0
    except (WhenceError, OSError) as error:
        return Step(name, str(error), False)
    where = f" in {units} unit{'s' if units != 1 else ''}" if name == "DWARF" else ""
    return Step(name, " < ".join(map(short, frames)) or f"nothing{where} covers the address", bool(frames))


def other_names(elf: ElfFile, vaddr: int) -> Iterator[Step]:
    from whence.elf.functions import aliases

    try:
        names = aliases(elf, vaddr)
    except WhenceError:
        return
    if len(names) > 1:
        more = f" and {len(names) - 8} more" if len(names) > 8 else ""
        yield Step("aliases", ", ".join(map(demangle, names[:8])) + more)


def what_answers(binary: Binary, vaddr: int, otherwise: str) -> Generator[Step, None, bool]:
    """The ranges and line rows behind the answer, and the answer; returns whether there is one."""
    table = binary.table_for((vaddr,))
    for place in table.lookup_many([vaddr]).range_index:
        one = table[place]
        row = next((row for row in reversed(one.line_table) if row[0] <= vaddr - one.vaddr), None)
        said = f"line row +{row[0]:#x}: line {row[1]}" if row else "no line row"
        call = f", called at {one.call_file}:{one.call_line}" if one.depth else ""
        end = one.end
        yield Step("range", f"{one.vaddr:#x}-{end:#x} depth {one.depth} {demangle(one.function)}{call}; {said}")
    frames = binary.lookup(vaddr)
    if frames:
        yield from frames_of(frames)
    else:
        yield Step("answer", f"none: {otherwise}", False)
    return bool(frames)


def frames_of(frames: Frames) -> Iterator[Step]:
    for frame in frames:
        inlined = " (inlined)" if frame.inlined else ""
        start = f", which starts on line {frame.start_line}" if frame.start_line else ""
        yield Step("answer", f"{short(frame)}{inlined}{start}, by {frame.source or 'unknown'}", True)


def short(frame: Frame) -> str:
    place = f" {frame.file}:{frame.line}" if frame.file else ""
    return demangle(frame.function) + place


def missing(binary: Binary, inside: bool) -> str:
    from whence.reasons import Reason
    from whence.symbolize.naming import why_nothing

    return (why_nothing(binary) if inside else Reason.OUTSIDE_SEGMENTS).sentence


def remedy(inside: bool, path: str, build_id: str, described: bool = False) -> str:
    """What to do about an address of a file that nothing names."""
    from whence.profiles.reasons import Missing
    from whence.profiles.remedies import remedy as remedy_of
    from whence.reasons import Reason

    if not inside:
        return "compare the address with the segments: is it a runtime address or a file offset?"
    if described:
        return "nothing: the debug info is there, and this code has no name (padding, a PLT's head, hand-written code)"
    return remedy_of(Missing(Reason.NO_DEBUG_FILE), path, build_id)


def elsewhere(path: str, build_id: str, vaddr: int, options: Namespace) -> Iterator[Step]:
    """What the files given by hand, the archives and the servers say."""
    from whence.profiles.model import Mapping as Mapped

    with files(options) as binaries:
        binaries.local = False
        search = binaries.search(Mapped(path=path, build_id=build_id))
        for tried in search.tried:
            yield Step("elsewhere", str(tried))
        if search.opened is not None:
            yield Step("elsewhere", search.opened.how, True)
            frames = search.opened.binary.lookup(vaddr)
            yield from frames_of(frames)
            if not frames:
                yield Step("answer", "none there either", False)
        else:
            yield Step("to do", remedy(True, path, build_id))
