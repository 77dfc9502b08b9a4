"""Frame data of 32-bit x86 programs of Windows: how large a frame is, and programs that find the caller.

    NewFPO stream    of a PDB file: rows of 32 bytes; programs are strings in /names
    FPO stream       rows of 16 bytes, of older compilers and of assembly code: sizes only
    STACK WIN        the same of Breakpad symbol files: records of type 4 have a program, those of type 0 sizes
    .frame_data      of archives: the number of rows, rows of 32 bytes, programs

A program is a list of assignments in postfix form, where ^ reads memory and @ aligns. MSVC writes registers by their
numbers in CodeView, except for three ($23 is esi):

    $T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + = $ebp $T0 4 - ^ =

Compilers describe a prologue by rows for its parts, or not at all: then only its size is known. Few describe epilogues.

`.raSearch` is where the return address is if the frame is as large as described: at the stack pointer, plus the local
variables and the saved registers. Arguments of the called function are between, unless they are in the space of the
local variables; arguments pushed for a later call are not described at all. So debuggers search the stack from
there. Programs without `.raSearch` use $ebp.

References: Microsoft's cvinfo.h (FRAMEDATA) and winnt.h (FPO_DATA); Breakpad's "symbol_files".
"""

from __future__ import annotations

import enum
import re
import struct
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import le
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import PdbError
from whence.objects.breakpad import BreakpadFile
from whence.objects.machines import EM_386
from whence.objects.pdb import PdbFile, layout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from whence.objects.interface import ObjectFile
    from whence.objects.pdb.omap import AddressMap

