"""The crash report of a core or a minidump.

A report has no environment, command line, memory, or values of variables of the process unless that is requested, but
the registers of the crashing thread. Source lines are read only from places that the caller gives, or if the
debug info has the MD5 of the file: paths in debug info are not trusted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from time import gmtime, strftime
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.reasons import Missing, Reason, remedy_for
from whence._base.records import Record
from whence._base.words import counted
from whence.crashes.fault import fault_of
from whence.crashes.model import (
    CrashReport,
    FaultCode,
    MemoryPart,
    ReportFunction,
    ReportModule,
    SourceExcerpt,
    ThreadGroup,
)
from whence.crashes.signature import program_of, signature_of
from whence.listing.model import ListingOptions
from whence.listing.sources import SourceOptions
from whence.objects.machines import machine_name
from whence.symbolize.stacks import ending
from whence.unwind import End

if TYPE_CHECKING:
    from whence.symbolize import Core, NamedFrame, Stack, Symbolizer

AROUND_CODE = 10  # instructions before and after that of the crash
CODE_WITHOUT_FUNCTION = 64  # bytes after the crash that are listed if the function is unknown
AROUND_LINE = 2  # source lines before and after that of a frame
EXCERPTS = 256  # functions with source lines
STACK_BYTES = 512  # of memory, on request
REGISTER_BYTES = 64
OWN_PATH = "its own path"  # origin of a source file at the path in the debug info
FUNCTIONS_ONLY = "source lines"


class ReportOptions(Record, frozen=True):
    """The contents of a report.

    Attributes:
        variables: values of arguments and local variables.
        memory: memory at the stack pointer and the registers of the crash, and the command line.
        sources: where source files are looked for.
        tids: only these threads; by default all.
        scan: guess callers that no table gives.
        syntax: of instructions, for x86: "intel" or "att".
    """

    variables: bool = False
    memory: bool = False
    sources: SourceOptions = SourceOptions()
    tids: Collection[int] | None = None
    scan: bool = False
    syntax: str = "intel"


def crash_report(core: Core, symbolizer: Symbolizer, options: ReportOptions | None = None) -> CrashReport:
    """Return the report of a core or a minidump. Raises OSError, WhenceError if it can no longer be read."""
    options = options or ReportOptions()
    stacks = core.stacks(symbolizer, tids=options.tids, scan=options.scan, variables=options.variables)
    first = stacks[0] if stacks else None
    machine, bits, _ = core.machine()
    excerpts = _Excerpts(core, symbolizer, options.sources)
    groups = tuple(_groups(stacks, excerpts, options.variables))
    modules = tuple(_modules(core, stacks))
    return CrashReport(
        os.path.basename(core.path),
        "core" if core.minidump is None else "minidump",
        machine_name(machine),
        bits,
        core.pid,
        core.command,
        core.executable,
        strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(core.written)) if core.written else "",
        None if first is None else first.signal,
        fault_of(stacks, core.regions()),
        signature_of(first, program_of(core)),
        groups,
        {} if first is None else first.registers,
        FaultCode(note="no thread has registers") if first is None else _code(core, first, symbolizer, options),
        modules,
        tuple(_warnings(core, stacks)),
        options.variables,
        options.memory,
        core.arguments if options.memory else "",
        tuple(_memory(core, first)) if options.memory and first is not None else (),
    )


# threads


def _groups(stacks: Sequence[Stack], excerpts: _Excerpts, has_variables: bool) -> Iterator[ThreadGroup]:
    """Yield threads with equal stacks together: first that of the crash, then by number of threads."""
    equal: dict[object, list[Stack]] = {}
    for stack in stacks:
        equal.setdefault(_key(stack), []).append(stack)
    order = sorted(equal.values(), key=lambda members: (members[0] is not stacks[0], -len(members)))
    for members in order:
        stack = members[0]
        tids, names = tuple(each.tid for each in members), tuple(each.name for each in members)
        yield ThreadGroup(stack, tids, names, tuple(_functions(stack, excerpts, has_variables)))


def _key(stack: Stack) -> object:
    """Return what equal stacks have in common: functions and lines, vaddrs of frames without names, and the end."""
    return (
        tuple(
            tuple(function[:3] for function in frame.place.frames)
            or (frame.place.mapping and frame.place.mapping.path, frame.place.vaddr or frame.pc, frame.is_trampoline)
            for frame in stack.frames
        ),
        stack.end,
        stack.skipped,
        stack.signal,
    )


def _functions(stack: Stack, excerpts: _Excerpts, has_variables: bool) -> Iterator[ReportFunction]:
    number = 0
    for frame in stack.frames:
        for index, function in enumerate(frame.place.frames or (None,)):
            variables = None
            if has_variables and index < len(frame.variables):
                variables = frame.variables[index]
            source = None if function is None else excerpts.of(frame, function.file, function.line)
            yield ReportFunction(number, frame, function, variables, source)
            number += 1


class _Excerpts:
    """Reads source lines, each once, and at most EXCERPTS of them."""

    def __init__(self, core: Core, symbolizer: Symbolizer, sources: SourceOptions) -> None:
        self._core, self._symbolizer, self._sources = core, symbolizer, sources
        self._excerpts: dict[tuple[str, str, int], SourceExcerpt | None] = {}

    def of(self, frame: NamedFrame, file: str, line: int) -> SourceExcerpt | None:
        """Return the lines around a line of a frame's function; None if the file is not found."""
        mapping = frame.place.mapping
        if mapping is None or not file or not line:
            return None
        key = mapping.path, file, line
        if key not in self._excerpts:
            if len(self._excerpts) >= EXCERPTS:
                return None
            self._excerpts[key] = self._read(frame, file, line)
        return self._excerpts[key]

    def _read(self, frame: NamedFrame, file: str, line: int) -> SourceExcerpt | None:
        assert frame.place.mapping is not None
        source = None
        with suppress(OSError, WhenceError):
            source = self._symbolizer.source_file(self._core, frame.place.mapping, file, self._sources)
        if source is None or (source.origin == OWN_PATH and not source.verified) or source.line(line) is None:
            return None
        first = max(1, line - AROUND_LINE)
        return SourceExcerpt(source.origin, first, tuple(source.lines[first - 1 : line + AROUND_LINE]))


