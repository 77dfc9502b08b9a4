"""A trace without its words: strings replaced, everything else as it was, so that a trace can be shown to strangers.

A function becomes `f1`, a file `file1.go`, any other text `text1`; the same text gets the same stand-in throughout.
Why a goroutine waits and why the world stops is said in words of the runtime itself, and stays. Experimental batches
hold bytes that this does not understand (names of types among them), and go.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence._base.records import Record, field
from whence.gotrace.batches import BatchReader
from whence.gotrace.columnar import ColumnReader, places
from whence.gotrace.kernels import columns as columns_kernel
from whence.gotrace.kernels.constants import END_OF_GENERATION, EXPERIMENTAL_BATCH, STRINGS
from whence.gotrace.kernels.event import Event
from whence.gotrace.specs import NO_THREAD, Version
from whence.gotrace.tables import Tables, events_of

if TYPE_CHECKING:
    from whence.gotrace.convert import Sink
    from whence.gotrace.feed import Source

BATCH_BYTES = 60_000


class _Uses(Record):
    """What the strings of a generation are used for, by id."""

    functions: set[int] = field(default_factory=set)
    files: set[int] = field(default_factory=set)
    reasons: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)


def _uses(source: Source) -> dict[int, _Uses]:
    found: dict[int, _Uses] = {}
    with ColumnReader(source) as reader:
        reasons = places(reader.version, "reason_string", "kind_string")
        words = [places(reader.version, ending="_string", nth=nth) for nth in (0, 1)]
        said = bytes(255 if reason < 4 else word for word, reason in zip(words[0], reasons))
        tables: list[Tables] = []
        for block in reader:
            uses = found.setdefault(block.tables[0].generation, _Uses())
            if not tables or block.tables[0] is not tables[-1]:
                tables.append(block.tables[0])
            out = array("Q", bytes(8 * len(block)))
            for into, wanted in ((uses.reasons, reasons), (uses.others, said), (uses.others, words[1])):
                rows = columns_kernel.pick(block.type, block.args, wanted, out, True)
                into.update(out[:rows])
    for table in tables:
        uses = found[table.generation]
        for frames in table.stacks.values():
            uses.functions.update(frame.function for frame in frames)
            uses.files.update(frame.file for frame in frames)
    return found


class _Names:
    """Stand-ins, given out in order."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], bytes] = {}
        self._counts = {"f": 0, "file": 0, "text": 0}

    def stand_in(self, kind: str, text: bytes) -> bytes:
        name = self._known.get((kind, text))
        if name is None:
            self._counts[kind] += 1
            name = f"{kind}{self._counts[kind]}{'.go' if kind == 'file' else ''}".encode()
            self._known[kind, text] = name
        return name


def _batches(version: Version, generation: int, strings: dict[int, bytes]) -> list[bytes]:
    """Strings batches of a generation."""
    found: list[bytes] = []
    body = bytearray()

    def end() -> None:
        header = Event(version, "EventBatch", [generation, NO_THREAD, 0, len(body)])
        found.append(header.encode() + bytes(body))

    for number, text in strings.items():
        if not body:
            body += Event(version, "Strings").encode()
        body += Event(version, "String", [number], text).encode()
        if len(body) > BATCH_BYTES:
            end()
            body = bytearray()
    if body:
        end()
    return found


def anonymize(source: Source, out: Sink) -> int:
    """Write a wire trace with its strings replaced. Returns how many texts were. The source is a path or bytes."""
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
                        kept = number in used.reasons and number not in used.others
                        kind = "f" if number in used.functions else "file" if number in used.files else "text"
                        strings[number] = text if kept else names.stand_in(kind, text)
                        replaced += not kept
                elif batch.kind != EXPERIMENTAL_BATCH:
                    out.write(run.data[batch.start : batch.end])
        flush()
    return replaced
