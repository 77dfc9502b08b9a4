"""One thread's share of the work: units to scopes, lines, and ranges."""

from __future__ import annotations

from array import array
from itertools import chain
from typing import TYPE_CHECKING

from whence.dwarf import scopes_kernel, units
from whence.dwarf.declarations import Declarations
from whence.dwarf.line_files import FileNames, Paths
from whence.dwarf.lines import LineTable, read_lines
from whence.dwarf.problems import problem
from whence.dwarf.qualified import qualified_names
from whence.errors import DwarfError
from whence.model import Source
from whence.ranges import Ranges, Rows, Scopes, Starts
from whence.ranges.compose import compose
from whence.ranges.strings import Arena

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.dwarf.split import SplitFile
    from whence.dwarf.unit_set import UnitSet

PLAIN = 0xFFFF  # the source of a name that is not qualified yet


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

    def run(self, groups: list[list[int]]) -> Ranges:
        """The ranges of groups of units; those of a group share a line program."""
        out = Ranges(self.info.strings)
        chosen = array("I", chain.from_iterable(groups))
        found = array("Q", bytes(24 * len(chosen)))
        scopes = self._scopes(chosen, found)
        before = at = 0
        for group in groups:
            at += len(group)
            after = found[3 * at - 3]
            table = self._line_table(group[0])
            self._starts.add_files(group, table.names)
            mine = self._slice(scopes, before, after, table)
            for index in group:
                self._add_split(mine, index, table)
            if len(mine) or len(table.rows):
                compose(mine, self.of.claims.clip(group, mine, table.rows), out, Source.DWARF)
            before = after
        for place, index in enumerate(chosen):
            self._tell(index, found[3 * place + 1], found[3 * place + 2])
        out.starts = self._starts.take()
        return out

    def look(self, index: int) -> tuple[Scopes, Rows]:
        """The scopes and rows of one unit, as they are before they become ranges."""
        found = array("Q", bytes(24))
        scopes = self._scopes(array("I", [index]), found)
        self._tell(index, found[1], found[2])
        table = self._line_table(index)
        mine = self._slice(scopes, 0, len(scopes), table)
        self._add_split(mine, index, table)
        return mine, table.rows

    def strangers(self) -> bool:
        """Do names lie in units that are not read here?"""
        return bool(self._scoper.strangers())

    def finish(self) -> list[DwarfError]:
        """Make the names readable; gives the problems met."""
        self.arena.seal()
        return self.problems

    def _tell(self, index: int, fault: int, offset: int) -> None:
        if fault:
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

    def _add_split(self, scopes: Scopes, index: int, table: LineTable) -> None:
        """Append the scopes of the split unit of a skeleton. Its call files count in the skeleton's line program."""
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
            more = self._scopes(array("I", [at]), found, file, table.names or FileNames.none(self._paths))
            more = self._slice(more, 0, len(more), table)
            for column in ("va", "end", "depth", "function", "call_file", "call_line"):
                getattr(scopes, column).extend(getattr(more, column))
            self._tell(index, found[1], found[2])
            if file.alone:
                elf = file.elf
                del where, file
                elf.close()

    def _line_table(self, index: int) -> LineTable:
        info, rows = self.info, self.units.rows
        row = index * units.WIDTH
        # A partial unit names the line program of the units that import it: it only needs its file numbers.
        has_lines = rows[row + units.HAS] & units.HAS_STMT_LIST and rows[row + units.TAG] != units.TAG_PARTIAL
        if not self.lines or not has_lines:
            return LineTable()
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

    @staticmethod
    def _slice(scopes: Scopes, first: int, last: int, table: LineTable) -> Scopes:
        """The scopes of one group, their call files as names."""
        numbers = scopes.call_file[first:last]
        known = {number: table.file(number) for number in set(numbers)}
        return Scopes(
            scopes.va[first:last],
            scopes.end[first:last],
            scopes.depth[first:last],
            scopes.function[first:last],
            array("Q", map(known.__getitem__, numbers)),
            scopes.call_line[first:last],
        )
