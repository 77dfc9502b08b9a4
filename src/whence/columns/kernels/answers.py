"""The cache of a namer: frames or a reason for each pair of file and address, and Arrow batches made from them.

A pair is looked up once. Answers have numbers: `find` returns those of a batch's elements, `fill` sets the frames of
new ones or `refuse` their reason, and `leaves`, `columns` and `chains` make batches from them. Each text is stored
once; a batch gets dictionaries of the texts that it shows.

Not safe for use from several threads at a time: the namer holds its lock.
"""

import os

import cython
from cython.cimports.libc.limits import INT_MAX
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.libc.stdlib import calloc, free, malloc
from cython.cimports.libc.string import memcpy
from cython.cimports.whence.columns.kernels.arrow import (
    ArrowArray,
    ArrowSchema,
    new_array,
    new_schema,
)
from cython.cimports.whence.columns.kernels.batch import IS_NULL, Elements, RecordBatch
from cython.cimports.whence.columns.kernels.texts import TextRow, TextSet
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, u8s, u32s, u64s
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    Probe,
    find_u32,
    first_match,
    insert,
    mix,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.vector import push_bytes, push_u32, push_u64, release, reserve
from cython.cimports.whence.lidia.kernels.queries import FrameColumns, Texts

NO_TEXT = cython.declare(cython.uint, 0xFFFFFFFF)

# Kinds of texts: as stored in a file, linkage names, and texts shown instead of another text
cython.declare(PLAIN=cython.uint, LINKAGE=cython.uint, SHOWN=cython.uint)
PLAIN, LINKAGE, SHOWN = 0, 1, 2

ASCII_END = cython.declare(cython.uchar, 0x80)
NO_ID = cython.declare(cython.uint, 0xFFFFFFFF)  # the code of an element without a build-id

# The columns of a frame, in order
cython.declare(FUNCTION=cython.int, FILE=cython.int, LINE=cython.int, INLINED=cython.int, START_LINE=cython.int)
cython.declare(SOURCE=cython.int, REASON=cython.int)
FUNCTION, FILE, LINE, INLINED, START_LINE, SOURCE, REASON = 0, 1, 2, 3, 4, 5, 6


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def pair_hash(file: cython.uint, address: cython.ulonglong, seed: cython.ulonglong) -> cython.ulonglong:
    """Hash a pair of a file's number and a vaddr."""
    return mix(address ^ (cython.cast(cython.ulonglong, file) << 48), seed)


