"""perf script's text: samples, inlined calls, mapping events, offsets, lines; and what it can't say."""

from __future__ import annotations

import time

import pytest

from tests.helpers.perf_text import MAPPED, OFFSETS
from tests.helpers.survive import survives
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.profiles.formats import folded, perf, pprof
from whence.samples.model import NO_MAPPING, Label, Mapping, SampleType


def test_samples_with_equal_stacks_are_added_up_and_each_event_is_a_sample_type() -> None:
    profile = perf.read(OFFSETS)
    cycles, clock = SampleType("cycles", "count"), SampleType("cpu-clock", "nanoseconds")
    assert profile.sample_types == [SampleType("samples", "count"), cycles, clock]
    assert [list(column) for column in profile.samples.values] == [[2, 1], [500000, 0], [0, 1]]
    assert profile.samples.labels[0] == (Label("comm", "my app"), Label("pid", number=42), Label("tid", number=43))


def test_offsets_get_made_up_ranges_and_callers_point_into_the_call() -> None:
    profile = perf.read(OFFSETS)
    app, libc, kernel = profile.mappings
    assert profile.address[0] - app.start == 0x11D6
    assert profile.address[1] - libc.start == 0x2724A - 1
    assert app.limit <= libc.start
    assert kernel == Mapping(path="[kernel.kallsyms]")
    assert profile.frames == [(Frame("outer"),), (), (Frame("do_idle"),)]


def test_mapping_events_place_runtime_addresses_and_offsets() -> None:
    profile = perf.read(MAPPED)
    assert profile.mappings == [
        Mapping(0x55D000, 0x55E000, 0x1000, "/bin/app"),
        Mapping(0x7F0000, 0x7F9000, 0, "/lib/z z.so", "0123456789abcdef01234567"),
    ]
    assert list(zip(profile.mapping, profile.address)) == [(0, 0x55D0E4), (1, 0x7F122F), (1, 0x7F1234)]


def test_runtime_addresses_without_mapping_events_are_unchanged() -> None:
    profile = perf.read("app 1 1.0: 1 cycles:\n\t7f1234567890 [unknown] (/lib/z.so)\n\t401000 f (/bin/app)\n")
    assert profile.mappings == [Mapping(path="/lib/z.so"), Mapping(path="/bin/app")]
    assert list(profile.address) == [0x7F1234567890, 0x400FFF]


def test_offsets_given_beside_runtime_addresses_are_used() -> None:
    profile = perf.read("app 1 1.0: 1 cycles:\n\t7f1234567890 [unknown] (/lib/z.so+0x7890)\n")
    assert profile.address[0] - profile.mappings[0].start == 0x7890


def test_inlined_calls_and_source_lines_make_one_location() -> None:
    text = "app 1 1.0: 1 cycles:\n\t1d6 inner (inlined)\n  a.c:3\n\t1d6 outer+0x16 (/bin/app)\n  b.c:4\n\n"
    profile = perf.read(text)
    assert profile.frames == [(Frame("inner", "a.c", 3, True), Frame("outer", "b.c", 4))]


def test_a_newer_mapping_replaces_the_mapping_it_covers() -> None:
    event = "app 1 1.0: PERF_RECORD_MMAP2 1/1: [{}(0x1000) @ 0 08:01 7 0]: r-xp {}\n"
    text = event.format("0x1000", "/old") + event.format("0x1000", "/new") + "app 1 1.0: 1 cycles:\n\t1010 f (/new)\n"
    profile = perf.read(text)
    assert profile.mappings[profile.mapping[0]].path == "/new"


def test_an_unknown_file_has_no_mapping() -> None:
    assert list(perf.read("app 1 1.0: 1 cycles:\n\t5d [unknown] ([unknown])\n").mapping) == [NO_MAPPING]


def test_a_sample_of_one_line_is_read() -> None:
    profile = perf.read("app 1 [000] 1.0: 3 cycles:  ffff81000012 do_idle+0x2 ([kernel.kallsyms])\n")
    assert folded.write(profile) == "app;do_idle 3\n"


def test_the_profile_can_be_written_as_pprof() -> None:
    profile = perf.read(MAPPED)
    again = pprof.read(pprof.write(profile))
    assert again.samples.values == profile.samples.values
    assert again.mappings == profile.mappings


def test_distinguishes_perf_text_from_folded_stacks() -> None:
    assert perf.looks_like(OFFSETS)
    assert perf.looks_like(MAPPED)
    assert not perf.looks_like("main;work 3\n")


def test_counts_other_lines_and_reads_the_rest() -> None:
    with pytest.raises(
        ProfileError, match=r"perf line 1: expected a sample's command, pid, time and event, found what is this"
    ):
        perf.read("what is this\n")
    text = "app 1 1.0: 1 cycles:\n\t1d6 f (/bin/app)\n\tnonsense here\n\t2d6 g (/bin/app)\n\nwhat is this\n\n" + OFFSETS
    profile = perf.read(text)
    assert (profile.skipped, profile.first_skipped and profile.first_skipped[0]) == (2, "perf line 3")
    assert [each.function for frames in profile.frames[:2] for each in frames] == ["f", "g"]
    assert sum(profile.samples.values[0]) == 4


