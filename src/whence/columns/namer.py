"""Name the addresses of record batches: columns of build-ids and addresses in, columns of names out.

Each distinct pair of build-id and address is looked up once and its answer is cached. A kernel works on the rows,
without the interpreter's lock and without a Python object for each row.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Literal

from whence._base.closing import Closing
from whence._base.errors import WrongUse
from whence._base.lru import Lru
from whence._base.model import SOURCES
from whence._base.reasons import MAKE_AGAIN, Missing, Reason
from whence._base.records import Record, field, replaced
from whence.columns.kernels.answers import AnswerStore
from whence.columns.kernels.batch import Elements, RecordBatch, check_formats, identities
from whence.columns.kernels.stream import BatchStream
from whence.columns.kernels.texts import TextSet
from whence.kernels.columns import Column
from whence.kernels.rows import numbered, taken
from whence.lidia.table import demangler
from whence.locate.identity import comparable
from whence.locate.search import FileQuery
from whence.locator.answers import OpenedFile
from whence.locator.coerce import locator_from, split_fields
from whence.locator.options import LOCATOR_NAMES
from whence.objects.elf.segments import Translation
from whence.symbolize.internal_error import reason_of
from whence.symbolize.naming import in_halves, why_nothing

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from whence.locator.coerce import Places
    from whence.locator.options import LocatorFields

    class NamerFields(TypedDict, total=False):
        """The fields of NamerOptions as keyword arguments."""

        build_id: str
        address: str
        file_offset: str
        mapping_start: str
        mapping_offset: str
        return_addresses: bool | Literal["callers"]
        demangle: bool | Callable[[str], str]
        leaf: bool
        exploded: bool
        prefix: str
        decimal: bool

    class NamerKeywords(NamerFields, LocatorFields, total=False):
        """Fields of NamerOptions, and keywords of a Locator."""


MAX_ANSWERS = 1 << 20  # cached answers; all are dropped when there are more
MAX_ANSWER_BYTES = 1 << 28  # memory of cached answers; all are dropped when they need more
MAX_BUILD_IDS = 1 << 16  # cached build-ids; everything is dropped when there are more
OPEN_FILES = 512
NO_VADDR = (1 << 64) - 1  # no file has code in its last byte
LONGEST_BUILD_ID = 64  # bytes

REASONS = tuple(Reason)
NUMBERS = {reason: number for number, reason in enumerate(REASONS, 1)}
WORDS = (tuple(str(source).encode() for source in SOURCES), (b"", *(reason.word.encode() for reason in REASONS)))

FIELDS = ("function", "file", "line", "inlined", "start_line", "source")
FRAMES, REASON = "frames", "reason"
BUILD_ID, ADDRESS, FILE_OFFSET = "build_id", "address", "file_offset"
MAPPING_START, MAPPING_OFFSET = "mapping_start", "mapping_offset"

VADDRS, FILE_OFFSETS = -2, -1
"""Kinds of addresses of a file. Any other number: runtime addresses in a mapping of the file from that offset on, given
as file offsets."""


class ColumnNames(Record, frozen=True):
    """The names of the columns that a Namer reads."""

    build_id: str = BUILD_ID
    address: str = ADDRESS
    file_offset: str = FILE_OFFSET
    mapping_start: str = MAPPING_START
    mapping_offset: str = MAPPING_OFFSET

    @property
    def mapping(self) -> tuple[str, str]:
        return self.mapping_start, self.mapping_offset


class NamerOptions(ColumnNames, frozen=True):
    """How a Namer reads addresses and what it adds.

    return_addresses: each address is one past a call, so the byte before it is looked up; with "callers" the first
        address of each list (the innermost frame of a stack) is not.
    demangle: make function names readable: True, False, or a function from a linkage name to a readable one.
    leaf: add the fields of the innermost frame as columns.
    exploded: make a row for each frame (needs pyarrow).
    prefix: a text before the names of added columns.
    decimal: addresses that are texts without 0x are decimal, not hexadecimal.
    build_id, address, file_offset, mapping_start, mapping_offset: the names of the columns that are read.
    """

    return_addresses: bool | Literal["callers"] = False
    demangle: bool | Callable[[str], str] = True
    leaf: bool = False
    exploded: bool = False
    prefix: str = ""
    decimal: bool = False


NAMER_DEFAULTS = NamerOptions()


class Coverage(Record):
    """The number of addresses of a build-id that were named.

    `rows` counts all addresses (each of a list), `named` those with frames. `distinct` and `distinct_named` count each
    vaddr once, and again if its answer was dropped from the cache in between. `missing` counts the reasons of the rest.
    """

    build_id: str
    rows: int = 0
    named: int = 0
    distinct: int = 0
    distinct_named: int = 0
    missing: Counter[Missing] = field(default_factory=Counter)


class Namer(Closing):
    """Adds columns of names to record batches. A context manager; safe for use from several threads.

    A batch has a column of build-ids (texts in hex, bytes, or dictionaries of either) and one of addresses: integers of
    any width (negative ones are read as 64 bits), or texts in hex; single ones, or lists (stacks). The addresses are

        vaddrs              in the column `address`
        runtime addresses   in the column `address`, if there are columns `mapping_start` and `mapping_offset` as well
        file offsets        in the column `file_offset`, if there is no column `address`

    The added columns are `frames`, a list of structs with the fields function, file, line, inlined, start_line and
    source (innermost first; for a list of addresses, the frames of all of them in order), and `reason`, which says why
    there are no frames. With `leaf` the fields of the innermost frame are columns; with `exploded` there is a row for
    each frame, and one for an address without frames. Texts are dictionaries; unknown values are null.

    >>> Namer(leaf=True).added
    ('function', 'file', 'line', 'inlined', 'start_line', 'source', 'reason')
    >>> Namer(address="pc", prefix="my_").added
    ('my_frames', 'my_reason')
    """

    def __init__(
        self,
        places: Places | None = None,
        /,
        *,
        locator: Places | None = None,
        before_file: Callable[[], None] | None = None,
        options: NamerOptions = NAMER_DEFAULTS,
        **changes: Unpack[NamerKeywords],
    ) -> None:
        """Prepare to name batches.

        Args:
            places: where the files of build-ids are: a Locator, a Store, a path or address of a store or of a folder of
                archives, or keywords of whence.Locator as a mapping.
            locator: another name of `places`.
            before_file: called before the search for each file. If it raises, the batch ends with that exception, and
                the answers of the files before it are kept.
            options: how addresses are read and what is added.
            changes: fields of NamerOptions by name, which replace those of `options`: return_addresses, demangle, leaf,
                exploded, prefix, decimal, build_id, address, file_offset, mapping_start, mapping_offset. Or keywords of
                whence.Locator: store, archive_dirs, cache, ...

        Raises:
            WrongUse: both `leaf` and `exploded`, or both a Locator and keywords of a Locator are given.
            TypeError: a keyword is unknown.
        """
        fields, others = split_fields(changes)
        check_names(others)
        options = replaced(options, **others)
        if options.leaf and options.exploded:
            raise WrongUse("leaf and exploded exclude each other")
        if places is not None and locator is not None:
            raise WrongUse("places and locator are the same argument: give one of them")
        places = locator if places is None else places
        self._locator = locator_from(places, **fields)
        self._owns_locator = self._locator is not places
        self._options = options
        self._demangle = demangler(options.demangle)
        self.exploded, self.decimal = options.exploded, options.decimal
        self._before_file = before_file
        names = FIELDS if options.leaf or options.exploded else (FRAMES,)
        self.added = tuple(options.prefix + name for name in (*names, REASON))
        self._lock = threading.Lock()
        self._files: dict[tuple[str, int], int] = {}  # numbers, by build-id and kind of addresses
        self._identities: list[tuple[str, int]] = []  # build-id and kind of addresses, by number
        self._open: Lru[str, OpenedFile] = Lru(OPEN_FILES, OpenedFile.close)  # by build-id
        self._missing: dict[str, Missing] = {}  # by build-id
        self._reasons: dict[int, dict[Reason, Missing]] = {}  # by file, for the coverage
        self._coverage: dict[str, Coverage] | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"<columns.Namer: {len(self._answers)} answers, {len(self._open)} files open>"

    def __call__(self, batch: Any) -> Any:
        """Return a batch, table or stream with the added columns.

        Args:
            batch: an object with Arrow's C data interface (`__arrow_c_array__` or `__arrow_c_stream__`).

        Returns:
            A pyarrow RecordBatch or Table for one of pyarrow's, else an object with the same interface as `batch`. A
            stream is named while it is read.

        Raises:
            WrongUse: a column is missing, or has values that can't be addresses or build-ids. An invalid address, an
                unknown build-id or a damaged file is not an error; it sets the reason of its rows.
            TypeError: `batch` does not have the interface.
        """
        if hasattr(batch, "__arrow_c_array__"):
            named = self._named(RecordBatch(*batch.__arrow_c_array__()), batch)
            return _as_pyarrow(named, "record_batch") if _is_pyarrow(batch) else named
        if hasattr(batch, "__arrow_c_stream__"):
            if _is_pyarrow(batch) and hasattr(batch, "to_batches"):
                return self._table(batch)
            stream = BatchStream.from_capsule(batch.__arrow_c_stream__())
            return BatchStream(self._schema(stream.schema), (self._named(part, None) for part in stream))
        raise TypeError(
            f"a {type(batch).__name__} does not have Arrow's C data interface (__arrow_c_array__): give a table of "
            "pyarrow, pandas or Polars, such as pyarrow.table(columns)"
        )

    def schema(self, schema: Any) -> Any:
        """Return the schema of the result for the schema of a batch.

        pyarrow's for one of pyarrow's, else an object with `__arrow_c_schema__`. Raises WrongUse as `__call__` does.
        """
        named = self._schema(RecordBatch(schema.__arrow_c_schema__()))
        return _as_pyarrow(named, "schema") if _is_pyarrow(schema) else named

    def reads(self, names: Collection[str]) -> list[str]:
        """Return the columns that are read, of a batch with columns of these names."""
        options = self._options
        columns = [options.build_id, options.address if options.address in names else options.file_offset]
        if options.address in names and set(options.mapping) <= set(names):
            columns += options.mapping
        return [name for name in dict.fromkeys(columns) if name in names]

    def names(self, batch: Any) -> RecordBatch | BatchStream:
        """Return only the added columns of a batch or stream, one row for each row (never exploded).

        For engines that have the other columns. Arguments and errors are those of `__call__`.
        """
        if hasattr(batch, "__arrow_c_array__"):
            return self._names_of(RecordBatch(*batch.__arrow_c_array__()))
        stream = BatchStream.from_capsule(batch.__arrow_c_stream__())
        self._check_names(stream.schema)
        return BatchStream(self._added_schema(), map(self._names_of, stream))

    def count_coverage(self) -> None:
        """Start to count coverage, from zero. Counting costs a little for each row."""
        self._coverage = {}

    @property
    def coverage(self) -> list[Coverage]:
        """The coverage of each build-id since `count_coverage`, most rows first."""
        return sorted((self._coverage or {}).values(), key=lambda coverage: -coverage.rows)

    def forget(self, build_id: str = "") -> None:
        """Drop cached answers and close files, so that files that are new in a store are found.

        Args:
            build_id: the build-id, in hex, of the file to drop; "" for all files.
        """
        with self._lock:
            if not build_id:
                self._forget()
                return
            for identity in [identity for identity in self._files if identity[0] == build_id]:
                self._renumber(*identity)
            self._missing.pop(build_id, None)
            self._close_file(build_id)

    def close(self) -> None:
        """Close every file. The namer can be used again."""
        self.forget()
        if self._owns_locator:
            self._locator.close()

    # Batches

    def _names_of(self, batch: RecordBatch) -> RecordBatch:
        elements, kind = self._elements(batch)
        with self._lock:
            answers = self._find(batch, elements, kind)
            return self._columns(self._answers, answers, elements)

    def _table(self, table: Any) -> Any:
        import pyarrow

        batches = [self(batch) for batch in table.to_batches()]
        return pyarrow.Table.from_batches(batches, schema=self.schema(table.schema))

    def _named(self, batch: RecordBatch, source: Any) -> Any:
        """Return a batch with the added columns; `source` is the pyarrow batch it was taken from, if any."""
        return self._exploded(batch, source) if self.exploded else batch.joined(self._names_of(batch))

    def _exploded(self, batch: RecordBatch, source: Any) -> RecordBatch:
        """Return a batch with a row for each frame. pyarrow repeats the rows of the input."""
        try:
            import pyarrow
        except ImportError:
            raise ImportError("exploded=True needs pyarrow (pip install 'whence[arrow]')") from None
        elements, kind = self._elements(batch)
        with self._lock:
            answers = self._find(batch, elements, kind)
            element_of, frames, answer_of = self._answers.rows_of(answers, elements, True)
            added = self._answers.columns(frames, self.added, WORDS, answer_of)
            rows = elements.rows_of(element_of)
        source = pyarrow.record_batch(batch) if source is None else source
        numbers = pyarrow.Array.from_buffers(pyarrow.uint32(), len(rows), [None, pyarrow.py_buffer(rows)])
        repeated = _rows(pyarrow.record_batch(source), numbers)
        return RecordBatch(*repeated.__arrow_c_array__()).joined(added)

    def _schema(self, batch: RecordBatch) -> RecordBatch:
        self._check_names(batch)
        return batch.joined(self._added_schema())

    def _added_schema(self) -> RecordBatch:
        elements, store = Elements(), AnswerStore(0, 0)
        return self._columns(store, store.find(elements, Column("I"), array("I")), elements)

    def _check_names(self, batch: RecordBatch) -> tuple[str, bool]:
        """Return the column of addresses, and True if they are file offsets. Raises WrongUse."""
        names, options = batch.names, self._options
        listed = ", ".join(names) or "none"
        if options.build_id not in names:
            raise WrongUse(f"no column {options.build_id} of build-ids: the columns are {listed}")
        existing = [name for name in self.added if name in names]
        if existing:
            raise WrongUse(f"the input already has a column {existing[0]}: set a prefix for the added columns")
        for name, is_offset in ((options.address, False), (options.file_offset, True)):
            if name in names:
                check_formats(batch, name, options.build_id)
                return name, is_offset
        raise WrongUse(f"no column {options.address} or {options.file_offset} of addresses: the columns are {listed}")

    def _elements(self, batch: RecordBatch) -> tuple[Elements, int | Elements]:
        """Return the addresses of a batch, and their kind: VADDRS, FILE_OFFSETS, or the offsets of their mappings."""
        name, is_offset = self._check_names(batch)
        elements = Elements(batch, name, self.decimal)
        kind: int | Elements = FILE_OFFSETS if is_offset else VADDRS
        if not is_offset and set(self._options.mapping) <= set(batch.names):
            start, kind = (Elements(batch, column, self.decimal) for column in self._options.mapping)
            elements.to_file_offsets(start, kind)
        if self._options.return_addresses:
            elements.step_back(self._options.return_addresses == "callers")
        return elements, kind

    def _columns(self, store: AnswerStore, answers: Column, elements: Elements) -> RecordBatch:
        if self._options.leaf or self.exploded:
            frames, answer_of = store.leaves(answers, elements)
            return store.columns(frames, self.added, WORDS, answer_of)
        return store.chains(answers, elements, (*self.added, *FIELDS), WORDS)

    # Answers

    def _forget_answers(self) -> None:
        self._answers = AnswerStore(NUMBERS[Reason.NOT_AN_ADDRESS], NUMBERS[Reason.NO_BUILD_ID])

    def _forget(self) -> None:
        self._forget_answers()
        self._build_ids = TextSet()  # as batches have them
        self._files_of_build_ids = {VADDRS: array("I"), FILE_OFFSETS: array("I")}
        self._files.clear()
        self._identities.clear()
        self._missing.clear()
        self._reasons.clear()
        self._open.close()

    def _find(self, batch: RecordBatch, elements: Elements, kind: int | Elements) -> Column:
        """Return the number of the answer of each element. New pairs of file and address are looked up."""
        if len(self._build_ids) > MAX_BUILD_IDS or len(self._identities) > 2 * MAX_BUILD_IDS:
            self._forget()
        elif len(self._answers) > MAX_ANSWERS or self._answers.memory > MAX_ANSWER_BYTES:
            self._forget_answers()
        codes = identities(batch, self._options.build_id, elements, self._build_ids)
        if isinstance(kind, int):
            files = self._files_of_build_ids[kind]
            for number in range(len(files), len(self._build_ids)):
                files.append(self._number(build_id_of(self._build_ids[number]), kind))
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
        """Return a code for each pair of build-id and offset of a mapping in its file, and the file of each code."""
        numbers, starts = numbered(offsets.address.numbers(), "Q")
        if elements.lists and not offsets.lists:
            lengths = map(int.__sub__, elements.starts.numbers()[1:], elements.starts.numbers())
            rows = array("I", chain.from_iterable(map(repeat, range(elements.rows), lengths)))
            numbers = taken(numbers.numbers(), "I", rows)
        pairs = memoryview(bytearray(8 * len(codes))).cast("I")
        pairs[::2], pairs[1::2] = codes.numbers(), numbers.numbers()
        codes, distinct = numbered(pairs, "Q")
        files = array("I")
        halves = memoryview(distinct.numbers()).cast("B").cast("I")
        for number, start in zip(halves[::2], halves[1::2], strict=True):
            build_id = build_id_of(self._build_ids[number]) if number < len(self._build_ids) else ""
            files.append(self._number(build_id, starts[start]))
        return codes, files

    def _number(self, build_id: str, kind: int) -> int:
        """Return the number of a file with addresses of this kind; a new one if it has none."""
        identity = build_id, kind
        if identity not in self._files:
            self._files[identity] = len(self._identities)
            self._identities.append(identity)
        return self._files[identity]

    def _renumber(self, build_id: str, kind: int) -> None:
        """Give a file a new number, so that the answers of its old number are not used again."""
        number = self._files.pop((build_id, kind))
        files = self._files_of_build_ids.get(kind)
        if files is not None:
            renewed = self._number(build_id, kind)
            for index, file in enumerate(files):
                if file == number:
                    files[index] = renewed

    def _look_up(self, file: int, which: Column, addresses: Column) -> None:
        """Set the frames of the answers `which`, all of one file, or the reason why they have none."""
        build_id, kind = self._identities[file]
        try:
            opened = self._opened(build_id, len(addresses))
            if isinstance(opened, Missing):
                self._refuse(file, which, opened)
                return
            vaddrs = addresses.numbers()
            if kind != VADDRS:
                vaddrs = vaddrs_of(opened, vaddrs, None if kind == FILE_OFFSETS else kind)
        except Exception as error:  # the rows of other files are still named
            self._close_file(build_id)
            missing = Missing(*reason_of(error, f"naming {len(addresses)} addresses of {build_id}"))
            self._refuse(file, which, missing)
            return
        answers = which.numbers()

        def chosen(part: range) -> Column:
            return which if len(part) == len(which) else taken(answers, "I", array("I", part))

        def look_up(part: range) -> None:
            some = vaddrs if len(part) == len(which) else taken(vaddrs, "Q", array("I", part)).numbers()
            self._fill(file, opened, chosen(part), some)

        def doing(part: range) -> str:
            return f"naming {len(part)} addresses of {build_id}, the first of which is {vaddrs[part.start]:#x}"

        unanswered = list(in_halves(range(len(which)), look_up, doing))
        if unanswered:
            self._close_file(build_id)
        for part, reason, detail in unanswered:
            self._refuse(file, chosen(part), Missing(reason, detail))

    def _fill(self, file: int, opened: OpenedFile, which: Column, vaddrs: memoryview) -> None:
        """Set the frames of the answers `which` to those of `vaddrs`, or the reason why they have none."""
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
        self._reasons.setdefault(file, {})[unnamed.reason] = unnamed

    def _refuse(self, file: int, which: Column, missing: Missing) -> None:
        self._answers.refuse(which, NUMBERS[missing.reason])
        self._reasons.setdefault(file, {})[missing.reason] = missing

    def _opened(self, build_id: str, addresses: int) -> OpenedFile | Missing:
        opened = self._open.get(build_id)
        if opened is not None:
            return opened
        if build_id in self._missing:
            return self._missing[build_id]
        if not build_id:
            return Missing(Reason.NO_BUILD_ID)
        search = self._locator.search(FileQuery(build_id), addresses=addresses)
        if search.opened is None:
            missing = search.missing or Missing(Reason.NO_FILE, build_id)
            self._missing[build_id] = missing
            return missing
        self._open[build_id] = search.opened
        return search.opened

    def _close_file(self, build_id: str) -> None:
        opened = self._open.pop(build_id, None)
        if opened is not None:
            opened.close()

    def _shown(self, text: bytes, linkage: bool) -> bytes:
        """Return a text as valid UTF-8, as Arrow requires: linkage names made readable, other bytes escaped."""
        if linkage and self._demangle is not None:
            text = self._demangle(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        try:
            text.decode("utf-8")
        except UnicodeDecodeError:
            return text.decode("utf-8", "backslashreplace").encode()
        return text

    # Coverage

    def _count(self, answers: Column, codes: Column, files: array[int], before: int) -> None:
        """Add a batch to the coverage; code c means file files[c], and answers are new from number `before` on."""
        assert self._coverage is not None
        counts = self._answers.tally(answers, codes, len(files), len(REASONS)).numbers()
        width = 1 + len(REASONS)
        for code, file in enumerate([*files, -1]):
            row = counts[code * width : (code + 1) * width]
            if not any(row):
                continue
            build_id = self._identities[file][0] if file >= 0 else ""
            coverage = self._coverage.setdefault(build_id, Coverage(build_id))
            reasons = self._reasons.get(file, {})
            coverage.rows += sum(row)
            coverage.named += row[0]
            for reason, count in zip(REASONS, row[1:], strict=True):
                if count:
                    coverage.missing[reasons.get(reason, Missing(reason))] += count
        for file, (distinct, named) in self._answers.distinct(before).items():
            build_id = self._identities[file][0]
            coverage = self._coverage.setdefault(build_id, Coverage(build_id))
            coverage.distinct += distinct
            coverage.distinct_named += named


def check_names(changes: Mapping[str, Any]) -> None:
    """Raise TypeError for a keyword that is neither a field of NamerOptions nor one of a Locator."""
    for name in changes.keys() - set(NamerOptions._fields):
        similar = get_close_matches(name, [*NamerOptions._fields, *LOCATOR_NAMES], 1)
        hint = f": did you mean {similar[0]}?" if similar else ""
        raise TypeError(f"a Namer has no keyword {name!r}{hint}")


def build_id_of(value: bytes) -> str:
    """Return a build-id in the form in which the locator compares it; "" for invalid bytes.

    `value` is a text in hex or the raw bytes. Raw bytes that happen to be hex digits are read as a text.

    >>> build_id_of(b"AB12cd34"), build_id_of(bytes([0xAB, 0x12, 0xCD, 0x34])), build_id_of(b"../../etc")
    ('ab12cd34', 'ab12cd34', '')
    """
    raw = value.hex() if len(value) <= LONGEST_BUILD_ID else ""
    try:
        text = value.decode("ascii").strip()
    except UnicodeDecodeError:
        return raw
    if not text.isprintable():
        return raw
    build_id = comparable(text)
    return build_id if build_id.count("/") == 3 or set(build_id) <= set("0123456789abcdef") else ""


def vaddrs_of(opened: OpenedFile, file_offsets: memoryview, start: int | None = None) -> memoryview:
    """Return the vaddr of each file offset; NO_VADDR for an offset outside the file's executable segments.

    `start` is the file offset of the mapping that these offsets are in, if known.
    """
    extent = None if start is None else (start, None)
    vaddrs = Translation.of_code(opened.segments or ()).mapped_vaddrs_of(file_offsets, extent)
    return memoryview(array("Q", [NO_VADDR if vaddr is None else vaddr for vaddr in vaddrs]))


def _rows(batch: Any, numbers: Any) -> Any:
    """Return the rows of a pyarrow RecordBatch with these numbers. Raises WrongUse for types pyarrow can't take."""
    import pyarrow as pa

    without_take = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    columns = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            if column.type in without_take:
                columns.append(column.cast(without_take[column.type]).take(numbers).cast(column.type))
            else:
                columns.append(column.take(numbers))
        except pa.ArrowNotImplementedError:
            message = f"column {name} of type {column.type} can't be repeated for each frame: remove the column"
            raise WrongUse(message) from None
    return pa.record_batch(columns, schema=batch.schema)


def _is_pyarrow(value: object) -> bool:
    return type(value).__module__.partition(".")[0] == "pyarrow"


def _as_pyarrow(value: object, kind: str) -> Any:
    import pyarrow

    return getattr(pyarrow, kind)(value)