RECORD = re.compile(
    rb"^STACK WIN ([0-9a-fA-F]) ([0-9a-fA-F]{1,8}) ([0-9a-fA-F]{1,8}) ([0-9a-fA-F]{1,8}) [0-9a-fA-F]+ "
    rb"([0-9a-fA-F]{1,8}) ([0-9a-fA-F]{1,8}) ([0-9a-fA-F]{1,8}) [0-9a-fA-F]+ ([01]) ?([^\r\n]{0,4096})",
    re.MULTILINE,
)
NESTED_LIMIT = 64  # rows before an address that may contain it
PROGRAMS_A_ROW, PROGRAMS_ALLOWANCE = 512, 1 << 20  # bytes of the programs of all rows that are written
PROGRAM_LIMIT, TERMS_LIMIT, STACK_LIMIT = 4096, 256, 64  # bytes and terms of a program; values on its stack
DIGITS = 10  # of a number
MASK = (1 << 32) - 1
RETURN_SEARCH = ".raSearch"
SIZE_LIMIT = 0xFFFF  # bytes of the prologue or of saved registers that a row can have
BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "@": lambda a, b: a & -b,
}
DIVISIONS: dict[str, Callable[[int, int], int]] = {"/": lambda a, b: a // b, "%": lambda a, b: a % b}
CODEVIEW = {
    "$17": "$eax", "$18": "$ecx", "$19": "$edx", "$20": "$ebx", "$21": "$esp", "$22": "$ebp", "$23": "$esi",
    "$24": "$edi",
}  # fmt: skip
BY_SIZE = "$eip .raSearch ^ = $esp .raSearch 4 + ="
BY_SIZE_SAVED = "$ebp .raSearch .cbLocals - 8 - ^ = " + BY_SIZE
EPILOGUE_BYTES = 32
EBP = 5
RETURNS, JUMPS, LEAVE = (0xC3, 0xC2), (0xE9, 0xEB), 0xC9  # opcodes of epilogues
POPS, POP_ESP = range(0x58, 0x60), 0x5C
MOVE_ESP_EBP = (b"\x89\xec", b"\x8b\xe5")
SUB_ESP_8 = b"\x83\xec"
ADD_ESP_8, ADD_ESP_32, LEA_ESP_EBP = b"\x83\xc4", b"\x81\xc4", b"\x8d\x65"


class FrameKind(enum.IntEnum):
    """Types of frames, as STACK WIN records and FPO_DATA number them."""

    FPO = 0
    TRAP = 1
    TASK = 2
    STANDARD = 3
    PROGRAM = 4


class FrameData(NamedTuple):
    """The frame of the code in [start, end).

    Sizes are those of the prologue's code, parameters, saved registers and local variables, in bytes.
    """

    start: int
    end: int
    prologue: int
    params: int
    saved: int
    local: int
    kind: FrameKind
    program: str
    saves_base: bool = False  # FPO: ebp is used for something else
    source: str = "NewFPO"
    offset: int = 0

    @property
    def effective(self) -> str:
        """The program, or for a frame that has only sizes what those mean; "" for other frames."""
        if self.kind is FrameKind.PROGRAM:
            return self.program
        if self.kind is FrameKind.FPO:
            return BY_SIZE_SAVED if self.saves_base else BY_SIZE
        return ""

    def record(self, base: int) -> str:
        """Format as a STACK WIN record, relative to `base`."""
        last = self.program.strip() if self.kind is FrameKind.PROGRAM else str(int(self.saves_base))
        code = f"{self.start - base:x} {self.end - self.start:x} {self.prologue:x} 0"
        sizes = f"{code} {self.params:x} {self.saved:x} {self.local:x} 0"
        return f"STACK WIN {self.kind:x} {sizes} {int(self.kind is FrameKind.PROGRAM)} {last}"


class FrameRows:
    """Rows of one kind by address: those of a stream, or STACK WIN records of one type."""

    def __init__(self, starts: array[int], sizes: array[int], read: Callable[[int], FrameData | None]) -> None:
        """Sort the rows; `read` returns a row by its number in the stream."""
        self._read = read
        self._order: Sequence[int] = range(len(starts))
        if not all(map(le, starts, starts[1:])):
            self._order = array("I", sorted(self._order, key=lambda index: (starts[index], -sizes[index])))
            starts, sizes = (array("I", map(column.__getitem__, self._order)) for column in (starts, sizes))
        self._starts, self._sizes = starts, sizes

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[FrameData]:
        for index in self._order:
            data = self._read(index)
            if data is not None:
                yield data

    def find(self, rva: int) -> FrameData | None:
        """Return the row with the greatest start that contains an RVA: functions may have rows for their parts.

        A row inside another has no prologue of its own: its start is in the middle of the function's.
        """
        last = bisect_right(self._starts, rva) - 1
        near = range(last, max(-1, last - NESTED_LIMIT), -1)
        containing = (index for index in near if rva - self._starts[index] < self._sizes[index])
        index = next(containing, None)
        data = None if index is None else self._read(self._order[index])
        if data is not None and any(self._starts[outer] < data.start for outer in containing):
            return data._replace(prologue=0)
        return data


class FrameTable:
    """The frame data of a program; rows with programs come first."""

    def __init__(self, parts: list[FrameRows], base: int = 0, address_map: AddressMap | None = None) -> None:
        """Join rows. `base`: the vaddr of RVA 0; `address_map`: how the program was rearranged after linking."""
        self._parts, self._base = [part for part in parts if len(part)], base
        self._map = address_map

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @classmethod
    def of_file(cls, file: ObjectFile) -> FrameTable | None:
        """Return the frame data of a PDB or Breakpad symbol file; None for other files and machines."""
        if file.machine != EM_386:
            return None
        if isinstance(file, BreakpadFile):
            return cls.of_records(file.data)
        if isinstance(file, PdbFile):
            table = cls([new_rows(file), old_rows(file)], file.base, file.address_map)
            return table if len(table) else None
        return None

    @classmethod
    def of_records(cls, text: memoryview | bytes) -> FrameTable | None:
        """Return the STACK WIN records of a text; None without any."""
        table = cls([win_rows(text, FrameKind.PROGRAM), win_rows(text, FrameKind.FPO)])
        return table if len(table) else None

    @classmethod
    def of_archive(cls, data: memoryview, base: int) -> FrameTable | None:
        """Return the frame data that `packed` stored; None if it is damaged. `base` is the vaddr of RVA 0."""
        width = struct.calcsize(layout.FRAME_DATA)
        end = 4 + width * int.from_bytes(data[:4], "little")
        return cls([data_rows(data[4:end], data[end:])], base) if 4 < end <= len(data) else None

    def packed(self) -> bytes:
        """Return all rows for an archive: those without a program only where no other applies."""
        rows, names, offsets = bytearray(), bytearray(b"\0"), {"": 0}
        for part, data in self._rows():
            program = data.effective
            if (
                not program
                or max(data.saved, data.prologue) > SIZE_LIMIT
                or (part is not self._parts[0] and self._has_program(data))
            ):
                continue
            if program not in offsets:
                offsets[program] = len(names)
                names += program.encode("ascii", "replace") + b"\0"
            size = data.end - data.start
            rows += struct.pack(
                layout.FRAME_DATA, data.start, size, data.local, data.params, 0, offsets[program], data.prologue,
                data.saved, 0,
            )  # fmt: skip
        return struct.pack("<I", len(rows) // struct.calcsize(layout.FRAME_DATA)) + rows + names

    def _has_program(self, data: FrameData) -> bool:
        return self._parts[0].find(data.start) is not None

    def find(self, vaddr: int) -> FrameData | None:
        """Return the frame data for the code at `vaddr`; None without any."""
        rva = vaddr - self._base if self._map is None else self._map.before(vaddr - self._base)
        if rva is None:
            return None
        results = (part.find(rva) for part in self._parts)
        data = next((each for each in results if each is not None), None)
        return None if data is None else data._replace(start=data.start + vaddr - rva, end=data.end + vaddr - rva)

    def records(self) -> Iterator[str]:
        """Yield all rows as STACK WIN records without line ends, whose addresses are RVAs."""
        for _, data in self._rows():
            yield data.record(0)

    def _rows(self) -> Iterator[tuple[FrameRows, FrameData]]:
        """Yield all rows, until their programs have too many bytes: rows can share one long string."""
        left = PROGRAMS_A_ROW * len(self) + PROGRAMS_ALLOWANCE
        for part in self._parts:
            for data in part:
                moved = ((data.start, data.end),) if self._map is None else self._map.moved(data.start, data.end)
                for start, end in moved:
                    left -= len(data.program) + 1
                    if left < 0:
                        return
                    yield part, data._replace(start=start, end=end)


def new_rows(pdb: PdbFile) -> FrameRows:
    """Return the rows of the stream NewFPO; none if it is damaged."""
    content = frame_stream(pdb, layout.NEW_FPO)
    return data_rows(content, program_names(pdb) if len(content) else pdb.data[:0])


def data_rows(content: memoryview, names: memoryview) -> FrameRows:
    """Return rows of FRAMEDATA, whose programs are in `names`."""
    width = struct.calcsize(layout.FRAME_DATA)
    rows = content[: len(content) // width * width]

    def read(index: int) -> FrameData | None:
        offset = index * width
        start, size, local, params, _, program, prologue, saved, _ = struct.unpack_from(layout.FRAME_DATA, rows, offset)
        text = bytes(names[program : program + PROGRAM_LIMIT]).partition(b"\0")[0].decode("ascii", "replace")
        return FrameData(start, start + size, prologue, params, saved, local, FrameKind.PROGRAM, text, offset=offset)

    return FrameRows(*columns(rows, width), read)


def old_rows(pdb: PdbFile) -> FrameRows:
    """Return the rows of the stream FPO; none if it is damaged."""
    content = frame_stream(pdb, layout.FPO)
    width = struct.calcsize(layout.FPO_DATA)
    rows = content[: len(content) // width * width]

    def read(index: int) -> FrameData | None:
        offset = index * width
        start, size, local, params, bits = struct.unpack_from(layout.FPO_DATA, rows, offset)
        saved, saves_base, kind = bits >> 8 & 7, bool(bits >> 12 & 1), FrameKind(bits >> 14)
        return FrameData(
            start, start + size, bits & 0xFF, 4 * params, 4 * saved, 4 * local & MASK, kind, "", saves_base, "FPO",
            offset,
        )  # fmt: skip

    return FrameRows(*columns(rows, width), read)


def win_rows(text: memoryview | bytes, kind: FrameKind) -> FrameRows:
    """Return the STACK WIN records of one type."""
    starts, sizes, offsets = array("I"), array("I"), array("Q")
    for match in RECORD.finditer(text):
        if int(match[1], 16) == kind:
            starts.append(int(match[2], 16))
            sizes.append(int(match[3], 16))
            offsets.append(match.start())

    def read(index: int) -> FrameData | None:
        match = RECORD.match(text, offsets[index])
        if match is None:
            return None
        start, size, prologue, params, saved, local = (int(match[number], 16) for number in range(2, 8))
        has_program, last = match[8] == b"1", match[9].decode("ascii", "replace").strip()
        if has_program != (kind is FrameKind.PROGRAM):
            return None
        return FrameData(
            start, start + size, prologue, params, saved, local, kind, last if has_program else "",
            not has_program and last == "1", "STACK WIN", offsets[index],
        )  # fmt: skip

    return FrameRows(starts, sizes, read)


def frame_stream(pdb: PdbFile, index: int) -> memoryview:
    """Return a stream of the optional header; empty if it is absent or damaged."""
    try:
        return pdb.data[:0] if pdb.dbi is None else pdb.msf.stream(pdb.dbi.further_stream(index), "frame data")
    except PdbError as error:
        pdb.problems.append(error.in_file(pdb.path))
        return pdb.data[:0]


def program_names(pdb: PdbFile) -> memoryview:
    """Return the strings that programs are in; empty if they are damaged."""
    try:
        return pdb.named_stream("/names")[layout.NAMES_HEADER :]
    except PdbError as error:
        pdb.problems.append(error.in_file(pdb.path))
        return pdb.data[:0]


def columns(rows: memoryview, width: int) -> tuple[array[int], array[int]]:
    """Return the starts and the sizes of rows that begin with both."""
    numbers, step = array("I", bytes(rows)), width // 4
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers[::step], numbers[1::step]


class Epilogue(NamedTuple):
    """The offsets of the return address and of registers, by DWARF number, that instructions up to a return pop.

    Offsets count from ebp if `from_base`, else from esp.
    """

    from_base: bool
    returned: int
    saved: dict[int, int]


def read_epilogue(code: bytes) -> Epilogue | None:
    """Return the epilogue at the start of code: only instructions that free locals and pop registers, and a return.

    Frame data does not describe epilogues. Pops before a jump count as an epilogue, too.

    >>> read_epilogue(bytes.fromhex("83c40c 5e 5d c3"))
    Epilogue(from_base=False, returned=20, saved={6: 12, 5: 16})
    """
    offset, from_base, depth = 0, False, 0
    saved: dict[int, int] = {}
    while offset < len(code):
        byte, pair = code[offset], code[offset : offset + 2]
        if byte in RETURNS or (byte in JUMPS and saved):
            return Epilogue(from_base, depth, saved)
        if byte in POPS and byte != POP_ESP:
            saved[byte - POPS.start] = depth
            offset, depth = offset + 1, depth + 4
        elif byte == LEAVE:
            saved[EBP] = 0
            offset, from_base, depth = offset + 1, True, 4
        elif pair in MOVE_ESP_EBP:
            offset, from_base, depth = offset + 2, True, 0
        elif pair == ADD_ESP_8:
            depth += int.from_bytes(code[offset + 2 : offset + 3], "little", signed=True)
            offset += 3
        elif pair == ADD_ESP_32:
            depth += int.from_bytes(code[offset + 2 : offset + 6], "little", signed=True)
            offset += 6
        elif pair == LEA_ESP_EBP:
            from_base, depth = True, int.from_bytes(code[offset + 2 : offset + 3], "little", signed=True)
            offset += 3
        else:
            return None
    return None


def popped_by_call(code: bytes, local: int) -> int:
    """Return by how much less of the stack is in use where code that follows a call starts, at most `local`.

    A function that pops its arguments from the space of local variables is followed by a subtraction of their size.
    """
    return code[2] if code[:2] == SUB_ESP_8 and len(code) > len(SUB_ESP_8) and code[2] <= local else 0


def run_program(program: str, variables: Mapping[str, int], load: Callable[[int], int]) -> dict[str, int] | None:
    """Return all variables after a program; None if it is malformed or needs unknown variables or memory.

    Args:
        variables: known registers ("$esp") and sizes (".cbLocals").
        load: returns the word of memory at an address; raises LookupError.

    >>> run_program("$T0 $ebp = $eip $T0 4 + = ", {"$ebp": 8}, int)
    {'$ebp': 8, '$T0': 8, '$eip': 12}
    """
    values = dict(variables)
    stack: list[int | str] = []

    def pop() -> int:
        operand = stack.pop()
        return values[operand] if isinstance(operand, str) else operand

    try:
        for term in program.replace("=", " = ").split(None, TERMS_LIMIT):
            term = CODEVIEW.get(term, term)
            if term == "=":
                value, name = pop(), stack.pop()
                if not isinstance(name, str):
                    return None
                values[name] = value
            elif term == "^":
                stack.append(load(pop()))
            elif term in BINARY or term in DIVISIONS:
                second, first = pop(), pop()
                stack.append((BINARY.get(term) or DIVISIONS[term])(first, second) & MASK)
            elif term.removeprefix("-").isdecimal() and term.isascii() and len(term) <= DIGITS:
                stack.append(int(term) & MASK)
            elif term[0] in "$." and len(stack) < STACK_LIMIT:
                stack.append(term)
            else:
                return None
    except (LookupError, ZeroDivisionError):  # of memory, a variable or the stack
        return None
    return None if stack else values
