"""What units claim: which of them can hold an address, and which rows of a line program are theirs.

A unit's root DIE says which code is the unit's. Rows of its line program that lie elsewhere describe nothing (padding
between functions, code that the linker took from another unit).
"""

import cython
from cython.cimports.libc.stdlib import free, malloc, qsort, realloc
from cython.cimports.whence.kernels.heap import pop, push

NO_FILE = cython.declare(cython.uint, 0xFFFFFFFF)
LAST = cython.declare(cython.uint, 0xFFFFFFFF)


def cover(
    start: cython.const[cython.ulonglong][::1],
    end: cython.const[cython.ulonglong][::1],
    owner: cython.const[cython.uint][::1],
    order: cython.const[cython.uint][::1],
    begin: cython.ulonglong[::1],
    whose: cython.uint[::1],
):
    """Who holds which addresses, where of the owners of an address the lowest counts. Spans come by owner, the lowest
    first; `order` has their places by start.

    Fills `begin` (ascending) with where another owner's addresses begin, and `whose` with the owner (NO_FILE: nobody);
    both have room for two rows per span. Gives how many rows there are. Time: n log n.
    """
    spans: cython.Py_ssize_t = start.shape[0]
    at: cython.Py_ssize_t = 0
    rows: cython.Py_ssize_t = 0
    held: cython.Py_ssize_t = 0  # spans on the heap: all open ones, and closed ones below the top
    here: cython.ulonglong
    now: cython.uint
    last: cython.uint = NO_FILE
    heap = cython.cast(cython.p_uint, malloc((spans + 1) * 4))  # LAST - place, as the greatest comes first
    if heap == cython.NULL:
        raise MemoryError
    with cython.nogil:
        while at < spans or held:
            # The next address at which something changes: a span begins, or the one that counts ends.
            if held and (at == spans or end[LAST - heap[0]] <= start[order[at]]):
                here = end[LAST - heap[0]]
            else:
                here = start[order[at]]
            while at < spans and start[order[at]] == here:
                push(heap, cython.address(held), LAST - order[at])
                at += 1
            while held and end[LAST - heap[0]] <= here:
                pop(heap, cython.address(held))
            now = owner[LAST - heap[0]] if held else NO_FILE
            if now != last:
                begin[rows] = here
                whose[rows] = now
                rows += 1
                last = now
        free(heap)
    return rows


def mark(
    begin: cython.const[cython.ulonglong][::1],
    whose: cython.const[cython.uint][::1],
    vaddrs: cython.const[cython.ulonglong][::1],
    wanted: cython.uchar[::1],
):
    """Mark the owner of each vaddr, as `cover` has them."""
    at: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    with cython.nogil:
        for at in range(vaddrs.shape[0]):
            low = 0
            high = begin.shape[0]
            while low < high:
                middle = (low + high) // 2
                if begin[middle] <= vaddrs[at]:
                    low = middle + 1
                else:
                    high = middle
            if low and whose[low - 1] != NO_FILE:
                wanted[whose[low - 1]] = 1


