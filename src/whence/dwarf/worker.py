"""One thread's share of the work: units to scopes, lines, and ranges."""

from __future__ import annotations

from array import array
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from whence.dwarf import scopes_kernel, units
from whence.dwarf.declarations import Declarations
from whence.dwarf.line_files import FileNames, Paths
from whence.dwarf.lines import LineTable, read_lines
from whence.dwarf.problems import problem
from whence.dwarf.programs import Programs
from whence.dwarf.qualified import qualified_names
from whence.errors import DwarfError
from whence.model import Source
from whence.ranges import Ranges, Rows, Scopes, Starts
from whence.ranges.compose import compose_groups
from whence.ranges.strings import Arena

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.dwarf.split import SplitFile
    from whence.dwarf.unit_set import UnitSet

PLAIN = 0xFFFF  # the source of a name that is not qualified yet
COLUMNS = ("va", "end", "depth", "function", "call_file", "call_line")


class Worker:
    """Has scratch, names and a table of its own, so that threads share nothing they write to."""

    def __init__(self, info: DebugInfo, lines: bool, of: UnitSet) -> None:
        self.info, self.lines, self.units = info, lines, of.units
        self.of = of
        self.arena = Arena(info.strings)
        self.problems: list[DwarfError] = []
        self._scoper = scopes_kernel.Scoper(of.parts, info.alt)
        self._paths = Paths(info.sections, info.elf.order, self.arena)
        self._starts = Declarations(info, of, self._paths)
        big, line = info.elf.order == "big", info.sections.debug_line
        self._programs = Programs(line, big, info.lowest, self._paths, info.strings, self._line_table)

    def run(self, groups: list[list[int]]) -> Ranges:
        """The ranges of groups of units; those of a group share a line program."""
        out = Ranges(self.info.strings)
        scopes, ends, rows, row_ends = self._found(groups)
        units = array("I", chain.from_iterable(groups))
        unit_ends = array("I", accumulate(map(len, groups)))
        rows, row_ends = self.of.claims.clip(units, unit_ends, scopes, ends, rows, row_ends)
        if len(scopes) or len(rows):
            compose_groups(scopes, ends, rows, row_ends, out, Source.DWARF)
        out.starts = self._starts.take()
        return out

    def look(self, index: int) -> tuple[Scopes, Rows]:
        """The scopes and rows of one unit, as they are before they become ranges."""
        scopes, _, rows, _ = self._found([[index]])
        return scopes, rows

    def _found(self, groups: list[list[int]]) -> tuple[Scopes, array[int], Rows, array[int]]:
        """The scopes and rows of groups of units, and where those of each group end."""
        chosen = array("I", chain.from_iterable(groups))
        found = array("Q", bytes(24 * len(chosen)))
        scopes = self._scopes(chosen, found)
        ends = array("I", [found[3 * last - 3] for last in accumulate(map(len, groups))])
        if any(self.units.value(index, units.DWO_NAME) for index in chosen):
            scopes, ends = self._with_split(scopes, ends, groups)
        if self.lines:
            rows, row_ends = self._programs.read(self.units, array("I", [group[0] for group in groups]), scopes, ends)
        else:
            scopes.call_file = array("Q", bytes(8 * len(scopes)))
            rows, row_ends = Rows(), array("I", bytes(4 * len(groups)))
        for place, index in enumerate(chosen):
            if found[3 * place + 1]:
                self._tell(index, found[3 * place + 1], found[3 * place + 2])
        return scopes, ends, rows, row_ends

    def strangers(self) -> bool:
        """Do names lie in units that are not read here?"""
        return bool(self._scoper.strangers())

    def finish(self) -> list[DwarfError]:
        """Make the names readable; gives the problems met."""
        self.arena.seal()
        return self.problems

    def _tell(self, index: int, fault: int, offset: int) -> None:
        name = self.info.strings.text(self.units.value(index, units.NAME))
        self.problems.append(problem(fault, offset, index, name))

    def _scopes(
        self, chosen: array[int], found: array[int], file: SplitFile | None = None, skeleton: FileNames | None = None
    ) -> Scopes:
        """The scopes of these units of the set, or of a split file, whose files are its skeleton's; `found` as
        Scoper.run fills it. Where they are declared goes to the Declarations."""
        parts, alt, strings, scoper = self.of.parts, self.info.alt, self.info.strings, self._scoper
        if file is not None:
            parts, alt, strings = file.parts, file.alt, file.strings
            scoper = scopes_kernel.Scoper(parts, alt)
        rows, plain, starts = scoper.run(chosen, found)
        wide, narrow = bytes(8 * rows), bytes(4 * rows)
        scopes = Scopes(
            array("Q", wide), array("Q", wide), array("I", narrow), array("Q", wide), array("Q", wide),
            array("I", narrow),
        )  # fmt: skip
        keys = array("Q", bytes(8 * plain))
        scoper.take(scopes.va, scopes.end, scopes.depth, scopes.function, scopes.call_file, scopes.call_line, keys)
        if not self.lines:
            starts = 0
        declared = Starts(array("Q", bytes(8 * starts)), array("Q", bytes(8 * starts)), array("I", bytes(4 * starts)))
        scoper.take_starts(declared.function, declared.file, declared.line)
        if file is not None and file.alone:
            own = {name for name in scopes.function if name >> 48 != PLAIN}
            copied = {name: self.arena.add(strings.raw(name)) for name in own}
            scopes.function = array("Q", [copied.get(name, name) for name in scopes.function])
            declared.function = array("Q", [copied.get(name, name) for name in declared.function])
        if plain:
            names = qualified_names(parts, alt, strings, keys, self.arena)
            scopes_kernel.rename(scopes.function, names)
            scopes_kernel.rename(declared.function, names)
        self._starts.add(declared, skeleton)
        return scopes

    def _with_split(self, scopes: Scopes, ends: array[int], groups: list[list[int]]) -> tuple[Scopes, array[int]]:
        """The scopes of groups, each followed by those of the split units of its skeletons. Their call files count in
        the skeletons' line programs."""
        out, out_ends, done = Scopes(), array("I"), 0
        for group, end in zip(groups, ends):
            for name in COLUMNS:
                getattr(out, name).extend(getattr(scopes, name)[done:end])
            for index in group:
                self._add_split(out, index)
            out_ends.append(len(out))
            done = end
        return out, out_ends

    def _add_split(self, scopes: Scopes, index: int) -> None:
        """Append the scopes of the split unit of a skeleton, if it is one."""
        if not self.units.value(index, units.DWO_NAME):
            return
        try:
            where = self.info.split.find(self.units, index)
        except DwarfError as error:
            self.problems.append(error)
            return
        if where is not None:
            file, at = where
            found = array("Q", bytes(24))
            more = self._scopes(array("I", [at]), found, file, self._starts.files_of(index))
            for name in COLUMNS:
                getattr(scopes, name).extend(getattr(more, name))
            if found[1]:
                self._tell(index, found[1], found[2])
            if file.alone:
                elf = file.elf
                del where, file
                elf.close()

    def _line_table(self, index: int) -> LineTable:
        """A unit's line program, read by itself."""
        info, rows = self.info, self.units.rows
        row = index * units.WIDTH
        table = read_lines(
            info.sections,
            offset=rows[row + units.STMT_LIST],
            arena=self.arena,
            order=info.elf.order,
            address_size=rows[row + units.ADDRESS_SIZE],
            comp_dir=info.strings.raw(rows[row + units.COMP_DIR]),
            name=info.strings.raw(rows[row + units.NAME]),
            lowest=info.lowest,
            paths=self._paths,
            str_base=rows[row + units.STR_BASE],
        )
        self.problems += table.problems
        return table
