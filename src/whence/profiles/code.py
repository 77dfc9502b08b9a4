"""Functions of a profile by line and by instruction: `Profile.listing`, `Profile.annotate`.

Lines. A function is a name and a file, inlined or not. A line's self value is that of the samples that end in it; its
total value is that of the samples with the line in their stack, counted once for each sample. Lines of calls that were
inlined are below the line of the call.

Instructions. Functions are those of the executable, with all that was inlined into them. The value of an instruction is
that of the samples at its address, as recorded: processors often report the instruction after the costly one (skid).
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.records import replaced
from whence.listing import Listing, Sources
from whence.listing.build import has_code
from whence.listing.model import LineCosts, ListingOptions
from whence.profiles.non_elf_names import Processes
from whence.profiles.top import type_of
from whence.samples import bounds
from whence.samples.addresses import NOWHERE
from whence.samples.kinds import AddressKind, kind_of
from whence.samples.model import NO_MAPPING
from whence.symbolize import Symbolizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whence._base.budget import Budget
    from whence.binary import Binary
    from whence.listing import SourceOptions
    from whence.profiles.binaries import Binaries
    from whence.samples.model import Mapping, ProfileData

NODE = 200  # bytes of memory that a line of a function needs, about


class FunctionCosts:
    """The lines of one function with their costs, and its first mapping."""

    def __init__(self, mapping: int) -> None:
        self.tree = LineCosts()
        self.mapping = mapping
        self.self = self.total = 0
        self.line = 0


class FunctionLines:
    """The costs of the lines of functions, added up over stacks.

    Args:
        profile: a profile whose locations have names.
        budget: is charged with the memory of lines.
        matches: returns True for the names of functions that are needed.
    """

    def __init__(self, profile: ProfileData, budget: Budget, matches: Callable[[str], bool]) -> None:
        self.functions: dict[tuple[str, str], FunctionCosts] = {}  # by function and file
        self._profile, self._budget = profile, budget
        self._matches = cache(matches)
        self._cells: list[LineCosts | FunctionCosts] = []  # what has a total: lines and functions
        self._numbers: dict[int, int] = {}  # of cells, by id
        self._frames = profile.frames
        self._cells_of: list[list[int] | None] = [None] * len(profile.address)  # of locations
        self._leaves: dict[int, list[tuple[FunctionCosts, LineCosts, bool]]] = {}  # innermost lines of locations

    def _number(self, cell: LineCosts | FunctionCosts) -> int:
        number = self._numbers.setdefault(id(cell), len(self._cells))
        if number == len(self._cells):
            self._cells.append(cell)
        return number

    def _cells_at(self, location: int) -> list[int]:
        """Return the numbers of the lines and functions that a location is in."""
        cells: dict[int, None] = {}
        leaves = self._leaves[location] = []
        frames = self._frames[location]
        for index, frame in enumerate(frames):
            if not self._matches(frame.function):
                continue
            function = self.functions.get((frame.function, frame.file))
            if function is None:
                function = FunctionCosts(self._profile.mapping[location])
                self.functions[frame.function, frame.file] = function
            function.line = function.line or frame.start_line
            self._budget.charge(NODE * (index + 1))
            path = function.tree.nodes(frames[: index + 1])
            cells.update(dict.fromkeys(map(self._number, path)))
            cells[self._number(function)] = None
            leaves.append((function, path[-1], index == 0))
        return list(cells)

    def add_up(self, weights: array[int]) -> None:
        """Add the values of stacks to the costs of their lines; a line that is twice in a stack counts once."""
        samples, cells_of = self._profile.samples, self._cells_of
        sums: list[int] = [0] * len(self._cells)
        last: list[int] = [-1] * len(self._cells)
        stack_of, first = samples.stack, samples.first
        for stack, value in enumerate(weights):
            if not value:
                continue
            begin, end = first[stack], first[stack + 1]
            for location in stack_of[begin:end]:
                cells = cells_of[location]
                if cells is None:
                    cells = cells_of[location] = self._cells_at(location)
                    sums += [0] * (len(self._cells) - len(sums))
                    last += [-1] * (len(self._cells) - len(last))
                self._budget.charge(bounds.ENTRY * len(cells))
                for cell in cells:
                    if last[cell] != stack:
                        last[cell] = stack
                        sums[cell] += value
            if begin < end:
                for function, line, innermost in self._leaves[stack_of[begin]]:
                    line.self += value
                    function.self += value if innermost else 0
        for values, total in zip(self._cells, sums, strict=True):
            values.total += total


def weights_of(profile: ProfileData, kind: int) -> array[int]:
    """Return the value of each stack."""
    samples = profile.samples
    column: Sequence[int] = samples.values[kind] if kind < len(samples.values) else ()
    weights = array("q", bytes(8 * (len(samples.first) - 1)))
    for stack, value in zip(samples.of, column):
        weights[stack] += value
    return weights


def leaf_values(profile: ProfileData, weights: array[int]) -> Counter[int]:
    """Return the value of each location at which stacks end, by the values of stacks."""
    first, stack = profile.samples.first, profile.samples.stack
    values: Counter[int] = Counter()
    for row, value in enumerate(weights):
        if value and first[row] < first[row + 1]:
            values[stack[first[row]]] += value
    return values


def listings(
    profile: ProfileData,
    pattern: str,
    *,
    kind: int | None = None,
    sources: SourceOptions | None = None,
    binaries: Binaries | None = None,
) -> list[Listing]:
    """Return the lines of the functions that match, the most expensive first.

    Args:
        profile: a profile whose locations have names.
        pattern: a regular expression that is searched in names of functions.
        kind: index of the sample type (default: the profile's default type).
        sources: where source files are looked for.
        binaries: finds the files with the debug info, which may have the text or the MD5 of source files.

    Raises ValueError for an invalid pattern.
    """
    matches = compiled(pattern)
    kind = profile.default_type if kind is None else kind
    weights = weights_of(profile, kind)
    budget = bounds.writing(profile.stored, "lines of functions")
    costs = FunctionLines(profile, budget, lambda function: matches(function) is not None)
    costs.add_up(weights)
    functions = costs.functions
    type, total = type_of(profile, kind), sum(weights)
    sources_of: dict[int, Sources] = {}

    def sources_in(mapping: int) -> Sources:
        """Return the source files of a mapping's binary."""
        if mapping not in sources_of:
            sources_of[mapping] = mapping_sources(profile, mapping, sources, binaries)
        return sources_of[mapping]

    return [
        listed(key, function, type.type or "samples", type.unit, total, sources_in(function.mapping))
        for key, function in sorted(functions.items(), key=lambda item: (-abs(item[1].total), item[0]))
        if function.total or function.self
    ]


def mapping_sources(
    profile: ProfileData, index: int, options: SourceOptions | None, binaries: Binaries | None
) -> Sources:
    """Return where the source files of a mapping's binary are, checked by its debug info if that is found."""
    if index == NO_MAPPING:
        return Sources(options)
    mapping = profile.mappings[index]
    debug = None
    if binaries is not None:
        with suppress(WhenceError, OSError):
            opened = binaries.search(mapping).opened
            producers = opened.binary.producers if opened is not None else None
            debug = producers.debug_elf if producers is not None else None
    return Sources(options, mapping.build_id, debug)


def listed(
    key: tuple[str, str], function: FunctionCosts, type: str, unit: str, total: int, sources: Sources
) -> Listing:
    """Return the listing of one function."""
    out = Listing(*key, function.line, type=type, unit=unit, self_cost=function.self, cost=function.total, total=total)
    out.sources = function.tree.sources(sources, out.notes)
    out.lines = list(function.tree.lines(out.sources))
    return out


def compiled(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """Return the search function of a pattern. Raises ValueError."""
    try:
        return re.compile(pattern).search
    except re.error as error:
        raise ValueError(f"invalid regular expression {pattern!r}: {error}") from None
    except (RecursionError, OverflowError, MemoryError):
        raise ValueError("invalid regular expression: it is nested too deeply, or has too large a number") from None


def instruction_listings(
    profile: ProfileData,
    pattern: str,
    binaries: Binaries,
    *,
    kind: int | None = None,
    options: ListingOptions | None = None,
) -> Iterator[Listing]:
    """Yield the instructions of the functions that match, the most expensive first.

    Args:
        profile: a profile whose locations have names.
        pattern: a regular expression that is searched in the names of functions of the executables; functions that
            were inlined are part of their callers.
        binaries: finds the executables.
        kind: index of the sample type (default: the profile's default type).
        options: sources, syntax and skid.

    Raises ValueError for an invalid pattern, ImportError without capstone.
    """
    matches = compiled(pattern)
    kind = profile.default_type if kind is None else kind
    weights = weights_of(profile, kind)
    leaves = leaf_values(profile, weights)
    functions: defaultdict[tuple[str, int], Counter[int]] = defaultdict(Counter)  # values by location
    for location, value in leaves.items():
        frames = profile.frames[location]
        if frames and matches(frames[-1].function) is not None:
            functions[frames[-1].function, profile.mapping[location]][location] += value
    type, total = type_of(profile, kind), sum(weights)
    for (name, mapping), locations in sorted(
        functions.items(), key=lambda item: (-abs(sum(item[1].values())), item[0])
    ):
        for out in annotated(profile, name, mapping, locations, binaries, options or ListingOptions()):
            out.type, out.unit, out.total = type.type or "samples", type.unit, total
            yield out


def annotated(
    profile: ProfileData, name: str, mapping_index: int, locations: Counter[int], binaries: Binaries,
    options: ListingOptions,
) -> Iterator[Listing]:  # fmt: skip
    """Yield the functions of one mapping and name, or a listing without instructions that says why."""
    cost = sum(locations.values())
    empty = Listing(name, self_cost=cost, cost=cost)
    mapping = None if mapping_index == NO_MAPPING else profile.mappings[mapping_index]
    if kind_of(mapping, profile.address[min(locations)]) in (AddressKind.GENERATED, AddressKind.NOWHERE):
        yield from generated(profile, empty, mapping, locations, binaries, options)
        return
    if mapping is None:
        empty.notes.append("no instructions: the profile does not say which file the code is in")
        yield empty
        return
    try:
        search = binaries.search(mapping, len(locations))
        if search.opened is None:
            reason = f": {search.missing.reason.sentence}" if search.missing is not None else ""
            empty.notes.append(f"no instructions: no file for {mapping.path or 'this mapping'}{reason}")
            yield empty
            return
        binary = search.opened.binary
        vaddrs = search.opened.vaddrs(mapping, array("Q", map(profile.address.__getitem__, locations)))
        costs: Counter[int] = Counter()
        for vaddr, value in zip(vaddrs, locations.values(), strict=True):
            costs[vaddr] += value
        costs.pop(NOWHERE, None)
        code = code_of(binary, binaries, mapping.build_id, mapping.path)
        while costs:
            parts = next(iter(binary.parts(min(costs))), [])
            if not parts:
                del costs[min(costs)]
                continue
            spans = [(part.vaddr, part.end) for part in parts]
            own = {vaddr: costs.pop(vaddr) for vaddr in list(costs) if any(low <= vaddr < high for low, high in spans)}
            yield binary.listing_of(parts[0], spans, replaced(options, code=code, costs=own))
    except WhenceError as error:
        empty.notes.append(f"no instructions: {error}")
        yield empty


def generated(
    profile: ProfileData, empty: Listing, mapping: Mapping | None, locations: Counter[int], binaries: Binaries,
    options: ListingOptions,
) -> Iterator[Listing]:  # fmt: skip
    """Yield code that is in no file, from the memory of its process if that still runs and has the same name there."""
    processes = Processes(profile)
    pids = {pid for location in locations for pid in processes.of(mapping, location)}
    if len(pids) != 1 or not binaries.symbol_lists.local:
        empty.notes.append("no instructions: the code is in no file, and the profile does not say which process has it")
        yield empty
        return
    costs = Counter({profile.address[location]: value for location, value in locations.items()})
    (pid,) = pids
    try:
        with Symbolizer(locator=binaries.locator) as symbolizer:
            while costs:
                out = symbolizer.listing_of(pid, min(costs), None, replaced(options, costs=costs))
                if out.function != empty.function:
                    raise LookupError(f"process {pid} now has {out.function} at {min(costs):#x}")
                for vaddr in [vaddr for vaddr in costs if any(low <= vaddr < high for low, high in out.spans)]:
                    del costs[vaddr]
                yield out
    except (LookupError, OSError, WhenceError) as error:
        empty.notes.append(f"no instructions: the code is in no file, and not in the memory of its process: {error}")
        empty.self_cost = empty.cost = sum(costs.values())
        yield empty


def code_of(binary: Binary, binaries: Binaries, build_id: str, path: str) -> str | None:
    """Return the path of the file with the code of a binary; None if it is the binary itself, or was not found."""
    if binary.producers is not None and has_code(binary.producers.elf):
        return None
    search = binaries.locator.find(build_id=build_id or binary.build_id, path=path, kinds=("executable",))
    return search.path or None
