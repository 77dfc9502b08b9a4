"""Traces of other Go releases, each written by its own toolchain (downloaded on first use)."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path

import pytest

from tests.gotrace.conftest import PROGRAMS, Go
from tests.helpers import golang
from whence import gotrace
from whence.gotrace import Version
from whence.gotrace.anonymizing import anonymize
from whence.gotrace.filtering import Filter
from whence.gotrace.filtering import filter as filter_trace
from whence.gotrace.salvaging import salvage
from whence.gotrace.verification import verify

RELEASES = {
    "1.22.10": Version.GO1_22,
    "1.23.9": Version.GO1_23,
    "1.25.5": Version.GO1_25,
    "1.26.6": Version.GO1_26,
}


def made(release: str, folder: Path, **settings: str) -> Path:
    """Return a trace of a program built with a release."""
    root = golang.goroot(release)
    experiment = "rangefunc" if release.startswith("1.22") else ""
    environment = golang.environment(root, GOFLAGS="", GOEXPERIMENT=experiment)
    program = folder / "everything"
    command = [str(root / "bin" / "go"), "build", "-o", str(program), str(PROGRAMS / "everything.go")]
    subprocess.run(command, check=True, env=environment, cwd=folder)
    trace = folder / "trace"
    with open(trace, "wb") as out:
        subprocess.run(
            [program, "1300"], stdout=out, stderr=subprocess.DEVNULL, check=True, env={**os.environ, **settings}
        )
    return trace


@pytest.mark.oracle
@pytest.mark.parametrize("release", RELEASES)
def test_traces_of_a_release_are_read_as_go_reads_them(release: str, go: Go, tmp_path: Path) -> None:
    trace = made(release, tmp_path)
    text, wire = io.BytesIO(), io.BytesIO()
    gotrace.wire_to_text(trace, text, keep_padding=True)
    gotrace.text_to_wire(text.getvalue(), wire, keep_padding=True)
    assert wire.getvalue() == trace.read_bytes()
    plain = io.BytesIO()
    gotrace.wire_to_text(trace, plain)
    header, _, body = plain.getvalue().partition(b"\n")
    assert header == RELEASES[release].text_header.strip()
    assert body == go.wire_text(trace)
    assert verify(trace) == []
    original = go.parsed(trace)
    assert original.returncode == 0
    out = tmp_path / "out"
    for write in (
        lambda file: anonymize(trace, file),
        lambda file: filter_trace(trace, file, Filter(since=0.2, goroutines=frozenset([1]))),
        lambda file: salvage(trace.read_bytes()[:-9], file),
        lambda file: gotrace.fix_sizes(trace, file),
    ):
        with open(out, "wb") as file:
            write(file)
        parsed = go.parsed(out)
        assert parsed.returncode == 0, parsed.stderr
        assert parsed.stdout


@pytest.mark.oracle
@pytest.mark.parametrize("release", ["1.23.9", "1.25.5"])
def test_experimental_events_of_a_release_are_read(release: str, tmp_path: Path) -> None:
    trace = made(release, tmp_path, GODEBUG="traceallocfree=1")
    names = {event.name for event in gotrace.Reader(trace)}
    assert {"HeapObjectAlloc", "SpanAlloc", "ExperimentalBatch"} <= names
    assert verify(trace) == []
    assert len(gotrace.columns(trace))
