"""Functions with their inlined calls and line rows, as the readers of symbol files append them to columns."""

import cython
from cython.cimports.whence.kernels.columns import Column, append_u32, append_u64


@cython.cclass
class FunctionGroups:
    """The columns of Scopes and Rows, and where each function's group ends. `damaged` counts what is malformed."""

    def __cinit__(self):
        self.vaddr, self.end, self.depth = Column("Q"), Column("Q"), Column("I")
        self.name, self.call_file, self.call_line = Column("Q"), Column("I"), Column("I")
        self.scope_ends, self.row_ends = Column("I"), Column("I")
        self.row_vaddr, self.row_file, self.row_line = Column("Q"), Column("I"), Column("I")
        self.first_damaged = -1

    def put_scope(self, vaddr, end, depth, name, file, line):
        """Append a function or an inlined call. False if memory runs out."""
        if not (
            self.vaddr.reserve(1)
            and self.end.reserve(1)
            and self.depth.reserve(1)
            and self.name.reserve(1)
            and self.call_file.reserve(1)
            and self.call_line.reserve(1)
        ):
            self._failed = True
            return False
        append_u64(self.vaddr, vaddr)
        append_u64(self.end, end)
        append_u32(self.depth, depth)
        append_u64(self.name, name)
        append_u32(self.call_file, file)
        append_u32(self.call_line, line)
        return True

    def put_row(self, vaddr, file, line):
        """Append a line row. False if memory runs out."""
        if not (self.row_vaddr.reserve(1) and self.row_file.reserve(1) and self.row_line.reserve(1)):
            self._failed = True
            return False
        append_u64(self.row_vaddr, vaddr)
        append_u32(self.row_file, file)
        append_u32(self.row_line, line)
        return True

    def end_group(self):
        """End the group of a function with the scopes and rows so far."""
        if not (self.scope_ends.reserve(1) and self.row_ends.reserve(1)):
            self._failed = True
            return
        append_u32(self.scope_ends, cython.cast(cython.uint, self.vaddr.vector.count))
        append_u32(self.row_ends, cython.cast(cython.uint, self.row_vaddr.vector.count))

    def note_damage(self, offset):
        """Count a malformed record or function at an offset of the file."""
        self.damaged += 1
        if self.first_damaged < 0:
            self.first_damaged = offset
