"""Kernel: the stream of a module into scopes and line rows.

    symbols     records: procedures, with inline sites inside each other between a start and an end
    C13 lines   subsections: checksums (the files), lines of contiguous code, first lines of inlinees

The lines of an inlined call are its own: the annotations of its inline site are a line program, whose rows begin at
the procedure's start and the inlinee's first line. The rows of the site around it say where the call is.

    1. Files and inlinees are read, then the rows of all line programs, in order of their address.
    2. A procedure's sites are run into pieces: [start, end) of one line.
    3. The boundaries of pieces and rows cut the procedure into cells. Pieces are laid over cells, those of outer sites
       first; each cell links the line of a site to that of the site around it: its chain.
    4. Neighboring cells of one call are one scope. The line on top of a cell is its row.

Of code that several modules have, only the module counts that contributed the code to the program. Where procedures or
line programs of a module have the same start (folded code), the last one counts.
"""

import cython
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.kernels.bytes import u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    clear_index,
    find_u32,
    insert,
    mix,
    release_index,
    reserve_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.sort import sort_indexes
from cython.cimports.whence.kernels.vector import U32s, U64s, Vector, grow, push, push_u32, push_u64, release
from cython.cimports.whence.pdb.kernels import constants as c
from cython.cimports.whence.pdb.kernels.names import FunctionNames, Text, text_at, without_scope

from whence.kernels.columns import Column as new_column

NO_FILE = cython.declare(cython.uint, 0xFFFFFFFF)
TOP = cython.declare(cython.ulonglong, 0xFFFFFFFF)  # RVAs have 32 bits
TWO_BYTES = cython.declare(cython.uchar, 0x80)  # lowest first bytes of compressed numbers
FOUR_BYTES = cython.declare(cython.uchar, 0xC0)
INVALID = cython.declare(cython.uchar, 0xE0)
SIGNATURE = cython.declare(cython.Py_ssize_t, 4)  # bytes before the symbols
RECENT = cython.declare(cython.Py_ssize_t, 64)  # procedures that separated code may belong to
LINKS_PER_BYTE = 4  # limit of links per byte of symbols and lines; real programs have under 0.5
MORE_LINKS = 1 << 12
LIMIT = cython.declare(cython.Py_ssize_t, LINKS_PER_BYTE)
ALLOWANCE = cython.declare(cython.Py_ssize_t, MORE_LINKS)

Row = cython.struct(rva=cython.uint, file=cython.uint, line=cython.uint, column=cython.uint)
# a part of code with its rows or scopes: [start, end), and items [first, first + count)
Span = cython.struct(start=cython.uint, end=cython.uint, first=cython.Py_ssize_t, count=cython.Py_ssize_t)
Inlinee = cython.struct(id=cython.uint, file=cython.uint, line=cython.uint)
Site = cython.struct(parent=cython.int, function=cython.ulonglong)
Piece = cython.struct(
    start=cython.uint, end=cython.uint, file=cython.uint, line=cython.uint, column=cython.uint, site=cython.int
)
Link = cython.struct(
    site=cython.int, file=cython.uint, line=cython.uint, column=cython.uint, below=cython.int, level=cython.int
)
Opened = cython.struct(scope=cython.Py_ssize_t, site=cython.int, file=cython.uint, line=cython.uint, column=cython.uint)
Procedure = cython.struct(start=cython.uint, end=cython.uint, function=cython.ulonglong)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def more(vector: cython.pointer(Vector), items: cython.Py_ssize_t, size: cython.size_t) -> cython.bint:
    """Reserve memory for `items` items altogether."""
    return grow(cython.cast(cython.pp_void, cython.address(vector.items)), cython.address(vector.capacity), items, size)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def annotation(data: cython.p_const_uchar, end: cython.p_const_uchar, value: cython.p_uint) -> cython.int:
    """Read a compressed number. Return its size in bytes; 0 if it is cut off or invalid."""
    if data >= end:
        return 0
    if data[0] < TWO_BYTES:
        value[0] = data[0]
        return 1
    if data[0] < FOUR_BYTES and end - data >= 2:
        value[0] = cython.cast(cython.uint, data[0] & 0x3F) << 8 | data[1]
        return 2
    if FOUR_BYTES <= data[0] < INVALID and end - data >= 4:
        value[0] = (
            cython.cast(cython.uint, data[0] & 0x1F) << 24
            | cython.cast(cython.uint, data[1]) << 16
            | cython.cast(cython.uint, data[2]) << 8
            | data[3]
        )
        return 4
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def signed(value: cython.uint) -> cython.uint:
    """Return a signed number, whose lowest bit is its sign, as 32 bits of two's complement."""
    return 0 - (value >> 1) if value & 1 else value >> 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def shown_line(line: cython.uint) -> cython.uint:
    """Return a line; 0 for code that has no line."""
    line &= c.LINE_MASK
    return 0 if line == c.NEVER_STEP_INTO or line == c.ALWAYS_STEP_INTO else line


