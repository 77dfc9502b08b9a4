"""Replace the strings of a trace, so that it can be shown to others.

A function becomes `f1`, a file `file1.go`, any other string `text1`; equal strings get equal replacements. The reasons
why a goroutine blocks or the world stops are the runtime's own words and are kept. Experimental batches contain bytes
that are not decoded (type names among them) and are removed.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, BinaryIO

from whence._base.records import Record, field
from whence.gotrace.batches import BatchReader
from whence.gotrace.columnar import ARGS, NO_ARGUMENT, ColumnReader, argument_indexes
from whence.gotrace.kernels import columns as columns_kernel
from whence.gotrace.kernels.constants import END_OF_GENERATION, EXPERIMENTAL_BATCH, STRINGS
from whence.gotrace.kernels.event import Event
from whence.gotrace.specs import NO_THREAD, Version
from whence.gotrace.tables import Tables, events_of

if TYPE_CHECKING:
    from whence.gotrace.feed import Source

BATCH_BYTES = 60_000


class _Uses(Record):
    """The uses of a generation's strings, by string id."""

    functions: set[int] = field(default_factory=set)
    files: set[int] = field(default_factory=set)
    reasons: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)


def _uses(source: Source) -> dict[int, _Uses]:
    uses_by_generation: dict[int, _Uses] = {}
    with ColumnReader(source) as reader:
        reasons = argument_indexes(reader.version, "reason_string", "kind_string")
        first, second = (argument_indexes(reader.version, ending="_string", nth=nth) for nth in (0, 1))
        first = bytes(NO_ARGUMENT if reason < ARGS else index for index, reason in zip(first, reasons))
        tables: list[Tables] = []
        for block in reader:
            uses = uses_by_generation.setdefault(block.tables[0].generation, _Uses())
            if not tables or block.tables[0] is not tables[-1]:
                tables.append(block.tables[0])
            out = array("Q", bytes(8 * len(block)))
            for ids, indexes in ((uses.reasons, reasons), (uses.others, first), (uses.others, second)):
                rows = columns_kernel.pick(block.type, block.args, indexes, out, True)
                ids.update(out[:rows])
    for table in tables:
        uses = uses_by_generation[table.generation]
        for frames in table.stacks.values():
            uses.functions.update(frame.function for frame in frames)
            uses.files.update(frame.file for frame in frames)
    return uses_by_generation


class _Names:
    """Numbered replacements for strings."""

    def __init__(self) -> None:
        self._replacements: dict[tuple[str, bytes], bytes] = {}
        self._counts = {"f": 0, "file": 0, "text": 0}

    def replacement(self, kind: str, text: bytes) -> bytes:
        """Return the replacement of a string; equal strings of one kind have the same."""
        name = self._replacements.get((kind, text))
        if name is None:
            self._counts[kind] += 1
            name = f"{kind}{self._counts[kind]}{'.go' if kind == 'file' else ''}".encode()
            self._replacements[kind, text] = name
        return name


def _batches(version: Version, generation: int, strings: dict[int, bytes]) -> list[bytes]:
    """Return the Strings batches of a generation, encoded."""
    batches: list[bytes] = []
    body = bytearray()

    def end() -> None:
        header = Event(version, "EventBatch", [generation, NO_THREAD, 0, len(body)])
        batches.append(header.encode() + bytes(body))

    for number, text in strings.items():
        if not body:
            body += Event(version, "Strings").encode()
        body += Event(version, "String", [number], text).encode()
        if len(body) > BATCH_BYTES:
            end()
            body = bytearray()
    if body:
        end()
    return batches


def anonymize(source: Source, out: BinaryIO) -> int:
    """Write a binary trace with its strings replaced and return the number of strings replaced.

    Args:
        source: a path or bytes (the trace is read twice).
        out: a binary file.
    """
    uses, names = _uses(source), _Names()
    replaced = 0
    with BatchReader(source) as reader:
        version = reader.version
        out.write(memoryview(version.header))
        generation, strings = 0, dict[int, bytes]()

        def flush() -> None:
            for batch in _batches(version, generation, strings):
                out.write(memoryview(batch))
            strings.clear()

        for run in reader:
            if run.generation != generation:
                flush()
                generation = run.generation
            used = uses.get(generation, _Uses())
            for batch in run.batches:
                if batch.kind == END_OF_GENERATION:
                    flush()
                if batch.kind == STRINGS:
                    for event in events_of(run, batch, version):
                        if event.type != STRINGS + 1 or event.data is None:
                            continue
                        number, text = event["id"], event.data
                        keep = number in used.reasons and number not in used.others
                        kind = "f" if number in used.functions else "file" if number in used.files else "text"
                        strings[number] = text if keep else names.replacement(kind, text)
                        replaced += not keep
                elif batch.kind != EXPERIMENTAL_BATCH:
                    out.write(run.data[batch.start : batch.end])
        flush()
    return replaced
