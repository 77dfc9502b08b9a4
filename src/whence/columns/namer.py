"""The namer: batches with build-ids and addresses in, the same batches with columns of names out.

Distinct pairs of build-id and address are looked up once and kept; the rows are worked on by a kernel, without the
interpreter's lock and without a Python object for each row.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Callable, Collection
from itertools import chain, repeat
from os import PathLike
from typing import Any, Literal

from whence._base.closing import Closing
from whence._base.errors import WrongUse
from whence._base.lru import Lru
from whence._base.model import SOURCES
from whence._base.reasons import MAKE_AGAIN, Missing, Reason
from whence._base.records import Record, field
from whence.columns.kernels.answers import AnswerStore
from whence.columns.kernels.batch import Elements, RecordBatch, check_formats, identities
from whence.columns.kernels.stream import Batches
from whence.columns.kernels.texts import TextSet
from whence.kernels.columns import Column
from whence.kernels.rows import numbered, taken
from whence.lidia.table import demangler
from whence.locate.identity import comparable
from whence.locate.search import Opened, Wanted
from whence.locator.locator import Locator
from whence.objects.elf.segments import Translation
from whence.store import Store
from whence.symbolize.internal_error import reason_of
from whence.symbolize.naming import in_halves, why_nothing

ANSWERS = 1 << 20  # answers that are kept: with more, all are forgotten
ANSWER_BYTES = 1 << 28  # the same of the memory that they take
BUILD_IDS = 1 << 16  # that are remembered: with more, everything is forgotten
OPEN_FILES = 512
NOWHERE = (1 << 64) - 1  # no file has code in its last byte

REASONS = tuple(Reason)
NUMBERS = {reason: number for number, reason in enumerate(REASONS, 1)}
WORDS = (tuple(str(one).encode() for one in SOURCES), (b"", *(one.word.encode() for one in REASONS)))

FIELDS = ("function", "file", "line", "inlined", "start_line", "source")
FRAMES, REASON = "frames", "reason"
BUILD_ID, ADDRESS, FILE_OFFSET = "build_id", "address", "file_offset"
MAPPING_START, MAPPING_OFFSET = "mapping_start", "mapping_offset"

VADDRS, FILE_OFFSETS = -2, -1
"""What the addresses of a file are; any other number: offsets in a mapping that begins at this byte of the file."""


class Coverage(Record):
    """How far the addresses of a build-id have names: `rows` are addresses (those of lists counted each), `named`
    those with frames; `distinct` and `distinct_named` count each vaddr once (again when it was forgotten meanwhile);
    `missing` has the others' reasons."""

    build_id: str
    rows: int = 0
    named: int = 0
    distinct: int = 0
    distinct_named: int = 0
    missing: Counter[Missing] = field(default_factory=Counter)