@cython.final
@cython.cclass
class ProgramLayout:
    """The addresses of a program: RVAs of sections by number, the image base, and who contributed which code.

    `owners` are the contributions' columns start, end and module, in order of start; `described` has a byte for each
    module: whether it has symbols.
    """

    sections: cython.const[cython.uint][::1]
    start: cython.const[cython.uint][::1]
    end: cython.const[cython.uint][::1]
    module: cython.const[cython.uint][::1]
    described: cython.const[cython.uchar][::1]

    def __cinit__(self, sections, contributions, described):
        self.sections = sections
        self.start = contributions.start
        self.end = contributions.end
        self.module = contributions.module
        self.described = described
        belong(self.end.shape[0] == self.start.shape[0] and self.module.shape[0] == self.start.shape[0])

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def rva(self, section: cython.uint, offset: cython.uint) -> cython.ulonglong:
        """Return the RVA of an offset in a section; more than 32 bits if the section does not exist."""
        if section == 0 or section >= cython.cast(cython.ulonglong, self.sections.shape[0]):
            return TOP + 1
        return cython.cast(cython.ulonglong, self.sections[section]) + offset

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def owned(self, rva: cython.uint, module: cython.uint) -> cython.bint:
        """Return False if another module that has symbols contributed the code at an RVA."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.start.shape[0]
        while low < high:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if self.start[middle] <= rva:
                low = middle + 1
            else:
                high = middle
        if low == 0 or rva >= self.end[low - 1] or self.module[low - 1] == module:
            return True
        owner: cython.uint = self.module[low - 1]
        return owner >= cython.cast(cython.ulonglong, self.described.shape[0]) or not self.described[owner]


def find_subsection(
    data: cython.const[cython.uchar][::1], start: cython.Py_ssize_t, size: cython.Py_ssize_t, kind: cython.uint
) -> tuple[int, int]:
    """Return the offset and the size of the first C13 subsection of a kind in `size` bytes; (0, 0) without one."""
    belong(min(start, size) >= 0 and size <= data.shape[0] - start)
    offset: cython.Py_ssize_t = start
    length: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t = 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while offset <= start + size - 8:
            handle_signals(cython.address(work), 1)
            length = u32(cython.address(data[offset + 4]), False)
            if length > start + size - offset - 8:
                break
            if u32(cython.address(data[offset]), False) == kind:
                position = offset + 8
                break
            offset += 8 + ((length + 3) & ~3)
    if position == 0:
        length = 0
    return position, length


@cython.final
@cython.cclass
class ModuleReader:
    """Reads module streams. `begin` starts new columns for a batch of modules, `read` appends those of a module.

    Args:
        layout: the program's addresses.
        names: writes names of functions.
        files_base: the reference of the first file name; `files_size` are the bytes of all.
        lines, columns, starts: whether to read lines, their columns, and where functions start.
        seed: a random number.
    """

    # of a batch
    scope_vaddr = cython.declare(Column, visibility="readonly")
    scope_end = cython.declare(Column, visibility="readonly")
    scope_depth = cython.declare(Column, visibility="readonly")
    scope_function = cython.declare(Column, visibility="readonly")
    scope_file = cython.declare(Column, visibility="readonly")
    scope_line = cython.declare(Column, visibility="readonly")
    row_vaddr = cython.declare(Column, visibility="readonly")
    row_file = cython.declare(Column, visibility="readonly")
    row_line = cython.declare(Column, visibility="readonly")
    files = cython.declare(Column, visibility="readonly")
    location_line = cython.declare(Column, visibility="readonly")
    location_column = cython.declare(Column, visibility="readonly")
    start_function = cython.declare(Column, visibility="readonly")
    start_file = cython.declare(Column, visibility="readonly")
    start_line = cython.declare(Column, visibility="readonly")
    # of the last module: offsets of the first fault, or -1, and how many inline sites have damaged annotations or were
    # left out because of the limit of links
    symbols_fault = cython.declare(cython.Py_ssize_t, visibility="readonly")
    lines_fault = cython.declare(cython.Py_ssize_t, visibility="readonly")
    damaged_sites = cython.declare(cython.Py_ssize_t, visibility="readonly")
    over_limit = cython.declare(cython.Py_ssize_t, visibility="readonly")

    layout: ProgramLayout
    names: FunctionNames
    base: cython.ulonglong
    files_base: cython.ulonglong
    files_size: cython.ulonglong
    with_lines: cython.bint
    with_columns: cython.bint
    with_starts: cython.bint
    import_starts: cython.const[cython.uint][::1]
    import_ids: cython.const[cython.uint][::1]
    seed: cython.ulonglong
    no_memory: cython.bint
    module: cython.uint

    file_of: U32s  # the index in `files` by the offset of a checksum, in words
    inlinees: Vector  # of Inlinee
    inlinee_index: HashIndex
    rows: Vector  # of Row, program after program
    programs: Vector  # of Span
    flat: Vector  # of Row: of all programs, in order
    sites: Vector  # of Site, of one procedure
    pieces: Vector  # of Piece, of one procedure
    links: Vector  # of Link, of one procedure
    bounds: U64s  # of cells, of one procedure
    tops: U32s  # the link on top of each cell
    keys: U64s
    order: U32s
    scratch: U32s
    painted: Vector  # of Row: rows of procedures with inlined calls
    procedures: Vector  # of Span, with their rows of `painted`
    recent: Vector  # of Procedure
    budget: cython.Py_ssize_t  # links that the module's procedures may have
    site_of: cython.int[257]  # their inline sites, -1 for other records
    opened: Opened[257]
    chain: cython.int[257]

    def __cinit__(
        self, layout: ProgramLayout, names: FunctionNames, files_base: cython.ulonglong, files_size: cython.ulonglong,
        base: cython.ulonglong, lines: cython.bint, columns: cython.bint, starts: cython.bint, seed: cython.ulonglong,
    ):  # fmt: skip
        self.layout, self.names, self.base = layout, names, base
        self.files_base, self.files_size = files_base, files_size
        self.with_lines, self.with_columns, self.with_starts = lines, columns, starts
        self.seed = seed
        self.begin()

    def __dealloc__(self):
        release(cython.address(self.file_of))
        release(cython.address(self.inlinees))
        release_index(cython.address(self.inlinee_index))
        release(cython.address(self.rows))
        release(cython.address(self.programs))
        release(cython.address(self.flat))
        release(cython.address(self.sites))
        release(cython.address(self.pieces))
        release(cython.address(self.links))
        release(cython.address(self.bounds))
        release(cython.address(self.tops))
        release(cython.address(self.keys))
        release(cython.address(self.order))
        release(cython.address(self.scratch))
        release(cython.address(self.painted))
        release(cython.address(self.procedures))
        release(cython.address(self.recent))

    def begin(self):
        """Start new columns, for the next batch of modules."""
        self.scope_vaddr, self.scope_end = new_column("Q"), new_column("Q")
        self.scope_depth, self.scope_function = new_column("I"), new_column("Q")
        self.scope_file, self.scope_line = new_column("Q"), new_column("I")
        self.row_vaddr, self.row_file, self.row_line = new_column("Q"), new_column("I"), new_column("I")
        self.files = new_column("Q")
        self.location_line, self.location_column = new_column("I"), new_column("I")
        self.start_function, self.start_file = new_column("Q"), new_column("Q")
        self.start_line = new_column("I")
        self.location_line.push_u32(0)
        self.location_column.push_u32(0)

    def read(
        self, data: cython.const[cython.uchar][::1], symbols: cython.Py_ssize_t, c11: cython.Py_ssize_t,
        c13: cython.Py_ssize_t, module: cython.uint, imports: tuple,
    ) -> None:  # fmt: skip
        """Append the scopes and rows of a module.

        Args:
            data: the module's stream.
            symbols, c11, c13: the sizes of its parts, of symbols with the signature; the caller checked that they are
                in the stream.
            module: its number.
            imports: the ids of other modules by entry, as CrossModuleIds has them: starts of entries, and ids.
        """
        belong(len(imports) == 2)
        self.import_starts, self.import_ids = imports[0], imports[1]
        self.symbols_fault = self.lines_fault = -1
        self.damaged_sites = self.over_limit = 0
        self.module = module
        self.no_memory = False
        self.budget = LIMIT * (symbols + c13) + ALLOWANCE
        belong(min(symbols, c11, c13) >= 0 and symbols <= data.shape[0] and c11 <= data.shape[0] - symbols)
        belong(c13 <= data.shape[0] - symbols - c11)
        if data.shape[0] == 0:
            return
        start: cython.p_const_uchar = cython.address(data[0])
        with cython.nogil:
            self.file_of.count = self.inlinees.count = self.rows.count = self.programs.count = self.flat.count = 0
            self.painted.count = self.procedures.count = self.recent.count = 0
            clear_index(cython.address(self.inlinee_index))
            if self.with_lines:
                self.read_subsections(start + symbols + c11, c13, False)
                self.read_subsections(start + symbols + c11, c13, True)
                self.flatten()
            self.read_symbols(start, symbols)
            if self.with_lines:
                self.merge_rows()
        if self.no_memory:
            raise MemoryError

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def own_id(self, id: cython.uint) -> cython.uint:
        """Return the number of an id's record in the IPI stream, for ids of other modules; 0 if it is unknown."""
        if not id & c.CROSSING:
            return id
        entry: cython.Py_ssize_t = id >> c.CROSSING_SHIFT & c.CROSSING_ENTRY
        item: cython.Py_ssize_t = id & c.CROSSING_ITEM
        if entry + 1 >= self.import_starts.shape[0]:
            return 0
        item += self.import_starts[entry]
        return self.import_ids[item] if item < min(self.import_starts[entry + 1], self.import_ids.shape[0]) else 0

    # C13 lines

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def read_subsections(self, data: cython.p_const_uchar, size: cython.Py_ssize_t, lines: cython.bint) -> cython.int:
        """Read the subsections of files and inlinees, or those of lines."""
        offset: cython.Py_ssize_t = 0
        work: cython.Py_ssize_t = 0
        while offset <= size - 8:
            kind: cython.uint = u32(data + offset, False)
            length: cython.Py_ssize_t = u32(data + offset + 4, False)
            offset += 8
            if length > size - offset:
                if self.lines_fault < 0:
                    self.lines_fault = offset - 8
                return 0
            handle_signals(cython.address(work), 2 + length // 8)
            if lines and kind == c.DEBUG_S_LINES:
                if not self.read_lines(data + offset, length) and self.lines_fault < 0:
                    self.lines_fault = offset
            elif not lines and kind == c.DEBUG_S_FILECHKSMS and not self.file_of.count:
                if not self.read_files(data + offset, length) and self.lines_fault < 0:
                    self.lines_fault = offset
            elif not lines and kind == c.DEBUG_S_INLINEELINES:
                if not self.read_inlinees(data + offset, length) and self.lines_fault < 0:
                    self.lines_fault = offset
            offset += (length + 3) & ~3
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def read_files(self, data: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.bint:
        """Append the names of the files, and map offsets of checksums to them. False for damage."""
        offset: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        words: cython.Py_ssize_t = (size + 3) // 4
        if not grow(
            cython.cast(cython.pp_void, cython.address(self.file_of.items)), cython.address(self.file_of.capacity),
            words, 4,
        ):  # fmt: skip
            self.no_memory = True
            return True
        for index in range(words):
            self.file_of.items[index] = NO_FILE
        self.file_of.count = words
        while offset <= size - 6:
            name: cython.ulonglong = u32(data + offset, False)
            self.file_of.items[offset >> 2] = cython.cast(cython.uint, self.files.vector.count)
            if not self.files.push_u64(self.files_base + name if name < self.files_size else 0):
                self.no_memory = True
                return True
            offset += (6 + data[offset + 4] + 3) & ~3
        return offset >= size

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def file_at(self, checksum: cython.uint) -> cython.uint:
        """Return the index in `files` of the file whose checksum is at an offset."""
        index: cython.Py_ssize_t = checksum >> 2
        return self.file_of.items[index] if checksum & 3 == 0 and index < self.file_of.count else NO_FILE

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def read_inlinees(self, data: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.bint:
        """Read files (as offsets of checksums) and first lines of inlinees. False for damage."""
        if size < 4:
            return False
        extended: cython.bint = u32(data, False) == c.CV_INLINEE_SOURCE_LINE_SIGNATURE_EX
        offset: cython.Py_ssize_t = 4
        if not reserve_index(cython.address(self.inlinee_index), self.inlinees.count + size // 12 + 1):
            self.no_memory = True
            return True
        while offset <= size - 12:
            item: cython.pointer(Inlinee) = cython.cast(
                cython.pointer(Inlinee), push(cython.address(self.inlinees), cython.sizeof(Inlinee))
            )
            if item == cython.NULL:
                self.no_memory = True
                return True
            item.id = u32(data + offset, False)
            item.file = u32(data + offset + 4, False)
            item.line = u32(data + offset + 8, False)
            if self.inlinee(item.id) == cython.NULL:
                insert(cython.address(self.inlinee_index), mix(item.id, self.seed), self.inlinees.count - 1)
            offset += 12
            if extended:
                if offset > size - 4:
                    return False
                files: cython.Py_ssize_t = u32(data + offset, False)
                if files > (size - offset - 4) // 4:
                    return False
                offset += 4 + 4 * files
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def inlinee(self, id: cython.uint) -> cython.pointer(Inlinee):
        """Return file and first line of an inlinee; NULL if they are unknown."""
        item: cython.Py_ssize_t = find_u32(
            cython.address(self.inlinee_index), self.inlinees.items, cython.sizeof(Inlinee), id, self.seed
        )
        if item < 0:
            return cython.NULL
        return cython.cast(cython.pointer(Inlinee), self.inlinees.items) + item

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def read_lines(self, data: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.bint:
        """Append the rows of one line program. False for damage."""
        if size < 12:
            return False
        start: cython.ulonglong = self.layout.rva(u16(data + 4, False), u32(data, False))
        has_columns: cython.bint = u16(data + 6, False) & c.CV_LINES_HAVE_COLUMNS
        end: cython.ulonglong = start + u32(data + 8, False)
        if end > TOP or end == start or not self.layout.owned(cython.cast(cython.uint, start), self.module):
            return True
        first: cython.Py_ssize_t = self.rows.count
        offset: cython.Py_ssize_t = 12
        ascending: cython.bint = True
        valid: cython.bint = True
        index: cython.Py_ssize_t
        while offset <= size - 12:
            file: cython.uint = self.file_at(u32(data + offset, False))
            count: cython.Py_ssize_t = u32(data + offset + 4, False)
            length: cython.Py_ssize_t = u32(data + offset + 8, False)
            if length < 12 or length > size - offset or count > (length - 12) // (12 if has_columns else 8):
                valid = False
                break
            if not more(cython.address(self.rows), self.rows.count + count, cython.sizeof(Row)):
                self.no_memory = True
                return True
            row: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.rows.items) + self.rows.count
            entry: cython.p_const_uchar = data + offset + 12
            for index in range(count):
                rva: cython.ulonglong = start + u32(entry + 8 * index, False)
                if rva >= end:
                    continue
                row.rva = cython.cast(cython.uint, rva)
                row.file = file
                row.line = shown_line(u32(entry + 8 * index + 4, False))
                row.column = u16(entry + 8 * count + 4 * index, False) if has_columns else 0
                if self.rows.count > first and (row - 1).rva > row.rva:
                    ascending = False
                row += 1
                self.rows.count += 1
            offset += length
        if self.rows.count > first:
            if not ascending:
                self.sort_rows(first)
            span: cython.pointer(Span) = cython.cast(
                cython.pointer(Span), push(cython.address(self.programs), cython.sizeof(Span))
            )
            if span == cython.NULL:
                self.no_memory = True
                return True
            span.start = cython.cast(cython.uint, start)
            span.end = cython.cast(cython.uint, end)
            span.first = first
            span.count = self.rows.count - first
        return valid

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sorted_keys(self, count: cython.Py_ssize_t) -> cython.p_uint:
        """Return the indexes of the first `count` keys in ascending order; equal keys keep their order."""
        index: cython.Py_ssize_t
        if not (
            grow(cython.cast(cython.pp_void, cython.address(self.order.items)),
                 cython.address(self.order.capacity), count, 4)
            and grow(cython.cast(cython.pp_void, cython.address(self.scratch.items)),
                     cython.address(self.scratch.capacity), count, 4)
        ):  # fmt: skip
            self.no_memory = True
            return cython.NULL
        for index in range(count):
            self.order.items[index] = cython.cast(cython.uint, index)
        if sort_indexes(self.keys.items, self.order.items, self.scratch.items, count):
            return self.scratch.items
        return self.order.items

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sort_rows(self, first: cython.Py_ssize_t) -> cython.void:
        """Sort the rows from `first` on by address; equal ones keep their order. `flat` is scratch memory."""
        count: cython.Py_ssize_t = self.rows.count - first
        rows: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.rows.items) + first
        index: cython.Py_ssize_t
        self.keys.count = 0
        for index in range(count):
            if not push_u64(cython.address(self.keys), rows[index].rva):
                self.no_memory = True
                return
        order: cython.p_uint = self.sorted_keys(count)
        if order == cython.NULL or not more(cython.address(self.flat), count, cython.sizeof(Row)):
            self.no_memory = True
            return
        copied: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.flat.items)
        for index in range(count):
            copied[index] = rows[order[index]]
        memcpy(rows, copied, count * cython.sizeof(Row))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sort_spans(self, spans: cython.pointer(Vector)) -> cython.p_uint:
        """Return the indexes of spans in order of their start."""
        items: cython.pointer(Span) = cython.cast(cython.pointer(Span), spans.items)
        index: cython.Py_ssize_t
        self.keys.count = 0
        for index in range(spans.count):
            if not push_u64(cython.address(self.keys), items[index].start):
                self.no_memory = True
                return cython.NULL
        return self.sorted_keys(spans.count)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def put_row(
        self, rows: cython.pointer(Vector), rva: cython.uint, file: cython.uint, line: cython.uint, column: cython.uint
    ) -> cython.bint:
        """Append a row. False if memory runs out."""
        row: cython.pointer(Row) = cython.cast(cython.pointer(Row), push(rows, cython.sizeof(Row)))
        if row == cython.NULL:
            self.no_memory = True
            return False
        row.rva = rva
        row.file = file
        row.line = line
        row.column = column
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def flatten(self) -> cython.void:
        """Make `flat` of the rows of all programs: in order, each program up to the next, with a gap after its end."""
        programs: cython.pointer(Span) = cython.cast(cython.pointer(Span), self.programs.items)
        rows: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.rows.items)
        covered: cython.uint = 0
        index: cython.Py_ssize_t
        i: cython.Py_ssize_t
        self.flat.count = 0
        order: cython.p_uint = self.sort_spans(cython.address(self.programs))
        if order == cython.NULL and self.programs.count:
            return
        for index in range(self.programs.count):
            program: cython.pointer(Span) = programs + order[index]
            if index + 1 < self.programs.count and programs[order[index + 1]].start == program.start:
                continue  # folded code
            if program.end <= covered:
                continue
            start: cython.uint = max(program.start, covered)
            for i in range(program.count):
                row: cython.pointer(Row) = rows + program.first + i
                if i + 1 < program.count and (row + 1).rva <= start:
                    continue
                if not self.put_row(cython.address(self.flat), max(row.rva, start), row.file, row.line, row.column):
                    return
            if not self.put_row(cython.address(self.flat), program.end, NO_FILE, 0, 0):
                return
            covered = program.end

    # symbols

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1)
    def read_symbols(self, data: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.int:
        """Read procedures and what is inside them."""
        offset: cython.Py_ssize_t = SIGNATURE
        level: cython.int = 0  # of records that are open
        beyond: cython.Py_ssize_t = 0  # open records past the limit of levels
        procedure: Procedure
        procedure.start = procedure.end = 0
        procedure.function = 0
        work: cython.Py_ssize_t = 0
        while offset <= size - 4 and not self.no_memory:
            handle_signals(cython.address(work), 4)
            record: cython.p_const_uchar = data + offset
            length: cython.Py_ssize_t = 2 + u16(record, False)
            kind: cython.uint = u16(record + 2, False)
            if length < 4 or length > size - offset:
                self.symbols_fault = offset
                break
            offset += length
            if kind == c.S_END or kind == c.S_INLINESITE_END or kind == c.S_PROC_ID_END:
                if beyond:
                    beyond -= 1
                elif level:
                    level -= 1
                    if level == 0:
                        self.finish(cython.address(procedure))
                elif self.symbols_fault < 0:
                    self.symbols_fault = offset - length
                continue
            site: cython.int = -1
            if kind == c.S_INLINESITE or kind == c.S_INLINESITE2:
                if level and procedure.end and level < c.MAX_DEPTH:
                    site = self.add_site(record, length, kind, cython.address(procedure), self.site_of[level - 1])
            elif kind == c.S_GPROC32 or kind == c.S_LPROC32 or kind == c.S_GPROC32_ID or kind == c.S_LPROC32_ID:
                pass
            elif kind == c.S_LPROC32_DPC or kind == c.S_LPROC32_DPC_ID or kind == c.S_THUNK32 or kind == c.S_SEPCODE:
                pass
            elif kind == c.S_BLOCK32 or kind == c.S_WITH32:
                if level:
                    site = self.site_of[level - 1]
            elif kind == c.S_GMANPROC or kind == c.S_LMANPROC:
                pass
            else:
                continue
            if level == 0:
                self.start_procedure(record, length, kind, cython.address(procedure))
            if level >= c.MAX_DEPTH or beyond:
                beyond += 1
            else:
                self.site_of[level] = site
                level += 1
        if level:  # the stream ends inside
            self.finish(cython.address(procedure))
            if self.symbols_fault < 0:
                self.symbols_fault = size
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def start_procedure(
        self, record: cython.p_const_uchar, length: cython.Py_ssize_t, kind: cython.uint,
        procedure: cython.pointer(Procedure),
    ) -> cython.void:  # fmt: skip
        """Set the procedure that a record starts; its end is 0 for a record of another kind, or code elsewhere."""
        section: cython.uint = 0
        offset: cython.uint = 0
        size: cython.uint = 0
        name: cython.Py_ssize_t = length
        self.sites.count = self.pieces.count = 0
        procedure.start = procedure.end = 0
        procedure.function = 0
        if kind == c.S_THUNK32 and length >= 26:
            offset = u32(record + 16, False)
            section = u16(record + 20, False)
            size = u16(record + 22, False)
            name = 25
        elif kind == c.S_SEPCODE and length >= 32:
            size = u32(record + 12, False)
            offset = u32(record + 20, False)
            section = u16(record + 28, False)
        elif kind != c.S_THUNK32 and kind != c.S_SEPCODE and length >= 40:
            if kind == c.S_BLOCK32 or kind == c.S_WITH32 or kind == c.S_INLINESITE or kind == c.S_INLINESITE2:
                return
            size = u32(record + 16, False)
            offset = u32(record + 32, False)
            section = u16(record + 36, False)
            name = 39
        start: cython.ulonglong = self.layout.rva(section, offset)
        if size == 0 or start + size > TOP or not self.layout.owned(cython.cast(cython.uint, start), self.module):
            return
        if kind == c.S_SEPCODE:
            procedure.function = self.function_at(self.layout.rva(u16(record + 30, False), u32(record + 24, False)))
        else:
            text: Text = text_at(record, name, length)
            scope: Text
            scope.data = cython.NULL
            scope.size = 0
            if self.names.short:
                text = without_scope(text)
            procedure.function = self.names.add(scope, text)
        procedure.start = cython.cast(cython.uint, start)
        procedure.end = cython.cast(cython.uint, start + size)
        recent: cython.pointer(Procedure) = cython.cast(
            cython.pointer(Procedure), push(cython.address(self.recent), cython.sizeof(Procedure))
        )
        if recent == cython.NULL:
            self.no_memory = True
        else:
            recent[0] = procedure[0]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def function_at(self, rva: cython.ulonglong) -> cython.ulonglong:
        """Return the name of a procedure with an RVA that was read before; 0 if it was not among the last ones."""
        procedures: cython.pointer(Procedure) = cython.cast(cython.pointer(Procedure), self.recent.items)
        index: cython.Py_ssize_t = self.recent.count
        last: cython.Py_ssize_t = max(0, index - RECENT)
        while index > last:
            index -= 1
            if procedures[index].start <= rva < procedures[index].end:
                return procedures[index].function
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_site(
        self, record: cython.p_const_uchar, length: cython.Py_ssize_t, kind: cython.uint,
        procedure: cython.pointer(Procedure), parent: cython.int,
    ) -> cython.int:  # fmt: skip
        """Add an inline site of the procedure and return its number; `parent` is the site around it, or -1."""
        header: cython.Py_ssize_t = 16 if kind == c.S_INLINESITE else 20
        if length < header:
            self.damaged_sites += 1
            return parent
        id: cython.uint = u32(record + 12, False)
        site: cython.pointer(Site) = cython.cast(
            cython.pointer(Site), push(cython.address(self.sites), cython.sizeof(Site))
        )
        if site == cython.NULL:
            self.no_memory = True
            return -1
        site.parent = parent
        site.function = self.names.name_of(self.own_id(id))
        inlinee: cython.pointer(Inlinee) = self.inlinee(id)
        file: cython.uint = self.file_at(inlinee.file) if inlinee != cython.NULL else NO_FILE
        line: cython.uint = inlinee.line if inlinee != cython.NULL else 0
        if self.with_starts and file != NO_FILE and line and site.function:
            self.add_start(site.function, file, line)
        if not self.run(record + header, record + length, procedure, file, line):
            self.damaged_sites += 1
        return cython.cast(cython.int, self.sites.count - 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_start(self, function: cython.ulonglong, file: cython.uint, line: cython.uint) -> cython.void:
        """Append where a function is declared."""
        name: cython.ulonglong = cython.cast(cython.p_ulonglong, self.files.vector.items)[file]
        if not (
            self.start_function.push_u64(function) and self.start_file.push_u64(name) and self.start_line.push_u32(line)
        ):
            self.no_memory = True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def run(
        self, data: cython.p_const_uchar, end: cython.p_const_uchar, procedure: cython.pointer(Procedure),
        file: cython.uint, line: cython.uint,
    ) -> cython.bint:  # fmt: skip
        """Run the annotations of the last site into pieces. False for damage, after the pieces before it."""
        code_base: cython.uint = 0
        code: cython.uint = 0
        column: cython.uint = 0
        is_open: cython.bint = False
        row: Row
        row.rva = row.file = row.line = row.column = 0
        op: cython.uint = 0
        value: cython.uint = 0
        second: cython.uint = 0
        while data < end:
            size: cython.int = annotation(data, end, cython.address(op))
            if size == 0:
                return False
            if op == c.BA_OP_Invalid:
                return True
            data += size
            size = annotation(data, end, cython.address(value))
            if size == 0 or op > c.BA_OP_ChangeColumnEnd:
                return False
            data += size
            if op == c.BA_OP_ChangeFile:
                file = self.file_at(value)
            elif op == c.BA_OP_ChangeLineOffset:
                line += signed(value)
            elif op == c.BA_OP_ChangeColumnStart:
                column = value
            elif op == c.BA_OP_ChangeCodeOffsetBase:
                code_base = value
            elif op == c.BA_OP_ChangeCodeLength:
                code += value
                if is_open:
                    self.add_piece(cython.address(row), code_base + code, procedure)
                is_open = False
            elif op == c.BA_OP_CodeOffset or op == c.BA_OP_ChangeCodeOffset or (op >= 11 and op <= 12):
                if op == c.BA_OP_CodeOffset:
                    code = value
                elif op == c.BA_OP_ChangeCodeOffset:
                    code += value
                elif op == c.BA_OP_ChangeCodeOffsetAndLineOffset:
                    code += value & 0xF
                    line += signed(value >> 4)
                else:
                    size = annotation(data, end, cython.address(second))
                    if size == 0:
                        return False
                    data += size
                    code += second
                if is_open:
                    self.add_piece(cython.address(row), code_base + code, procedure)
                row.rva = code_base + code
                row.file = file
                row.line = shown_line(line)
                row.column = column
                is_open = True
                if op == c.BA_OP_ChangeCodeLengthAndCodeOffset:
                    self.add_piece(cython.address(row), code_base + code + value, procedure)
                    is_open = False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_piece(
        self, row: cython.pointer(Row), end: cython.uint, procedure: cython.pointer(Procedure)
    ) -> cython.void:
        """Add a piece of the last site: from the row to `end`, which count from the procedure's start."""
        size: cython.uint = procedure.end - procedure.start
        if end > size:
            end = size
        if row.rva >= end:
            return
        piece: cython.pointer(Piece) = cython.cast(
            cython.pointer(Piece), push(cython.address(self.pieces), cython.sizeof(Piece))
        )
        if piece == cython.NULL:
            self.no_memory = True
            return
        piece.start = procedure.start + row.rva
        piece.end = procedure.start + end
        piece.file = row.file
        piece.line = row.line
        piece.column = row.column
        piece.site = cython.cast(cython.int, self.sites.count - 1)

    # procedures into scopes

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def location(self, line: cython.uint, column: cython.uint) -> cython.uint:
        """Return a line, or with columns the number of a new location."""
        if not self.with_columns:
            return line
        if not (self.location_line.push_u32(line) and self.location_column.push_u32(column)):
            self.no_memory = True
            return 0
        return cython.cast(cython.uint, self.location_line.vector.count - 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def open_scope(
        self, start: cython.uint, depth: cython.int, function: cython.ulonglong, file: cython.uint, line: cython.uint,
        column: cython.uint,
    ) -> cython.Py_ssize_t:  # fmt: skip
        """Append a scope, whose end is set later, and return its index. File and line are those of the call."""
        name: cython.ulonglong = 0
        if file != NO_FILE:
            name = cython.cast(cython.p_ulonglong, self.files.vector.items)[file]
        location: cython.uint = self.location(line, column) if depth and (line or column) else 0
        if not (
            self.scope_vaddr.push_u64(self.base + start)
            and self.scope_end.push_u64(self.base + start)
            and self.scope_depth.push_u32(depth)
            and self.scope_function.push_u64(function)
            and self.scope_file.push_u64(name)
            and self.scope_line.push_u32(location)
        ):
            self.no_memory = True
        return self.scope_vaddr.vector.count - 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def close_scope(self, scope: cython.Py_ssize_t, end: cython.uint) -> cython.void:
        cython.cast(cython.p_ulonglong, self.scope_end.vector.items)[scope] = self.base + end

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def first_row_after(self, rva: cython.uint) -> cython.Py_ssize_t:
        """Return the index of the first row of `flat` after an RVA."""
        rows: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.flat.items)
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.flat.count
        while low < high:
            middle: cython.Py_ssize_t = (low + high) >> 1
            if rows[middle].rva <= rva:
                low = middle + 1
            else:
                high = middle
        return low

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def finish(self, procedure: cython.pointer(Procedure)) -> cython.void:
        """Append the scopes of a procedure and its inlined calls, and its rows to `painted`."""
        if procedure.end == 0 or self.no_memory:
            return
        span: cython.pointer(Span) = cython.cast(
            cython.pointer(Span), push(cython.address(self.procedures), cython.sizeof(Span))
        )
        if span == cython.NULL:
            self.no_memory = True
            return
        span.start = procedure.start
        span.end = procedure.end
        span.first = self.painted.count
        span.count = 0
        after: cython.Py_ssize_t = self.first_row_after(procedure.start)
        if self.with_starts and after:
            row: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.flat.items) + after - 1
            if row.file != NO_FILE and row.line and procedure.function:
                self.add_start(procedure.function, row.file, row.line)
        root: cython.Py_ssize_t = self.open_scope(procedure.start, 0, procedure.function, NO_FILE, 0, 0)
        if self.no_memory:
            return
        self.close_scope(root, procedure.end)
        if self.pieces.count == 0:
            return
        cells: cython.Py_ssize_t = self.cut_cells(procedure, after)
        if cells <= 0 or not self.lay_pieces(cells):
            return
        self.emit_cells(procedure, cells)
        span = cython.cast(cython.pointer(Span), self.procedures.items) + self.procedures.count - 1
        span.count = self.painted.count - span.first

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def cut_cells(self, procedure: cython.pointer(Procedure), after: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the starts of cells to `bounds`, and the procedure's own lines to `links`; return the number of cells.

        `after` is the first row of `flat` after the procedure's start.
        """
        pieces: cython.pointer(Piece) = cython.cast(cython.pointer(Piece), self.pieces.items)
        rows: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.flat.items)
        index: cython.Py_ssize_t
        row: cython.Py_ssize_t = after
        self.keys.count = 0
        push_u64(cython.address(self.keys), procedure.start)
        for index in range(self.pieces.count):
            if not (
                push_u64(cython.address(self.keys), pieces[index].start)
                and push_u64(cython.address(self.keys), pieces[index].end)
            ):
                self.no_memory = True
                return 0
        while row < self.flat.count and rows[row].rva < procedure.end:
            if not push_u64(cython.address(self.keys), rows[row].rva):
                self.no_memory = True
                return 0
            row += 1
        order: cython.p_uint = self.sorted_keys(self.keys.count)
        if order == cython.NULL:
            return 0
        self.bounds.count = self.tops.count = self.links.count = 0
        row = after - 1  # the row that is in force
        link: cython.int = -1
        for index in range(self.keys.count):
            start: cython.ulonglong = self.keys.items[order[index]]
            if start >= procedure.end:
                break
            if self.bounds.count and self.bounds.items[self.bounds.count - 1] == start:
                continue
            moved: cython.bint = link < 0
            while row + 1 < self.flat.count and rows[row + 1].rva <= start:
                row += 1
                moved = True
            if moved:
                if row < 0:
                    link = self.add_link(-1, NO_FILE, 0, 0, -1)
                else:
                    link = self.add_link(-1, rows[row].file, rows[row].line, rows[row].column, -1)
            if link < 0:
                return 0
            if not (push_u64(cython.address(self.bounds), start) and push_u32(cython.address(self.tops), link)):
                self.no_memory = True
                return 0
        cells: cython.Py_ssize_t = self.bounds.count
        if not push_u64(cython.address(self.bounds), procedure.end):
            self.no_memory = True
        return cells

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def add_link(
        self, site: cython.int, file: cython.uint, line: cython.uint, column: cython.uint, below: cython.int
    ) -> cython.int:
        """Add a link and return its number; -1 if the budget is spent, or memory runs out."""
        if self.budget <= 0:
            return -1
        self.budget -= 1
        link: cython.pointer(Link) = cython.cast(
            cython.pointer(Link), push(cython.address(self.links), cython.sizeof(Link))
        )
        if link == cython.NULL:
            self.no_memory = True
            return -1
        link.site = site
        link.file = file
        link.line = line
        link.column = column
        link.below = below
        link.level = 0
        if below >= 0:
            link.level = cython.cast(cython.pointer(Link), self.links.items)[below].level + 1
        return cython.cast(cython.int, self.links.count - 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def lay_pieces(self, cells: cython.Py_ssize_t) -> cython.bint:
        """Lay the pieces over the cells. False if the budget is spent, or memory runs out."""
        pieces: cython.pointer(Piece) = cython.cast(cython.pointer(Piece), self.pieces.items)
        sites: cython.pointer(Site) = cython.cast(cython.pointer(Site), self.sites.items)
        index: cython.Py_ssize_t
        for index in range(self.pieces.count):
            piece: cython.pointer(Piece) = pieces + index
            low: cython.Py_ssize_t = 0
            high: cython.Py_ssize_t = cells
            while low < high:
                middle: cython.Py_ssize_t = (low + high) >> 1
                if self.bounds.items[middle] < piece.start:
                    low = middle + 1
                else:
                    high = middle
            parent: cython.int = sites[piece.site].parent
            last: cython.int = -1  # the link of the cell before, and what is below it
            last_below: cython.int = -1
            while low < cells and self.bounds.items[low] < piece.end:
                below: cython.int = cython.cast(cython.int, self.tops.items[low])
                # a site before this one inside the same site is replaced
                while below >= 0 and self.link(below).site != parent:
                    below = self.link(below).below
                if below >= 0:
                    if last < 0 or below != last_below:
                        last = self.add_link(piece.site, piece.file, piece.line, piece.column, below)
                        if last < 0:
                            self.over_limit += 1
                            return False
                        last_below = below
                    self.tops.items[low] = last
                self.budget -= 1
                low += 1
            if self.budget <= 0:
                self.over_limit += 1
                return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def link(self, index: cython.int) -> cython.pointer(Link):
        return cython.cast(cython.pointer(Link), self.links.items) + index

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def emit_cells(self, procedure: cython.pointer(Procedure), cells: cython.Py_ssize_t) -> cython.void:
        """Append the scopes of inlined calls, in the order of a tree, and the row of each cell."""
        sites: cython.pointer(Site) = cython.cast(cython.pointer(Site), self.sites.items)
        level: cython.int = 0  # of the open calls; level 0 is the procedure
        index: cython.Py_ssize_t
        depth: cython.int
        previous: cython.uint = NO_FILE
        for index in range(cells):
            top: cython.uint = self.tops.items[index]
            if top == previous:
                continue
            previous = top
            start: cython.uint = cython.cast(cython.uint, self.bounds.items[index])
            link: cython.pointer(Link) = self.link(top)
            if not self.put_row(cython.address(self.painted), start, link.file, link.line, link.column):
                return
            deepest: cython.int = min(link.level, c.MAX_DEPTH)
            while link.level > deepest:
                link = self.link(link.below)
            depth = deepest
            while depth > 0:
                self.chain[depth] = cython.cast(cython.int, link - self.link(0))
                link = self.link(link.below)
                depth -= 1
            self.chain[0] = cython.cast(cython.int, link - self.link(0))
            kept: cython.int = 0
            while kept < level and kept < deepest:
                call: cython.pointer(Link) = self.link(self.chain[kept])
                entry: cython.pointer(Opened) = cython.address(self.opened[kept + 1])
                if (
                    entry.site != self.link(self.chain[kept + 1]).site
                    or entry.file != call.file
                    or entry.line != call.line
                    or entry.column != call.column
                ):
                    break
                kept += 1
            while level > kept:
                self.close_scope(self.opened[level].scope, start)
                level -= 1
            while level < deepest:
                call = self.link(self.chain[level])
                level += 1
                entry = cython.address(self.opened[level])
                entry.site = self.link(self.chain[level]).site
                entry.file = call.file
                entry.line = call.line
                entry.column = call.column
                entry.scope = self.open_scope(
                    start, level, sites[entry.site].function, call.file, call.line, call.column
                )
                if self.no_memory:
                    return
        while level > 0:
            self.close_scope(self.opened[level].scope, procedure.end)
            level -= 1

    # rows

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def out_row(self, row: cython.pointer(Row), rva: cython.uint) -> cython.bint:
        """Append a row to the columns, from `rva` on. False if memory runs out."""
        if not (
            self.row_vaddr.push_u64(self.base + rva)
            and self.row_file.push_u32(row.file)
            and self.row_line.push_u32(self.location(row.line, row.column) if row.line or row.column else 0)
        ):
            self.no_memory = True
            return False
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def merge_rows(self) -> cython.void:
        """Append the rows of `flat`, replaced by those of `painted` in procedures with inlined calls."""
        flat: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.flat.items)
        painted: cython.pointer(Row) = cython.cast(cython.pointer(Row), self.painted.items)
        spans: cython.pointer(Span) = cython.cast(cython.pointer(Span), self.procedures.items)
        covered: cython.uint = 0
        row: cython.Py_ssize_t = 0
        index: cython.Py_ssize_t
        i: cython.Py_ssize_t
        order: cython.p_uint = self.sort_spans(cython.address(self.procedures))
        if self.no_memory:
            return
        for index in range(self.procedures.count):
            span: cython.pointer(Span) = spans + order[index]
            if index + 1 < self.procedures.count and spans[order[index + 1]].start == span.start:
                continue  # folded code
            if span.count == 0 or span.start < covered:
                covered = max(covered, span.end)
                continue
            while row < self.flat.count and flat[row].rva < span.start:
                if not self.out_row(flat + row, flat[row].rva):
                    return
                row += 1
            for i in range(span.first, span.first + span.count):
                if not self.out_row(painted + i, painted[i].rva):
                    return
            while row < self.flat.count and flat[row].rva < span.end:
                row += 1
            if row and (row >= self.flat.count or flat[row].rva > span.end):
                if not self.out_row(flat + row - 1, span.end):  # in force again after the procedure
                    return
            covered = span.end
        while row < self.flat.count:
            if not self.out_row(flat + row, flat[row].rva):
                return
            row += 1
