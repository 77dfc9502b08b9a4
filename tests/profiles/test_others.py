"""What is no profile is told apart by name, with one line that says what it is and what to do."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from whence.cli import main
from whence.errors import ProfileError
from whence.profiles import formats

CASES = {
    "java heapz": (b"--- heapz 1 ---\nformat = java\nresolution = bytes\n", "a Java heapz profile", "pprof -proto"),
    "java contentionz": (
        b"--- contentionz 1 ---\nformat = java\nresolution = us\n",
        "a Java contentionz profile",
        "pprof",
    ),
    "java cpu": (struct.pack("<5Q", 0, 3, 1, 10000, 0) + bytes(24), "a Java CPU profile", "pprof -proto"),
    "java threads": (b"2024-01-01 10:00:00\nFull thread dump OpenJDK 64-Bit\n", "a Java thread dump", "jfrconv"),
    "java heap": (b"JAVA PROFILE 1.0.2\0\0\0\0\x08", "a Java heap dump", "heap viewer"),
    "go dump": (b"goroutine 1 [running]:\nmain.main()\n", "Go's dump of goroutines", "debug"),
    "chrome": (b'{"traceEvents":[{"name":"a"}]}', "a Chrome trace", "CPU profile"),
    "memray": (b"memray\0\x0c\0\0\0", "a memray recording", "memray flamegraph"),
    "memray in lz4": (
        bytes.fromhex("04224d186440a7") + b"\x20\0\0\0\xf0\x05memray\0\x0c",
        "a memray recording",
        "memray",
    ),
    "lz4": (bytes.fromhex("04224d186440a7") + b"\x20\0\0\0\xf0\x05something", "packed by lz4", "lz4 -dc"),
    "JFR": (b"FLR\0\0\2\0\1", "a JFR recording", "jfrconv"),
    "perf.data 1": (b"PERFFILE" + bytes(96), "perf's own recording, version 1", "perf script"),
    "xz": (b"\xfd7zXZ\0", "packed by xz", "xz -dc"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_what_is_no_profile_is_told_by_name_in_one_line(
    case: str, pack: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, what, remedy = CASES[case]
    path = tmp_path / "in"
    path.write_bytes(pack(data))  # type: ignore[operator]
    assert main(["profile", str(path)]) == 3
    said = capfd.readouterr().err
    assert what in said
    assert remedy in said
    assert len(said.splitlines()) <= 2  # the error, and what to do


@pytest.mark.parametrize(
    "text", ["heap;profile 3\n", "--- a;b 3\n", "goroutine;x 1\n", "app 1 1.0: 1 cycles:\n\t1d6 f (/bin/app)\n"]
)
def test_a_profile_that_begins_much_alike_is_read(text: str) -> None:
    assert len(formats.read(text.encode())[0].samples) == 1


def test_a_member_of_otlp_tells_it_from_other_json() -> None:
    with pytest.raises(ProfileError, match="one dictionary"):
        formats.read(b'{"resourceProfiles":[{"scopeProfiles":[]}],"exporter":1,"shared":{},"profiles":[]}')


def test_a_text_that_is_no_profile_is_said_to_be_none(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "README.md"
    path.write_text("# whence\n\nFrom address to source.\n\nIt names what runs.\n")
    assert main(["profile", str(path)]) == 3
    said = capfd.readouterr().err
    assert said.startswith(f"whence: {path}: not a profile: folded line 3: found From address to source.")
    assert said.count("\n") == 1