@cython.final
@cython.cclass
class AnswerStore:
    """Frames, or the number of a reason (0: has frames), by the number of a file and a vaddr."""

    def __cinit__(self, bad_address: cython.uchar, no_build_id: cython.uchar):
        """Make an empty store, given the numbers of the reasons for an invalid address and for a missing build-id."""
        self.seed = int.from_bytes(os.urandom(8), "little")
        self.texts = TextSet()
        if not (self._add(NO_ID, 0) and self._add(NO_ID, 1) and self._add(NO_ID, 2)):
            raise MemoryError
        self.reason.items[BAD_ADDRESS] = bad_address
        self.reason.items[NO_BUILD_ID] = no_build_id

    def __dealloc__(self):
        release_index(cython.address(self.pairs))
        release(cython.address(self.file))
        release(cython.address(self.address))
        release(cython.address(self.first))
        release(cython.address(self.frames))
        release(cython.address(self.reason))
        release(cython.address(self.function))
        release(cython.address(self.source_file))
        release(cython.address(self.line))
        release(cython.address(self.start_line))
        release(cython.address(self.inlined))
        release(cython.address(self.source))
        release(cython.address(self.shown_text))
        release(cython.address(self.entry_of_text))

    def __len__(self):
        """Return the number of answers."""
        return self.file.count

    @property
    def memory(self):
        """The approximate memory in bytes."""
        return self.file.count * 41 + self.function.count * 18 + self.texts.memory + self.entry_of_text.count * 12

    def __repr__(self):
        return f"<AnswerStore: {len(self)}, {self.function.count} frames>"

    def _add(self, file, address):
        """Append an answer without frames; return False without memory."""
        ok: cython.bint = push_u32(cython.address(self.file), file)
        ok = push_u64(cython.address(self.address), address) and ok
        ok = push_u32(cython.address(self.first), 0) and ok
        ok = push_u32(cython.address(self.frames), 0) and ok
        return push_bytes(cython.address(self.reason), b"\0", 1) and ok

    def find(self, elements: Elements, codes: Column, files: cython.const[cython.uint][::1]):
        """Return the number of the answer of each element: a Column of u32. New pairs get new numbers.

        `codes` has an index of `files` for each element (any other number: no build-id); `files` has numbers of files.
        """
        count: cython.Py_ssize_t = len(elements)
        index: cython.Py_ssize_t
        previous: cython.uint = NO_ID
        ok: cython.bint = True
        out: Column = Column("I")
        belong(codes.vector.count == count and codes.typecode == "I")
        if not out.reserve(count):
            raise MemoryError
        answers = u32s(out)
        addresses = u64s(elements.address)
        status = u8s(elements.status)
        code = u32s(codes)
        with cython.nogil:
            for index in range(count):
                if status[index]:
                    answers[index] = NULL_ANSWER if status[index] == IS_NULL else BAD_ADDRESS
                    continue
                if code[index] >= files.shape[0]:
                    answers[index] = NO_BUILD_ID
                    continue
                file: cython.uint = files[code[index]]
                address: cython.ulonglong = addresses[index]
                if previous != NO_ID and self.address.items[previous] == address and self.file.items[previous] == file:
                    answers[index] = previous
                    continue
                previous = NO_ID
                hash: cython.ulonglong = pair_hash(file, address, self.seed)
                probe: Probe = first_match(cython.address(self.pairs), hash)
                while previous == NO_ID and next_match(cython.address(self.pairs), cython.address(probe)):
                    if self.address.items[probe.item] == address and self.file.items[probe.item] == file:
                        previous = probe.item
                if previous == NO_ID:
                    previous = self.file.count
                    ok = self._add(file, address) and insert(cython.address(self.pairs), hash, previous)
                    if not ok:
                        break
                answers[index] = previous
        if not ok:
            raise MemoryError
        out.vector.count = count
        return out

    def pending(self, first: cython.Py_ssize_t):
        """Return the answers with numbers >= `first`: a dict of file numbers to two Columns, answers and vaddrs."""
        index: cython.Py_ssize_t
        ok: cython.bint = True
        rows: HashIndex = HashIndex(cython.NULL, 0, 0)  # of `files`
        files: Column = Column("I")
        columns: list = []  # of each row of `files`: its answers, its vaddrs
        if not FIRST_ANSWER <= first:
            raise ValueError("the predefined answers are not looked up")
        for index in range(first, self.file.count):
            file: cython.uint = self.file.items[index]
            row: cython.Py_ssize_t = find_u32(cython.address(rows), files.vector.items, 4, file, self.seed)
            if row < 0:
                row = files.vector.count
                ok = files.push_u32(file) and insert(cython.address(rows), mix(file, self.seed), row)
                columns.append((Column("I"), Column("Q")))
            answers, addresses = cython.cast(tuple, columns[row])
            ok = ok and cython.cast(Column, answers).push_u32(cython.cast(cython.uint, index))
            ok = ok and cython.cast(Column, addresses).push_u64(self.address.items[index])
            if not ok:
                break
        release_index(cython.address(rows))
        if not ok:
            raise MemoryError
        return dict(zip(files.numbers(), columns, strict=True))

    def number_texts(self, texts: Texts, show: object):
        """Return the number of each of `texts` as it is shown: a Column of u32.

        `show(text, linkage)` returns UTF-8 for the bytes of a text; it is called once for each text that is a linkage
        name or has non-ASCII characters. Other texts are shown unchanged.
        """
        count: cython.Py_ssize_t = len(texts)
        row: cython.Py_ssize_t
        linkage: cython.Py_ssize_t = 0
        size: cython.ulonglong
        out: Column = Column("I")
        if not out.reserve(count):
            raise MemoryError
        numbers = u32s(out)
        linkages = u32s(texts.linkage)
        for row in range(count):
            text: cython.pointer(cython.const[cython.uchar]) = texts.text_at(row, cython.address(size))
            kind: cython.uint = PLAIN
            if linkage < texts.linkage.vector.count and linkages[linkage] == row:
                kind = LINKAGE
                linkage += 1
            number: cython.Py_ssize_t = self.texts.number_of(text, size, kind)
            if number < 0:
                raise MemoryError
            if number >= self.shown_text.count:
                self._show(number, text, size, kind, show)
            numbers[row] = self.shown_text.items[number]
        out.vector.count = count
        return out

    def _show(self, number, text, size, kind, show):
        """Set what is shown for a new text: "" if `show` raises."""
        index: cython.ulonglong
        plain: cython.bint = kind == PLAIN
        if not self._grow_texts():
            raise MemoryError
        for index in range(size):
            if text[index] >= ASCII_END:
                plain = False
        if not plain:
            self._show_as(number, b"")
            self._show_as(number, show(text[:size], kind == LINKAGE))
        return 0

    def _show_as(self, number, text):
        shown: cython.Py_ssize_t = self.texts.number_of(text, len(text), SHOWN)
        if shown < 0 or not self._grow_texts():
            raise MemoryError
        self.shown_text.items[number] = cython.cast(cython.uint, shown)
        return 0

    def _grow_texts(self):
        """Make an entry for each text; return False without memory."""
        while self.entry_of_text.count < self.texts.entry.count:
            if not (
                push_u32(cython.address(self.shown_text), cython.cast(cython.uint, self.shown_text.count))
                and push_u64(cython.address(self.entry_of_text), 0)
            ):
                return False
        return True

    def fill(
        self,
        answers: Column,
        frames: FrameColumns,
        texts: Texts,
        numbers: cython.const[cython.uint][::1],
        start_line: cython.const[cython.uint][::1],
        unnamed: cython.uchar,
    ):
        """Set the frames of answers: `frames` has a chain for each; `numbers` (see `number_texts`) is by text.

        An answer without frames gets the reason `unnamed`. Raises ValueError for columns of different lengths.
        """
        count: cython.Py_ssize_t = answers.vector.count
        total: cython.Py_ssize_t = frames.line.vector.count
        index: cython.Py_ssize_t
        first: cython.Py_ssize_t = self.function.count
        starts = u32s(frames.starts)
        which = u32s(answers)
        function = u32s(texts.function)
        file = u32s(texts.file)
        belong(answers.typecode == "I" and frames.starts.vector.count == count + 1)
        belong(texts.function.vector.count == total and texts.file.vector.count == total)
        belong(start_line.shape[0] == total and numbers.shape[0] == len(texts))
        belong(frames.inlined.vector.count == total and frames.source.vector.count == total)
        belong(starts[0] == 0 and starts[count] == total and first + total < NO_TEXT)
        for index in range(numbers.shape[0]):
            belong(numbers[index] < self.entry_of_text.count)
        for index in range(count):
            belong(starts[index] <= starts[index + 1] and FIRST_ANSWER <= which[index] < self.file.count)
        if not (
            reserve(cython.address(self.function), total, 4)
            and reserve(cython.address(self.source_file), total, 4)
            and reserve(cython.address(self.start_line), total, 4)
            and reserve(cython.address(self.line), total, 4)
            and push_bytes(cython.address(self.inlined), frames.inlined.vector.items, total)
            and push_bytes(cython.address(self.source), frames.source.vector.items, total)
        ):
            raise MemoryError
        with cython.nogil:
            for index in range(total):
                push_u32(cython.address(self.function), numbers[function[index]])
                push_u32(cython.address(self.source_file), numbers[file[index]])
                push_u32(cython.address(self.start_line), start_line[index])
                push_u32(cython.address(self.line), u32s(frames.line)[index])
            for index in range(count):
                answer: cython.uint = which[index]
                self.first.items[answer] = cython.cast(cython.uint, first + starts[index])
                self.frames.items[answer] = starts[index + 1] - starts[index]
                self.reason.items[answer] = 0 if starts[index + 1] > starts[index] else unnamed

    def refuse(self, answers: Column, reason: cython.uchar):
        """Set the reason why answers have no frames."""
        index: cython.Py_ssize_t
        which = u32s(answers)
        belong(answers.typecode == "I")
        for index in range(answers.vector.count):
            belong(FIRST_ANSWER <= which[index] < self.file.count)
            self.reason.items[which[index]] = reason

    def tally(self, answers: Column, codes: Column, code_count: cython.Py_ssize_t, reasons: cython.Py_ssize_t):
        """Count the elements of each code that have frames (0) or each reason (1 and up), except null addresses.

        Returns a Column of u64: a row of 1 + `reasons` counts for each of `code_count` codes, and one for all others.
        """
        index: cython.Py_ssize_t
        out: Column = Column("Q")
        width: cython.Py_ssize_t = reasons + 1
        self._check(answers)
        belong(codes.typecode == "I" and codes.vector.count == answers.vector.count)
        belong(0 <= code_count < NO_ID and 0 <= reasons <= 255)
        if not out.reserve((code_count + 1) * width):
            raise MemoryError
        counts = u64s(out)
        which = u32s(answers)
        code = u32s(codes)
        out.vector.count = (code_count + 1) * width
        with cython.nogil:
            for index in range((code_count + 1) * width):
                counts[index] = 0
            for index in range(answers.vector.count):
                if which[index] != NULL_ANSWER and self.reason.items[which[index]] < width:
                    counts[min(code[index], code_count) * width + self.reason.items[which[index]]] += 1
        return out

    def distinct(self, first: cython.Py_ssize_t):
        """Count answers with numbers >= `first`: a dict of file numbers to [answers, answers with frames]."""
        index: cython.Py_ssize_t
        out: dict = {}
        for index in range(max(first, FIRST_ANSWER), self.file.count):
            counts = out.get(self.file.items[index])
            if counts is None:
                counts = out[self.file.items[index]] = [0, 0]
            counts[0] += 1
            counts[1] += self.frames.items[index] > 0
        return out

    def _check(self, answers):
        index: cython.Py_ssize_t
        most: cython.uint = 0
        which = u32s(answers)
        belong(answers.typecode == "I")
        for index in range(answers.vector.count):
            if which[index] > most:
                most = which[index]
        belong(most < self.file.count)

    # Making columns

    def rows_of(self, answers: Column, elements: Elements, exploded: cython.bint):
        """Return the element, the frame (NO_TEXT: none) and the answer of each exploded row: Columns of u32.

        An address without frames has one row of nulls if it is in a list, or if `exploded`.
        """
        index: cython.Py_ssize_t
        frame: cython.uint
        elements_of: Column = Column("I")
        which: Column = Column("I")
        chosen: Column = Column("I")
        ok: cython.bint = True
        self._check(answers)
        numbers = u32s(answers)
        status = u8s(elements.status)
        belong(answers.vector.count == len(elements))
        with cython.nogil:
            for index in range(answers.vector.count):
                answer: cython.uint = numbers[index]
                for frame in range(self.frames.items[answer]):
                    ok = elements_of.push_u32(cython.cast(cython.uint, index)) and ok
                    ok = which.push_u32(self.first.items[answer] + frame) and ok
                    ok = chosen.push_u32(answer) and ok
                keep: cython.bint = exploded or (elements.lists and status[index] != IS_NULL)
                if self.frames.items[answer] == 0 and keep:
                    ok = elements_of.push_u32(cython.cast(cython.uint, index)) and ok
                    ok = which.push_u32(NO_TEXT) and ok
                    ok = chosen.push_u32(answer) and ok
                if not ok:
                    break
        if not ok:
            raise MemoryError
        return elements_of, which, chosen

    def leaves(self, answers: Column, elements: Elements):
        """Return the innermost frame of each row (NO_TEXT: none) and its answer: Columns of u32.

        For a list, they are those of the first address.
        """
        row: cython.Py_ssize_t
        which: Column = Column("I")
        first: Column = Column("I")
        self._check(answers)
        belong(answers.vector.count == len(elements))
        if not which.reserve(elements.rows) or not first.reserve(elements.rows):
            raise MemoryError
        numbers = u32s(answers)
        starts = u32s(elements.starts)
        frame = u32s(which)
        elements_of = u32s(first)
        with cython.nogil:
            for row in range(elements.rows):
                if not elements.lists:
                    answer: cython.uint = numbers[row]
                elif starts[row] == starts[row + 1]:
                    answer = NULL_ANSWER
                else:
                    answer = numbers[starts[row]]
                elements_of[row] = answer
                frame[row] = self.first.items[answer] if self.frames.items[answer] else NO_TEXT
        which.vector.count = first.vector.count = elements.rows
        return which, first

    def columns(self, frames: Column, names: tuple, texts: tuple, answers: Column = None):
        """Return a batch with a row for each of `frames`.

        The columns are function, file, line, inlined, start_line and source, called `names`; with `answers`, of as many
        rows, and a seventh name also the reason of each. `texts` has the texts of the sources and of the reasons by
        number, two tuples of bytes.
        """
        batch: RecordBatch = RecordBatch(None)
        count: int64_t = frames.vector.count
        width: cython.int = 6 if answers is None else 7
        index: int64_t
        belong(frames.typecode == "I" and len(names) >= width and len(texts) == 2)
        which = u32s(frames)
        for index in range(count):
            belong(which[index] == NO_TEXT or which[index] < self.function.count)
        if not (
            new_schema(cython.address(batch.shared.schema), b"+s", b"", width)
            and new_array(cython.address(batch.shared.array), count, 1, width)
        ):
            raise MemoryError
        self._fill_columns(batch.shared.schema.children, batch.shared.array.children, frames, names, texts)
        if answers is not None:
            belong(answers.vector.count == count)
            self._check(answers)
            self._fill_reasons(
                batch.shared.schema.children[REASON],
                batch.shared.array.children[REASON],
                answers,
                names[REASON],
                texts[1],
            )
        batch._read_names()
        return batch

    def chains(self, answers: Column, elements: Elements, names: tuple, texts: tuple):
        """Return a batch with a row for each row of the elements: frames as lists of structs, and a reason.

        The reason of a list is that of the first address without frames. `names` has the names of the two columns, then
        of a frame's fields. `texts` has the texts of the sources and of the reasons by number, two tuples of bytes.
        """
        batch: RecordBatch = RecordBatch(None)
        rows: cython.Py_ssize_t = elements.rows
        row: cython.Py_ssize_t
        index: cython.Py_ssize_t = 0
        element: cython.Py_ssize_t
        elements_of: Column
        frames: Column
        chosen: Column = Column("I")
        belong(len(names) == 8 and len(texts) == 2)
        elements_of, frames, _ = self.rows_of(answers, elements, False)
        if frames.vector.count > INT_MAX:
            raise OverflowError("more than 2^31 frames in one batch: pass smaller batches")
        if not (
            new_schema(cython.address(batch.shared.schema), b"+s", b"", 2)
            and new_array(cython.address(batch.shared.array), rows, 1, 2)
            and new_schema(batch.shared.schema.children[0], b"+l", names[0].encode(), 1)
            and new_array(batch.shared.array.children[0], rows, 2, 1)
            and new_schema(batch.shared.schema.children[0].children[0], b"+s", b"item", 6)
            and new_array(batch.shared.array.children[0].children[0], frames.vector.count, 1, 6)
            and chosen.reserve(rows)
        ):
            raise MemoryError
        offsets = cython.cast(cython.pointer(int32_t), malloc(4 * (rows + 1)))
        if offsets == cython.NULL:
            raise MemoryError
        batch.shared.array.children[0].buffers[1] = offsets
        starts = u32s(elements.starts)
        numbers = u32s(answers)
        element_of = u32s(elements_of)
        reason = u32s(chosen)
        offsets[0] = 0
        for row in range(rows):
            low: cython.Py_ssize_t = starts[row] if elements.lists else row
            high: cython.Py_ssize_t = starts[row + 1] if elements.lists else row + 1
            while index < elements_of.vector.count and element_of[index] < high:
                index += 1
            offsets[row + 1] = cython.cast(int32_t, index)
            reason[row] = NULL_ANSWER
            for element in range(low, high):
                if self.reason.items[numbers[element]]:
                    reason[row] = numbers[element]
                    break
        chosen.vector.count = rows
        self._fill_columns(
            batch.shared.schema.children[0].children[0].children, batch.shared.array.children[0].children[0].children,
            frames, names[2:], texts,
        )  # fmt: skip
        self._fill_reasons(batch.shared.schema.children[1], batch.shared.array.children[1], chosen, names[1], texts[1])
        batch._read_names()
        return batch

    def _fill_columns(self, schema, array, frames, names, texts):
        """Make the six columns of frames."""
        count: int64_t = frames.vector.count
        sources: cython.uint = len(texts[0])
        which = u32s(frames)
        self._fill_texts(schema[FUNCTION], array[FUNCTION], frames, self.function.items, names[FUNCTION])
        self._fill_texts(schema[FILE], array[FILE], frames, self.source_file.items, names[FILE])
        if not (
            new_schema(schema[LINE], b"I", names[LINE].encode(), 0)
            and new_array(array[LINE], count, 2, 0)
            and new_schema(schema[START_LINE], b"I", names[START_LINE].encode(), 0)
            and new_array(array[START_LINE], count, 2, 0)
            and new_schema(schema[INLINED], b"b", names[INLINED].encode(), 0)
            and new_array(array[INLINED], count, 2, 0)
            and new_schema(schema[SOURCE], b"c", names[SOURCE].encode(), 0)
            and new_array(array[SOURCE], count, 2, 0)
        ):
            raise MemoryError
        if not (
            has_buffers(array[LINE], 4)
            and has_buffers(array[START_LINE], 4)
            and has_buffers(array[INLINED], 1)
            and has_buffers(array[SOURCE], 1)
        ):
            raise MemoryError
        with cython.nogil:
            fill_numbers(array[LINE], self.line.items, which)
            fill_numbers(array[START_LINE], self.start_line.items, which)
            fill_truths(array[INLINED], self.inlined.items, which)
            fill_bytes(array[SOURCE], self.source.items, which, 0, sources)
        give_dictionary(schema[SOURCE], array[SOURCE], texts[0])

    def _fill_texts(self, schema, array, frames, texts, name):
        """Make a column of texts with a dictionary; the empty text is null."""
        count: int64_t = frames.vector.count
        index: int64_t
        bits: cython.uint = 0
        nulls: cython.longlong = 0
        entries: cython.uint = 0
        size: cython.ulonglong = 0
        ok: cython.bint = True
        shown: Column = Column("I")
        which = u32s(frames)
        self.shown += 1
        if self.shown == 0:  # after 2^32 columns: clear the marks of earlier ones
            for index in range(self.entry_of_text.count):
                self.entry_of_text.items[index] = 0
            self.shown = 1
        mark: cython.ulonglong = cython.cast(cython.ulonglong, self.shown) << 32
        if not (new_schema(schema, b"i", name.encode(), 0) and new_array(array, count, 2, 0)):
            raise MemoryError
        if not has_buffers(array, 4):
            raise MemoryError
        validity = validity_of(array)
        indices: cython.pointer(int32_t) = cython.cast(cython.pointer(int32_t), array.buffers[1])
        with cython.nogil:
            for index in range(count):
                frame: cython.uint = which[index]
                entry: cython.uint = NO_TEXT
                if frame != NO_TEXT:
                    text: cython.uint = texts[frame]
                    if self.entry_of_text.items[text] >> 32 != self.shown:
                        if self.texts.row_at(text).size == 0:
                            self.entry_of_text.items[text] = mark | NO_TEXT
                        else:
                            self.entry_of_text.items[text] = mark | entries
                            entries += 1
                            ok = shown.push_u32(text) and ok
                            size += self.texts.row_at(text).size
                    entry = cython.cast(cython.uint, self.entry_of_text.items[text])
                indices[index] = cython.cast(int32_t, entry) if entry != NO_TEXT else 0
                add_bit(validity, index, entry != NO_TEXT, cython.address(bits), cython.address(nulls))
            end_validity(array, bits, nulls)
        array.dictionary = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
        schema.dictionary = cython.cast(cython.pointer(ArrowSchema), calloc(1, cython.sizeof(ArrowSchema)))
        if not ok or array.dictionary == cython.NULL or schema.dictionary == cython.NULL:
            raise MemoryError
        if size > INT_MAX:
            raise OverflowError("more than 2^31 bytes of names in one batch: pass smaller batches")
        if not (new_schema(schema.dictionary, b"u", b"", 0) and new_array(array.dictionary, entries, 3, 0)):
            raise MemoryError
        offsets: cython.pointer(int32_t) = cython.cast(
            cython.pointer(int32_t), malloc(4 * (cython.cast(cython.size_t, entries) + 1))
        )
        array.dictionary.buffers[1] = offsets
        data: cython.p_char = cython.cast(cython.p_char, malloc(size + 1))
        array.dictionary.buffers[2] = data
        if offsets == cython.NULL or data == cython.NULL:
            raise MemoryError
        size = 0
        offsets[0] = 0
        for index in range(entries):
            text = u32s(shown)[index]
            row: cython.pointer(TextRow) = self.texts.row_at(text)
            memcpy(data + size, self.texts.text.items + row.start, row.size)
            size += row.size
            offsets[index + 1] = cython.cast(int32_t, size)

    def _fill_reasons(self, schema, array, answers, name, texts):
        """Make the column of reasons; null for an answer with frames."""
        count: int64_t = answers.vector.count
        code_count: cython.uint = len(texts)
        which = u32s(answers)
        if not (new_schema(schema, b"c", name.encode(), 0) and new_array(array, count, 2, 0)):
            raise MemoryError
        if not has_buffers(array, 1):
            raise MemoryError
        with cython.nogil:
            fill_bytes(array, self.reason.items, which, 1, code_count)
        give_dictionary(schema, array, texts)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def add_bit(
    validity: cython.p_uchar, index: int64_t, is_valid: cython.bint, bits: cython.p_uint, nulls: cython.p_longlong
) -> cython.void:
    """Append a validity bit. `bits` has the bits of the current byte; `end_validity` stores the last byte."""
    bits[0] |= cython.cast(cython.uint, is_valid) << (index & 7)
    nulls[0] += not is_valid
    if index & 7 == 7:
        validity[index >> 3] = cython.cast(cython.uchar, bits[0])
        bits[0] = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def end_validity(array: cython.pointer(ArrowArray), bits: cython.uint, nulls: cython.longlong) -> cython.void:
    """Store the last byte. An array without nulls gets no bitmap, which is faster to read."""
    array.null_count = nulls
    if nulls == 0:
        free(cython.cast(cython.p_void, array.buffers[0]))
        array.buffers[0] = cython.NULL
    elif array.length & 7:
        validity_of(array)[array.length >> 3] = cython.cast(cython.uchar, bits)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def validity_of(array: cython.pointer(ArrowArray)) -> cython.p_uchar:
    return cython.cast(cython.p_uchar, cython.cast(cython.p_void, array.buffers[0]))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def has_buffers(array: cython.pointer(ArrowArray), size: cython.size_t) -> cython.bint:
    """Allocate the validity bits, and zeroed values of `size` bytes each; return False without memory."""
    array.buffers[0] = malloc((array.length >> 3) + 1)
    array.buffers[1] = calloc(array.length + 1, size)
    return array.buffers[0] != cython.NULL and array.buffers[1] != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_numbers(array: cython.pointer(ArrowArray), numbers: cython.p_uint, frames: cython.p_uint) -> cython.void:
    """Fill a column with numbers of frames; 0 is null."""
    index: int64_t
    bits: cython.uint = 0
    nulls: cython.longlong = 0
    validity: cython.p_uchar = validity_of(array)
    out = cython.cast(cython.p_uint, cython.cast(cython.p_void, array.buffers[1]))
    for index in range(array.length):
        number: cython.uint = 0 if frames[index] == NO_TEXT else numbers[frames[index]]
        out[index] = number
        add_bit(validity, index, number != 0, cython.address(bits), cython.address(nulls))
    end_validity(array, bits, nulls)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_truths(array: cython.pointer(ArrowArray), truths: cython.p_uchar, frames: cython.p_uint) -> cython.void:
    """Fill a column of bits with booleans of frames; null without a frame."""
    index: int64_t
    number: cython.uint = 0
    bits: cython.uint = 0
    nulls: cython.longlong = 0
    validity: cython.p_uchar = validity_of(array)
    out = cython.cast(cython.p_uchar, cython.cast(cython.p_void, array.buffers[1]))
    for index in range(array.length):
        if frames[index] != NO_TEXT and truths[frames[index]]:
            number |= cython.cast(cython.uint, 1) << (index & 7)
        if index & 7 == 7:
            out[index >> 3] = cython.cast(cython.uchar, number)
            number = 0
        add_bit(validity, index, frames[index] != NO_TEXT, cython.address(bits), cython.address(nulls))
    if array.length & 7:
        out[array.length >> 3] = cython.cast(cython.uchar, number)
    end_validity(array, bits, nulls)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_bytes(
    array: cython.pointer(ArrowArray), values: cython.p_uchar, rows: cython.p_uint, least: cython.uint, end: cython.uint
) -> cython.void:
    """Fill a column with bytes of rows; null without a row, or for a value below `least`.

    Values >= `end` become 0, as an archive may have any byte.
    """
    index: int64_t
    bits: cython.uint = 0
    nulls: cython.longlong = 0
    validity: cython.p_uchar = validity_of(array)
    out = cython.cast(cython.p_uchar, cython.cast(cython.p_void, array.buffers[1]))
    for index in range(array.length):
        valid: cython.bint = rows[index] != NO_TEXT
        value: cython.uint = 0
        if valid:
            value = values[rows[index]]
            if value >= end:
                value = 0
        valid = valid and value >= least
        out[index] = cython.cast(cython.uchar, value)
        add_bit(validity, index, valid, cython.address(bits), cython.address(nulls))
    end_validity(array, bits, nulls)


