"""Text traces: what is read is written as it is read again, and quoting loses nothing."""

from __future__ import annotations

import io

from fuzz import trace_wire
from whence import gotrace


def seeds() -> list[bytes]:
    """The text forms of the wire target's seeds, and one with everything that a person may write otherwise."""
    texts = [b"# comment\n\n Trace  Go1.26\r\nString\tid=01\n data = `raw`\nString id=2\ndata='\\u20ac' \n"]
    for wire in trace_wire.seeds():
        out = io.BytesIO()
        gotrace.wire_to_text(wire, out, keep_padding=True)
        texts.append(out.getvalue())
    return texts


def target(data: bytes) -> None:
    assert gotrace.unquote(gotrace.quote(data)) == data
    wire, text, again = io.BytesIO(), io.BytesIO(), io.BytesIO()
    gotrace.text_to_wire(data, wire)
    gotrace.wire_to_text(wire.getvalue(), text)
    gotrace.text_to_wire(text.getvalue(), again)
    assert again.getvalue() == wire.getvalue()
    assert sum(1 for _ in gotrace.TextReader(data)) == sum(1 for _ in gotrace.Reader(wire.getvalue()))