@cython.final
@cython.cclass
class Clipper:
    """The rows of groups of units, as far as they lie in what the units claim, or in their functions.

    `run` clips the rows of a batch, `take` hands them over. One group at a time has its spans in `_spans`: pairs of
    start and end, ascending and apart once they are joined.
    """

    count: cython.Py_ssize_t
    _room: cython.Py_ssize_t
    _va: cython.p_ulonglong
    _file: cython.p_uint  # and the lines behind the files
    _spans: cython.p_ulonglong
    _held: cython.Py_ssize_t
    _span_room: cython.Py_ssize_t

    def __cinit__(self):
        self.count = self._room = self._held = self._span_room = 0
        self._va = self._spans = cython.NULL
        self._file = cython.NULL

    def __dealloc__(self):
        free(self._va)
        free(self._file)
        free(self._spans)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _need(self, more: cython.Py_ssize_t) -> cython.bint:
        """Room for so many more rows; False when there is no memory."""
        room: cython.Py_ssize_t = self.count + more
        if room <= self._room:
            return True
        room += room // 2
        wide = realloc(self._va, room * 8)
        if wide == cython.NULL:
            return False
        self._va = cython.cast(cython.p_ulonglong, wide)
        narrow = realloc(self._file, room * 8)
        if narrow == cython.NULL:
            return False
        self._file = cython.cast(cython.p_uint, narrow)
        self._room = room
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _add(self, start: cython.ulonglong, end: cython.ulonglong) -> cython.bint:
        more: cython.Py_ssize_t
        if self._held == self._span_room:
            more = 2 * self._span_room if self._span_room else 64
            block = realloc(self._spans, more * 16)
            if block == cython.NULL:
                return False
            self._spans = cython.cast(cython.p_ulonglong, block)
            self._span_room = more
        self._spans[2 * self._held] = start
        self._spans[2 * self._held + 1] = end
        self._held += 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _join(self) -> cython.void:
        """The spans in ascending order, those that touch or overlap as one."""
        at: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        sorted: cython.bint = True
        spans = self._spans
        for at in range(1, self._held):
            if spans[2 * at] < spans[2 * at - 2]:
                sorted = False
        if not sorted:
            qsort(spans, self._held, 16, by_start)
        for at in range(self._held):
            if count and spans[2 * at] <= spans[2 * count - 1]:
                if spans[2 * at + 1] > spans[2 * count - 1]:
                    spans[2 * count - 1] = spans[2 * at + 1]
            else:
                spans[2 * count] = spans[2 * at]
                spans[2 * count + 1] = spans[2 * at + 1]
                count += 1
        self._held = count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _covers(self, va: cython.ulonglong, end: cython.ulonglong) -> cython.bint:
        """Does [va, end) lie in one of the joined spans?"""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self._held
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) // 2
            if self._spans[2 * middle] <= va:
                low = middle + 1
            else:
                high = middle
        return low > 0 and end <= self._spans[2 * low - 1]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _put(self, va: cython.ulonglong, file: cython.uint, line: cython.uint) -> cython.void:
        self._va[self.count] = va
        self._file[2 * self.count] = file
        self._file[2 * self.count + 1] = line
        self.count += 1

    def run(
        self,
        units: cython.const[cython.uint][::1],
        unit_ends: cython.const[cython.uint][::1],
        says: cython.const[cython.uchar][::1],
        first: cython.const[cython.uint][::1],
        start: cython.const[cython.ulonglong][::1],
        end: cython.const[cython.ulonglong][::1],
        va: cython.const[cython.ulonglong][::1],
        to: cython.const[cython.ulonglong][::1],
        depth: cython.const[cython.uint][::1],
        scope_ends: cython.const[cython.uint][::1],
        row_va: cython.const[cython.ulonglong][::1],
        row_file: cython.const[cython.uint][::1],
        row_line: cython.const[cython.uint][::1],
        row_ends: cython.const[cython.uint][::1],
        out_ends: cython.uint[::1],
    ):
        """Clip the rows of each group; fills `out_ends` (where they end) and gives how many there are.

        A group's units are `units` up to its `unit_ends`; the spans a unit claims, [start, end), are those from its
        `first` to the next unit's. The scopes of a group reach from `va` to `to`. All rows stay where a unit claims
        nothing (`says` is not 1). Where a row holds over the beginning of a span, it begins there.
        """
        group: cython.Py_ssize_t
        at: cython.Py_ssize_t
        unit: cython.Py_ssize_t = 0
        scope: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t = 0
        span: cython.uint
        wanted: cython.bint
        good: cython.bint = True
        self.count = 0
        with cython.nogil:
            for group in range(unit_ends.shape[0]):
                wanted = row < row_ends[group]
                self._held = 0
                for at in range(unit, unit_ends[group]):
                    if says[units[at]] != 1:
                        wanted = False
                    elif wanted:
                        for span in range(first[units[at]], first[units[at] + 1]):
                            good = good and self._add(start[span], end[span])
                unit = unit_ends[group]
                if not wanted:
                    good = good and self._need(row_ends[group] - row)
                    if not good:
                        break
                    for at in range(row, row_ends[group]):
                        self._put(row_va[at], row_file[at], row_line[at])
                else:
                    self._join()
                    for at in range(scope, scope_ends[group]):
                        if depth[at] == 0 and not self._covers(va[at], to[at]):
                            for at in range(scope, scope_ends[group]):
                                good = good and self._add(va[at], to[at])
                            self._join()
                            break
                    good = good and self._need(row_ends[group] - row + 2 * self._held)
                    if not good:
                        break
                    self._clip(row_va, row_file, row_line, row, row_ends[group])
                scope = scope_ends[group]
                row = row_ends[group]
                out_ends[group] = cython.cast(cython.uint, self.count)
        if not good:
            raise MemoryError
        return self.count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _clip(
        self,
        va: cython.const[cython.ulonglong][::1],
        file: cython.const[cython.uint][::1],
        line: cython.const[cython.uint][::1],
        row: cython.Py_ssize_t,
        rows: cython.Py_ssize_t,
    ) -> cython.void:
        """Put the rows [row, rows) that lie in the joined spans."""
        span: cython.Py_ssize_t
        first: cython.Py_ssize_t = row
        begun: cython.Py_ssize_t = self.count
        for span in range(self._held):
            while row < rows and va[row] <= self._spans[2 * span]:
                row += 1
            if row > first and file[row - 1] != NO_FILE:
                self._put(self._spans[2 * span], file[row - 1], line[row - 1])
            while row < rows and va[row] < self._spans[2 * span + 1]:
                self._put(va[row], file[row], line[row])
                row += 1
            if self.count > begun and self._file[2 * self.count - 2] != NO_FILE:
                self._put(self._spans[2 * span + 1], NO_FILE, 0)

    def take(self, va: cython.ulonglong[::1], file: cython.uint[::1], line: cython.uint[::1]):
        """Write the rows of the last run into columns of that many rows."""
        at: cython.Py_ssize_t
        with cython.nogil:
            for at in range(va.shape[0]):
                va[at] = self._va[at]
                file[at] = self._file[2 * at]
                line[at] = self._file[2 * at + 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def by_start(
    one: cython.pointer[cython.const[cython.void]], two: cython.pointer[cython.const[cython.void]]
) -> cython.int:
    """Spans by where they begin."""
    first = cython.cast(cython.pointer[cython.const[cython.ulonglong]], one)
    second = cython.cast(cython.pointer[cython.const[cython.ulonglong]], two)
    return 1 if first[0] > second[0] else -1 if first[0] < second[0] else 0
