"""One thread's share of the work: units to scopes, lines, and ranges."""

from __future__ import annotations

from array import array
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from whence.dwarf import units
from whence.dwarf.declarations import Declarations
from whence.dwarf.kernels import scopes as scopes_kernel
from whence.dwarf.line_files import LineBudgets, Paths
from whence.dwarf.lines import LinePrograms
from whence.dwarf.problems import Problems, problem
from whence.dwarf.qualified import qualified_names
from whence.errors import DwarfError
from whence.model import Source
from whence.ranges import Ranges, Rows, Scopes, Starts
from whence.ranges.compose import compose_groups
from whence.ranges.strings import Arena

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.dwarf.sections import Sections
    from whence.dwarf.split import SplitFile
    from whence.dwarf.unit_set import UnitSet

PLAIN = 0xFFFF  # the source of a name that is not qualified yet
BARE = 1 << 61  # of a plain name's key: its DIE says nothing but a name
COLUMNS = ("va", "end", "depth", "function", "call_file", "call_line")

# What Scoper.run tells of each unit: where its scopes end, its fault, the offset of that, where its starts end
TOLD = 4
SCOPES_END, FAULT, FAULT_AT, STARTS_END = range(TOLD)


class Worker:
    """Has scratch, names and a table of its own, so that threads share nothing they write to."""

    def __init__(
        self, info: DebugInfo, sections: Sections, lines: bool, of: UnitSet, passing: int = 0,
        budgets: LineBudgets | None = None,
    ) -> None:  # fmt: skip
        """`passing` is the source of names that will not stay: they are copied. `budgets` are those of all workers."""
        self.info, self.sections, self.lines, self.passing = info, sections, lines, passing
        self.arena = Arena(info.strings)
        self.problems = Problems()
        self._strangers = False
        self._scoper = scopes_kernel.Scoper(of.parts, info.alt, info.style)
        paths = Paths(sections, info.elf.order, self.arena, go=info.elf.is_go, style=info.paths, budgets=budgets)
        self._programs = LinePrograms(sections, info.elf.order, info.lowest, paths, info.strings)
        self._declarations = Declarations(info, self._programs, paths)
        self.turn_to(of)

    def turn_to(self, of: UnitSet) -> None:
        """The units to come are of this set, of the same sections as the ones before."""
        self.of, self.units = of, of.units
        self._scoper.turn_to(of.parts)

    def run(self, groups: list[list[int]]) -> Ranges:
        """The ranges of groups of units; those of a group share a line program."""
        out = Ranges(self.info.strings)
        scopes, ends, rows, row_ends, out.starts = self._found(groups)
        units = array("I", chain.from_iterable(groups))
        unit_ends = array("I", accumulate(map(len, groups)))
        rows, row_ends = self.of.claims.clip(units, unit_ends, scopes, ends, rows, row_ends)
        if len(scopes) or len(rows):
            compose_groups(scopes, ends, rows, row_ends, out, Source.DWARF)
        return out

    def look(self, index: int) -> tuple[Scopes, Rows]:
        """The scopes and rows of one unit, as they are before they become ranges."""
        scopes, _, rows, _, _ = self._found([[index]])
        return scopes, rows

    def _found(self, groups: list[list[int]]) -> tuple[Scopes, array[int], Rows, array[int], Starts]:
        """The scopes and rows of groups of units, and where those of each group end; and where functions start."""
        chosen = array("I", chain.from_iterable(groups))
        found = array("Q", bytes(8 * TOLD * len(chosen)))
        scopes, starts = self._scopes(chosen, found)
        last = [TOLD * (end - 1) for end in accumulate(map(len, groups))]
        ends, start_ends = (array("I", [found[unit + which] for unit in last]) for which in (SCOPES_END, STARTS_END))
        if any(self.units.value(index, units.DWO_NAME) for index in chosen):
            scopes, ends, starts, start_ends = self._with_split(scopes, ends, starts, start_ends, groups)
        if self.lines:
            elsewhere = self._declarations.names_of_others(starts, self.units)
            firsts = array("I", [group[0] for group in groups])
            named = scopes, ends, starts, start_ends
            rows, row_ends = self._programs.read(self.units.rows, firsts, *named, self.problems)
            for place, name in elsewhere.items():
                starts.file[place] = name
        else:
            scopes.call_file = array("Q", bytes(8 * len(scopes)))
            rows, row_ends, starts = Rows(), array("I", bytes(4 * len(groups))), Starts()
        for place, index in enumerate(chosen):
            if fault := found[TOLD * place + FAULT]:
                self._tell(index, fault, found[TOLD * place + FAULT_AT])
        return scopes, ends, rows, row_ends, starts

    def strangers(self) -> bool:
        """Do names lie in units that are not read here?"""
        return self._strangers or bool(self._scoper.strangers())

    def finish(self) -> Problems:
        """Make the names readable; gives the problems met."""
        self.arena.seal()
        return self.problems

    def _tell(self, index: int, fault: int, offset: int) -> None:
        if self.problems.full:
            return
        name = self.info.strings.text(self.units.value(index, units.NAME))
        self.problems.append(problem(fault, offset, index, name))

    def _scopes(self, chosen: array[int], found: array[int], file: SplitFile | None = None) -> tuple[Scopes, Starts]:
        """The scopes of these units of the set, or of a split file, and where they start; `found` as Scoper.run fills
        it."""
        parts, alt, strings, scoper = self.of.parts, self.info.alt, self.info.strings, self._scoper
        if file is not None:
            parts, alt, strings = file.parts, file.alt, file.strings
            scoper = scopes_kernel.Scoper(parts, alt, self.info.style)
        rows, plain, begun = scoper.run(chosen, found)
        wide, narrow = bytes(8 * rows), bytes(4 * rows)
        scopes = Scopes(
            array("Q", wide), array("Q", wide), array("I", narrow), array("Q", wide), array("Q", wide),
            array("I", narrow),
        )  # fmt: skip
        keys = array("Q", bytes(8 * plain))
        scoper.take(scopes.va, scopes.end, scopes.depth, scopes.function, scopes.call_file, scopes.call_line, keys)
        starts = Starts(array("Q", bytes(8 * begun)), array("Q", bytes(8 * begun)), array("I", bytes(4 * begun)))
        scoper.take_starts(starts.function, starts.file, starts.line)
        if file is not None and file.alone:
            own = {name for name in scopes.function if name >> 48 != PLAIN}
            copied = {name: self.arena.add(strings.raw(name)) for name in own}
            for columns in (scopes, starts):
                columns.function = array("Q", [copied.get(name, name) for name in columns.function])
        bare = [place for place, key in enumerate(keys) if key & BARE]
        for place in bare:
            keys[place] ^= BARE
        names, strangers = qualified_names(parts, alt, strings, keys, self.arena) if plain else (array("Q"), False)
        self._strangers |= strangers and file is None
        self.info.bare.update(map(names.__getitem__, bare))
        for columns in (scopes, starts):
            if plain:
                scopes_kernel.rename(columns.function, names)
            if self.passing:
                self._keep_names(columns.function)
        return scopes, starts

    def _keep_names(self, names: array[int]) -> None:
        """Copy those names that will not stay where they are."""
        places = array("I", bytes(4 * len(names)))
        kept: dict[int, int] = {}
        for place in places[: scopes_kernel.of_source(names, self.passing, places)]:
            name = names[place]
            if name not in kept:
                kept[name] = self.arena.add(self.info.strings.raw(name))
            names[place] = kept[name]

    def _with_split(
        self, scopes: Scopes, ends: array[int], starts: Starts, start_ends: array[int], groups: list[list[int]]
    ) -> tuple[Scopes, array[int], Starts, array[int]]:
        """The scopes and starts of groups, each followed by those of the split units of its skeletons. Their files
        count in the skeletons' line programs."""
        out, out_ends, done = Scopes(), array("I"), 0
        begun, begun_ends, before = Starts(), array("I"), 0
        for group, end, start_end in zip(groups, ends, start_ends):
            for name in COLUMNS:
                getattr(out, name).extend(getattr(scopes, name)[done:end])
            begun.extend(starts.part(before, start_end))
            for index in group:
                self._add_split(out, begun, index)
            out_ends.append(len(out))
            begun_ends.append(len(begun))
            done, before = end, start_end
        return out, out_ends, begun, begun_ends

    def _add_split(self, scopes: Scopes, starts: Starts, index: int) -> None:
        """Append the scopes and starts of the split unit of a skeleton, if it is one."""
        if not self.units.value(index, units.DWO_NAME):
            return
        try:
            where = self.info.split.find(self.units, index)
        except DwarfError as error:
            self.problems.append(error)
            return
        if where is not None:
            file, at = where
            found = array("Q", bytes(8 * TOLD))
            more, begun = self._scopes(array("I", [at]), found, file)
            for name in COLUMNS:
                getattr(scopes, name).extend(getattr(more, name))
            self._declarations.forget_others(begun)
            starts.extend(begun)
            if found[FAULT]:
                self._tell(index, found[FAULT], found[FAULT_AT])
            if file.alone:
                elf = file.elf
                del where, file
                elf.close()
