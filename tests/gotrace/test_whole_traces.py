"""Columns and tools over real traces; Go's parser judges what is written."""

from __future__ import annotations

import bisect
import contextlib
import gzip
import io
import math
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from tests.gotrace.conftest import Go
from whence import gotrace, profiles
from whence._base.errors import TraceError
from whence.cli import main
from whence.cli.trace_info import as_text
from whence.gotrace import Event, Version
from whence.gotrace.anonymizing import anonymize
from whence.gotrace.batches import BatchReader
from whence.gotrace.filtering import Filter
from whence.gotrace.filtering import filter as filter_trace
from whence.gotrace.rows import FilteredBlocks, records
from whence.gotrace.salvaging import salvage
from whence.gotrace.survey import info
from whence.gotrace.verification import BATCH_SIZE, verify


@pytest.fixture(scope="module")
def timed(everything: Path) -> list[tuple[int, int, int, int, tuple[int, ...]]]:
    """Return (generation, thread, time, type, args) of each timed event, collected event by event."""
    rows = []
    generation = thread = time = 0
    skip = False
    for event in gotrace.Reader(everything):
        if event.name == "EventBatch":
            generation, thread, time, _ = event.args
            skip = False
        elif not event.spec.timed:
            skip = True
        elif not skip:
            time += event["dt"]
            rows.append((generation, thread, time, event.type, event.args[1:]))
    return rows


def test_columns_are_the_events_that_a_loop_over_them_finds(
    everything: Path, timed: list[tuple[int, int, int, int, tuple[int, ...]]]
) -> None:
    columns = gotrace.columns(everything)
    assert len(columns) == len(timed)
    assert columns.generation.tolist() == [row[0] for row in timed]
    assert columns.thread.tolist() == [row[1] for row in timed]
    assert columns.time.tolist() == [row[2] for row in timed]
    assert columns.type.tolist() == [row[3] for row in timed]
    args = columns.args.tolist()
    assert [tuple(args[4 * i : 4 * i + len(row[4])]) for i, row in enumerate(timed)] == [row[4] for row in timed]
    specs = columns.version.specs.by_type
    stack = [dict(zip(specs[row[3]].args[1:], row[4])).get("stack", 0) for row in timed]
    assert columns.stack.tolist() == stack


def test_columns_of_a_range_of_batches(everything: Path) -> None:
    full = gotrace.columns(everything)
    some = gotrace.columns(everything, batches=range(2, 5))
    assert 1 <= len(some.batch_row) <= 3
    count, rows = len(some.batch_row), len(some)
    assert 0 < rows < len(full)
    events = list(zip(some.thread, some.time, some.type, strict=True))
    all_events = list(zip(full.thread, full.time, full.type, strict=True))
    starts = [
        row for index, row in enumerate(full.batch_row) if full.batch_thread[index : index + count] == some.batch_thread
    ]
    assert any(all_events[row : row + rows] == events for row in starts)


def test_a_trace_cut_at_any_offset_gives_its_complete_events(everything: Path) -> None:
    wire = everything.read_bytes()[: 16 + 3000]
    with gotrace.Reader(wire) as reader:
        events, ends = [], [16]
        with contextlib.suppress(TraceError):
            for event in reader:
                events.append(event)
                ends.append(reader.offset)
    for size in range(16, len(wire), 7):
        seen = 0
        cut_at = None
        try:
            for event in gotrace.Reader(wire[:size]):
                assert event == events[seen]
                seen += 1
        except TraceError as error:
            cut_at = error.offset
        assert seen == bisect.bisect_right(ends, size) - 1
        assert cut_at == (None if size in ends else size)
        text = io.BytesIO()
        with contextlib.suppress(TraceError):
            gotrace.wire_to_text(wire[:size], text)
        assert len(list(gotrace.TextReader(text.getvalue()))) == seen


def test_traces_of_gos_own_test_programs_are_read_as_go_reads_them(go: Go, tmp_path: Path) -> None:
    names = ["annotations", "iter-pull", *(["cgo-callback"] if shutil.which("gcc") else [])]
    for name in names:
        source = go.root / f"src/internal/trace/testdata/testprog/{name}.go"
        program, trace = tmp_path / name, tmp_path / f"{name}.trace"
        built = go.run("build", "-o", str(program), str(source), check=False)
        if built.returncode and name == "cgo-callback":
            continue  # a toolchain without its C part
        with open(trace, "wb") as out:
            subprocess.run([program], stdout=out, check=True)
        text = io.BytesIO()
        gotrace.wire_to_text(trace, text)
        assert text.getvalue().partition(b"\n")[2] == go.wire_text(trace)
        assert verify(trace) == []


