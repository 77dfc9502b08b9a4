"""Go execution traces, raw: what the runtime's tracer writes, event by event, without interpreting it.

In: a trace in its wire form (what `runtime/trace` writes) or its text form (what Go's internal/trace/raw defines), as a
path, a file, a pipe or bytes. Out: events, the other form, or columns. The events of each version come from Go's
internal/trace/tracev2; docs/formats/gotrace.md has the layout. Refused: events of Go 1.11 to 1.21 (another format).

    specs.py       versions, their events as a table    header.py        the first bytes of either form
    reader.py      Reader, TextReader                   writer.py        Writer, TextWriter
    convert.py     wire_to_text, text_to_wire           quoting.py       Go's quoted strings, spaces, tokens
    feed.py        bytes from anywhere, by windows      faults.py        what is wrong, in words
    batches.py     batches, by their headers            tables.py        strings, stacks, clocks of a generation
    columnar.py    events as columns, on all cores      rows.py          events as csv, jsonl, parquet
    survey.py      info: what is in a trace             verification.py  verify: what is wrong with it
    filtering.py   filter: part of a trace as a trace   sizes.py         fix_sizes: batch sizes made right
    anonymizing.py    replaces the strings of a trace
    faults.py         messages for what the kernels found wrong
    header.py         the start of a trace, binary or text
    quoting.py        Go's rules for quoted strings, white space and tokens
    rows.py           events as rows: names resolved, times in nanoseconds
    salvaging.py      the whole generations of a damaged trace
    sizes.py          corrects batch sizes after a text form was edited
    tables.py         tables of a generation: strings, stacks, CPU samples, clocks
    verification.py   what Go's parser requires of a trace
    writer.py         writes events one by one, as binary or text
    anonymizing.py anonymize: strings replaced          salvaging.py     salvage: whole generations of a damaged one
    kernels/       Event, and the loops over events

    >>> import io
    >>> text = b'Trace Go1.22\\nString id=1\\n\\tdata="hello"\\nGoStart dt=3 g=7 g_seq=1\\n'
    >>> wire = io.BytesIO()
    >>> text_to_wire(text, wire)
    2
    >>> [(event.name, event.args, event.data) for event in Reader(wire.getvalue())]
    [('String', (1,), b'hello'), ('GoStart', (3, 7, 1), None)]
    >>> back = io.BytesIO()
    >>> wire_to_text(wire.getvalue(), back)
    2
    >>> back.getvalue() == text
    True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach
from whence.gotrace.convert import text_to_wire, to_text, to_wire, wire_to_text
from whence.gotrace.faults import TextError
from whence.gotrace.kernels.event import Event
from whence.gotrace.quoting import quote, unquote
from whence.gotrace.reader import Reader, TextReader
from whence.gotrace.specs import CURRENT, EventSpec, SpecTable, Version
from whence.gotrace.writer import TextWriter, Writer

if TYPE_CHECKING:
    from whence.gotrace.anonymizing import anonymize
    from whence.gotrace.columnar import ColumnReader, Columns, columns
    from whence.gotrace.filtering import Filter, FilterResult, filter
    from whence.gotrace.salvaging import Piece, salvage
    from whence.gotrace.sizes import fix_sizes
    from whence.gotrace.survey import GenerationInfo, TraceInfo, info
    from whence.gotrace.verification import Problem, verify

__all__ = [
    "CURRENT",
    "ColumnReader",
    "Columns",
    "Event",
    "EventSpec",
    "Filter",
    "FilterResult",
    "GenerationInfo",
    "Piece",
    "Problem",
    "Reader",
    "SpecTable",
    "TextError",
    "TextReader",
    "TextWriter",
    "TraceInfo",
    "Version",
    "Writer",
    "anonymize",
    "columns",
    "filter",
    "fix_sizes",
    "info",
    "quote",
    "salvage",
    "text_to_wire",
    "to_text",
    "to_wire",
    "unquote",
    "verify",
    "wire_to_text",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {  # these import threads and more, which a conversion does without
            "anonymize": "whence.gotrace.anonymizing",
            "ColumnReader": "whence.gotrace.columnar",
            "Columns": "whence.gotrace.columnar",
            "columns": "whence.gotrace.columnar",
            "Filter": "whence.gotrace.filtering",
            "FilterResult": "whence.gotrace.filtering",
            "filter": "whence.gotrace.filtering",
            "Piece": "whence.gotrace.salvaging",
            "salvage": "whence.gotrace.salvaging",
            "fix_sizes": "whence.gotrace.sizes",
            "GenerationInfo": "whence.gotrace.survey",
            "TraceInfo": "whence.gotrace.survey",
            "info": "whence.gotrace.survey",
            "Problem": "whence.gotrace.verification",
            "verify": "whence.gotrace.verification",
        },
    )
