"""Formats that are not profiles are recognized, with one line that names the format and a remedy."""

from __future__ import annotations

import gzip
import marshal
import struct
from pathlib import Path

import pytest

from whence._base.errors import ProfileError
from whence.cli import main
from whence.profiles.formats import registry as formats

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
    "V8 heap": (
        b'{"head":{"callFrame":{"functionName":"(root)","scriptId":"0","url":""},"selfSize":0,"id":1,"children":['
        + b",".join([b'{"callFrame":{"functionName":"f","url":"/a.js"},"selfSize":9,"id":2,"children":[]}'] * 5000)
        + b']},"samples":['
        + b",".join([b'{"size":9,"nodeId":2,"ordinal":1}'] * 5000)
        + b"]}",
        "V8's heap profile",
        "speedscope",
    ),
    "memray in lz4": (
        bytes.fromhex("04224d186440a7") + b"\x20\0\0\0\xf0\x05memray\0\x0c",
        "a memray recording",
        "memray",
    ),
    "lz4": (bytes.fromhex("04224d186440a7") + b"\x20\0\0\0\xf0\x05something", "packed by lz4", "lz4 -dc"),
    "JFR": (b"FLR\0\0\2\0\1", "a JFR recording", "jfrconv"),
    "perf.data 1": (b"PERFFILE" + bytes(96), "perf's own recording, version 1", "perf script"),
    "massif": (b"desc: --pages\ncmd: /bin/true\ntime_unit: i\n#---\n", "massif's output", "ms_print"),
    "cachegrind": (
        b"desc: I1 cache:         32768 B\ndesc: D1\ncmd: /bin/true\n",
        "cachegrind's output",
        "cg_annotate",
    ),
    "callgrind": (b"# callgrind format\nversion: 1\n", "callgrind's output", "callgrind_annotate"),
    "dhat": (b'{"dhatFileVersion":2\n,"mode":"heap"}', "DHAT's output", "dh_view.html"),
    "heaptrack": (b"v 10400 3\nX /bin/true\nI 1000 5e298f\n", "a heaptrack recording", "heaptrack_print"),
    "gprof": (b"gmon\1\0\0\0" + bytes(40), "gprof's gmon.out", "gprof PROGRAM"),
    "cProfile": (marshal.dumps({("f.py", 1, "f"): (1, 1, 0.5, 0.5, {})}), "cProfile's statistics", "py-spy"),
    "pyinstrument": (
        b'{"start_time": 1.0,"duration": 0.8,"sample_count": 2,"target_description": "Program: x","root_frame": {}}',
        "a pyinstrument session",
        "pyinstrument -r speedscope",
    ),
    "nettrace": (b"Nettrace\x14\0\0\0!FastSerialization.1", "a .nettrace recording", "dotnet-trace convert"),
    "Instruments, exported": (
        b'<?xml version="1.0"?>\n<trace-query-result>\n',
        "a recording of Apple's Instruments",
        "samply",
    ),
    "arrow": (b"\xff\xff\xff\xff\x08\6\0\0", "a stream of Arrow", "whence columns"),
    "chrome, events alone": (b'[ {"pid": 1, "ts": 2, "ph": "X"}]', "a Chrome trace", "CPU profile"),
    "chrome, events with arguments": (b'[{"args":{"line":1},"name":"a","ph":"B"},\n', "a Chrome trace", "CPU profile"),
    "V8 snapshot": (
        b'{"snapshot":{"meta":{"node_fields":["type","name"]}},"nodes":[' + b"1," * 5000 + b'1],"strings":["a"]}',
        "a V8 heap snapshot",
        "developer tools",
    ),
    "V8 log": (b"v8-version,11,3,244,8,-node.38,0\n", "V8's log", "--cpu-prof"),
    "SVG": (b'<?xml version="1.0"?><!DOCTYPE svg><svg version="1.1">', "an SVG image", "drawn from"),
    "unknown JSON": (b'{"header": {"reportVersion": 4}}', "JSON of an unknown kind", "speedscope"),
    "pprof's report": (b"File: app\nType: cpu\nTime: 2024\n", "a report of pprof", "the profile itself"),
    "perf report": (b"# To display the perf.data header info, please\n#\n", "the table of perf report", "perf.data"),
    "whence's table": (
        b"cpu: 1.03 s in 32 functions, 3 shown\nself  total\n",
        "a table of whence profile",
        "made of",
    ),
    "xz": (b"\xfd7zXZ\0", "packed by xz", "xz -dc"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_names_formats_that_are_not_profiles_with_a_remedy(
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


@pytest.mark.parametrize("format", ["top", "json", "arrow"])
def test_recognizes_its_own_tables(format: str) -> None:
    if format == "arrow":
        pytest.importorskip("pyarrow")
    profile, _ = formats.read(b"main;f 3\nmain;g 4\n")
    with pytest.raises(ProfileError, match=r"a (profile.s )?table|a stream of Arrow"):
        formats.read(formats.to_bytes(profile, format))


def test_recognizes_a_folder_of_instruments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "form.template").write_bytes(b"bplist00")
    assert main(["profile", str(tmp_path)]) == 3
    assert "Instruments" in capfd.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "gmon;f 3\n",
        "MOJO;f 1\n",
        "PAR1;x 2\n",
        "v 10400 3\n",
        "File: 3\n",
        "heap;profile 3\n",
        "--- a;b 3\n",
        "goroutine;x 1\n",
        "app 1 1.0: 1 cycles:\n\t1d6 f (/bin/app)\n",
    ],
)
def test_reads_profiles_that_start_like_other_formats(text: str) -> None:
    assert len(formats.read(text.encode())[0].samples) == 1


def test_recognizes_otlp_by_a_member() -> None:
    with pytest.raises(ProfileError, match="one dictionary"):
        formats.read(b'{"resourceProfiles":[{"scopeProfiles":[]}],"exporter":1,"shared":{},"profiles":[]}')


def test_rejects_a_text_that_is_not_a_profile(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "README.md"
    path.write_text("# whence\n\nFrom address to source.\n\nIt names what runs.\n")
    assert main(["profile", str(path)]) == 3
    said = capfd.readouterr().err
    assert said.startswith(
        f"whence: {path}: not a profile: folded line 3: expected a stack and its value, found From address to source."
    )
    assert said.count("\n") == 1