def test_columns_convert_to_numpy_and_arrow(everything: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    columns = gotrace.columns(everything, generations=[1])
    arrays, table = columns.to_numpy(), columns.to_arrow()
    assert arrays["args"].shape == (len(columns), 4)
    assert table.num_rows == len(columns) == len(arrays["time"])
    names = Counter(table["event"].to_pylist())
    assert names["GoStart"] == numpy.count_nonzero(arrays["type"] == columns.version.specs["GoStart"].type)


def test_the_dictionary_of_event_names_is_unique_as_pandas_requires(everything: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("pyarrow")
    columns = gotrace.columns(everything, generations=[1])
    table = columns.to_arrow()
    dictionary = table["event"].chunk(0).dictionary.to_pylist()
    assert len(set(dictionary)) == len(dictionary)
    names = {spec.type: name for name, spec in columns.version.specs.by_name.items()}
    assert table["event"].to_pylist() == [names[each] for each in columns.type]
    pytest.importorskip("pandas", reason="no pandas here (pip install pandas)")
    frame = table.to_pandas()
    assert frame["event"].astype(str).tolist() == table["event"].to_pylist()


def test_blocks_stream_by_generation_with_their_tables(everything: Path) -> None:
    with gotrace.ColumnReader(everything, threads=2) as reader:
        blocks = list(reader)
    assert [b.tables[0].generation for b in blocks] == sorted(b.tables[0].generation for b in blocks)
    for block in blocks:
        tables = block.tables[0]
        assert tables.frequency
        assert set(block.stack) - {0} <= set(tables.stacks)
    frames = [f for b in blocks for s in b.tables[0].stacks for f in b.tables[0].frames(s)]
    assert any(function == "main.round" and file.endswith("everything.go") and line for function, file, line in frames)


def test_info_counts_what_a_loop_counts(everything: Path) -> None:
    result = info(everything)
    events = list(gotrace.Reader(everything))
    assert result.events == Counter(event.name for event in events)
    assert result.size == everything.stat().st_size
    assert len(result.generations) >= 2
    assert result.goroutines >= {event["g"] for event in events if event.name == "GoStart"}
    assert 1.3 < result.seconds < 10


def test_a_real_trace_verifies(everything: Path) -> None:
    assert verify(everything) == []


def test_filtered_traces_open_in_gos_parser(go: Go, everything: Path, tmp_path: Path) -> None:
    full = go.parsed(everything).stdout.count(b"\n")
    out = tmp_path / "out.trace"
    for wanted in (
        Filter(generations=frozenset([2]), events=frozenset(["UserRegionBegin", "GCBegin"])),
        Filter(since=0.3, until=0.9, goroutines=frozenset([1])),
    ):
        with open(out, "wb") as file:
            filter_trace(everything, file, wanted)
        parsed = go.parsed(out)
        assert parsed.returncode == 0, parsed.stderr
        assert 0 < parsed.stdout.count(b"\n") < full
        assert verify(out) == []
        if wanted.events:
            assert b"RegionBegin" in parsed.stdout
            assert b"HeapAlloc" not in {event.name.encode() for event in gotrace.Reader(out)}
    with pytest.raises(TraceError, match="is named Nonsense"):
        filter_trace(everything, io.BytesIO(), Filter(events=frozenset(["Nonsense"])))


def test_an_anonymous_trace_opens_in_gos_parser_and_has_no_names_of_the_program(
    go: Go, everything: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.trace"
    with open(out, "wb") as file:
        assert anonymize(everything, file) > 100
    parsed, original = go.parsed(out), go.parsed(everything)
    assert parsed.returncode == 0, parsed.stderr
    assert parsed.stdout.count(b"\n") == original.stdout.count(b"\n")
    for word in (b"main.round", b"everything.go", b"coroutines", b"quoted"):
        assert word in everything.read_bytes()
        assert word not in out.read_bytes()
    assert b"chan receive" in out.read_bytes()
    assert verify(out) == []


def generation_ranges(trace: bytes) -> list[range]:
    """Return the bytes of each generation, the first one after the header."""
    ends = list(accumulate((generation.size for generation in info(trace).generations), initial=16))
    assert ends[-1] == len(trace)
    return [range(start, end) for start, end in pairwise(ends)]


def without(generation: int, ranges: list[range]) -> list[int]:
    """Return the generations before or after a damaged one, of which there are more bytes."""
    before, after = ranges[: generation - 1], ranges[generation:]
    if sum(map(len, before)) >= sum(map(len, after)):
        return list(range(1, generation))
    return list(range(generation + 1, len(ranges) + 1))


def timed_batches(trace: bytes, generation: int) -> list[range]:
    """Return the bytes of each large batch of timed events of a generation, without headers."""
    with BatchReader(trace) as reader:
        return [
            range(run.offset + batch.body, run.offset + batch.end)
            for run in reader
            for batch in run.batches
            if run.generation == generation and batch.timed and batch.end - batch.body > 200
        ]


@pytest.mark.parametrize("generation", [1, 2])
@pytest.mark.parametrize("damage", ["body of the first batch", "body of the last batch", "header", "end"])
def test_salvage_writes_the_generations_that_are_not_damaged(
    generation: int, damage: str, go: Go, everything: Path, tmp_path: Path
) -> None:
    data = everything.read_bytes()
    ranges = generation_ranges(data)
    assert len(ranges) >= 2
    batches = timed_batches(data, generation)
    hole = {
        "body of the first batch": batches[0][:100],
        "body of the last batch": batches[-1][:100],
        "header": ranges[generation - 1][:5],
        "end": ranges[generation - 1][-100:],
    }[damage]
    out = tmp_path / "out.trace"
    with open(out, "wb") as file:
        written, left = salvage(data[: hole.start] + b"\xff" * len(hole) + data[hole.stop :], file)
    assert [piece.generation for piece in written] == without(generation, ranges)
    assert generation in {piece.generation for piece in left}
    assert verify(out) == []
    assert go.parsed(out).returncode == 0


def test_salvage_of_a_trace_that_is_cut_off_writes_the_generations_before(everything: Path) -> None:
    data = everything.read_bytes()
    ranges = generation_ranges(data)
    out = io.BytesIO()
    written, left = salvage(data[: ranges[1].stop - 100], out)
    assert [piece.generation for piece in written] == [1]
    assert 2 in {piece.generation for piece in left}
    assert out.getvalue() == data[: ranges[0].stop]
    with pytest.raises(TraceError, match="no generation is intact"):
        salvage(data[: ranges[0].stop - 100], io.BytesIO())


TEXT = """Trace Go1.22
EventBatch gen=1 m=5 time=100 size=0
ProcStatus dt=1 p=0 pstatus=1
GoStatus dt=1 g=1 m=5 gstatus=2
GoBlock dt=300 reason_string=9 stack=7
EventBatch gen=1 m=18446744073709551615 time=100 size=3
Frequency freq=15625000
EventBatch gen=1 m=18446744073709551615 time=100 size=3
Stacks
Stack id=3 nframes=1
\tpc=9 func=1 file=2 line=3
EventBatch gen=3 m=5 time=900 size=3
ProcStop dt=1
"""


def test_wrong_sizes_are_found_and_fixed_and_undefined_ids_are_found() -> None:
    wire, fixed = io.BytesIO(), io.BytesIO()
    gotrace.text_to_wire(TEXT.encode(), wire)
    problems = verify(wire.getvalue())
    assert [problem.code for problem in problems] == [BATCH_SIZE] * 4
    assert str(problems[0]) == "generation 1: at 0x10: the batch's size is 0, but its events have 14 bytes"
    with pytest.raises(TraceError, match="a size before it is wrong"):
        gotrace.columns(wire.getvalue())
    assert gotrace.fix_sizes(wire.getvalue(), fixed) == 4
    assert [f"{problem.generation}: {problem.message}" for problem in verify(fixed.getvalue())] == [
        "3: follows generation 1; expected generation 2",
        "1: events use undefined stack ids: 7",
        "1: events use undefined string ids: 1, 2, 9",
        "3: the frequency of the clock is missing",
    ]


def test_fix_sizes_is_suggested_only_for_wrong_sizes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stale, fixed = tmp_path / "stale", tmp_path / "fixed"
    with stale.open("wb") as out:
        gotrace.text_to_wire(TEXT.encode(), out)
    with fixed.open("wb") as out:
        gotrace.fix_sizes(stale.read_bytes(), out)
    assert {problem.code for problem in verify(stale)} == {BATCH_SIZE}
    assert main(["trace", "verify", str(stale)]) == 3
    assert "--fix-sizes" in capfd.readouterr().err
    assert {problem.code for problem in verify(fixed)} == {""}
    assert main(["trace", "verify", str(fixed)]) == 3
    assert "--fix-sizes" not in capfd.readouterr().err


def test_rows_have_goroutines_and_resolved_strings(everything: Path) -> None:
    wanted = Filter(events=frozenset(["GoBlock"]), goroutines=frozenset([1]))
    rows = [record for block in FilteredBlocks(everything, wanted) for record in records(block)]
    assert rows
    assert {row["goroutine"] for row in rows} == {1}
    assert "chan receive" in {row["args"]["reason"] for row in rows}
    assert any("main.main" in frame for row in rows for frame in row["stack"])


def test_every_command_runs(everything: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    text = tmp_path / "text"
    assert main(["trace", "text", str(everything), "-o", str(text)]) == 0
    assert main(["trace", "wire", str(text), "-o", str(out), "--fix-sizes"]) == 0
    assert main(["trace", "verify", str(out)]) == 0
    for arguments in (["info"], ["info", "--json"], ["events", "--event", "UserLog"], ["events", "--format", "jsonl"]):
        assert main(["trace", arguments[0], str(everything), *arguments[1:]]) == 0
    assert main(["trace", "filter", str(everything), "-o", str(out), "--from", "200ms", "--goroutine", "1-9"]) == 0
    assert main(["trace", "anonymize", str(everything), "-o", str(out)]) == 0
    assert main(["trace", "salvage", str(everything), "-o", str(out)]) == 0
    assert main(["trace", "pprof", str(everything), "-o", str(out)]) == 0
    assert b"main.spin" in gzip.decompress(out.read_bytes())
    folded = tmp_path / "out.folded"
    assert main(["trace", "pprof", str(everything), "-o", str(folded), "--flamegraph", str(tmp_path / "x.html")]) == 0
    assert "main.spin" in (tmp_path / "x.html").read_text()
    total = sum(int(line.rpartition(" ")[2]) for line in folded.read_text().splitlines())
    profile = profiles.read(out)
    assert total == sum(profile.samples.values[1]) == 10**7 * sum(profile.samples.values[0])
    for name in ("x.otlp", "x.json", "x.speedscope.json"):
        assert main(["trace", "pprof", str(everything), "-o", str(tmp_path / name)]) == 0
        assert b"main.spin" in (tmp_path / name).read_bytes()
    assert main(["trace", "pprof", str(everything), "-o", str(tmp_path / "y.html")]) == 0
    assert "main.spin" in (tmp_path / "y.html").read_text()
    counted = ["--sample-type", "samples", "--format", "folded", "-o", str(out)]
    assert main(["trace", "pprof", str(everything), *counted]) == 0
    assert sum(int(line.rpartition(" ")[2]) for line in out.read_text().splitlines()) == sum(profile.samples.values[0])
    copy = tmp_path / "copy"
    copy.write_bytes(everything.read_bytes())
    assert main(["trace", "anonymize", str(copy), "-o", str(copy)]) == 0
    assert b"main.spin" not in copy.read_bytes()
    empty = tmp_path / "empty"
    empty.touch()
    assert main(["trace", "salvage", str(empty), "-o", str(out)]) == 3
    with pytest.raises(SystemExit, match="2"):
        main(["trace", "filter", str(everything), "--goroutine", "x"])
    assert main(["trace", "text", str(Path(__file__))]) == 3
    assert f"whence: {__file__}: not a Go execution trace: the file starts with 22 22 22" in capfd.readouterr().err


def test_a_broken_batch_is_an_error_after_the_blocks_before_it() -> None:
    version = Version.GO1_26
    good = Event(version, "ProcStop", [1]).encode()
    for bad in (b"\x02", b"\x0c\x01", b"\x3f", b"\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"):
        wire = version.header
        for generation, body in ((1, good), (2, good + bad)):
            wire += Event(version, "EventBatch", [generation, 1, 1, len(body)]).encode() + body
        blocks: list[gotrace.Columns] = []
        with pytest.raises(TraceError), gotrace.ColumnReader(wire, threads=2) as reader:
            blocks.extend(reader)
        with pytest.raises(TraceError):
            info(wire)
        assert verify(wire)


@pytest.mark.parametrize(
    "words",
    [
        ["events", "--from", "nan"],
        ["filter", "--goroutine", str(1 << 64)],
        ["filter", "--event", "GoStrat"],
        ["filter", "--event", ","],
        ["pprof", "--rate", "0"],
        ["pprof", "--rate", "-5"],
    ],
)
def test_meaningless_options_are_wrong_use(words: list[str], everything: Path) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["trace", words[0], str(everything), *words[1:]])


def test_times_beyond_all_clocks_are_before_or_after_everything(everything: Path) -> None:
    for wanted in (Filter(until=math.inf), Filter(until=1e300), Filter(since=-1e300)):
        full = io.BytesIO()
        assert filter_trace(everything, full, wanted).dropped == 0
        assert sum(len(block.keep) for block in FilteredBlocks(everything, wanted)) == len(gotrace.columns(everything))
    assert sum(len(block.keep) for block in FilteredBlocks(everything, Filter(since=math.inf))) == 0
    with pytest.raises(ValueError, match="number of seconds"):
        Filter(since=math.nan)


def test_a_filter_that_leaves_nothing_writes_nothing(everything: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for words in (["--generation", "99"], ["--from", "1e300"]):
        assert main(["trace", "filter", str(everything), "-o", str(out), *words]) == 3
    assert list(tmp_path.iterdir()) == []


def test_clocks_outside_the_calendar_are_read(everything: Path) -> None:
    text = io.BytesIO()
    gotrace.to_text(everything, text)
    for seconds in (253402300800, 1 << 63, (1 << 64) - 1):
        edited = re.sub(rb"(ClockSnapshot .* sec=)\d+", rb"\g<1>%d" % seconds, text.getvalue())
        wire = io.BytesIO()
        gotrace.text_to_wire(edited, wire)
        fixed = io.BytesIO()
        gotrace.fix_sizes(wire.getvalue(), fixed)
        assert len(profiles.read_go_trace(fixed.getvalue()).samples) > 0
        assert "s after 1970" in "\n".join(as_text(info(fixed.getvalue())))


@pytest.mark.parametrize("command", ["verify", "filter", "events --event GoCreate", "anonymize", "salvage"])
def test_a_pipe_is_read_once_by_commands_that_need_two_passes(command: str, everything: Path, tmp_path: Path) -> None:
    pipe, out = tmp_path / "pipe", tmp_path / "out"
    os.mkfifo(pipe)
    whence = [sys.executable, "-m", "whence.cli", "trace", *command.split()]
    expected = subprocess.run([*whence, everything], capture_output=True, check=True).stdout
    with out.open("wb") as file, subprocess.Popen([*whence, pipe], stdout=file) as reading:
        pipe.write_bytes(everything.read_bytes())
    assert reading.returncode == 0
    assert out.read_bytes().replace(os.fsencode(pipe), os.fsencode(everything)) == expected


def test_a_trace_is_written_through_a_link(everything: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert main(["trace", "salvage", str(everything), "-o", str(tmp_path / "link")]) == 0
    assert (tmp_path / "link").is_symlink()
    assert verify(tmp_path / "file") == []


def test_an_output_that_cannot_be_created_is_named_in_the_error(
    everything: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "text", str(everything), "-o", str(tmp_path / "none" / "out")]) == 3
    assert capsys.readouterr().err == f"whence: {tmp_path}/none/out: No such file or directory\n"


def test_an_empty_trace_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    assert main(["trace", "verify", str(empty)]) == 3
    assert capsys.readouterr().out == f"{empty}: the file is empty\n"


def test_the_package_exports_the_functions_of_its_modules() -> None:
    """Importing a submodule must not replace a function of the same name."""
    from whence import gotrace
    from whence.gotrace import anonymizing, filtering, salvaging, survey, verification

    assert gotrace.filter is filtering.filter
    assert gotrace.verify is verification.verify
    assert gotrace.anonymize is anonymizing.anonymize
    assert gotrace.salvage is salvaging.salvage
    assert gotrace.info is survey.info
    assert set(gotrace.__all__) <= set(dir(gotrace))