@cython.cfunc
def give_dictionary(schema: cython.pointer(ArrowSchema), array: cython.pointer(ArrowArray), texts: tuple):
    """Add a dictionary of texts to a column of 8-bit numbers."""
    index: cython.Py_ssize_t
    data: bytes = b"".join(texts)
    size: cython.Py_ssize_t = 0
    array.dictionary = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
    schema.dictionary = cython.cast(cython.pointer(ArrowSchema), calloc(1, cython.sizeof(ArrowSchema)))
    if array.dictionary == cython.NULL or schema.dictionary == cython.NULL:
        raise MemoryError
    if not (new_schema(schema.dictionary, b"u", b"", 0) and new_array(array.dictionary, len(texts), 3, 0)):
        raise MemoryError
    offsets = cython.cast(cython.pointer(int32_t), malloc(4 * (len(texts) + 1)))
    array.dictionary.buffers[1] = offsets
    text = cython.cast(cython.p_char, malloc(len(data) + 1))
    array.dictionary.buffers[2] = text
    if offsets == cython.NULL or text == cython.NULL:
        raise MemoryError
    memcpy(text, cython.cast(cython.p_char, data), len(data))
    offsets[0] = 0
    for index in range(len(texts)):
        size += len(texts[index])
        offsets[index + 1] = cython.cast(int32_t, size)
