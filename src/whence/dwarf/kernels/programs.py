"""The line programs of a batch of units, read in two calls: the fixed costs of Python are paid once for all of them.

`read` parses headers and tables and runs the machines into columns of its own, and lists the files that rows and calls
name; when each of those has a name, `settle` writes the rows of all programs. Only a program that keeps every rule is
read here. One that breaks any, defines files on the way or steps back in its addresses is `ODD`: lines.py reads it and
says what is wrong with it.
"""

import cython
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_TAG_partial_unit,
)
from cython.cimports.whence.dwarf.kernels.files import Files, clear_files, file_number, forget_files
from cython.cimports.whence.dwarf.kernels.line_tables import GOOD, NO_MEMORY, ODD, Tables, grown, read_tables
from cython.cimports.whence.dwarf.kernels.lines import Machine, execute, settled
from cython.cimports.whence.dwarf.kernels.reading import number, reserved_length, wide_length
from cython.cimports.whence.dwarf.kernels.shared import (
    ADDRESS_SIZE,
    COMP_DIR,
    HAS,
    HAS_STMT_LIST,
    STMT_LIST,
    TAG,
    WIDTH,
    u64,
)

NONE = cython.declare(cython.int, 1)  # what became of a program: the unit has none; else GOOD, ODD, NO_MEMORY
FULL = cython.declare(cython.int, 1)  # as lines_kernel has it
UNSORTED = cython.declare(u64, 1 << 63)
NOTHING = cython.declare(u64, 0xFFFFFFFFFFFFFFFF)  # the place of a directory that is not there
UNUSED = cython.declare(cython.uint, 0xFFFFFFFF)  # the key of a file that nobody names; also NO_FILE in rows

