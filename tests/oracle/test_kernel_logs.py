"""Kernel traces made of the calls in real kernels and modules, named as GNU addr2line names the same places.

python -m pytest -s -m oracle tests/oracle/test_kernel_logs.py
"""

from __future__ import annotations

import bisect
import random
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.drop_ins import tool
from tests.oracle.corpora import CORPORA, fetched
from whence.filter import LogFilter, Places
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile

pytestmark = pytest.mark.oracle

COUNT = 2000
KERNEL_CODE = ("--start-address=0xffffffff81000000", "--stop-address=0xffffffff81400000")
FILES = {"vmlinux": "boot/vmlinux-*", "tls": "lib/modules/*/kernel/net/tls/tls.ko"}
FILES["loop"] = "lib/modules/*/kernel/drivers/block/loop.ko"
DIFFER = {"vmlinux": 0.02, "tls": 0.02, "loop": 0.0}  # headers that several units name; functions of the same symbols


class Place(NamedTuple):
    section: str
    address: int  # of the last byte of a call
    line: bytes


def places_in(path: Path, module: bytes, options: tuple[str, ...]) -> list[Place]:
    """The calls of a file, each as a trace of a kernel has it: the size is up to the next symbol."""
    with ElfFile.open(path) as elf:
        symbols = elf.symbols()
        code = {section.index: section.name for section in elf.sections if section.executable}
        expected: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for index, number in enumerate(symbols.section):
            if number in code and symbols.name(index):
                expected[code[number]][symbols.value[index]].append(symbols.name(index))
    starts = {section: sorted(named) for section, named in expected.items()}
    command = [tool("objdump"), "-dw", "--no-show-raw-insn", *options, str(path)]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    result = []
    for part in text.split("Disassembly of section ")[1:]:
        section = part[: part.index(":\n")]
        for offset in re.findall(r"\tcall .*\n(?:\n.*\n)? *([0-9a-f]+):", part):
            behind = int(offset, 16)
            after = bisect.bisect_right(starts[section], behind - 1)
            if not 0 < after < len(starts[section]):
                continue
            start, end = starts[section][after - 1 : after + 1]
            name = expected[section][start][0].encode()
            line = b" %s+0x%x/0x%x%s" % (name, behind - start, end - start, module)
            result.append(Place(section, behind - 1, line))
    return random.Random(13).sample(result, min(COUNT, len(result)))


@pytest.mark.parametrize("name", FILES)
def test_calls_in_a_kernel_and_its_modules_are_named_as_addr2line_names_them(name: str) -> None:
    path = next(iter(sorted(fetched(CORPORA["vmlinux"][0]).glob(f"usr/lib/debug/**/{FILES[name]}"))), None)
    if path is None:
        pytest.skip(f"the package has no {FILES[name]}")
    kernel = name == "vmlinux"
    places = places_in(path, b"" if kernel else b" [%s]" % name.encode(), KERNEL_CODE if kernel else ())
    with Places(Locator(files=(path,))) as files:
        log = LogFilter(files)
        text = log.feed(b"".join(location.line + b"\n" for location in places)) + log.finish()
    ours = dict(zip(places, text.decode().splitlines(), strict=True))
    wrong = []
    for section in {location.section for location in places}:
        asked = [location for location in places if location.section == section]
        words = [tool("addr2line"), "-afi", "-e", str(path), *(() if kernel else ("-j", section))]
        lines = "".join(f"{location.address:x}\n" for location in asked)
        run = subprocess.run(
            words,
            input=lines + lines,  # it is right when asked twice
            capture_output=True,
            check=True,
            text=True,
        )
        answers = re.split(r"^0x[0-9a-f]+\n", run.stdout, flags=re.MULTILINE)[1 + len(asked) :]
        for location, answer in zip(asked, answers, strict=True):
            rows = re.sub(r" \(discriminator \d+\)", "", answer).split("\n")
            theirs = " (inlined by) ".join(
                f"{rows[offset]} at {rows[offset + 1]}" for offset in range(0, len(rows) - 1, 2)
            )
            theirs = theirs.replace(" at ??:0", "")
            if ours[location] != f"{location.line.decode()} in {theirs}":
                wrong.append((ours[location], theirs))
    print(f"{name}: {len(wrong)} of {len(places)} differ", *wrong[:3], sep="\n  ")
    assert len(wrong) <= DIFFER[name] * len(places)
