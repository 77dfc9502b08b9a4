"""Forged perf.data: each record and field, in both byte orders and forms."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.forge.perfdata import KERNEL, KERNEL_PID, KIND, USER, Forge
from tests.helpers.perfdata import APP, APP_ID, EXPECTED, LIB, LIB_ID, recording, stacks
from whence._base.errors import ProfileError
from whence._base.model import Frame
from whence.cli import main
from whence.perfdata.kernels import constants
from whence.profiles import read

KERNEL_CODE = 0xFFFFFFFF81000010
GUEST_KERNEL, GUEST_USER, HYPERVISOR, DEFERRED = ((1 << 64) - one for one in (2176, 2560, 32, 640))


@pytest.mark.parametrize("big", [False, True], ids=["little-endian", "big-endian"])
@pytest.mark.parametrize("form", ["file", "pipe"])
def test_byte_orders_and_forms_give_equal_profiles(big: bool, form: str) -> None:
    forge = Forge(big)
    features = {3: forge.text("host-1"), 2: forge.build_ids([("[kernel.kallsyms]", "cc" * 20)])}
    make = forge.file if form == "file" else forge.pipe
    profile = read(make(recording(forge), features=features))
    assert stacks(profile) == EXPECTED
    assert {one.path: one.build_id for one in profile.mappings} == {
        APP: APP_ID,
        LIB: LIB_ID,
        "[kernel.kallsyms]_text": "cc" * 20,
    }
    labels = [{one.key: one.text or one.number for one in each} for each in profile.samples.labels]
    assert labels == [
        {"comm": "app", "pid": 7, "tid": 7, "cpu": 0},
        {"comm": "worker", "pid": 7, "tid": 8, "cpu": 3},
    ]
    assert [list(column) for column in profile.samples.values] == [[1, 1], [3, 1]]
    assert "recorded by perf on host-1" in profile.comments
    assert profile.duration_ns == 1
    assert profile.notes == []


def test_an_idle_processor_is_named_swapper() -> None:
    forge = Forge()
    (labels,) = read(forge.file([forge.sample(0, 0, 5, [KERNEL, 0xFFFFFFFF81000000])])).samples.labels
    assert [one.text for one in labels if one.key == "comm"] == ["swapper"]


def of(records: Sequence[bytes], forge: Forge | None = None) -> list[tuple[int, list[tuple[str, int]]]]:
    return stacks(read((forge or Forge()).file(records)))


def test_a_sample_has_the_mappings_of_its_time() -> None:
    forge = Forge()
    offset = 0x7F0000001000
    result = of(
        [
            forge.mmap2(7, offset, 0x4000, 0, "/one.so", 10),
            forge.sample(7, 7, 15, [USER, offset + 0x2100]),
            forge.mmap2(7, offset + 0x2000, 0x1000, 0, "/two.so", 20),  # over the middle of the first one
            *(forge.sample(7, 7, 25 + part, [USER, offset + 0x100 + 0x1000 * part]) for part in range(4)),
            forge.sample(7, 7, 5, [USER, offset]),
        ]
    )
    assert [(time, files[0][0]) for time, files in result] == [
        (5, ""), (15, "/one.so"), (25, "/one.so"), (26, "/one.so"), (27, "/two.so"), (28, "/one.so"),
    ]  # fmt: skip


def test_a_fork_inherits_maps_and_later_changes_are_separate() -> None:
    forge = Forge()
    result = of(
        [
            forge.comm(7, 7, "parent", 1),
            forge.mmap2(7, 0x10000, 0x1000, 0, "/one", 10),
            forge.fork(8, 7, 8, 7, 20),
            forge.mmap2(8, 0x10000, 0x1000, 0, "/childs", 30),
            forge.mmap2(7, 0x20000, 0x1000, 0, "/parents", 30),
            forge.sample(8, 8, 25, [USER, 0x10000]),
            forge.sample(8, 8, 35, [USER, 0x10000]),
            forge.sample(7, 7, 36, [USER, 0x10000]),
            forge.sample(8, 8, 37, [USER, 0x20000]),
            forge.sample(7, 7, 38, [USER, 0x20000]),
        ]
    )
    assert [files[0][0] for _, files in result] == ["/one", "/childs", "/one", "", "/parents"]


def test_forks_do_not_copy_maps() -> None:
    forge = Forge()
    records = [forge.mmap2(7, 0x10000 * (1 + index), 0x1000, 0, f"/{index}", 1) for index in range(3000)]
    for child in range(3000):
        records += [
            forge.fork(100 + child, 7, 100 + child, 7, 2),
            forge.mmap2(100 + child, 0x10000, 0x1000, 0, "/own", 3),
        ]
    records += [forge.sample(100, 100, 9, [USER, 0x10000]), forge.sample(3099, 3099, 9, [USER, 0x10000 * 3000])]
    assert [files[0][0] for _, files in of(records)] == ["/own", "/2999"]


def test_an_exec_removes_the_maps_of_the_old_program() -> None:
    forge = Forge()
    result = of(
        [
            forge.mmap2(7, 0x10000, 0x1000, 0, "/old", 10),
            forge.comm(7, 7, "new", 20, exec=True),
            forge.sample(7, 7, 21, [KERNEL, 0xFFFFFFFF81000000, USER, 0x10000], misc=1),  # in execve still
            forge.mmap2(7, 0x20000, 0x1000, 0, "/new", 22),
            forge.sample(7, 7, 30, [USER, 0x20000]),
            forge.sample(7, 7, 31, [USER, 0x10000]),
        ]
    )
    assert [files[-1][0] for _, files in result] == ["/old", "/new", ""]


def test_a_reused_pid_has_no_maps_of_its_first_process() -> None:
    forge = Forge()
    profile = read(
        forge.file(
            [
                forge.comm(7, 7, "first", 1),
                forge.mmap2(7, 0x10000, 0x1000, 0, "/first", 2),
                forge.sample(7, 7, 3, [USER, 0x10000]),
                forge.exit(7, 4),
                forge.comm(1, 1, "init", 0),
                forge.fork(7, 1, 7, 1, 10),
                forge.sample(7, 7, 11, [USER, 0x10000]),
            ]
        )
    )
    assert [files[0][0] for _, files in stacks(profile)] == ["/first", ""]
    assert [labels[0].text for labels in profile.samples.labels] == ["first", "init"]


def test_records_of_several_buffers_are_sorted_by_time() -> None:
    forge = Forge()
    round = forge.record(constants.FINISHED_ROUND, b"", 0)
    one = [forge.sample(7, 7, time, [USER, 0x10000 + time], cpu=0) for time in (10, 30, 50)]
    two = [forge.sample(7, 7, time, [USER, 0x10000 + time], cpu=1) for time in (5, 20, 60)]
    result = of([*one, *two, round, forge.sample(7, 7, 40, [USER, 0x10000], cpu=0), round])
    assert [time for time, _ in result] == [5, 10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("id_bit", [constants.HAS_ID, constants.HAS_IDENTIFIER], ids=["id", "identifier"])
def test_each_event_is_a_sample_type_of_its_own(big: bool, id_bit: int) -> None:
    forge = Forge(big, KIND & ~constants.HAS_ID | id_bit)
    events = [(forge.attribute(1, 0), [11, 12]), (forge.attribute(1, 2), [21]), (forge.attribute(1, 9), [31])]
    records = [
        forge.sample(7, 7, 1, [USER, 0x10000], id=12, period=100),
        forge.sample(7, 7, 2, [USER, 0x10000], id=21, period=2),
        forge.sample(7, 7, 3, [USER, 0x10000], id=11, period=50),
    ]
    for data in (forge.file(records, events), forge.pipe(records, events)):
        profile = read(data)
        assert [(one.type, one.unit) for one in profile.sample_types] == [
            ("samples", "count"), ("cpu-clock", "nanoseconds"), ("page-faults", "count"),
        ]  # fmt: skip
        assert [list(column) for column in profile.samples.values] == [[2, 1], [150, 0], [0, 2]]


def test_a_group_sample_has_the_increase_of_each_member() -> None:
    group = constants.READ_ID | constants.READ_GROUP
    forge = Forge(kind=KIND & ~constants.HAS_CALLCHAIN | constants.HAS_READ)
    events = [
        (forge.attribute(1, 0, read_format=group), [1]),
        (forge.attribute(1, 2, read_format=group), [2]),
    ]

    def values(*read: tuple[int, int]) -> bytes:
        return forge.pack("Q", len(read)) + b"".join(forge.pack("QQ", *one) for one in read)

    profile = read(
        forge.file(
            [
                forge.sample(7, 7, 1, [], ip=0x1000, tail=values((100, 1), (5, 2))),
                forge.sample(7, 7, 2, [], ip=0x1000, tail=values((300, 1), (5, 2))),
            ],
            events,
        )
    )
    assert [list(column) for column in profile.samples.values] == [[2, 1], [300, 0], [0, 5]]


def test_branch_stacks_give_the_user_part_of_a_stack() -> None:
    forge = Forge(kind=KIND | constants.HAS_BRANCH_STACK)
    attribute = forge.attribute(branch_type=constants.BRANCH_CALL_STACK | constants.BRANCH_HW_INDEX)
    calls = [(0x2010, 0x1000), (0x3010, 0x2000)]  # from, to: the innermost first
    tail = forge.pack("QQ", len(calls), 0) + b"".join(forge.pack("QQQ", *one, 0) for one in calls)
    records = [
        forge.mmap2(7, 0x1000, 0x9000, 0, APP, 1),
        forge.sample(7, 7, 2, [KERNEL, 0xFFFFFFFF81000000, USER, 0x1044, 0x9999], misc=1, tail=tail),
        forge.sample(7, 7, 3, [KERNEL, 0xFFFFFFFF81000000], misc=1, tail=tail),
    ]
    result = stacks(read(forge.file(records, [(attribute, [1])])))
    assert [[offset for _, offset in files[1:]] for _, files in result] == [
        [0x1044, 0x2010, 0x3010],
        [0x1000, 0x2010, 0x3010],
    ]


def test_deferred_call_chains_complete_their_samples() -> None:
    forge = Forge()
    records = [
        forge.mmap2(7, 0x1000, 0x9000, 0, APP, 1),
        forge.sample(7, 8, 2, [KERNEL, 0xFFFFFFFF81000000, DEFERRED, 99], misc=1),
        forge.sample(7, 8, 3, [KERNEL, 0xFFFFFFFF81000040, DEFERRED, 99], misc=1),
        forge.sample(7, 9, 4, [KERNEL, 0xFFFFFFFF81000080, DEFERRED, 55], misc=1),
        forge.record(
            constants.CALLCHAIN_DEFERRED, forge.pack("QQ3Q", 99, 3, USER, 0x1100, 0x1200) + forge.end(7, 8, 5), 2
        ),
    ]
    profile = read(forge.file(records))
    assert [[offset for _, offset in files[1:]] for _, files in stacks(profile)] == [
        [0x1100, 0x11FF],
        [0x1100, 0x11FF],
        [],
    ]
    assert any("deferred call chains are missing" in note for note in profile.notes)


def test_guests_and_hypervisors_have_mappings_of_their_own() -> None:
    forge = Forge()
    result = of(
        [
            forge.mmap2(7, 0x1000, 0x9000, 0, APP, 1),
            forge.sample(7, 7, 2, [HYPERVISOR, 0x1000, GUEST_KERNEL, 0x2000, GUEST_USER, 0x3000, USER, 0x4000], misc=3),
        ]
    )
    assert [file for file, _ in result[0][1]] == ["[hypervisor]", "[guest.kernel]", "[guest.user]", APP]


def test_bpf_programs_are_named_until_they_are_unloaded() -> None:
    forge = Forge()
    index = 0xFFFFFFFFC0001000

    def symbol(flags: int, time: int) -> bytes:
        body = forge.pack("QIHH", index, 0x100, 1, flags) + b"bpf_prog_1234_probe\0\0\0\0\0" + forge.end(0, 0, time)
        return forge.record(constants.KSYMBOL, body, 0)

    profile = read(
        forge.file(
            [
                symbol(0, 10),
                symbol(1, 20),
                forge.sample(7, 7, 15, [KERNEL, index + 8], misc=1),
                forge.sample(7, 7, 25, [KERNEL, index + 8], misc=1),
            ]
        )
    )
    names = [profile.frames[profile.samples.locations(index)[0]] for index in range(2)]
    assert [[one.function for one in chain] for chain in names] == [["bpf_prog_1234_probe"], []]


def test_generated_code_belongs_to_one_process() -> None:
    forge = Forge()
    profile = read(
        forge.file(
            [
                forge.mmap2(7, 0x1000, 0x1000, 0x1000, "//anon", 1),
                forge.fork(8, 7, 8, 7, 2),
                forge.sample(7, 7, 3, [USER, 0x1100]),
                forge.sample(8, 8, 4, [USER, 0x1100]),
            ]
        )
    )
    assert [one.path for one in profile.mappings] == ["/tmp/perf-7.map", "/tmp/perf-8.map"]
    assert len(profile.address) == 2


def test_lost_and_skipped_records_are_reported(tmp_path: Path) -> None:
    forge = Forge()
    trace = forge.record(constants.AUXTRACE, forge.pack("QQQIIII", 24, 0, 0, 0, 0, 0, 0), 0) + b"\xff" * 24
    tracing = forge.record(constants.TRACING_DATA, forge.pack("I", 5), 0) + b"\xff" * 8
    profile = read(forge.pipe([trace, forge.lost(12, 8), tracing, forge.sample(7, 7, 9, [USER, 0x1000])]))
    assert [time for time, _ in stacks(profile)] == [9]
    assert [(one.samples, one.time) for one in profile.lost] == [(12, 8)]
    assert any("12 samples were lost" in note for note in profile.notes)
    assert any("AUX data" in note for note in profile.notes)


def test_a_recording_of_a_killed_recorder_is_read_to_its_end() -> None:
    forge = Forge()
    data = bytearray(forge.file(recording(forge), data_size=0))
    data[72:104] = b"\xff" * 32  # nearly all features are claimed
    profile = read(bytes(data))
    assert stacks(profile) == EXPECTED
    assert any("killed" in note for note in profile.notes)


def test_a_recording_without_the_sections_after_its_data_is_noted_as_truncated() -> None:
    forge = Forge()
    data = bytearray(forge.file(recording(forge)))
    data[72:104] = b"\xff" * 32  # nearly all features are claimed
    profile = read(bytes(data))
    assert stacks(profile) == EXPECTED
    assert any("the file is truncated" in note for note in profile.notes)


def test_unused_fields_are_skipped() -> None:
    kind = KIND
    for bit in (
        constants.HAS_ADDR, constants.HAS_STREAM_ID, constants.HAS_RAW, constants.HAS_WEIGHT, constants.HAS_DATA_SRC,
        constants.HAS_TRANSACTION, constants.HAS_REGS_INTR, constants.HAS_PHYS_ADDR, constants.HAS_CGROUP,
        constants.HAS_DATA_PAGE_SIZE, constants.HAS_CODE_PAGE_SIZE, constants.HAS_AUX,
    ):  # fmt: skip
        kind |= bit
    for big in (False, True):
        forge = Forge(big, kind)
        raw = forge.pack("I", 12) + bytes(12)
        tail = raw + forge.pack("QQQ", 1, 2, 3) + forge.pack("Q", 0) + forge.pack("QQQQ", 4, 5, 6, 7)
        tail += forge.pack("Q", 16) + bytes(16)
        sample = forge.sample(7, 7, 2, [USER, 0x1100], tail=tail)
        profile = read(forge.file([forge.mmap2(7, 0x1000, 0x1000, 0, APP, 1), sample]))
        assert stacks(profile) == [(2, [(APP, 0x1100)])]
        assert profile.notes == []


def test_a_recording_without_times_keeps_the_order_of_the_file() -> None:
    forge = Forge(kind=KIND & ~constants.HAS_TIME)
    profile = read(
        forge.file(
            [
                forge.mmap2(7, 0x1000, 0x1000, 0, "/one"),
                forge.sample(7, 7, 0, [USER, 0x1000]),
                forge.mmap2(7, 0x1000, 0x1000, 0, "/two"),
                forge.sample(7, 7, 0, [USER, 0x1000]),
            ]
        )
    )
    locations = [profile.samples.locations(index)[0] for index in range(2)]
    assert [profile.mappings[profile.mapping[one]].path for one in locations] == ["/one", "/two"]


@pytest.mark.parametrize("size", [72, 80, 96, 104, 112, 120, 128, 136, 144, 200])
def test_attributes_of_every_version_are_read(size: int) -> None:
    forge = Forge()
    assert stacks(read(forge.file(recording(forge), [(forge.attribute(size=size), [1])]))) == EXPECTED


def test_a_recording_is_read_from_a_pipe_and_an_open_file(tmp_path: Path) -> None:
    forge = Forge()
    data = forge.file(recording(forge))
    (tmp_path / "perf.data").write_bytes(b"before" + data)
    with open(tmp_path / "perf.data", "rb") as file:
        file.seek(6)
        assert stacks(read(file)) == EXPECTED
    assert stacks(read(io.BytesIO(data))) == EXPECTED


def test_a_name_set_by_hand_is_written(tmp_path: Path) -> None:
    profile = read(Forge().file(recording(Forge())))
    profile.name(0, (Frame("mine"),))
    profile.write(tmp_path / "out.pb.gz")
    again = read(tmp_path / "out.pb.gz")
    assert again.frames[0][0].function == "mine"
    assert {one.key for one in again.samples.labels[0]} == {"comm", "pid", "tid", "cpu"}


def test_version_1_and_invalid_headers_are_refused() -> None:
    with pytest.raises(ProfileError, match="version 1"):
        read(b"PERFFILE" + bytes(96))
    with pytest.raises(ProfileError, match="header"):
        read(b"PERFILE2" + struct.pack("<Q", 77) + bytes(88))
    with pytest.raises(ProfileError, match="event"):
        read(Forge().pipe([], [])[:16])


def test_times_become_labels_on_request(tmp_path: Path) -> None:
    forge = Forge()
    records = [
        forge.comm(7, 7, "app", 1),
        *(forge.sample(7, 7, offset, [USER, 0x1000], period=offset) for offset in (9, 5, 7)),
    ]
    (tmp_path / "perf.data").write_bytes(forge.file(records))
    assert len(read(tmp_path / "perf.data").samples) == 1
    out = tmp_path / "out.pb.gz"
    assert main(["profile", str(tmp_path / "perf.data"), "--times", "-o", str(out), "--no-cache"]) == 0
    again = read(out).samples
    assert [{one.key: one.number for one in labels}["time"] for labels in again.labels] == [5, 7, 9]
    assert [list(column) for column in again.values] == [[1, 1, 1], [5, 7, 9]]


# beside perf script, where no processor of ours makes such recordings


def printed_by_perf(path: Path, fields: str) -> list[list[str]]:
    """Return the words of each sample in the output of perf script."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    command = [perf, "script", "-i", str(path), "-F", fields]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [one.split() for one in text.split("\n\n") if one.strip()]


