"""What a namer has learnt: frames or a reason for each pair of file and address, and batches of Arrow made of them.

A pair is looked up once. Answers have numbers; those of a batch's elements are found by `find`, new ones are given
their frames by `fill` or a reason by `refuse`, and `leaves` and `chains` make columns of them. Texts are kept once, and
each batch gets dictionaries of those that it shows.

Not safe from several threads at once: the namer holds its lock.
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
from cython.cimports.whence.columns.kernels.batch import NOTHING, Elements, RecordBatch
from cython.cimports.whence.columns.kernels.texts import TextRow, TextSet
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, u8s, u32s, u64s
from cython.cimports.whence.kernels.hashtable import (
    HashTable,
    fill_slot,
    first_slot,
    is_crowded,
    make_slots,
    mix,
    next_slot,
    put_item,
    release_slots,
)
from cython.cimports.whence.kernels.vector import push_bytes, push_u32, push_u64, release
from cython.cimports.whence.lidia.kernels.queries import FrameColumns, Texts

NO_TEXT = cython.declare(cython.uint, 0xFFFFFFFF)

# Kinds of texts: as a file has them, linkage names, and what is shown in their place
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
    """The hash of a pair of a file's number and a vaddr."""
    return mix(address ^ (cython.cast(cython.ulonglong, file) << 48), seed)


