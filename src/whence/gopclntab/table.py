"""Pclntab: a Go program's table, found, checked, and turned into ranges."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from whence.gopclntab.find import FoundTable, find
from whence.gopclntab.frames import GoFrames
from whence.gopclntab.functions import Function, FunctionExtents, PclntabFunctions, move, read_functions, sample_offsets
from whence.gopclntab.header import read_header
from whence.gopclntab.image import Image
from whence.gopclntab.inlining import SHAPES, Trees, find_trees
from whence.gopclntab.kernels.functions import NO_FUNCTION
from whence.gopclntab.moduledata import GOFUNC, find_moduledata, text_sections
from whence.gopclntab.ranges import function_ranges, make_tables
from whence.gopclntab.textbase import choose, executable_extents
from whence.objects.interface import ObjectFile
from whence.ranges import Ranges, StringSpace

LONGEST_NAME = 1 << 16


class Pclntab:
    """The function table of a Go program.

    version             the first release with this layout: "1.2", "1.16", "1.18" or "1.20"
    found_by            how the table was found
    text_base           the vaddr that entries count from; 0 if they are addresses
    text_base_found_by  the source of the text base
    trees_found_by      how the inline trees were found; "" without inlined calls
    skipped             functions by what they lost to damage: "record" (everything), "lines", "inlined calls"
    """

    def __init__(self, elf: ObjectFile, table: FoundTable) -> None:
        self._elf = elf
        self.vaddr, self.found_by = table.vaddr, table.found_by
        self.header = read_header(table.data)
        self.version = self.header.version.since
        relative = self.header.version.relative
        image = Image(elf, self.header.pointer)
        self._data = table.data if relative else image.relocated(table.data, table.vaddr)
        self._module = find_moduledata(elf, image, self.header, table.vaddr) if relative else None
        pieces: list[tuple[int, int, int]] = []
        if self._module is not None:
            for word in GOFUNC[self.version]:
                pieces = pieces or text_sections(image, self._module, word, executable_extents(elf))
        offsets = sample_offsets(self._data, self.header)
        base = choose(elf, image, self.header, table.vaddr, self._module, offsets, in_pieces=bool(pieces))
        self.text_base, self.text_base_found_by = base.vaddr, base.found_by
        self._names, self._texts, self._file_table = self._strings()
        self._columns, self._trees = self._read()
        self.trees_found_by = self._trees.found_by if self._trees is not None else ""
        self.skipped = {"record": self._columns.damaged, "lines": 0, "inlined calls": 0}
        if pieces:
            move(self._columns, self.text_base, pieces)
        self._is_moved = bool(pieces)

    @classmethod
    def find(cls, elf: ObjectFile) -> Pclntab | None:
        """Return the table of a Go program, None if the file has none.

        Raises:
            GopclntabError: the table is damaged.
        """
        table = find(elf)
        return None if table is None else cls(elf, table)

    def __len__(self) -> int:
        return self.header.functions

    def __repr__(self) -> str:
        text = f"text at {self.text_base:#x} ({self.text_base_found_by})"
        return f"<Pclntab {self.version}: {len(self)} functions, {text}>"

    def _strings(self) -> tuple[memoryview, memoryview, memoryview]:
        """Return the bytes of function names, of file names, and of the table of file numbers."""
        header, data = self.header, self._data
        if header.version.has_units:
            starts = (header.names_at, header.texts_at, header.units_at)
            names, texts, units = (data[start : header.end_of(start, len(data))] for start in starts)
            return names, texts, units
        offset = header.functab_at + (2 * header.functions + 1) * header.field
        start = int.from_bytes(data[offset : offset + 4], header.order)
        count = int.from_bytes(data[start : start + 4], header.order)
        return data, data, data[start : start + 4 * min(count, len(data) // 4)]

    def _read(self) -> tuple[PclntabFunctions, Trees | None]:
        """Return the functions, and their inline trees by the first shape that fits."""
        code = min(self._elf.size, sum(end - start for start, end in executable_extents(self._elf)))
        for shape in SHAPES[self.version]:
            columns = read_functions(self._data, self.header, (shape.pcdata, shape.funcdata), self.text_base, code)
            version, order = self.version, self.header.order
            trees = find_trees(self._elf, version, order, self._module, shape, self._names, columns)
            if trees is not None and len(trees.data):
                break
        return columns, trees

    def frames(self) -> GoFrames:
        """Return the functions for an unwinder."""
        return GoFrames(self._data, self.header, self._columns, self._names, self._is_moved)

    def functions(self) -> Iterator[Function]:
        """Yield every function in the table's order; damaged records are left out."""
        names = bytes(self._names)
        for entry, end, name in zip(self._columns.entry, self._columns.end, self._columns.name):
            if name != NO_FUNCTION:
                stop = names.find(b"\0", name, name + LONGEST_NAME)
                yield Function(entry, end, names[name : max(name, stop)].decode("utf-8", "surrogateescape"))

    def function_columns(self, strings: StringSpace) -> FunctionExtents:
        """Return all functions as columns, for archives compatible with Go's. Adds their names to `strings`."""
        base = strings.ref(strings.add(self._names), 0)
        columns = self._columns
        rows = [row for row in zip(columns.entry, columns.end, columns.name) if row[2] != NO_FUNCTION]
        return FunctionExtents(
            array("Q", [entry for entry, _, _ in rows]),
            array("Q", [end for _, end, _ in rows]),
            array("Q", [base | name for _, _, name in rows]),
        )

    def ranges(
        self,
        strings: StringSpace,
        lines: bool = True,
        files: bool = True,
        *,
        inlines: bool = True,
        near: Iterable[int] | None = None,
    ) -> Ranges:
        """Return the table as ranges in (vaddr, depth) order, of source GOPCLNTAB. Counts damage in `skipped`.

        Args:
            strings: names are references into it.
            lines: read lines, and call lines.
            files: read file names, and call files.
            inlines: read inlined calls.
            near: only functions that contain one of these vaddrs.

        Returns:
            Ranges that end where code ends: padding up to the next function belongs to no range.

        Raises:
            GopclntabError: there are more ranges than twice the instructions.
        """
        header = self.header
        pctab = self._data if not header.version.has_units else self._data[header.pctab_at :]
        out, self.skipped["lines"], self.skipped["inlined calls"] = function_ranges(
            strings,
            make_tables(strings, header, pctab, self._names, self._texts, self._file_table),
            self._columns if near is None else self._columns.holding(near),
            self._trees if inlines else None,
            lines=lines,
            files=files,
        )
        return out