Program = cython.struct(
    status=cython.int,
    sequences=cython.Py_ssize_t,  # the first one, and how many
    count=cython.Py_ssize_t,
    files=cython.Py_ssize_t,  # where the keys of its files begin, by number, and how many numbers there are
    known=cython.Py_ssize_t,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def named(
    number: u64, known: u64, key_of: cython.p_uint, ref: cython.const[cython.ulonglong][::1]
) -> u64:  # fmt: skip
    """The name of a file by its number in a program; 0 where it has none."""
    return ref[key_of[number]] if number < known and key_of[number] != UNUSED else 0


@cython.final
@cython.cclass
class Programs:
    """One thread's scratch for line programs."""

    _data: cython.const[cython.uchar][::1]
    _machine: Machine
    _programs: cython.pointer[Program]
    _count: cython.Py_ssize_t
    _program_room: cython.Py_ssize_t
    _tables: Tables  # of one program
    _used: cython.p_uchar
    _used_room: cython.Py_ssize_t
    _key_of: cython.p_uint  # of all programs, by file number
    _files: cython.Py_ssize_t
    _file_room: cython.Py_ssize_t
    _named: Files

    def __cinit__(self, data: cython.const[cython.uchar][::1], big: cython.bint, lowest: cython.ulonglong):
        """`data` is .debug_line; `lowest` the first vaddr that can be code."""
        memset(cython.address(self._machine), 0, cython.sizeof(self._machine))
        self._data = data
        self._machine.data = cython.address(data[0]) if data.shape[0] else cython.NULL
        self._machine.big = big
        self._machine.lowest = lowest
        self._programs = cython.NULL
        self._used = cython.NULL
        self._key_of = cython.NULL
        self._count = self._program_room = self._used_room = 0
        self._files = self._file_room = 0
        memset(cython.address(self._tables), 0, cython.sizeof(self._tables))
        memset(cython.address(self._named), 0, cython.sizeof(self._named))

    def __dealloc__(self):
        free(self._machine.va)
        free(self._machine.file)
        free(self._machine.line)
        free(self._machine.sequence)
        free(self._programs)
        free(self._tables.block)
        free(self._used)
        free(self._key_of)
        forget_files(cython.address(self._named))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _more_rows(self) -> cython.bint:
        """Half as much room again for rows or sequences, whichever is full."""
        machine = cython.address(self._machine)
        room: cython.Py_ssize_t = machine.room + machine.room // 2 + 4096
        if machine.sequences >= machine.sequence_room:
            block = grown(machine.sequence, cython.address(machine.sequence_room), machine.sequences + 64, 32)
            if block == cython.NULL:
                return False
            machine.sequence = cython.cast(cython.p_ulonglong, block)
        if machine.rows >= machine.room:
            wide = realloc(machine.va, room * 8)
            if wide == cython.NULL:
                return False
            machine.va = cython.cast(cython.p_ulonglong, wide)
            narrow = realloc(machine.file, room * 4)
            if narrow == cython.NULL:
                return False
            machine.file = cython.cast(cython.p_uint, narrow)
            narrow = realloc(machine.line, room * 4)
            if narrow == cython.NULL:
                return False
            machine.line = cython.cast(cython.p_uint, narrow)
            machine.room = room
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _one(
        self, program: cython.pointer[Program], offset: u64, address_size: u64, comp_dir: u64,
        call_file: cython.const[cython.ulonglong][::1], first: cython.Py_ssize_t, last: cython.Py_ssize_t,
        start_file: cython.const[cython.ulonglong][::1], first_start: cython.Py_ssize_t, last_start: cython.Py_ssize_t,
        left: cython.p_ulonglong,
    ) -> cython.int:  # fmt: skip
        """Read the program at `offset`, whose files the scopes [first, last) and the starts [first_start, last_start)
        name as well; gives what became of it. Steps and fields as in line_header.py."""
        machine = cython.address(self._machine)
        tables = cython.address(self._tables)
        data = machine.data
        size: u64 = self._data.shape[0]
        at: u64 = offset
        end: u64
        length: u64
        wide: cython.int = 4
        version: u64
        program_at: u64
        lead: cython.Py_ssize_t  # version 5 counts files and directories from 0, earlier ones from 1
        room: cython.Py_ssize_t = 0
        n: cython.Py_ssize_t
        parent: u64
        status: cython.int
        if offset > size or size - offset < 24:
            return ODD
        length = number(data + at, 4, machine.big)
        at += 4
        if wide_length(length):
            wide = 8
            length = number(data + at, 8, machine.big)
            at += 8
        if (wide == 4 and reserved_length(length)) or length > size - at or length < 16:
            return ODD
        end = at + length
        if end - offset > left[0]:
            return ODD
        version = number(data + at, 2, machine.big)
        at += 2
        if version < 2 or version > 5:
            return ODD
        if version == 5:
            address_size = data[at]
            if data[at + 1]:
                return ODD
            at += 2
        if address_size != 8 and address_size != 4 and address_size != 2 and address_size != 1:
            return ODD
        length = number(data + at, wide, machine.big)
        at += wide
        if length > end - at or length < 6:
            return ODD
        program_at = at + length
        machine.width = cython.cast(cython.int, address_size)
        machine.step = data[at]
        machine.slots = 1
        if version >= 4:
            at += 1
            if data[at]:
                machine.slots = data[at]
        machine.base = cython.cast(cython.schar, data[at + 2])
        machine.span = data[at + 3]
        machine.special = data[at + 4]
        machine.lengths = data + at + 5
        machine.operands = machine.special - 1 if machine.special else 0
        at += 5 + machine.operands
        if at >= program_at:
            return ODD

        status = read_tables(tables, data, at, program_at, version, wide == 8, machine.big)
        if status:
            return status
        lead = 0 if version == 5 else 1

        machine.known = tables.file_count + lead
        if machine.known > self._used_room:
            block = grown(self._used, cython.address(room), machine.known, 1)
            if block == cython.NULL:
                return NO_MEMORY
            self._used = cython.cast(cython.p_uchar, block)
            self._used_room = room
        machine.used = self._used
        memset(self._used, 0, machine.known)
        program.sequences = machine.sequences
        machine.first = machine.rows
        machine.at = program_at
        machine.end = end
        machine.address = machine.op_index = machine.unsorted = 0
        machine.current = machine.where = 1
        status = execute(machine) if program_at < end else 0
        while status == FULL:
            if not self._more_rows():
                return NO_MEMORY
            status = execute(machine)
        if status:
            return ODD
        program.count = machine.sequences - program.sequences
        for n in range(program.sequences, machine.sequences):
            if machine.sequence[4 * n + 3] & UNSORTED:
                return ODD

        for n in range(first, last):
            if call_file[n] < cython.cast(u64, machine.known):
                self._used[call_file[n]] = 1
        for n in range(first_start, last_start):
            if start_file[n] < cython.cast(u64, machine.known):
                self._used[start_file[n]] = 1
        program.files = self._files
        program.known = machine.known
        if self._files + machine.known > self._file_room:
            block = grown(self._key_of, cython.address(room), self._files + machine.known, 4)
            if block == cython.NULL:
                return NO_MEMORY
            self._key_of = cython.cast(cython.p_uint, block)
            self._file_room = room
        for n in range(machine.known):
            self._key_of[self._files + n] = UNUSED
            if self._used[n] and n >= lead:
                parent = tables.parents[n - lead] - lead
                self._key_of[self._files + n] = file_number(
                    cython.address(self._named),
                    comp_dir,
                    tables.directories[parent] if parent < cython.cast(u64, tables.directory_count) else NOTHING,
                    tables.names[n - lead],
                )
        self._files += machine.known
        left[0] -= end - offset
        return GOOD

    def read(
        self,
        units: cython.const[cython.ulonglong][::1],
        chosen: cython.const[cython.uint][::1],
        call_file: cython.const[cython.ulonglong][::1],
        scope_ends: cython.const[cython.uint][::1],
        start_file: cython.const[cython.ulonglong][::1],
        start_ends: cython.const[cython.uint][::1],
        status: cython.uchar[::1],
        left: cython.ulonglong,
    ):
        """Read the programs of the chosen rows of `units`. `scope_ends` says where the scopes of each end, `call_file`
        which file numbers those name; `start_ends` and `start_file` the same of starts. Fills `status` and gives (rows,
        keys, left): the room that `settle` needs, how many different files are named, and how many of the `left` bytes
        of programs may still be read."""
        at: cython.Py_ssize_t
        scope: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t = 0
        rows: cython.Py_ssize_t
        sequences: cython.Py_ssize_t
        machine = cython.address(self._machine)
        machine.rows = machine.sequences = 0
        self._files = 0
        self._count = chosen.shape[0]
        if self._count > self._program_room:
            block = grown(self._programs, cython.address(self._program_room), self._count, cython.sizeof(Program))
            if block == cython.NULL:
                raise MemoryError
            self._programs = cython.cast(cython.pointer[Program], block)
        with cython.nogil:
            clear_files(cython.address(self._named))
            for at in range(self._count):
                unit = cython.address(units[cython.cast(cython.Py_ssize_t, chosen[at]) * WIDTH])
                program = cython.address(self._programs[at])
                rows = machine.rows
                sequences = machine.sequences
                program.count = program.known = 0
                # A partial unit names the line program of the units that import it: it only needs its file numbers.
                if unit[HAS] & HAS_STMT_LIST and unit[TAG] != DW_TAG_partial_unit:
                    program.status = self._one(
                        program, unit[STMT_LIST], unit[ADDRESS_SIZE], unit[COMP_DIR], call_file, scope, scope_ends[at],
                        start_file, start, start_ends[at], cython.address(left),
                    )  # fmt: skip
                else:
                    program.status = NONE
                if program.status != GOOD:
                    machine.rows = rows
                    machine.sequences = sequences
                status[at] = cython.cast(cython.uchar, program.status)
                scope = scope_ends[at]
                start = start_ends[at]
                if program.status == NO_MEMORY:
                    break
        if self._count and status[at] == NO_MEMORY:
            raise MemoryError
        return machine.rows + machine.sequences, self._named.count, left

    def keys(self, out: cython.ulonglong[::1]):
        """The files that are named, three numbers each: the unit's compilation directory (a name reference), and the
        places of directory and name as line_files.py has them."""
        if self._named.count:
            memcpy(cython.address(out[0]), self._named.rows, 24 * self._named.count)

    def settle(
        self,
        number: cython.const[cython.uint][::1],
        ref: cython.const[cython.ulonglong][::1],
        call_file: cython.ulonglong[::1],
        scope_ends: cython.const[cython.uint][::1],
        start_file: cython.ulonglong[::1],
        start_ends: cython.const[cython.uint][::1],
        va: cython.ulonglong[::1],
        file: cython.uint[::1],
        line: cython.uint[::1],
        ends: cython.uint[::1],
    ):
        """Write the rows of all good programs, and where those of each end; gives how many. `number` and `ref` say for
        each key what stands for it in rows, and in `call_file` and `start_file`, where refs take the place of
        numbers."""
        at: cython.Py_ssize_t
        n: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        scope: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t = 0
        machine = cython.address(self._machine)
        with cython.nogil:
            for at in range(self._count):
                program = cython.address(self._programs[at])
                key_of = self._key_of + program.files
                if program.status != ODD:
                    for n in range(scope, scope_ends[at]):
                        call_file[n] = named(call_file[n], program.known, key_of, ref)
                    for n in range(start, start_ends[at]):
                        start_file[n] = named(start_file[n], program.known, key_of, ref)
                if program.status == GOOD and program.count:
                    for n in range(program.known):
                        if key_of[n] != UNUSED:
                            key_of[n] = number[key_of[n]]
                    row += settled(
                        machine.sequence + 4 * program.sequences, program.count, machine.va, machine.file, machine.line,
                        key_of, program.known, cython.address(va[row]), cython.address(file[row]),
                        cython.address(line[row]),
                    )  # fmt: skip
                scope = scope_ends[at]
                start = start_ends[at]
                ends[at] = cython.cast(cython.uint, row)
            if machine.room > 1 << 20:  # forget the room of unusually long programs
                free(machine.va)
                free(machine.file)
                free(machine.line)
                machine.va = cython.NULL
                machine.file = machine.line = cython.NULL
                machine.room = 0
        return row
