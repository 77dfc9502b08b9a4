"""Comparisons with Go's own tools, over complete real traces and Go's own test texts."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

from tests.gotrace.conftest import Go
from whence import gotrace
from whence.gotrace.quoting import changes, is_printable


def text_of(trace: Path | bytes) -> bytes:
    out = io.BytesIO()
    gotrace.wire_to_text(trace, out)
    return out.getvalue()


def wire_of(text: bytes) -> bytes:
    out = io.BytesIO()
    gotrace.text_to_wire(text, out)
    return out.getvalue()


def test_our_text_equals_go_tool_traces_except_for_the_header(go: Go, everything: Path) -> None:
    header, _, body = text_of(everything).partition(b"\n")
    assert header == b"Trace Go1.26"
    assert body == go.wire_text(everything)


def test_go_parses_our_wire_as_it_parses_the_original(go: Go, everything: Path, tmp_path: Path) -> None:
    ours = tmp_path / "ours.trace"
    out = io.BytesIO()
    gotrace.wire_to_text(everything, out, keep_padding=True)
    with open(ours, "wb") as file:
        gotrace.text_to_wire(out.getvalue(), file)
    original, again = go.parsed(everything), go.parsed(ours)
    assert original.returncode == again.returncode == 0
    assert original.stdout == again.stdout


def test_a_real_trace_is_kept_byte_for_byte_with_its_padding(everything: Path) -> None:
    text, wire = io.BytesIO(), io.BytesIO()
    gotrace.wire_to_text(everything, text, keep_padding=True)
    gotrace.text_to_wire(text.getvalue(), wire, keep_padding=True)
    assert wire.getvalue() == everything.read_bytes()


def test_events_of_a_real_trace_written_again_are_its_bytes(everything: Path) -> None:
    out = io.BytesIO()
    with gotrace.Reader(everything, keep_padding=True) as reader, gotrace.Writer(out, reader.version) as writer:
        for event in reader:
            writer.write_event(event)
    assert out.getvalue() == everything.read_bytes()


def test_gos_own_test_texts_convert_both_ways(go: Go, tmp_path: Path) -> None:
    tests = sorted((go.root / "src/internal/trace/testdata/tests").glob("*.test"))
    assert len(tests) > 15
    for path in tests:
        text = path.read_bytes().partition(b"-- trace --\n")[2]
        wire = wire_of(text)
        body = text_of(wire)
        assert wire_of(body) == wire
        trace = tmp_path / "test.trace"
        trace.write_bytes(wire)
        assert go.wire_text(trace) == body.partition(b"\n")[2], path.name


QUOTE = """
package main

import ("crypto/sha256"; "fmt"; "strconv"; "unicode"; "unicode/utf8")

func main() {
	var all []byte
	for r := rune(0); r <= 0x10FFFF; r++ {
		all = utf8.AppendRune(all, r)
		if unicode.IsSpace(r) { fmt.Print(r, " ") }
	}
	for b := 0; b < 65536; b++ { all = append(all, byte(b>>8), byte(b)) }
	fmt.Printf("\\n%x\\n", sha256.Sum256([]byte(strconv.Quote(string(all)))))
}
"""


def test_every_character_is_quoted_as_go_quotes_it(go: Go, tmp_path: Path) -> None:
    program = tmp_path / "quote.go"
    program.write_text(QUOTE)
    spaces, digest = go.run("run", str(program)).stdout.decode().splitlines()
    every = b"".join((chr(c) if not 0xD800 <= c < 0xE000 else "\ufffd").encode() for c in range(0x110000))
    every += b"".join(b.to_bytes(2, "big") for b in range(65536))
    quoted = gotrace.quote(every)
    assert hashlib.sha256(quoted.encode()).hexdigest() == digest
    assert [c for c in range(0x110000) if gotrace.quoting.is_space(chr(c))] == [int(c) for c in spaces.split()]
    assert len(changes()) % 2 == 0
    assert is_printable(0x20AC)
    assert not is_printable(0xA0)