@cython.final
@cython.cclass
class AnswerStore:
    """Frames, or the number of a reason (0: none), of pairs of a file's number and a vaddr."""

    def __cinit__(self, bad_address: cython.uchar, no_build_id: cython.uchar):
        """The numbers of the reasons for what is no address, and for an address without a build-id. MemoryError."""
        self.seed = int.from_bytes(os.urandom(8), "little")
        self.texts = TextSet()
        if not make_slots(cython.address(self.table), 0):
            raise MemoryError
        if not (self._add(NO_ID, 0) and self._add(NO_ID, 1) and self._add(NO_ID, 2)):
            raise MemoryError
        self.reason.items[BAD_ADDRESS] = bad_address
        self.reason.items[NO_BUILD_ID] = no_build_id

    def __dealloc__(self):
        release_slots(cython.address(self.table))
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
        release(cython.address(self.shown_at))

    def __len__(self):
        """How many answers there are."""
        return self.file.count

    @property
    def memory(self):
        """About how many bytes they take."""
        return self.file.count * 41 + self.function.count * 18 + self.texts.memory + self.shown_at.count * 12

    def __repr__(self):
        return f"<AnswerStore: {len(self)}, {self.function.count} frames>"

    def _add(self, file, address):
        """Append an answer without frames. False: no memory."""
        done: cython.bint = push_u32(cython.address(self.file), file)
        done = push_u64(cython.address(self.address), address) and done
        done = push_u32(cython.address(self.first), 0) and done
        done = push_u32(cython.address(self.frames), 0) and done
        return push_bytes(cython.address(self.reason), b"\0", 1) and done

    def _grow_table(self):
        at: cython.Py_ssize_t
        if not make_slots(cython.address(self.table), 4 * self.file.count):
            return False
        for at in range(FIRST_ANSWER, self.file.count):
            put_item(cython.address(self.table), pair_hash(self.file.items[at], self.address.items[at], self.seed), at)
        return True

    def find(self, elements: Elements, codes: Column, files: cython.const[cython.uint][::1]):
        """The answer of each element: a Column of u32. New pairs get the numbers from `len(self)` on.

        `codes` has a row of `files` for each element (any other number: no build-id), `files` the number of each file.
        MemoryError.
        """
        count: cython.Py_ssize_t = len(elements)
        at: cython.Py_ssize_t
        slot: cython.ulonglong
        file: cython.uint
        before: cython.uint = NO_ID
        address: cython.ulonglong
        room: cython.bint = True
        out: Column = Column("I")
        belong(codes.vector.count == count and codes.typecode == "I")
        if not out.reserve(count):
            raise MemoryError
        answers = u32s(out)
        addresses = u64s(elements.address)
        status = u8s(elements.status)
        code = u32s(codes)
        with cython.nogil:
            for at in range(count):
                if status[at]:
                    answers[at] = NULL_ANSWER if status[at] == NOTHING else BAD_ADDRESS
                    continue
                if code[at] >= files.shape[0]:
                    answers[at] = NO_BUILD_ID
                    continue
                file = files[code[at]]
                address = addresses[at]
                if before != NO_ID and self.address.items[before] == address and self.file.items[before] == file:
                    answers[at] = before
                    continue
                if is_crowded(cython.address(self.table)):
                    room = room and self._grow_table()
                    if not room:
                        break
                slot = first_slot(cython.address(self.table), pair_hash(file, address, self.seed))
                while self.table.slots[slot]:
                    before = self.table.slots[slot] - 1
                    if self.address.items[before] == address and self.file.items[before] == file:
                        break
                    slot = next_slot(cython.address(self.table), slot)
                if self.table.slots[slot] == 0:
                    before = self.file.count
                    room = room and self._add(file, address)
                    if not room:
                        break
                    fill_slot(cython.address(self.table), slot, before)
                answers[at] = before
        if not room:
            raise MemoryError
        out.vector.count = count
        return out

    def pending(self, first: cython.Py_ssize_t):
        """The answers from `first` on, by file: a dict of file numbers to their answers and vaddrs, two Columns."""
        at: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        slot: cython.ulonglong
        file: cython.uint
        room: cython.bint = True
        table: HashTable = HashTable(cython.NULL, 0, 0)  # of rows of `files`
        files: Column = Column("I")
        columns: list = []  # of each row of `files`: its answers, its vaddrs
        if not FIRST_ANSWER <= first:
            raise ValueError("the first answers are not looked up")
        for at in range(first, self.file.count):
            file = self.file.items[at]
            if is_crowded(cython.address(table)):
                room = make_slots(cython.address(table), 4 * files.vector.count)
                for row in range(files.vector.count if room else 0):
                    put_item(cython.address(table), mix(u32s(files)[row], self.seed), row)
            if room:
                slot = first_slot(cython.address(table), mix(file, self.seed))
                while table.slots[slot]:
                    row = table.slots[slot] - 1
                    if u32s(files)[row] == file:
                        break
                    slot = next_slot(cython.address(table), slot)
                if table.slots[slot] == 0:
                    row = files.vector.count
                    fill_slot(cython.address(table), slot, row)
                    room = files.push_u32(file)
                    columns.append((Column("I"), Column("Q")))
                answers, addresses = cython.cast(tuple, columns[row])
                room = room and cython.cast(Column, answers).push_u32(cython.cast(cython.uint, at))
                room = room and cython.cast(Column, addresses).push_u64(self.address.items[at])
            if not room:
                break
        release_slots(cython.address(table))
        if not room:
            raise MemoryError
        return dict(zip(files.numbers(), columns, strict=True))

    def number_texts(self, texts: Texts, show: object):
        """The number of each of `texts` as it is to be shown: a Column of u32.

        `show(text, linkage)` returns the UTF-8 of a text of bytes, which may be a linkage name; it is called once for
        each text that is one or has other than ASCII characters. Others are shown as they are. MemoryError.
        """
        count: cython.Py_ssize_t = len(texts)
        row: cython.Py_ssize_t
        number: cython.Py_ssize_t
        linkage: cython.Py_ssize_t = 0
        kind: cython.uint
        size: cython.ulonglong
        text: cython.pointer(cython.const[cython.uchar])
        out: Column = Column("I")
        if not out.reserve(count):
            raise MemoryError
        numbers = u32s(out)
        linkages = u32s(texts.linkage)
        for row in range(count):
            text = texts.text_at(row, cython.address(size))
            kind = PLAIN
            if linkage < texts.linkage.vector.count and linkages[linkage] == row:
                kind = LINKAGE
                linkage += 1
            number = self.texts.number_of(text, size, kind)
            if number < 0:
                raise MemoryError
            if number >= self.shown_text.count:
                self._show(number, text, size, kind, show)
            numbers[row] = self.shown_text.items[number]
        out.vector.count = count
        return out

    def _show(self, number, text, size, kind, show):
        """Say what is shown in place of a new text: nothing if `show` raises."""
        at: cython.ulonglong
        plain: cython.bint = kind == PLAIN
        if not self._grow_texts():
            raise MemoryError
        for at in range(size):
            if text[at] >= ASCII_END:
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
        """Have a row for each text. False: no memory."""
        while self.shown_at.count < self.texts.row.count:
            if not (
                push_u32(cython.address(self.shown_text), cython.cast(cython.uint, self.shown_text.count))
                and push_u64(cython.address(self.shown_at), 0)
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
        """Give answers their frames: `frames` has those of each, `numbers` the number (`add_text`) of each of `texts`.

        An answer without frames gets the reason `unnamed`. ValueError for what does not belong together; MemoryError.
        """
        count: cython.Py_ssize_t = answers.vector.count
        total: cython.Py_ssize_t = frames.line.vector.count
        at: cython.Py_ssize_t
        answer: cython.uint
        first: cython.Py_ssize_t = self.function.count
        done: cython.bint = True
        starts = u32s(frames.starts)
        which = u32s(answers)
        function = u32s(texts.function)
        file = u32s(texts.file)
        belong(answers.typecode == "I" and frames.starts.vector.count == count + 1)
        belong(texts.function.vector.count == total and texts.file.vector.count == total)
        belong(start_line.shape[0] == total and numbers.shape[0] == len(texts))
        belong(frames.inlined.vector.count == total and frames.source.vector.count == total)
        belong(starts[0] == 0 and starts[count] == total and first + total < NO_TEXT)
        for at in range(numbers.shape[0]):
            belong(numbers[at] < self.shown_at.count)
        for at in range(count):
            belong(starts[at] <= starts[at + 1] and FIRST_ANSWER <= which[at] < self.file.count)
        with cython.nogil:
            for at in range(total):
                done = push_u32(cython.address(self.function), numbers[function[at]]) and done
                done = push_u32(cython.address(self.source_file), numbers[file[at]]) and done
                done = push_u32(cython.address(self.start_line), start_line[at]) and done
                done = push_u32(cython.address(self.line), u32s(frames.line)[at]) and done
            done = push_bytes(cython.address(self.inlined), frames.inlined.vector.items, total) and done
            done = push_bytes(cython.address(self.source), frames.source.vector.items, total) and done
            if done:
                for at in range(count):
                    answer = which[at]
                    self.first.items[answer] = cython.cast(cython.uint, first + starts[at])
                    self.frames.items[answer] = starts[at + 1] - starts[at]
                    self.reason.items[answer] = 0 if starts[at + 1] > starts[at] else unnamed
        if not done:
            raise MemoryError

    def refuse(self, answers: Column, reason: cython.uchar):
        """Give answers a reason in place of frames."""
        at: cython.Py_ssize_t
        which = u32s(answers)
        belong(answers.typecode == "I")
        for at in range(answers.vector.count):
            belong(FIRST_ANSWER <= which[at] < self.file.count)
            self.reason.items[which[at]] = reason

    def tally(self, answers: Column, codes: Column, known: cython.Py_ssize_t, reasons: cython.Py_ssize_t):
        """How many elements of each code have frames, or each reason: a Column of u64 with a row for each of `known`
        codes and one for all others, of 1 + `reasons` numbers (0: have frames). Null addresses are not counted."""
        at: cython.Py_ssize_t
        out: Column = Column("Q")
        width: cython.Py_ssize_t = reasons + 1
        self._check(answers)
        belong(codes.typecode == "I" and codes.vector.count == answers.vector.count)
        belong(0 <= known < NO_ID and 0 <= reasons <= 255)
        if not out.reserve((known + 1) * width):
            raise MemoryError
        counts = u64s(out)
        which = u32s(answers)
        code = u32s(codes)
        out.vector.count = (known + 1) * width
        with cython.nogil:
            for at in range((known + 1) * width):
                counts[at] = 0
            for at in range(answers.vector.count):
                if which[at] != NULL_ANSWER and self.reason.items[which[at]] < width:
                    counts[min(code[at], known) * width + self.reason.items[which[at]]] += 1
        return out

    def distinct(self, first: cython.Py_ssize_t):
        """Of the answers from `first` on: a dict of file numbers to how many there are, and how many have frames."""
        at: cython.Py_ssize_t
        out: dict = {}
        for at in range(max(first, FIRST_ANSWER), self.file.count):
            found = out.get(self.file.items[at])
            if found is None:
                found = out[self.file.items[at]] = [0, 0]
            found[0] += 1
            found[1] += self.frames.items[at] > 0
        return out

    def _check(self, answers):
        at: cython.Py_ssize_t
        most: cython.uint = 0
        which = u32s(answers)
        belong(answers.typecode == "I")
        for at in range(answers.vector.count):
            if which[at] > most:
                most = which[at]
        belong(most < self.file.count)

    # Making columns

    def rows_of(self, answers: Column, elements: Elements, exploded: cython.bint):
        """Which element each frame of the batch is of, which frame it is (NO_TEXT: none), and of which answer it is:
        Columns of u32.

        In lists of addresses one without frames has one row of nulls, `exploded` likewise each row without any.
        """
        at: cython.Py_ssize_t
        frame: cython.uint
        answer: cython.uint
        keep: cython.bint
        of: Column = Column("I")
        which: Column = Column("I")
        chosen: Column = Column("I")
        done: cython.bint = True
        self._check(answers)
        found = u32s(answers)
        status = u8s(elements.status)
        belong(answers.vector.count == len(elements))
        with cython.nogil:
            for at in range(answers.vector.count):
                answer = found[at]
                for frame in range(self.frames.items[answer]):
                    done = of.push_u32(cython.cast(cython.uint, at)) and done
                    done = which.push_u32(self.first.items[answer] + frame) and done
                    done = chosen.push_u32(answer) and done
                keep = exploded or (elements.lists and status[at] != NOTHING)
                if self.frames.items[answer] == 0 and keep:
                    done = of.push_u32(cython.cast(cython.uint, at)) and done
                    done = which.push_u32(NO_TEXT) and done
                    done = chosen.push_u32(answer) and done
                if not done:
                    break
        if not done:
            raise MemoryError
        return of, which, chosen

    def leaves(self, answers: Column, elements: Elements):
        """The innermost frame of each row (of a list: of its first address): a Column of u32, NO_TEXT for none; and the
        answer that it is of."""
        row: cython.Py_ssize_t
        answer: cython.uint
        which: Column = Column("I")
        first: Column = Column("I")
        self._check(answers)
        belong(answers.vector.count == len(elements))
        if not which.reserve(elements.rows) or not first.reserve(elements.rows):
            raise MemoryError
        found = u32s(answers)
        starts = u32s(elements.starts)
        frame = u32s(which)
        of = u32s(first)
        with cython.nogil:
            for row in range(elements.rows):
                if not elements.lists:
                    answer = found[row]
                elif starts[row] == starts[row + 1]:
                    answer = NULL_ANSWER
                else:
                    answer = found[starts[row]]
                of[row] = answer
                frame[row] = self.first.items[answer] if self.frames.items[answer] else NO_TEXT
        which.vector.count = first.vector.count = elements.rows
        return which, first

    def columns(self, frames: Column, names: tuple, words: tuple, answers: Column = None):
        """A batch with a row for each of `frames`: columns function, file, line, inlined, start_line and source of the
        given names; with `answers`, of as many rows, the reason of each as well (a seventh name).

        `words` are the texts of the sources and of the reasons, by number, two tuples of bytes. MemoryError.
        """
        batch: RecordBatch = RecordBatch(None)
        count: int64_t = frames.vector.count
        width: cython.int = 6 if answers is None else 7
        at: int64_t
        belong(frames.typecode == "I" and len(names) >= width and len(words) == 2)
        which = u32s(frames)
        for at in range(count):
            belong(which[at] == NO_TEXT or which[at] < self.function.count)
        if not (
            new_schema(cython.address(batch.shared.schema), b"+s", b"", width)
            and new_array(cython.address(batch.shared.array), count, 1, width)
        ):
            raise MemoryError
        self._fill_columns(batch.shared.schema.children, batch.shared.array.children, frames, names, words)
        if answers is not None:
            belong(answers.vector.count == count)
            self._check(answers)
            self._fill_reasons(
                batch.shared.schema.children[REASON],
                batch.shared.array.children[REASON],
                answers,
                names[REASON],
                words[1],
            )
        batch._read_names()
        return batch

    def chains(self, answers: Column, elements: Elements, names: tuple, words: tuple):
        """A batch with a row for each of the elements' rows: the frames as lists of structs, and the reason where there
        are none (of lists: that of the first address without).

        `names` are those of the two columns and, behind them, of a frame's fields; `words` as in `columns`.
        MemoryError.
        """
        batch: RecordBatch = RecordBatch(None)
        rows: cython.Py_ssize_t = elements.rows
        row: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        element: cython.Py_ssize_t
        of: Column
        frames: Column
        chosen: Column = Column("I")
        belong(len(names) == 8 and len(words) == 2)
        of, frames, _ = self.rows_of(answers, elements, False)
        if frames.vector.count > INT_MAX:
            raise OverflowError("more than 2^31 frames in one batch: give smaller batches")
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
        found = u32s(answers)
        its = u32s(of)
        reason = u32s(chosen)
        offsets[0] = 0
        for row in range(rows):
            low: cython.Py_ssize_t = starts[row] if elements.lists else row
            high: cython.Py_ssize_t = starts[row + 1] if elements.lists else row + 1
            while at < of.vector.count and its[at] < high:
                at += 1
            offsets[row + 1] = cython.cast(int32_t, at)
            reason[row] = NULL_ANSWER
            for element in range(low, high):
                if self.reason.items[found[element]]:
                    reason[row] = found[element]
                    break
        chosen.vector.count = rows
        self._fill_columns(
            batch.shared.schema.children[0].children[0].children, batch.shared.array.children[0].children[0].children,
            frames, names[2:], words,
        )  # fmt: skip
        self._fill_reasons(batch.shared.schema.children[1], batch.shared.array.children[1], chosen, names[1], words[1])
        batch._read_names()
        return batch

    def _fill_columns(self, schema, array, frames, names, words):
        """Make the six columns of frames."""
        count: int64_t = frames.vector.count
        sources: cython.uint = len(words[0])
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
        give_dictionary(schema[SOURCE], array[SOURCE], words[0])

    def _fill_texts(self, schema, array, frames, texts, name):
        """Make a column of texts with a dictionary of those that it shows; the empty text is null."""
        count: int64_t = frames.vector.count
        at: int64_t
        frame: cython.uint
        text: cython.uint
        place: cython.uint
        bits: cython.uint = 0
        nulls: cython.longlong = 0
        places: cython.uint = 0
        mark: cython.ulonglong
        size: cython.ulonglong = 0
        row: cython.pointer(TextRow)
        indices: cython.pointer(int32_t)
        offsets: cython.pointer(int32_t)
        data: cython.p_char
        room: cython.bint = True
        shown: Column = Column("I")
        which = u32s(frames)
        self.shown += 1
        if self.shown == 0:  # after 2^32 columns: no mark is left of earlier ones
            for at in range(self.shown_at.count):
                self.shown_at.items[at] = 0
            self.shown = 1
        mark = cython.cast(cython.ulonglong, self.shown) << 32
        if not (new_schema(schema, b"i", name.encode(), 0) and new_array(array, count, 2, 0)):
            raise MemoryError
        if not has_buffers(array, 4):
            raise MemoryError
        validity = validity_of(array)
        indices = cython.cast(cython.pointer(int32_t), array.buffers[1])
        with cython.nogil:
            for at in range(count):
                frame = which[at]
                place = NO_TEXT
                if frame != NO_TEXT:
                    text = texts[frame]
                    if self.shown_at.items[text] >> 32 != self.shown:
                        if self.texts.at(text).size == 0:
                            self.shown_at.items[text] = mark | NO_TEXT
                        else:
                            self.shown_at.items[text] = mark | places
                            places += 1
                            room = shown.push_u32(text) and room
                            size += self.texts.at(text).size
                    place = cython.cast(cython.uint, self.shown_at.items[text])
                indices[at] = cython.cast(int32_t, place) if place != NO_TEXT else 0
                add_bit(validity, at, place != NO_TEXT, cython.address(bits), cython.address(nulls))
            end_validity(array, bits, nulls)
        array.dictionary = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
        schema.dictionary = cython.cast(cython.pointer(ArrowSchema), calloc(1, cython.sizeof(ArrowSchema)))
        if not room or array.dictionary == cython.NULL or schema.dictionary == cython.NULL:
            raise MemoryError
        if size > INT_MAX:
            raise OverflowError("the names of one batch have more than 2^31 bytes: give smaller batches")
        if not (new_schema(schema.dictionary, b"u", b"", 0) and new_array(array.dictionary, places, 3, 0)):
            raise MemoryError
        offsets = cython.cast(cython.pointer(int32_t), malloc(4 * (cython.cast(cython.size_t, places) + 1)))
        array.dictionary.buffers[1] = offsets
        data = cython.cast(cython.p_char, malloc(size + 1))
        array.dictionary.buffers[2] = data
        if offsets == cython.NULL or data == cython.NULL:
            raise MemoryError
        size = 0
        offsets[0] = 0
        for at in range(places):
            text = u32s(shown)[at]
            row = self.texts.at(text)
            memcpy(data + size, self.texts.text.items + row.start, row.size)
            size += row.size
            offsets[at + 1] = cython.cast(int32_t, size)

    def _fill_reasons(self, schema, array, answers, name, words):
        """Make the column of reasons: null where there is none."""
        count: int64_t = answers.vector.count
        known: cython.uint = len(words)
        which = u32s(answers)
        if not (new_schema(schema, b"c", name.encode(), 0) and new_array(array, count, 2, 0)):
            raise MemoryError
        if not has_buffers(array, 1):
            raise MemoryError
        with cython.nogil:
            fill_bytes(array, self.reason.items, which, 1, known)
        give_dictionary(schema, array, words)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def add_bit(
    validity: cython.p_uchar, at: int64_t, is_valid: cython.bint, bits: cython.p_uint, nulls: cython.p_longlong
) -> cython.void:
    """Say whether the next row is valid; `bits` are those of its byte so far (`end_validity` stores the last)."""
    bits[0] |= cython.cast(cython.uint, is_valid) << (at & 7)
    nulls[0] += not is_valid
    if at & 7 == 7:
        validity[at >> 3] = cython.cast(cython.uchar, bits[0])
        bits[0] = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def end_validity(array: cython.pointer(ArrowArray), bits: cython.uint, nulls: cython.longlong) -> cython.void:
    """Store the last bits. An array without nulls gets none, which readers are quicker with."""
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
    """Have room for the bits of validity, and for values of so many bytes, zero so far. False: no memory."""
    array.buffers[0] = malloc((array.length >> 3) + 1)
    array.buffers[1] = calloc(array.length + 1, size)
    return array.buffers[0] != cython.NULL and array.buffers[1] != cython.NULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_numbers(array: cython.pointer(ArrowArray), numbers: cython.p_uint, frames: cython.p_uint) -> cython.void:
    """A column of the frames' numbers; 0 is null."""
    at: int64_t
    number: cython.uint
    bits: cython.uint = 0
    nulls: cython.longlong = 0
    validity: cython.p_uchar = validity_of(array)
    out = cython.cast(cython.p_uint, cython.cast(cython.p_void, array.buffers[1]))
    for at in range(array.length):
        number = 0 if frames[at] == NO_TEXT else numbers[frames[at]]
        out[at] = number
        add_bit(validity, at, number != 0, cython.address(bits), cython.address(nulls))
    end_validity(array, bits, nulls)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_truths(array: cython.pointer(ArrowArray), truths: cython.p_uchar, frames: cython.p_uint) -> cython.void:
    """A column of the frames' truths, a bit each; null without a frame."""
    at: int64_t
    number: cython.uint = 0
    bits: cython.uint = 0
    nulls: cython.longlong = 0
    validity: cython.p_uchar = validity_of(array)
    out = cython.cast(cython.p_uchar, cython.cast(cython.p_void, array.buffers[1]))
    for at in range(array.length):
        if frames[at] != NO_TEXT and truths[frames[at]]:
            number |= cython.cast(cython.uint, 1) << (at & 7)
        if at & 7 == 7:
            out[at >> 3] = cython.cast(cython.uchar, number)
            number = 0
        add_bit(validity, at, frames[at] != NO_TEXT, cython.address(bits), cython.address(nulls))
    if array.length & 7:
        out[array.length >> 3] = cython.cast(cython.uchar, number)
    end_validity(array, bits, nulls)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fill_bytes(
    array: cython.pointer(ArrowArray), values: cython.p_uchar, rows: cython.p_uint, least: cython.uint, end: cython.uint
) -> cython.void:
    """A column of the values of rows; null without a row, or for a value below `least`. Values from `end` on are 0: an
    archive may hold any byte."""
    at: int64_t
    value: cython.uint
    bits: cython.uint = 0
    nulls: cython.longlong = 0
    valid: cython.bint
    validity: cython.p_uchar = validity_of(array)
    out = cython.cast(cython.p_uchar, cython.cast(cython.p_void, array.buffers[1]))
    for at in range(array.length):
        valid = rows[at] != NO_TEXT
        value = 0
        if valid:
            value = values[rows[at]]
            if value >= end:
                value = 0
        valid = valid and value >= least
        out[at] = cython.cast(cython.uchar, value)
        add_bit(validity, at, valid, cython.address(bits), cython.address(nulls))
    end_validity(array, bits, nulls)


@cython.cfunc
def give_dictionary(schema: cython.pointer(ArrowSchema), array: cython.pointer(ArrowArray), words: tuple):
    """Make a column of 8-bit numbers one of texts by number."""
    at: cython.Py_ssize_t
    data: bytes = b"".join(words)
    size: cython.Py_ssize_t = 0
    array.dictionary = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
    schema.dictionary = cython.cast(cython.pointer(ArrowSchema), calloc(1, cython.sizeof(ArrowSchema)))
    if array.dictionary == cython.NULL or schema.dictionary == cython.NULL:
        raise MemoryError
    if not (new_schema(schema.dictionary, b"u", b"", 0) and new_array(array.dictionary, len(words), 3, 0)):
        raise MemoryError
    offsets = cython.cast(cython.pointer(int32_t), malloc(4 * (len(words) + 1)))
    array.dictionary.buffers[1] = offsets
    text = cython.cast(cython.p_char, malloc(len(data) + 1))
    array.dictionary.buffers[2] = text
    if offsets == cython.NULL or text == cython.NULL:
        raise MemoryError
    memcpy(text, cython.cast(cython.p_char, data), len(data))
    offsets[0] = 0
    for at in range(len(words)):
        size += len(words[at])
        offsets[at + 1] = cython.cast(int32_t, size)