def test_headers_without_a_time_start_samples() -> None:
    """The options are -F comm,tid,event,ip,sym,dso; samples have call graphs, nothing, or one line."""
    header = "node-v011 31912 cpu-clock: \n"
    profile = perf.read(header + "\n" + header + "\t1d6 f+0x1 (/bin/app)\n\n")
    assert (profile.skipped, profile.samples.values[0].tolist()) == (0, [1])
    assert profile.sample_types[1] == SampleType("cpu-clock", "count")  # without its period, a sample has no duration
    lines = "node-v011 31912 cpu-clock:      401000 f+0x3 (/bin/app)\n" * 2
    assert perf.looks_like(lines)
    assert folded.write(perf.read(lines)) == "node-v011;f 2\n"
    assert not perf.looks_like("main 7 step: 12\nmain 7 step: 13\n")  # folded stacks


FRAMES = "\tffffffff8179731a __ext4_check_dir_entry{}\n\t           fd001 __open64_nocancel{}\n\n"
WITH_FILES = FRAMES.format("+0x1a ([kernel.kallsyms])", "+0x41 (/usr/lib/libc.so.6)")
FORMS = {
    "default": "find 25843  1518.860165:    2000000 cpu-clock: \n",
    "cpu": "find 25843 [000]  1518.860165:    2000000 cpu-clock: \n",
    "misc": "find 25843 [000] K      1518.860165:    2000000 cpu-clock: \n",
    "flags of tracing": "find 25843 [000] d..3.  1518.860165: cpu-clock: \n",
    "pid and tid": "find 25843/25843  1518.860165123:    2000000 cpu-clock:u: \n",
    "no command": "25843 [000]  1518.860165: cpu-clock: \n",
    "no time": "find 25843/25843    2000000 \n",
    "no event": "find 25843/25843 [000]  1518.860165: \n",
    "only an event": "cpu-clock: \n",
    "only a command": "find \n",
    "blanks in the command": "my find 2 25843  1518.860165:    2000000 cpu-clock: \n",
    "slash in the command": "kworker/0:1-ev 25843  1518.860165: 1 cpu-clock:pppH: \n",
    "pmu event": "find 25843  1518.860165: 7 cpu_core/cycles,name=foo/u: \n",
    "weight": "find 25843 [000]  1518.860165:    2000000 cpu-clock:                0\n",
    "nothing": "\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_headers_may_have_any_of_perfs_fields(form: str) -> None:
    text = (FORMS[form] + WITH_FILES) * 3
    assert perf.looks_like(text)
    profile = perf.read(text)
    assert profile.frames == [(Frame("__ext4_check_dir_entry"),), (Frame("__open64_nocancel"),)]
    assert [each.path for each in profile.mappings] == ["/usr/lib/libc.so.6", "[kernel.kallsyms]"]
    assert profile.samples.values[0].tolist() == [3]
    assert len(profile.sample_types) == (2 if "cpu" in FORMS[form] else 1)


def test_reads_frames_without_files() -> None:
    profile = perf.read(("find \n" + FRAMES.format("", "+0x41")) * 2)
    assert [frames[0].function for frames in profile.frames] == ["__ext4_check_dir_entry", "__open64_nocancel"]
    profile = perf.read("find \n\tffffffff8179731a\n\t           fd001\n")
    assert list(profile.mapping) == [NO_MAPPING] * 2
    assert profile.frames == [(), ()]


def test_ignores_other_lines_between_frames() -> None:
    """-F +insn, +srcline of what has no lines, +srccode, +iregs, +brstackinsn."""
    text = (
        "app 1 1.0: 1 cycles: \n\t1d6 outer+0x16 (/bin/app)\n  main.c:12 (discriminator 3)\n|12   return x;\n"
        "\t2d6 middle+0x16 (/bin/app)\n  ??:0\n\tffff81000012 do_idle ([kernel.kallsyms])\n"
        "  [kernel.kallsyms][ffff81000012]\n"
        "\t3d6 main (/bin/app)\n  :0\n insn: 0f 87 9d 00 00 00\n ABI:2    AX:0x0    BX:0x1\n"
        "\tmain+6:\n\t0000000000401136\tinsn: 55\n\t0000000000401137\tinsn: 48 89 e5\t\t# PRED 3 cycles [3]\n\n"
    )
    profile = perf.read(text)
    assert profile.frames == [
        (Frame("outer", "main.c", 12),), (Frame("middle"),), (Frame("do_idle"),), (Frame("main"),)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("apply(int (*)(int))", "/bin/app"),
        ("shop::(anonymous namespace)::till<int (int)>::count() const", "/bin/app"),
        ("main.(*box).work", "/opt/my app/b (1)/app"),
        ("memcpy", "/usr/lib/libc.so.6 (deleted)"),
        ("JS:~ /srv/a (1).js:1:1", "/tmp/perf-7.map"),
        ("operator new[](unsigned long)", "/bin/c++ (x)"),
        ("_ZN3foo3barE", "[vdso]"),
    ],
)
def test_names_and_files_may_have_blanks_and_brackets(name: str, file: str) -> None:
    profile = perf.read(f"app 1 1.0: 1 cycles:\n\t1d6 {name}+0x12 ({file})\n\t2d6 {name} ({file})\n")
    assert [frames[0].function for frames in profile.frames] == [name, name]
    assert {each.path for each in profile.mappings} == {file}


