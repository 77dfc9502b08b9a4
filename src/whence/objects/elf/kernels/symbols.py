"""Kernel: symbol tables into columns, and symbols into ranges of code that do not overlap.

`read` unpacks every entry of a table. `Candidates` keeps the entries of several tables that can name code, with a rank
each, and `resolve_overlaps` makes ranges of them. `SymbolQueries` says which symbols matter when only a few vaddrs
are to be named. symbols.py and functions.py say what the columns mean.
"""

import cython
from cython.cimports.libc.limits import INT_MAX
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memchr, memcmp, memcpy
from cython.cimports.whence.kernels.bytes import u16, u32, u64
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.sort import sort_indexes
from cython.cimports.whence.kernels.vector import Vector, push, release
from cython.cimports.whence.objects.elf.kernels import constants as c

from whence.kernels.columns import Column as new_column

NAME_LIMIT = cython.declare(cython.longlong, 4095)
RESERVED = cython.declare(cython.uint, 0xFFFF0000)  # section indexes that name no section
UNDERSCORES_LIMIT = cython.declare(cython.longlong, 63)
SIZED = cython.declare(cython.uint, 1 << 25)  # in a rank
PREFERENCE_SHIFT = cython.declare(cython.uint, 22)
DATA_RANK = cython.declare(cython.uint, 0)  # less than that of any symbol of code

Symbol = cython.struct(
    name=cython.uint,
    value=cython.ulonglong,
    size=cython.ulonglong,
    info=cython.uint,
    other=cython.uint,
    section=cython.uint,
)

Placed = cython.struct(  # a symbol that can name code, which it covers up to `end` (its own vaddr: it has no size)
    vaddr=cython.ulonglong,
    end=cython.ulonglong,
    bound=cython.ulonglong,  # where its section ends: it reaches no further
    name=cython.uint,  # offset in the names
    info=cython.uint,
    is_data=cython.bint,  # an object with a size in a section of code
)