class Namer(Closing):
    """Names the addresses of record batches. A context manager; safe from several threads.

    `locator` finds the files of build-ids; in place of one `store` names a store (a folder, s3://, ...), `cache` the
    folder for what is fetched from it, which processes may share. With `return_addresses` each address is one past a
    call: the byte before it is looked up; "callers" says so of all but the first of a list (a stack's). Names are
    readable ones unless `demangle` is false.

    The batch has a column of build-ids (texts in hex, bytes, or dictionaries of those) and one of addresses (integers
    of any width, signed ones as their 64 bits; texts in hex, with `decimal` those without 0x in decimal), single ones
    or lists. They are vaddrs; runtime addresses where the columns `mapping_start` and `mapping_offset` are there as
    well; file offsets where `file_offset` is there in place of `address`. The parameters of these names say what the
    columns are called. `before_file` is called before the search for each file; an exception that it raises ends the
    batch, and the answers of the files before it are kept.

    Added are `frames`, a list of structs (function, file, line, inlined, start_line, source; innermost first, a whole
    stack's one after the other), and `reason`, why there are none. With `leaf` these fields are columns, of the
    innermost frame alone; with `exploded` there is a row for each frame (one for an address without any; this needs
    pyarrow). Texts are dictionaries; what is not known is null. `prefix` goes before the names of added columns.

    >>> Namer(leaf=True).added
    ('function', 'file', 'line', 'inlined', 'start_line', 'source', 'reason')
    """

    def __init__(
        self,
        *,
        locator: Locator | None = None,
        store: str | PathLike[str] | None = None,
        cache: str | PathLike[str] | None = None,
        return_addresses: bool | Literal["callers"] = False,
        demangle: bool | Callable[[str], str] = True,
        leaf: bool = False,
        exploded: bool = False,
        build_id: str = BUILD_ID,
        address: str = ADDRESS,
        file_offset: str = FILE_OFFSET,
        mapping_start: str = MAPPING_START,
        mapping_offset: str = MAPPING_OFFSET,
        prefix: str = "",
        decimal: bool = False,
        before_file: Callable[[], None] | None = None,
    ) -> None:
        if leaf and exploded:
            raise WrongUse("leaf and exploded: one row an address, or one a frame?")
        if locator is not None and store is not None:
            raise WrongUse("a locator and a store: give the store to the locator (sources=[Store(...).source()])")
        self._locator = locator or _locator_of(store, cache)
        self._owned = locator is None
        self._return_addresses = return_addresses
        self._demangle = demangler(demangle)
        self._leaf, self.exploded = leaf, exploded
        self._build_id, self._address, self._file_offset = build_id, address, file_offset
        self._mapping = (mapping_start, mapping_offset)
        self.decimal = decimal
        self._before_file = before_file
        names = FIELDS if leaf or exploded else (FRAMES,)
        self.added = tuple(prefix + name for name in (*names, REASON))
        self._lock = threading.Lock()
        self._files: dict[tuple[str, int], int] = {}
        self._identities: list[tuple[str, int]] = []
        self._open: Lru[str, Opened] = Lru(OPEN_FILES, Opened.close)  # by build-id
        self._missing: dict[str, Missing] = {}  # by build-id
        self._why: dict[int, dict[Reason, Missing]] = {}  # by file: what was seen, for the coverage
        self._coverage: dict[str, Coverage] | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"<columns.Namer: {len(self._answers)} answers, {len(self._open)} files open>"

    # What a caller does

    def __call__(self, batch: Any) -> Any:
        """The batch with the added columns: a RecordBatch or Table for one of pyarrow's, else an object that speaks the
        C data interface as the batch does (`__arrow_c_array__`, `__arrow_c_stream__`: a stream is named as it is read).

        WrongUse for a batch without these columns or with ones that hold something else; nothing that an address, a
        build-id or a file is raises.
        """
        if hasattr(batch, "__arrow_c_array__"):
            named = self._named(RecordBatch(*batch.__arrow_c_array__()), batch)
            return _as_pyarrow(named, "record_batch") if _is_pyarrow(batch) else named
        if hasattr(batch, "__arrow_c_stream__"):
            if _is_pyarrow(batch) and hasattr(batch, "to_batches"):
                return self._table(batch)
            stream = Batches.taken(batch.__arrow_c_stream__())
            return Batches(self._schema(stream.schema), (self._named(one, None) for one in stream))
        raise TypeError(f"a {type(batch).__name__} does not speak Arrow's C data interface (__arrow_c_array__)")

    def schema(self, schema: Any) -> Any:
        """The schema of what comes out, for the schema of what goes in: pyarrow's for pyarrow's, else an object with
        `__arrow_c_schema__`. WrongUse as for a batch."""
        named = self._schema(RecordBatch(schema.__arrow_c_schema__()))
        return _as_pyarrow(named, "schema") if _is_pyarrow(schema) else named

    def name(self, batch: RecordBatch) -> RecordBatch:
        """The kernel's batch with the added columns."""
        return batch.beside(self.names_of(batch))

    def reads(self, names: Collection[str]) -> list[str]:
        """Of the names of a batch's columns those of the columns that are read."""
        address = self._address if self._address in names else self._file_offset
        wanted = [self._build_id, address]
        if address == self._address and set(self._mapping) <= set(names):
            wanted += self._mapping
        return wanted

    def names(self, batch: Any) -> RecordBatch | Batches:
        """The added columns alone (never exploded) of a batch or a stream, for engines that have the others."""
        if hasattr(batch, "__arrow_c_array__"):
            return self.names_of(RecordBatch(*batch.__arrow_c_array__()))
        stream = Batches.taken(batch.__arrow_c_stream__())
        self._check_names(stream.schema)
        return Batches(self._added_schema(), map(self.names_of, stream))

    def names_of(self, batch: RecordBatch) -> RecordBatch:
        """The added columns alone of the kernel's batch."""
        elements, kind = self._elements(batch)
        with self._lock:
            answers = self._find(batch, elements, kind)
            return self._columns(self._answers, answers, elements)

    def count_coverage(self) -> None:
        """Count coverage from now on; it costs a little for each row."""
        self._coverage = {}

    @property
    def coverage(self) -> list[Coverage]:
        """What was named of each build-id since `count_coverage`, most rows first."""
        found = (self._coverage or {}).values()
        return sorted(found, key=lambda one: -one.rows)

    def forget(self, build_id: str = "") -> None:
        """Forget every answer and close every file, so that what has come to a store since is found; with `build_id`
        those of this one."""
        with self._lock:
            if not build_id:
                self._forget()
                return
            for identity in [one for one in self._files if one[0] == build_id]:
                self._renumber(*identity)
            self._missing.pop(build_id, None)
            self._close_one(build_id)

    def close(self) -> None:
        """Close every file. The namer stays usable."""
        self.forget()
        if self._owned:
            self._locator.close()

    # Batches

    def _table(self, table: Any) -> Any:
        import pyarrow

        batches = [self(batch) for batch in table.to_batches()]
        return pyarrow.Table.from_batches(batches, schema=self.schema(table.schema))

    def _named(self, batch: RecordBatch, given: Any) -> Any:
        return self._exploding(batch, given) if self.exploded else self.name(batch)

    def _exploding(self, batch: RecordBatch, given: Any) -> RecordBatch:
        """A row for each frame. The rows of the input are repeated by pyarrow."""
        try:
            import pyarrow
        except ImportError:
            raise ImportError("exploded=True needs pyarrow (pip install 'whence[arrow]')") from None
        elements, kind = self._elements(batch)
        with self._lock:
            answers = self._find(batch, elements, kind)
            of, frames, chosen = self._answers.rows_of(answers, elements, True)
            added = self._answers.columns(frames, self.added, WORDS, chosen)
            rows = elements.rows_of(of)
        given = pyarrow.record_batch(batch) if given is None else given
        numbers = pyarrow.Array.from_buffers(pyarrow.uint32(), len(rows), [None, pyarrow.py_buffer(rows)])
        repeated = _rows(pyarrow.record_batch(given), numbers)
        return RecordBatch(*repeated.__arrow_c_array__()).beside(added)

    def _schema(self, given: RecordBatch) -> RecordBatch:
        self._check_names(given)
        return given.beside(self._added_schema())

    def _added_schema(self) -> RecordBatch:
        nothing = Elements()
        empty = AnswerStore(0, 0)
        none = empty.find(nothing, Column("I"), array("I"))
        return self._columns(empty, none, nothing)

    def _check_names(self, batch: RecordBatch) -> tuple[str, bool]:
        """The column of addresses, and whether they are file offsets."""
        names = batch.names
        if self._build_id not in names:
            raise WrongUse(f"no column {self._build_id} of build-ids among {', '.join(names) or 'none'}")
        taken = [name for name in self.added if name in names]
        if taken:
            raise WrongUse(f"the input has a column {taken[0]} already: name the added ones otherwise with a prefix")
        for name, offsets in ((self._address, False), (self._file_offset, True)):
            if name in names:
                check_formats(batch, name, self._build_id)
                return name, offsets
        wanted = f"{self._address} or {self._file_offset}"
        raise WrongUse(f"no column {wanted} of addresses among {', '.join(names) or 'none'}")

    def _elements(self, batch: RecordBatch) -> tuple[Elements, int | Elements]:
        """The addresses of a batch, and their kind: VADDRS, FILE_OFFSETS, or where their mappings begin."""
        name, offsets = self._check_names(batch)
        elements = Elements(batch, name, self.decimal)
        kind: int | Elements = FILE_OFFSETS if offsets else VADDRS
        if not offsets and set(self._mapping) <= set(batch.names):
            start, kind = (Elements(batch, one, self.decimal) for one in self._mapping)
            elements.moved(start, kind)
        if self._return_addresses:
            elements.step_back(self._return_addresses == "callers")
        return elements, kind

    def _columns(self, store: AnswerStore, answers: Column, elements: Elements) -> RecordBatch:
        if self._leaf or self.exploded:
            frames, of = store.leaves(answers, elements)
            return store.columns(frames, self.added, WORDS, of)
        return store.chains(answers, elements, (*self.added, *FIELDS), WORDS)

    # Answers

    def _forget_answers(self) -> None:
        self._answers = AnswerStore(NUMBERS[Reason.NOT_AN_ADDRESS], NUMBERS[Reason.NO_BUILD_ID])

    def _forget(self) -> None:
        self._forget_answers()
        self._given = TextSet()  # build-ids as batches have them
        self._files_of_given = {VADDRS: array("I"), FILE_OFFSETS: array("I")}
        self._files.clear()
        self._identities.clear()
        self._missing.clear()
        self._why.clear()
        self._open.close()

    def _find(self, batch: RecordBatch, elements: Elements, kind: int | Elements) -> Column:
        """The answer of each element; what was not asked before is looked up."""
        if len(self._given) > BUILD_IDS or len(self._identities) > 2 * BUILD_IDS:
            self._forget()
        elif len(self._answers) > ANSWERS or self._answers.memory > ANSWER_BYTES:
            self._forget_answers()
        codes = identities(batch, self._build_id, elements, self._given)
        if isinstance(kind, int):
            files = self._files_of_given[kind]
            for given in range(len(files), len(self._given)):
                files.append(self._number(build_id_of(self._given[given]), kind))
        else:
            codes, files = self._by_mapping(codes, elements, kind)
        before = len(self._answers)
        answers = self._answers.find(elements, codes, files)
        pending = self._answers.pending(before)
        try:
            while pending:
                if self._before_file is not None:
                    self._before_file()
                file = next(iter(pending))
                self._look_up(file, *pending[file])
                del pending[file]
        except Exception:  # raised by before_file: the other files keep their answers
            for file in pending:
                self._renumber(*self._identities[file])
            raise
        except BaseException:  # interrupted: answers without frames must not stay
            self._forget()
            raise
        if self._coverage is not None:
            self._count(answers, codes, files, before)
        return answers

    def _by_mapping(self, codes: Column, elements: Elements, offsets: Elements) -> tuple[Column, array[int]]:
        """A code for each pair of a build-id's code and the byte of the file where a mapping begins, and its file."""
        numbers, starts = numbered(offsets.address.numbers(), "Q")
        if elements.lists and not offsets.lists:
            lengths = map(int.__sub__, elements.starts.numbers()[1:], elements.starts.numbers())
            rows = array("I", chain.from_iterable(map(repeat, range(elements.rows), lengths)))
            numbers = taken(numbers.numbers(), "I", rows)
        pairs = memoryview(bytearray(8 * len(codes))).cast("I")
        pairs[::2], pairs[1::2] = codes.numbers(), numbers.numbers()
        codes, distinct = numbered(pairs, "Q")
        files = array("I")
        words = memoryview(distinct.numbers()).cast("B").cast("I")
        for given, start in zip(words[::2], words[1::2], strict=True):
            build_id = build_id_of(self._given[given]) if given < len(self._given) else ""
            files.append(self._number(build_id, starts[start]))
        return codes, files

    def _number(self, build_id: str, kind: int) -> int:
        """The number of a file, and of what its addresses are."""
        identity = build_id, kind
        if identity not in self._files:
            self._files[identity] = len(self._identities)
            self._identities.append(identity)
        return self._files[identity]

    def _renumber(self, build_id: str, kind: int) -> None:
        """Give a file a new number, so that the answers of its old number are not used again."""
        number = self._files.pop((build_id, kind))
        files = self._files_of_given.get(kind)
        if files is not None:
            renewed = self._number(build_id, kind)
            for given, file in enumerate(files):
                if file == number:
                    files[given] = renewed

    def _look_up(self, file: int, which: Column, addresses: Column) -> None:
        """Give the answers of one file their frames, or the reason why they have none."""
        build_id, kind = self._identities[file]
        offsets = kind != VADDRS
        try:
            opened = self._opened(build_id, len(addresses))
            if isinstance(opened, Missing):
                self._refuse(file, which, opened)
                return
            wanted = addresses.numbers()
            if offsets:
                wanted = vaddrs_of(opened, wanted, None if kind == FILE_OFFSETS else kind)
        except Exception as error:  # whatever a reader stumbles over, the other files' rows go on
            self._close_one(build_id)
            missing = Missing(*reason_of(error, f"naming {len(addresses)} addresses of {build_id}"))
            self._refuse(file, which, missing)
            return
        answers = which.numbers()

        def chosen(part: range) -> Column:
            return which if len(part) == len(which) else taken(answers, "I", array("I", part))

        def look_up(part: range) -> None:
            vaddrs = wanted if len(part) == len(which) else taken(wanted, "Q", array("I", part)).numbers()
            self._fill(file, opened, chosen(part), vaddrs)

        def doing(part: range) -> str:
            return f"naming {len(part)} addresses of {build_id} from {wanted[part.start]:#x} on"

        unanswered = list(in_halves(range(len(which)), look_up, doing))
        if unanswered:
            self._close_one(build_id)
        for part, reason, detail in unanswered:
            self._refuse(file, chosen(part), Missing(reason, detail))

    def _fill(self, file: int, opened: Opened, which: Column, vaddrs: memoryview) -> None:
        """Give answers the frames of their vaddrs in an opened file, or the reason why they have none."""
        table = opened.binary.table_for(vaddrs)
        frames = table.find_frames(vaddrs)
        texts = table.texts_of(frames)
        numbers = self._answers.number_texts(texts, self._shown).numbers()
        start_lines = table.start_lines(frames)
        table.check()
        unnamed = Missing(why_nothing(opened.binary), opened.how)
        if opened.segments is None and self._identities[file][1] != VADDRS:
            unnamed = Missing(Reason.NOT_PLACED, opened.how, MAKE_AGAIN)
        self._answers.fill(which, frames, texts, numbers, start_lines, NUMBERS[unnamed.reason])
        self._why.setdefault(file, {})[unnamed.reason] = unnamed

    def _refuse(self, file: int, which: Column, missing: Missing) -> None:
        self._answers.refuse(which, NUMBERS[missing.reason])
        self._why.setdefault(file, {})[missing.reason] = missing

    def _opened(self, build_id: str, addresses: int) -> Opened | Missing:
        found = self._open.get(build_id)
        if found is not None:
            return found
        if build_id in self._missing:
            return self._missing[build_id]
        if not build_id:
            return Missing(Reason.NO_BUILD_ID)
        search = self._locator.search(Wanted(build_id), addresses=addresses)
        if search.opened is None:
            missing = search.missing or Missing(Reason.NO_FILE, build_id)
            self._missing[build_id] = missing
            return missing
        self._open[build_id] = search.opened
        return search.opened

    def _close_one(self, build_id: str) -> None:
        opened = self._open.pop(build_id, None)
        if opened is not None:
            opened.close()

    def _shown(self, text: bytes, linkage: bool) -> bytes:
        """A text as it is shown: linkage names readable, and what is not UTF-8 with escapes, as Arrow's texts are."""
        if linkage and self._demangle is not None:
            text = self._demangle(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return text.decode("utf-8", "backslashreplace").encode()
        return text

    # Coverage

    def _count(self, answers: Column, codes: Column, files: array[int], before: int) -> None:
        """Add a batch to the coverage; its codes stand for these files."""
        assert self._coverage is not None
        counts = self._answers.tally(answers, codes, len(files), len(REASONS)).numbers()
        width = 1 + len(REASONS)
        for code, file in enumerate([*files, -1]):
            row = counts[code * width : (code + 1) * width]
            if not any(row):
                continue
            build_id = self._identities[file][0] if file >= 0 else ""
            one = self._coverage.setdefault(build_id, Coverage(build_id))
            known = self._why.get(file, {})
            one.rows += sum(row)
            one.named += row[0]
            for reason, count in zip(REASONS, row[1:], strict=True):
                if count:
                    one.missing[known.get(reason, Missing(reason))] += count
        for file, (distinct, named) in self._answers.distinct(before).items():
            build_id = self._identities[file][0]
            one = self._coverage.setdefault(build_id, Coverage(build_id))
            one.distinct += distinct
            one.distinct_named += named


def _locator_of(store: str | PathLike[str] | None, cache: str | PathLike[str] | None) -> Locator:
    if store is None:
        return Locator(cache=cache)
    return Locator(cache=cache, sources=[Store(store, cache=cache).source("columns")])


def build_id_of(value: bytes) -> str:
    """A build-id as the locator compares it; "" for bytes that are none.

    Texts in hex and raw bytes are told apart by what they are: raw bytes that are all hex digits are a text.

    >>> build_id_of(b"AB12cd34"), build_id_of(bytes([0xAB, 0x12, 0xCD, 0x34])), build_id_of(b"../../etc")
    ('ab12cd34', 'ab12cd34', '')
    """
    try:
        text = value.decode("ascii").strip()
    except UnicodeDecodeError:
        return value.hex() if len(value) <= 64 else ""
    if not text.isprintable():
        return value.hex() if len(value) <= 64 else ""
    found = comparable(text)
    return found if found.count("/") == 3 or set(found) <= set("0123456789abcdef") else ""


def vaddrs_of(opened: Opened, file_offsets: memoryview, start: int | None = None) -> memoryview:
    """The vaddr of each file offset; NOWHERE for one that no executable segment of the file holds.

    `start`: the byte of the file where the mapping of these offsets begins, if known.
    """
    extent = None if start is None else (start, None)
    vaddrs = Translation.of_code(opened.segments or ()).mapped_vaddrs_of(file_offsets, extent)
    return memoryview(array("Q", [NOWHERE if vaddr is None else vaddr for vaddr in vaddrs]))


def _rows(batch: Any, numbers: Any) -> Any:
    """Return the rows of a pyarrow RecordBatch that have these numbers. WrongUse for a column that can't be taken."""
    import pyarrow as pa

    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            if column.type in plain:  # for which pyarrow has no `take`
                columns.append(column.cast(plain[column.type]).take(numbers).cast(column.type))
            else:
                columns.append(column.take(numbers))
        except pa.ArrowNotImplementedError:
            words = f"column {name}: {column.type} can't be repeated for each frame: leave the column out"
            raise WrongUse(words) from None
    return pa.record_batch(columns, schema=batch.schema)


def _is_pyarrow(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pyarrow"


def _as_pyarrow(value: object, kind: str) -> Any:
    import pyarrow

    return getattr(pyarrow, kind)(value)