# code


def _code(core: Core, stack: Stack, symbolizer: Symbolizer, options: ReportOptions) -> FaultCode:
    """Return the instructions around the crash or, after a jump to an address without code, around the call."""
    for index, frame in enumerate(stack.frames[:2]):
        if frame.place.mapping is not None:
            return _code_at(core, frame, symbolizer, options, is_caller=index > 0)
    return FaultCode(note="no code is mapped at the address of the crash")


def _code_at(
    core: Core, frame: NamedFrame, symbolizer: Symbolizer, options: ReportOptions, *, is_caller: bool
) -> FaultCode:
    symbolized = frame.place
    assert symbolized.mapping is not None
    address = frame.pc - 1 if is_caller else frame.pc
    bias = symbolized.address - symbolized.vaddr if symbolized.vaddr is not None else 0
    path, vaddr = symbolized.mapping.path or f"[{symbolized.mapping.kind.value}]", address - bias
    about = ListingOptions(SourceOptions(own_paths=False), syntax=options.syntax)
    try:
        try:
            listing = symbolizer.listing_of(core, address, None, about)
        except LookupError:  # no function contains it
            listing = symbolizer.listing_of(core, address, address + CODE_WITHOUT_FUNCTION, about)
    except (ImportError, LookupError, OSError, WhenceError) as error:
        note = str(error.args[0] if error.args and isinstance(error, LookupError) else error)
        return FaultCode(path, "", vaddr, bias, note=note, is_caller=is_caller)
    instructions = listing.instructions
    current = next((i for i, each in enumerate(instructions) if each.vaddr <= vaddr < each.end), None)
    if current is None:
        note = "; ".join(listing.notes) or "no instructions at the address of the crash"
        return FaultCode(path, listing.function, vaddr, bias, note=note, is_caller=is_caller)
    first, last = current, current  # of the instructions without a gap
    while first > max(0, current - AROUND_CODE) and instructions[first - 1].end == instructions[first].vaddr:
        first -= 1
    while (
        last < min(len(instructions) - 1, current + AROUND_CODE)
        and instructions[last].end == instructions[last + 1].vaddr
    ):
        last += 1
    window = tuple(instructions[first : last + 1])
    return FaultCode(path, listing.function, vaddr, bias, window, is_caller=is_caller)


# modules and what is missing


def _modules(core: Core, stacks: Sequence[Stack]) -> Iterator[ReportModule]:
    """Yield the files with code, in order of address, and what the frames in each lack."""
    counts: Counter[str] = Counter()
    reasons: dict[str, Reason] = {}
    with_lines: set[str] = set()
    for stack in stacks:
        for frame in stack.frames:
            symbolized = frame.place
            if symbolized.mapping is None:
                continue
            counts[symbolized.mapping.path] += 1
            if symbolized.reason is not None:
                reasons.setdefault(symbolized.mapping.path, symbolized.reason)
            elif any(function.line for function in symbolized.frames):
                with_lines.add(symbolized.mapping.path)
    seen: dict[str, ReportModule] = {}
    for mapping in core.mappings():
        if not mapping.kind.has_file:
            continue
        if mapping.path in seen:
            module = seen[mapping.path]
            seen[mapping.path] = module._replace(end=max(module.end, mapping.end))
            continue
        missing = remedy = ""
        reason = reasons.get(mapping.path)
        if reason is not None:
            missing = reason.sentence
        elif counts[mapping.path] and mapping.path not in with_lines:
            missing, reason = FUNCTIONS_ONLY, Reason.NO_DEBUG_FILE
        if reason is not None:
            remedy = remedy_for(Missing(reason), mapping.path, mapping.build_id)
        seen[mapping.path] = ReportModule(
            mapping.path, mapping.start, mapping.end, mapping.build_id, counts[mapping.path], missing, remedy
        )
    yield from seen.values()


def _warnings(core: Core, stacks: Sequence[Stack]) -> Iterator[str]:
    if core.missing:
        yield f"the dump is truncated: {counted(core.missing, 'byte')} are missing"
    for path in core.unproved:
        yield f"{path} fits, but no build-id in the dump proves it"
    yield from core.problems
    for end, count in Counter(ending(stack) for stack in stacks if stack.end is not End.COMPLETE).items():
        yield f"{counted(count, 'stack')} may be incomplete: {end}"


def _memory(core: Core, stack: Stack) -> Iterator[MemoryPart]:
    """Yield the top of the stack of the crash, and the memory at the addresses in its registers."""
    names: dict[int, list[str]] = {}
    for name, value in stack.registers.items():
        names.setdefault(value, []).append(name)
    sp = stack.frames[0].sp if stack.frames else 0
    wanted = [("the stack", sp, STACK_BYTES)] if sp else []
    wanted += [(", ".join(of), value, REGISTER_BYTES) for value, of in names.items() if value != sp]
    contents = core.read_available([(address, size) for _, address, size in wanted])
    for (title, address, _), content in zip(wanted, contents, strict=True):
        if content:
            yield MemoryPart(title, address, content)