@pytest.mark.parametrize("hardware_index", [0, constants.BRANCH_HW_INDEX])
@pytest.mark.parametrize("calls", [0, constants.BRANCH_CALL_STACK])
def test_stacks_with_branches_match_perf_script(tmp_path: Path, hardware_index: int, calls: int) -> None:
    """-j any keeps the call chain; --call-graph lbr makes the user's part of the branches that called, of which perf
    prints the entry of the innermost function where whence has the place in it that the sample was taken at."""
    forge = Forge(kind=KIND | constants.HAS_BRANCH_STACK)
    attribute = forge.attribute(branch_type=calls | hardware_index | 1)
    base, branches = 0x400000, [(0x510, 0x600), (0x410, 0x500), (0x310, 0x400)]
    tail = forge.pack("Q", len(branches)) + (forge.pack("Q", 0) if hardware_index else b"")
    tail += b"".join(forge.pack("QQQ", base + start, base + end, 0) for start, end in branches)
    chains: list[list[int]] = [[USER, base + 0x610, base + 0x111], [KERNEL, KERNEL_CODE, USER, base + 0x610]]
    records = [forge.mmap2(7, base, 0x10000, 0, APP, 1), forge.comm(7, 7, "app")]
    records += [forge.sample(7, 7, 2 + index, chain, tail=tail, ip=chain[1]) for index, chain in enumerate(chains)]
    path = tmp_path / "perf.data"
    path.write_bytes(forge.file(records, [(attribute, [1])]))

    words = printed_by_perf(path, "ip,brstack")
    stacks_of_perf = [[int(word, 16) for word in one if "/" not in word] for one in words]
    shown = [
        [tuple(int(part, 16) - base for part in word.split("/")[:2]) for word in one if "/" in word] for one in words
    ]
    assert shown == [branches, branches]
    profile = read(path)
    ours = [[profile.address[index] for index in profile.samples.locations(row)] for row in range(2)]
    if calls:
        callers = [start for start, _ in branches]
        assert stacks_of_perf == [[0x600, *callers], [KERNEL_CODE, 0x600, *callers]]
        in_file = [0x610, *callers]
    else:
        assert stacks_of_perf == [[0x610, 0x111], [KERNEL_CODE, 0x610]]
        in_file = [0x610, 0x110]  # the call is before its return address
    assert ours[0] == [base + one for one in in_file]
    assert ours[1] == [KERNEL_CODE, *(base + one for one in (in_file if calls else in_file[:1]))]


def test_a_recording_with_kcore_matches_perf_script(tmp_path: Path) -> None:
    text = 0xFFFFFFFF9A000000
    symbols = {"_stext": 0, "do_one": 0x1000, "do_two": 0x1100, "_etext": 0x2000}
    folder = tmp_path / "perf.data"
    (folder / "kcore_dir").mkdir(parents=True)
    folder.chmod(0o700)  # or perf refuses it
    lines = [f"{text + offset:016x} T {name}\n" for name, offset in symbols.items()]
    (folder / "kcore_dir" / "kallsyms").write_text("".join(lines))
    forge = Forge()
    records = [
        forge.mmap(KERNEL_PID, text, 0x200000, text, "[kernel.kallsyms]_stext", misc=1),
        forge.comm(7, 7, "app"),
        forge.sample(7, 7, 5, [KERNEL, text + 0x1010, text + 0x1105], misc=1),
    ]
    (folder / "data").write_bytes(forge.file(records))
    profile = read(folder)
    profile.symbolize()
    ours = [profile.frames[offset][0].function for offset in profile.samples.locations(0)]
    assert ours == ["do_one", "do_two"]
    (words,) = printed_by_perf(folder, "ip,sym")
    assert words[1::2] == ours  # each after its address
