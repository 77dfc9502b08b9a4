"""Read and write Go execution traces as events, without interpreting them.

In: a trace in binary form (what `runtime/trace` writes, called wire form in names) or in text form (Go's
internal/trace/raw), as a path, a file, a pipe or bytes. Out: events, the other form, or columns. The events of each
version are listed in Go's internal/trace/tracev2; docs/formats/gotrace.md describes the layout. Traces of Go 1.11 to
1.21 have another format and are refused.

    anonymizing.py    replaces the strings of a trace
    batches.py        batches, found by their headers
    columnar.py       events as columns, decoded on all cores
    convert.py        wire_to_text and text_to_wire
    faults.py         errors for the faults that kernels report
    feed.py           bytes of a path, file, pipe or buffer, in windows
    filtering.py      writes a part of a trace as a trace
    header.py         the start of a trace, binary or text
    quoting.py        Go's rules for quoted strings, white space and tokens
    reader.py         opens a trace and reads events one by one, from binary or text
    rows.py           events as rows: names resolved, times in nanoseconds
    salvaging.py      the intact generations of a damaged trace
    sizes.py          corrects batch sizes after a text form was edited
    specs.py          format versions, and their events as a table
    survey.py         counts and time spans of a trace
    tables.py         tables of a generation: strings, stacks, CPU samples, clocks
    verification.py   checks what Go's parser requires of a trace
    writer.py         writes events one by one, as binary or text
    kernels/          Event, and the loops over events

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
from whence.gotrace.reader import open_trace as open
from whence.gotrace.specs import CURRENT, EventSpec, SpecTable, Version
from whence.gotrace.writer import TextWriter, Writer

if TYPE_CHECKING:
    from whence.gotrace.anonymizing import anonymize
    from whence.gotrace.columnar import ColumnReader, Columns, columns
    from whence.gotrace.columnar import columns as read
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
    "open",
    "quote",
    "read",
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
        {
            "anonymize": "whence.gotrace.anonymizing",
            "ColumnReader": "whence.gotrace.columnar",
            "Columns": "whence.gotrace.columnar",
            "columns": "whence.gotrace.columnar",
            "read": "whence.gotrace.columnar:columns",
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
