"""Code objects of CPython: names, and the line and column of an instruction.

    3.7 to 3.9   co_lnotab: pairs of bytes to add to the offset (unsigned) and to the line (signed)
    3.10         co_linetable: pairs of a range's length and a change of the line (signed), -128 for no line
    from 3.11    co_linetable: the location table of Objects/locations.md (InternalDocs/code_objects.md)

Code objects and what they refer to do not change. In a live process they are decoded after the threads were released,
and used only if the object still has the same fields afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from whence._base.model import Frame
from whence._base.source import Source
from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.interpreters.cpython_layout import CpythonLayout

Read = Callable[[int, int], bytes]  # address, size; raises Unreadable

NAME_LIMIT = 4096  # code points of a name or path
TABLE_LIMIT = 1 << 20  # bytes of a line table
CACHED_CODES = 1 << 16
NO_LINE = -128  # in the table of 3.10
NO_COLUMNS, LONG_FORM, NO_LOCATION = 13, 14, 15  # kinds of entries of a location table
FIRST_ONE_LINE = 10
FIRST_SHIMS = (3, 12)
UNIT = 2  # bytes of a code unit
WIDTHS = {1: "latin-1", 2: "utf-16", 4: "utf-32"}


class InvalidObject(Exception):
    """Memory that should be an object of some type is not one: the text says why."""


class Location(NamedTuple):
    """The instructions [start, end) by byte offset in the bytecode; line and column from 1, 0 if they have none."""

    start: int
    end: int
    line: int
    column: int = 0


class CodeObject:
    """A code object: its qualified name (before 3.11: its name), its file, and its lines.

    `is_shim`: the interpreter made it for itself (from 3.12 on, to call `__init__`).
    """

    def __init__(
        self,
        function: str,
        file: str,
        first_line: int,
        version: tuple[int, int],
        table: bytes | None,
        *,
        is_shim: bool = False,
    ) -> None:
        self.function, self.file, self.first_line, self.is_shim = function, file, first_line, is_shim
        self._version, self._table = version, table
        self._locations: list[Location] | None = None
        self._frames: dict[int, Frame] = {}

    def frame(self, position: int) -> Frame:
        """Return the frame whose instruction is at a byte offset; before the first one it has the first line."""
        frame = self._frames.get(position)
        if frame is None:
            line, column = self.first_line, 0
            if position >= 0:
                line, column = self._line_of(position)
            frame = Frame(
                self.function, self.file, line, source=Source.PYTHON, start_line=self.first_line, column=column
            )
            self._frames[position] = frame
        return frame

    def _line_of(self, position: int) -> tuple[int, int]:
        if self._table is None:
            return 0, 0
        if self._version <= (3, 9):
            return line_of_lnotab(self._table, self.first_line, position), 0
        if self._locations is None:
            locations = lines_of_3_10 if self._version == (3, 10) else locations_of_table
            self._locations = locations(self._table, self.first_line)
        for location in self._locations:
            if location.start <= position < location.end:
                return location.line, location.column
        return 0, 0


def line_of_lnotab(table: bytes, first_line: int, position: int) -> int:
    """Return the line of an instruction by co_lnotab."""
    line, offset = first_line, 0
    for index in range(0, len(table) - 1, 2):
        offset += table[index]
        if offset > position:
            break
        line += table[index + 1] - 256 * (table[index + 1] > 127)
    return line


def lines_of_3_10(table: bytes, first_line: int) -> list[Location]:
    """Return the ranges of 3.10's co_linetable."""
    locations = []
    line, start = first_line, 0
    for index in range(0, len(table) - 1, 2):
        delta = table[index + 1] - 256 * (table[index + 1] > 127)
        end = start + table[index]
        line += 0 if delta == NO_LINE else delta
        locations.append(Location(start, end, 0 if delta == NO_LINE else max(line, 0)))
        start = end
    return locations


def locations_of_table(table: bytes, first_line: int) -> list[Location]:
    """Return the ranges of a location table. A damaged one ends early."""
    locations = []
    line, start, index = first_line, 0, 0

    def varint() -> int:
        nonlocal index
        value = shift = 0
        while True:
            byte = table[index]
            index += 1
            value |= (byte & 63) << shift
            shift += 6
            if not byte & 64 or shift > 60:
                return value

    def signed() -> int:
        value = varint()
        return -(value >> 1) if value & 1 else value >> 1

    try:
        while index < len(table):
            first = table[index]
            index += 1
            if not first & 128:
                break
            kind, end = first >> 3 & 15, start + ((first & 7) + 1) * UNIT
            shown, column = line, 0
            if kind < FIRST_ONE_LINE:  # the line does not change, the columns are in two bytes
                column = (kind << 3 | table[index] >> 4 & 7) + 1
                index += 1
            elif kind < NO_COLUMNS:
                line += kind - FIRST_ONE_LINE
                column = table[index] + 1
                index += 2
            elif kind == NO_COLUMNS:
                line += signed()
            elif kind == LONG_FORM:
                line += signed()
                varint()  # end line
                column = varint()
                varint()  # end column
            shown = 0 if kind == NO_LOCATION else max(line, 0)
            locations.append(Location(start, end, shown, column if shown else 0))
            start = end
    except IndexError:
        pass
    return locations