Candidate = cython.struct(
    vaddr=cython.ulonglong,
    end=cython.ulonglong,
    bound=cython.ulonglong,
    name=cython.ulonglong,  # a reference
    rank=cython.uint,  # DATA_RANK: an object, which has no range but ends and covers symbols without size
    source=cython.uint,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def entry(
    table: cython.const[cython.uchar][::1],
    index: cython.longlong,
    elf64: cython.bint,
    big: cython.bint,
    extended: cython.const[cython.uchar][::1],
) -> Symbol:
    """Entry `index` of a table that holds it; SHN_XINDEX is looked up in the table of extended section indexes."""
    s: Symbol
    p: cython.pointer[cython.const[cython.uchar]]
    if elf64:
        p = cython.address(table[index * c.ELF64_SYM_SIZE])
        s.name = u32(p, big)
        s.info = p[4]
        s.other = p[5]
        s.section = u16(p + 6, big)
        s.value = u64(p + 8, big)
        s.size = u64(p + 16, big)
    else:
        p = cython.address(table[index * c.ELF32_SYM_SIZE])
        s.name = u32(p, big)
        s.value = u32(p + 4, big)
        s.size = u32(p + 8, big)
        s.info = p[12]
        s.other = p[13]
        s.section = u16(p + 14, big)
    if s.section == c.SHN_XINDEX and (index + 1) * 4 <= extended.shape[0]:
        s.section = u32(cython.address(extended[index * 4]), big)
    elif s.section >= c.SHN_LORESERVE:
        s.section |= RESERVED  # reserved: absolute, common, the processor's own; out of the way of real indexes
    return s


def read(
    table: cython.const[cython.uchar][::1],
    extended: cython.const[cython.uchar][::1],
    elf64: cython.bint,
    big: cython.bint,
    columns,
) -> cython.longlong:
    """Unpack complete entries into the columns of a Symbols, up to their length; return the number of entries."""
    name: cython.uint[::1] = columns.name_offset
    value: cython.ulonglong[::1] = columns.value
    size: cython.ulonglong[::1] = columns.size
    info: cython.uchar[::1] = columns.info
    other: cython.uchar[::1] = columns.other
    section: cython.uint[::1] = columns.section
    rows: cython.longlong = table.shape[0] // (c.ELF64_SYM_SIZE if elf64 else c.ELF32_SYM_SIZE)
    i: cython.longlong
    s: Symbol
    rows = min(rows, name.shape[0], value.shape[0], size.shape[0], info.shape[0], other.shape[0], section.shape[0])
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for i in range(rows):
            handle_signals(cython.address(work), 1)
            s = entry(table, i, elf64, big, extended)
            name[i] = s.name
            value[i] = s.value
            size[i] = s.size
            info[i] = s.info
            other[i] = s.other
            section[i] = s.section
    return rows


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def is_label(strings: cython.const[cython.uchar][::1], offset: cython.longlong, machine: cython.uint) -> cython.bint:
    """Return True if an untyped symbol is an assembler's label: .L..., and mapping symbols ($a $d $t $x)."""
    left: cython.longlong = strings.shape[0] - offset
    if left < 2:
        return False
    second: cython.uchar = strings[offset + 1]
    if strings[offset] == b".":
        return second == b"L"
    if strings[offset] != b"$":
        return False
    if machine != c.EM_ARM and machine != c.EM_AARCH64 and machine != c.EM_RISCV:
        return False
    if second != b"a" and second != b"d" and second != b"t" and second != b"x":
        return False
    if left == 2 or strings[offset + 2] == 0 or strings[offset + 2] == b".":
        return True
    return machine == c.EM_RISCV and second == b"x" and strings[offset + 2] == b"r"  # $xrv64...: code of another ISA


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def length_of(strings: cython.const[cython.uchar][::1], offset: cython.longlong) -> cython.longlong:
    """How long the name at an offset is, up to its NUL or the end of the names."""
    start: cython.pointer[cython.const[cython.uchar]] = cython.address(strings[offset])
    end = cython.cast(cython.pointer[cython.const[cython.uchar]], memchr(start, 0, strings.shape[0] - offset))
    return strings.shape[0] - offset if end == cython.NULL else end - start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rank_of(
    strings: cython.const[cython.uchar][::1],
    offset: cython.longlong,
    bind: cython.uint,
    sized: cython.bint,
    preference: cython.uint,
) -> cython.uint:
    """How good a name is among those of one address, 26 bits, higher is better.

    Sized; a better table; not weak; global; fewer leading underscores; longer; not a SyS alias of a system call.
    """
    end: cython.longlong = offset + NAME_LIMIT
    p: cython.longlong = offset
    underscores: cython.longlong
    alias: cython.bint
    if end > strings.shape[0]:
        end = strings.shape[0]
    while p < end and strings[p] == b"_":
        p += 1
    underscores = p - offset
    if underscores > UNDERSCORES_LIMIT:
        underscores = UNDERSCORES_LIMIT
    while p < end and strings[p]:
        p += 1
    alias = p - offset > 3 and strings[offset] == b"S" and strings[offset + 1] == b"y" and strings[offset + 2] == b"S"
    return (
        (SIZED if sized else 0)
        | (preference & 7) << PREFERENCE_SHIFT
        | cython.cast(cython.uint, bind != c.STB_WEAK) << 21
        | cython.cast(cython.uint, bind == c.STB_GLOBAL or bind == c.STB_GNU_UNIQUE) << 20
        | cython.cast(cython.uint, UNDERSCORES_LIMIT - underscores) << 14
        | cython.cast(cython.uint, p - offset) << 1
        | cython.cast(cython.uint, not alias)
    )


@cython.final
@cython.cclass
class CodeSymbols:
    """A symbol table of one file, read for the symbols that can name code.

    `table` is a `symbols.SymbolTable`, `layout` a `functions.CodeLayout`.
    """

    entries: cython.const[cython.uchar][::1]
    names: cython.const[cython.uchar][::1]
    extended: cython.const[cython.uchar][::1]
    elf64: cython.bint
    big: cython.bint
    machine: cython.uint
    relative: cython.bint
    section_start: cython.const[cython.ulonglong][::1]
    section_end: cython.const[cython.ulonglong][::1]
    section_kind: cython.const[cython.uchar][::1]
    range_start: cython.const[cython.ulonglong][::1]
    range_end: cython.const[cython.ulonglong][::1]
    descriptors: cython.const[cython.uchar][::1]
    descriptors_section: cython.uint

    def __cinit__(self, table, layout):
        self.entries = table.entries
        self.names = table.names
        self.extended = table.extended
        self.elf64 = layout.elf64
        self.big = layout.big
        self.machine = layout.machine
        self.relative = layout.relative
        self.section_start = layout.section_start
        self.section_end = layout.section_end
        self.section_kind = layout.section_kind
        self.range_start = layout.range_start
        self.range_end = layout.range_end
        self.descriptors = layout.descriptors
        self.descriptors_section = layout.descriptors_section
        belong(
            self.section_start.shape[0] == self.section_end.shape[0] == self.section_kind.shape[0]
            and self.range_start.shape[0] == self.range_end.shape[0]
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def count(self) -> cython.longlong:
        return self.entries.shape[0] // (c.ELF64_SYM_SIZE if self.elf64 else c.ELF32_SYM_SIZE)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def place(self, index: cython.longlong, placed: cython.pointer(Placed)) -> cython.bint:
        """Compute the address of an entry's code; return False if it is not code. Names are not read.

        Objects with a size count if their section has code: xen and Linux have data in executable sections.
        The ranges of code place a symbol whose section index is outside the table (a file without one). A symbol in
        ppc64's .opd points to the code's address there. In a relocatable file values are relative to their section.
        """
        s: Symbol = entry(self.entries, index, self.elf64, self.big, self.extended)
        kind: cython.uint = s.info & c.STT_MASK
        sections: cython.longlong = self.section_start.shape[0]
        start: cython.ulonglong
        stop: cython.ulonglong
        bound: cython.ulonglong = 0
        i: cython.Py_ssize_t
        if kind == c.STT_OBJECT:
            if s.size == 0 or s.section >= sections or self.section_kind[s.section] != c.CODE:
                return False
        elif kind != c.STT_NOTYPE and kind != c.STT_FUNC and kind != c.STT_GNU_IFUNC:
            return False
        if s.section == c.SHN_UNDEF or s.name == 0:
            return False
        start = s.value
        if (self.machine == c.EM_ARM or self.machine == c.EM_MIPS) and kind != c.STT_NOTYPE and kind != c.STT_OBJECT:
            start &= ~cython.cast(cython.ulonglong, 1)
        if s.section == self.descriptors_section and s.section < sections:
            if start < self.section_start[self.descriptors_section] or self.descriptors.shape[0] < 8:
                return False
            start -= self.section_start[self.descriptors_section]
            if start > cython.cast(cython.ulonglong, self.descriptors.shape[0] - 8):
                return False
            start = u64(cython.address(self.descriptors[start]), self.big)
        elif s.section < sections:
            if self.section_kind[s.section] == c.NOT_LOADED:
                return False
            if kind == c.STT_NOTYPE and self.section_kind[s.section] != c.CODE:
                return False
            if self.relative:
                start += self.section_start[s.section]
            bound = self.section_end[s.section]
            if start < self.section_start[s.section] or start >= bound:
                return False
        elif sections or s.section >= RESERVED:
            return False
        if bound == 0:
            for i in range(self.range_start.shape[0]):
                if self.range_start[i] <= start < self.range_end[i]:
                    bound = self.range_end[i]
                    break
        if bound == 0:
            return False
        stop = start + s.size
        if stop > bound or stop < start:
            stop = bound
        placed.vaddr = start
        placed.end = stop
        placed.bound = bound
        placed.name = s.name
        placed.info = s.info
        placed.is_data = kind == c.STT_OBJECT
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def is_named(self, placed: cython.pointer(Placed)) -> cython.bint:
        """Return True if the symbol has a name inside the table of names that is not empty or an assembler's mark."""
        if placed.name >= self.names.shape[0] or self.names[placed.name] == 0:
            return False
        return placed.info & c.STT_MASK != c.STT_NOTYPE or not is_label(self.names, placed.name, self.machine)


@cython.final
@cython.cclass
class SymbolQueries:
    """Vaddrs to name, and for each the greatest start of a symbol at or before it, 0 if unknown.

    `find_starts` updates the starts from a table. Only the symbols that `concern` a vaddr affect its name.
    """

    vaddr: cython.const[cython.ulonglong][::1]
    nearest_start: cython.ulonglong[::1]

    def __cinit__(self, vaddrs, nearest_starts):
        self.vaddr = vaddrs
        self.nearest_start = nearest_starts
        belong(self.nearest_start.shape[0] >= self.vaddr.shape[0])

    def find_starts(self, symbols: CodeSymbols):
        """Look for later starts at or before the vaddrs in one more table."""
        i: cython.longlong
        q: cython.Py_ssize_t
        placed: Placed
        is_candidate: cython.bint
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for i in range(1, symbols.count()):
                handle_signals(cython.address(work), 1 + self.vaddr.shape[0])
                if not symbols.place(i, cython.address(placed)) or placed.is_data:
                    continue
                is_candidate = False
                for q in range(self.vaddr.shape[0]):
                    if self.nearest_start[q] < placed.vaddr <= self.vaddr[q]:
                        is_candidate = True
                        break
                if not is_candidate or not symbols.is_named(cython.address(placed)):
                    continue
                for q in range(self.vaddr.shape[0]):
                    if self.nearest_start[q] < placed.vaddr <= self.vaddr[q]:
                        self.nearest_start[q] = placed.vaddr

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def concern(self, start: cython.ulonglong, stop: cython.ulonglong) -> cython.bint:
        """Whether [start, stop) starts at the nearest start of a vaddr, or covers that or the vaddr."""
        q: cython.Py_ssize_t
        for q in range(self.vaddr.shape[0]):
            if start > self.vaddr[q]:
                continue
            if start >= self.nearest_start[q] or stop > self.nearest_start[q]:
                return True
        return False


@cython.final
@cython.cclass
class Candidates:
    """Symbols of several tables that can name code, at most `most` of them."""

    rows: Vector  # of Candidate
    most: cython.Py_ssize_t

    def __cinit__(self, most: cython.Py_ssize_t):
        self.most = most

    def __dealloc__(self):
        release(cython.address(self.rows))

    def __len__(self):
        return self.rows.count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.inline
    def at(self, index: cython.Py_ssize_t) -> cython.pointer(Candidate):
        return cython.cast(cython.pointer(Candidate), self.rows.items) + index

    def collect(
        self,
        symbols: CodeSymbols,
        names_base: cython.ulonglong,
        preference: cython.uint,
        source: cython.uint,
        most_names: cython.longlong,
        queries: SymbolQueries = None,
    ):
        """Append the symbols of a table that can name code, and objects between them.

        With `queries` only symbols that concern a vaddr are appended.

        `names_base` is the reference of the names' first byte, `preference` (0 to 7) how good the table is. Returns
        whether the names together take at most `most_names` bytes; if not, the rest of the symbols are left out.
        """
        i: cython.longlong
        placed: Placed
        row: cython.pointer(Candidate)
        bind: cython.uint
        left: cython.longlong = most_names
        restricted: cython.bint = queries is not None
        memory: cython.bint = True
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for i in range(1, symbols.count()):
                handle_signals(cython.address(work), 8)
                if self.rows.count >= self.most:
                    break
                if not symbols.place(i, cython.address(placed)):
                    continue
                if restricted and not queries.concern(placed.vaddr, placed.end):
                    continue
                if not placed.is_data:
                    if not symbols.is_named(cython.address(placed)):
                        continue
                    left -= length_of(symbols.names, placed.name) + 1
                    if left < 0:
                        break
                row = cython.cast(cython.pointer(Candidate), push(cython.address(self.rows), cython.sizeof(Candidate)))
                if row == cython.NULL:
                    memory = False
                    break
                row.vaddr = placed.vaddr
                row.end = placed.end
                row.bound = placed.bound
                row.name = names_base | placed.name
                bind = placed.info >> c.STB_SHIFT
                row.rank = DATA_RANK
                if not placed.is_data:
                    row.rank = rank_of(symbols.names, placed.name, bind, placed.end > placed.vaddr, preference)
                row.source = source
        if not memory:
            raise MemoryError
        return left >= 0

    def add(
        self,
        vaddr: cython.ulonglong,
        size: cython.ulonglong,
        name: cython.ulonglong,
        preference: cython.uint,
        source: cython.uint,
    ):
        """Append one symbol with a size. `name` is a reference."""
        row = cython.cast(cython.pointer(Candidate), push(cython.address(self.rows), cython.sizeof(Candidate)))
        if row == cython.NULL:
            raise MemoryError
        row.vaddr = vaddr
        row.end = row.bound = vaddr + size
        row.name = name
        row.rank = SIZED | preference << PREFERENCE_SHIFT
        row.source = source

    def resolve_overlaps(self):
        """Return ranges without overlaps: columns of vaddr, length, name (Q each) and source (B), in order of vaddr.

        Of candidates with the same start, the highest rank names the range, and the others what extends past its end.
        A candidate without size extends to the next start or its bound, unless a sized one covers its start; objects
        have no range, but count for that. A candidate inside another names its part. There are at most two ranges per
        candidate.
        """
        vaddr: Column = new_column("Q")
        length: Column = new_column("Q")
        name: Column = new_column("Q")
        source: Column = new_column("B")
        rows: cython.Py_ssize_t = self.rows.count
        capacity: cython.Py_ssize_t = 2 * rows
        key: cython.pointer(cython.ulonglong)
        order: cython.pointer(cython.uint)
        spare: cython.pointer(cython.uint)
        if rows > INT_MAX:
            raise MemoryError
        if not (
            vaddr.reserve(capacity) and length.reserve(capacity) and name.reserve(capacity) and source.reserve(capacity)
        ):
            raise MemoryError
        key = cython.cast(cython.pointer(cython.ulonglong), malloc(8 * rows + 1))
        order = cython.cast(cython.pointer(cython.uint), malloc(4 * rows + 1))
        spare = cython.cast(cython.pointer(cython.uint), malloc(4 * rows + 1))
        work: cython.Py_ssize_t = 0
        try:
            if key == cython.NULL or order == cython.NULL or spare == cython.NULL:
                raise MemoryError
            with cython.nogil:
                self.sort(key, order, spare)
                handle_signals(cython.address(work), 8 * rows)
                self.size_the_sizeless(order)
                handle_signals(cython.address(work), 8 * rows)
                self.sweep(order, spare, vaddr, length, name, source)
        finally:
            free(key)
            free(order)
            free(spare)
        return vaddr, length, name, source

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sort(
        self,
        key: cython.pointer(cython.ulonglong),
        order: cython.pointer(cython.uint),
        spare: cython.pointer(cython.uint),
    ) -> cython.void:
        """Set `order` to the candidates in order of vaddr, then rank, then insertion."""
        rows: cython.Py_ssize_t = self.rows.count
        i: cython.Py_ssize_t
        for i in range(rows):
            order[i] = cython.cast(cython.uint, i)
            key[i] = self.at(i).rank
        if sort_indexes(key, order, spare, rows):
            memcpy(order, spare, 4 * rows)
        for i in range(rows):
            key[i] = self.at(i).vaddr
        if sort_indexes(key, order, spare, rows):
            memcpy(order, spare, 4 * rows)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def size_the_sizeless(self, order: cython.pointer(cython.uint)) -> cython.void:
        """Give candidates without size an end, where no other one covers their start."""
        rows: cython.Py_ssize_t = self.rows.count
        covered: cython.ulonglong = 0
        i: cython.Py_ssize_t = 0
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        row: cython.pointer(Candidate)
        while i < rows:  # a group of equal starts at a time: the last of a group ranks highest, objects lowest
            j = i
            while j + 1 < rows and self.at(order[j + 1]).vaddr == self.at(order[i]).vaddr:
                j += 1
            row = self.at(order[j])
            if row.end == row.vaddr and row.vaddr >= covered and self.at(order[i]).rank != DATA_RANK:
                row.end = row.bound
                if j + 1 < rows and self.at(order[j + 1]).vaddr < row.end:
                    row.end = self.at(order[j + 1]).vaddr
            else:
                for k in range(i, j + 1):
                    if self.at(order[k]).end > covered:
                        covered = self.at(order[k]).end
            i = j + 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def sweep(
        self,
        order: cython.pointer(cython.uint),
        covering: cython.pointer(cython.uint),
        vaddr: Column,
        length: Column,
        name: Column,
        source: Column,
    ) -> cython.void:
        """Write the ranges: each vaddr is named by the covering candidate that started last.

        `covering` is the stack of candidates that cover the current vaddr, the innermost on top.
        """
        rows: cython.Py_ssize_t = self.rows.count
        out_vaddr = cython.cast(cython.pointer(cython.ulonglong), vaddr.vector.items)
        out_length = cython.cast(cython.pointer(cython.ulonglong), length.vector.items)
        out_name = cython.cast(cython.pointer(cython.ulonglong), name.vector.items)
        out_source = cython.cast(cython.pointer(cython.uchar), source.vector.items)
        made: cython.Py_ssize_t = 0
        depth: cython.Py_ssize_t = 0
        reached: cython.ulonglong = 0
        until: cython.ulonglong
        high: cython.ulonglong
        i: cython.Py_ssize_t
        row: cython.pointer(Candidate)
        top: cython.pointer(Candidate)
        for i in range(rows + 1):
            row = self.at(order[i] if i < rows else 0)
            until = ~cython.cast(cython.ulonglong, 0)
            if i < rows:
                if row.end <= row.vaddr or row.rank == DATA_RANK:
                    continue
                until = row.vaddr
            while depth and reached < until:
                top = self.at(covering[depth - 1])
                high = top.end
                if high > until:
                    high = until
                if reached < high:
                    out_vaddr[made] = reached
                    out_length[made] = high - reached
                    out_name[made] = top.name
                    out_source[made] = cython.cast(cython.uchar, top.source)
                    made += 1
                    reached = high
                if top.end <= reached:
                    depth -= 1
            if i < rows:
                while depth and self.at(covering[depth - 1]).end <= until:
                    depth -= 1
                reached = until
                covering[depth] = order[i]
                depth += 1
        vaddr.vector.count = length.vector.count = name.vector.count = source.vector.count = made


def addressed(
    info: cython.const[cython.uchar][::1],
    section: cython.const[cython.uint][::1],
    allocated: cython.const[cython.uchar][::1],
    rows: cython.uint[::1],
) -> cython.longlong:
    """Write the rows of functions, objects and untyped symbols in allocated sections; return their number.

    `rows` is as long as the table.
    """
    i: cython.Py_ssize_t
    kind: cython.uint
    vaddr: cython.longlong = 0
    belong(min(section.shape[0], rows.shape[0]) >= info.shape[0])
    with cython.nogil:
        for i in range(1, info.shape[0]):
            kind = info[i] & c.STT_MASK
            if (
                kind > c.STT_FUNC and kind != c.STT_GNU_IFUNC
            ):  # neither STT_NOTYPE, STT_OBJECT, STT_FUNC nor STT_GNU_IFUNC
                continue
            if section[i] == c.SHN_UNDEF or section[i] >= allocated.shape[0] or not allocated[section[i]]:
                continue
            rows[vaddr] = cython.cast(cython.uint, i)
            vaddr += 1
    return vaddr


def holds(data: cython.const[cython.uchar][::1], text: cython.const[cython.uchar][::1]):
    """Return True if the data contains `text`, of at least two bytes."""
    offset: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t = data.shape[0] - text.shape[0]
    is_match: cython.bint = False
    if last < 0 or text.shape[0] < 2:
        return False
    with cython.nogil:
        while offset <= last:  # the second byte is the rarer one: the first is a NUL between names
            entry = cython.cast(
                cython.pointer(cython.const[cython.uchar]),
                memchr(cython.address(data[offset + 1]), text[1], last - offset + 1),
            )
            if entry == cython.NULL:
                break
            offset = entry - cython.address(data[0]) - 1
            if memcmp(cython.address(data[offset]), cython.address(text[0]), text.shape[0]) == 0:
                is_match = True
                break
            offset += 1
    return is_match
