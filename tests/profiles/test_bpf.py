"""Lines of BPF programs in recordings of perf, and the layout of the kernel's structures."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from tests.forge import bpf
from tests.forge.bpf import Function, Strings
from tests.forge.perfdata import KERNEL, Forge
from tests.hostile.bounds import bounded
from whence._base.model import Frame, Source
from whence.perfdata import features
from whence.perfdata.bpf import INFO, INFO_FIELDS, LINE_INFO, BpfLines
from whence.perfdata.kernels import constants
from whence.profiles.formats import registry
from whence.samples.model import ProfileData

START = 0xFFFFFFFFC0001000
TAG, OTHER_TAG = "0123456789abcdef", "fedcba9876543210"
FUNCTIONS = [
    Function(START, 0x40, TAG, [(START, "/src/probe.bpf.c", 10, 5), (START + 0x10, "/src/probe.bpf.c", 12, 9),
                                (START + 0x20, "/src/helpers.h", 3, 1)]),
    Function(START + 0x100, 0x20, OTHER_TAG, [(START + 0x104, "/src/probe.bpf.c", 30, 0)]),
]  # fmt: skip


def recorded(
    big: bool = False, *, pipe: bool = False, info: bytes | None = None, types: bytes | None = None
) -> ProfileData:
    forge = Forge(big)
    order = ">" if big else "<"
    strings = Strings()
    if info is None:
        info = bpf.programs([bpf.program(FUNCTIONS, strings, order=order)], order)
    sections = {
        features.BPF_PROGRAMS: info,
        features.BPF_TYPES: bpf.types({9: bpf.btf(strings, order)}, order) if types is None else types,
    }
    records = []
    for function, name in ((FUNCTIONS[0], f"bpf_prog_{TAG}_probe"), (FUNCTIONS[1], f"bpf_prog_{OTHER_TAG}")):
        text = name.encode() + b"\0"
        body = forge.pack("QIHH", function.start, function.size, 1, 0) + text + bytes(-len(text) % 8)
        records.append(forge.record(constants.KSYMBOL, body + forge.end(0, 0, 1), 0))
    records += [
        forge.sample(7, 7, 10 + offset, [KERNEL, START + offset], misc=1) for offset in (0, 0x11, 0x2F, 0x100, 0x110)
    ]
    data = forge.pipe(records, features=sections) if pipe else forge.file(records, features=sections)
    return registry.from_bytes(data)


def frames(profile: ProfileData) -> dict[int, Frame]:
    return {address - START: chain[0] for address, chain in zip(profile.address, profile.frames, strict=True) if chain}


PROBE, OTHER = f"bpf_prog_{TAG}_probe", f"bpf_prog_{OTHER_TAG}"
NAMED = {
    0x00: Frame(PROBE, "/src/probe.bpf.c", 10, source=Source.KALLSYMS, start_line=10, column=5),
    0x11: Frame(PROBE, "/src/probe.bpf.c", 12, source=Source.KALLSYMS, start_line=10, column=9),
    0x2F: Frame(PROBE, "/src/helpers.h", 3, source=Source.KALLSYMS, column=1),
    0x100: Frame(OTHER, source=Source.KALLSYMS),  # before the first line of its function
    0x110: Frame(OTHER, "/src/probe.bpf.c", 30, source=Source.KALLSYMS, start_line=30),
}
NAMES_ONLY = {offset: Frame(frame.function, source=Source.KALLSYMS) for offset, frame in NAMED.items()}


@pytest.mark.parametrize("pipe", [False, True])
@pytest.mark.parametrize("big", [False, True])
def test_programs_have_their_lines(big: bool, pipe: bool) -> None:
    assert frames(recorded(big, pipe=pipe)) == NAMED


@pytest.mark.parametrize("size", [192, 184, 240, 400])
def test_infos_of_other_kernels_are_read_as_far_as_they_are_known(size: int) -> None:
    strings = Strings()
    info = bpf.programs([bpf.program(FUNCTIONS, strings, info_size=size)])
    expected = NAMED if size > 184 else NAMES_ONLY  # the tags are last
    assert frames(recorded(info=info, types=bpf.types({9: bpf.btf(strings)}))) == expected


def test_a_program_without_btf_has_its_name() -> None:
    assert frames(recorded(types=bpf.types({}))) == NAMES_ONLY
    strings = Strings()
    info = bpf.programs([bpf.program(FUNCTIONS, strings, btf_id=8)])
    assert frames(recorded(info=info, types=bpf.types({9: bpf.btf(strings)}))) == NAMES_ONLY


def test_a_program_that_was_replaced_at_its_address_is_told_by_its_tag() -> None:
    strings = Strings()
    later = [Function(START, 0x40, "11" * 8, [(START, "/src/later.c", 99, 1)])]
    info = bpf.programs([bpf.program(later, strings), bpf.program(FUNCTIONS, strings)])
    assert frames(recorded(info=info, types=bpf.types({9: bpf.btf(strings)}))) == NAMED


@pytest.mark.parametrize(
    "wrong",
    [
        {"nr_line_info": 1 << 30, "nr_jited_line_info": 1 << 30}, {"line_info_rec_size": 4}, {"line_info": 1 << 60},
        {"jited_line_info": 1 << 40}, {"nr_jited_ksyms": 1 << 31}, {"jited_ksyms": 7 << 20}, {"prog_tags": 1 << 62},
        {"nr_jited_line_info": 1}, {"jited_line_info_rec_size": 4}, {"nr_prog_tags": 0},
        {"line_info_rec_size": 1 << 31},
    ],
)  # fmt: skip
def test_a_damaged_program_has_its_name(wrong: dict[str, int]) -> None:
    strings = Strings()
    info = bpf.programs([bpf.program(FUNCTIONS, strings, wrong=wrong)])
    profile = recorded(info=info, types=bpf.types({9: bpf.btf(strings)}))
    assert frames(profile) == NAMES_ONLY


@pytest.mark.parametrize("seed", range(20))
def test_damaged_sections_are_ignored(seed: int) -> None:
    source = random.Random(seed)
    strings = Strings()
    info = bytearray(bpf.programs([bpf.program(FUNCTIONS, strings)]))
    types = bytearray(bpf.types({9: bpf.btf(strings)}))
    for section in (info, types):
        for _ in range(3):
            section[source.randrange(len(section))] = source.randrange(256)
    cut = source.randrange(len(info) + 1) if seed % 2 else len(info)
    names = {
        offset: frame.function for offset, frame in frames(recorded(info=bytes(info[:cut]), types=bytes(types))).items()
    }
    assert names == {offset: frame.function for offset, frame in NAMED.items()}


def lines_of(section: bytes, types: bytes) -> int:
    result = BpfLines()
    result.read_programs(section, "<")
    result.read_btf(types, "<")
    return sum(result.line(START + index, f"bpf_prog_{TAG}", START + index + 1) is not None for index in range(19_000))


def test_functions_that_share_all_lines_cost_no_more_than_the_section() -> None:
    strings = Strings()
    lines = [(START + number, "/src/probe.bpf.c", number, 0) for number in range(20_000)]
    functions = [Function(START + number, 1 << 20, TAG, lines if not number else []) for number in range(20_000)]
    data = bpf.programs([bpf.program(functions, strings)])
    types = bpf.types({9: bpf.btf(strings)})
    assert bounded(lines_of, data, types, stored=len(data), seconds=5, megabytes=100).answer == 19_000


def test_the_layout_is_that_of_the_kernels_header(tmp_path: Path) -> None:
    gcc = shutil.which("gcc") or pytest.skip("gcc is not on this machine")
    names = [name for name, _ in INFO_FIELDS if name != "flags"]
    prints = "\n".join(f'printf("{name} %zu\\n", offsetof(struct bpf_prog_info, {name}));' for name in names)
    source = tmp_path / "layout.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n#include <linux/bpf.h>\n#include <linux/btf.h>\n"
        f"int main(void) {{ {prints}\n"
        'printf("%zu %zu %d\\n", sizeof(struct bpf_line_info), sizeof(struct btf_header), BTF_MAGIC);\n'
        'printf("%d %d\\n", (int)BPF_LINE_INFO_LINE_NUM(0x2c05), (int)BPF_LINE_INFO_LINE_COL(0x2c05)); }\n'
    )
    done = subprocess.run([gcc, source, "-o", tmp_path / "layout"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("the headers of Linux are not installed, or too old")
    *rows, sizes, parts = subprocess.run([tmp_path / "layout"], capture_output=True, text=True).stdout.splitlines()
    offsets, form = {}, "="
    for name, code in INFO_FIELDS:
        offsets[name] = struct.calcsize(form)
        form += code
    assert dict(row.split() for row in rows) == {name: str(offsets[name]) for name in names}
    assert sizes == f"{struct.calcsize(LINE_INFO)} 24 {0xEB9F}"
    assert parts == f"{0x2C05 >> 10} {0x2C05 & 1023}"
    assert form[1:] == INFO