class CodeReader:
    """Decodes code objects of one runtime, each once."""

    def __init__(self, layout: CpythonLayout, order: ByteOrder) -> None:
        self._layout, self._order = layout, order
        fields = layout.fields
        names = ("filename", "name") + (("qualname",) if layout.version >= (3, 11) else ())
        self._names = [fields[f"code_object.{name}"] for name in names]
        self._identity = [fields["pyobject.ob_type"], fields["code_object.linetable"], *self._names]
        self._first_line = fields["code_object.firstlineno"]
        self._codes: dict[tuple[int, ...], CodeObject | str] = {}
        self._types: dict[int, bool] = {}

    def code(self, address: int, header: bytes | None, read: Read, *, is_live: bool = False) -> CodeObject | str:
        """Return a code object, or why it cannot be read.

        Args:
            header: its first bytes, if they were read before, while the process was stopped.
            is_live: the memory may have changed since then.
        """
        if header is None:
            try:
                header = read(address, self._layout.header_bytes)
            except Unreadable as error:
                return f"the code object is not readable: {error}"
        key = (address, *(self._word(header, offset) for offset in self._identity))
        code = self._codes.get(key)
        if code is None:
            code = self._decode(header, read)
            if is_live and not self._is_unchanged(address, key, read):
                return "the code object was freed before it was read"
            if len(self._codes) >= CACHED_CODES:
                self._codes.clear()
            self._codes[key] = code
        return code

    def _word(self, data: bytes, offset: int) -> int:
        return int.from_bytes(data[offset : offset + 8], self._order)

    def _is_unchanged(self, address: int, key: tuple[int, ...], read: Read) -> bool:
        try:
            again = read(address, self._layout.header_bytes)
        except Unreadable:
            return False
        return key[1:] == tuple(self._word(again, offset) for offset in self._identity)

    def _decode(self, header: bytes, read: Read) -> CodeObject | str:
        fields = self._layout.fields
        try:
            if not self._is_code_type(self._word(header, fields["pyobject.ob_type"]), read):
                return "the frame's code is not a code object"
            name = "qualname" if self._layout.version >= (3, 11) else "name"
            function = self.text(self._word(header, fields[f"code_object.{name}"]), read)
            file = self.text(self._word(header, fields["code_object.filename"]), read)
        except (Unreadable, InvalidObject) as error:
            return f"the names of the code object are not readable: {error}"
        first = int.from_bytes(header[self._first_line : self._first_line + 4], self._order, signed=True)
        table: bytes | None
        try:
            table = self.content(self._word(header, fields["code_object.linetable"]), read)
        except (Unreadable, InvalidObject):
            table = None  # names without a line
        is_shim = self._layout.version >= FIRST_SHIMS and self._is_shim(header, table, first)
        return CodeObject(function, file, max(first, 0), self._layout.version, table, is_shim=is_shim)

    def _is_shim(self, header: bytes, table: bytes | None, first_line: int) -> bool:
        """Return True for code of _Py_MakeShimCode: name, qualified name and file are one string, without lines."""
        if table is None or len({self._word(header, offset) for offset in self._names}) > 1:
            return False
        return not any(location.line for location in locations_of_table(table, first_line))

    def _is_code_type(self, address: int, read: Read) -> bool:
        is_code = self._types.get(address)
        if is_code is None:
            try:
                name = self._word(read(address + self._layout.fields["type_object.tp_name"], 8), 0)
                is_code = read(name, 5) == b"code\0"
            except Unreadable:  # a core without its files does not have tp_name: all code objects have one type
                is_code = bool(address) and not any(self._types.values())
            self._types[address] = is_code
        return is_code

    def text(self, address: int, read: Read) -> str:
        """Return a string object. Raises Unreadable, InvalidObject."""
        strings = self._layout.strings
        head = read(address, strings.compact_header)
        length = self._word(head, strings.length)
        state = int.from_bytes(head[strings.state : strings.state + 4], self._order)
        if not state >> strings.compact_bit & 1:
            raise InvalidObject(f"the string at {address:#x} is not compact")
        kind = state >> strings.kind_bit & 7
        if length > NAME_LIMIT:
            raise InvalidObject(f"the string at {address:#x} has {length} characters")
        if state >> strings.ascii_bit & 1:
            return read(address + strings.ascii_header, length).decode("ascii", "surrogateescape")
        if kind not in WIDTHS:
            raise InvalidObject(f"the string at {address:#x} has characters of {kind} bytes")
        data = read(address + strings.compact_header, length * kind)
        encoding = WIDTHS[kind] + ("" if kind == 1 else f"-{self._order[0]}e")
        try:
            return data.decode(encoding, "surrogatepass")
        except UnicodeDecodeError:
            raise InvalidObject(f"the string at {address:#x} has invalid characters") from None

    def content(self, address: int, read: Read) -> bytes:
        """Return a bytes object. Raises Unreadable, InvalidObject."""
        size_at, data_at = self._layout.fields["bytes_object.ob_size"], self._layout.fields["bytes_object.ob_sval"]
        size = self._word(read(address + size_at, 8), 0)
        if size > TABLE_LIMIT:
            raise InvalidObject(f"the bytes at {address:#x} are {size}")
        return read(address + data_at, size)