EVENTS = """app 42 81.1: PERF_RECORD_MMAP2 42/42: [0x401000(0x800000) @ 0x1000 08:01 77 0]: r-xp /bin/go-program
app 42 81.1: PERF_RECORD_MMAP2 42/42: [0x7f1000000000(0x150000) @ 0x26000 08:01 78 0]: r-xp /lib/libc.so.6
"""


def test_distinguishes_large_offsets_from_runtime_addresses() -> None:
    """As Go makes them. Its code is larger than the address it is loaded at: both readings are inside the mapping."""
    text = EVENTS + "app 42 81.3: 1 cycles:\n\t450000 [unknown] (/bin/go-program)\n"
    assert list(perf.read(text).address) == [0x450000 + 0x400000]
    since = text + "\t30000 [unknown] (/lib/libc.so.6)\n"
    assert list(perf.read(since).address) == [0x850000, 0x7F100000A000 - 1]
    before = text + "\t7f100000a000 [unknown] (/lib/libc.so.6)\n"
    assert list(perf.read(before).address) == [0x450000, 0x7F100000A000 - 1]


def test_samples_of_one_line_have_runtime_addresses() -> None:
    lines = "            app    42    81.300000:    1 cycles:            450000 [unknown] (/bin/go-program)\n" * 2
    assert list(perf.read(EVENTS + lines).address) == [0x450000]
    profile = perf.read(lines)
    assert list(profile.address) == [0x450000]
    assert profile.mappings[0].start == 0  # a vaddr, if the program is not moved
    assert profile.samples.values[0].tolist() == [2]


def test_a_thread_has_the_memory_of_its_process() -> None:
    """Threads are looked up, as perf script prints only them by default."""
    text = EVENTS + EVENTS.replace("42", "9").replace("0x7f1000000000", "0x7f2000000000")
    text += "app 42 81.2: PERF_RECORD_FORK(42:43):(42:42)\napp 43 81.3: 1 cycles:\n\t30000 [unknown] (/lib/libc.so.6)\n"
    profile = perf.read(text)
    assert list(profile.address) == [0x7F100000A000]
    assert profile.samples.labels[0] == (Label("comm", "app"), Label("pid", number=42), Label("tid", number=43))
    alone = EVENTS + "app 43 81.3: 1 cycles:\n\t30000 [unknown] (/lib/libc.so.6)\n"
    assert list(perf.read(alone).address) == [0x7F100000A000]


def test_rejects_text_without_addresses() -> None:
    with pytest.raises(ProfileError, match="samples without addresses: run perf script with -F"):
        perf.read("find 25843/25843  1518.860165: cpu-clock: \n" * 3)


def test_the_kernels_mapping_has_the_address_of_its_first_symbol() -> None:
    where = "[0xffffffff9aa00000(0x1208d88) @ 0xffffffff9aa00000]: x [kernel.kallsyms]_text"
    event = f"swapper 0 0.000000: PERF_RECORD_MMAP -1/0: {where}\n"
    profile = perf.read(event + "app 1 1.0: 1 cycles:\n\tffffffff9aa01000 do_idle ([kernel.kallsyms])\n")
    assert profile.mappings == [
        Mapping(0xFFFFFFFF9AA00000, 0xFFFFFFFF9BC08D88, 0xFFFFFFFF9AA00000, "[kernel.kallsyms]_text")
    ]


@pytest.mark.parametrize(
    "line",
    ["a" + " " * 50_000 + "b", "a " * 25_000, "1/1 [0] " * 6_000, "\t1d6 " + "(a) " * 12_000 + "x",
     "\t1d6 " + " (" * 25_000, "\t1 " + "+0x1" * 12_000 + " x", " " * 50_000 + "x:1", "a;b" + " " * 50_000 + "x"],
)  # fmt: skip
def test_a_long_line_of_nonsense_is_skipped_quickly(line: str) -> None:
    began = time.process_time()
    for reader in (perf, folded):
        survives(reader.read, line, refused=ProfileError)
    assert time.process_time() - began < 2
