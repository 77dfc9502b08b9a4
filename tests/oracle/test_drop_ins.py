"""The drop-ins' text, byte for byte, against llvm-symbolizer 14 and 19, GNU addr2line and elfutils', over the big debug
files.

    python -m pytest -s -m oracle tests/oracle/test_drop_ins.py

20,000 addresses of each file in every style (WHENCE_ADDRESSES: another number). What differs is counted and held to the
numbers in docs/correctness.md, which names each kind.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import pytest

from tests.helpers.drop_ins import link, tool
from tests.oracle.compare import Symbols, sample
from tests.oracle.corpora import CORPORA, fetched
from whence.objects.elf import ElfFile

pytestmark = pytest.mark.oracle

COUNT = int(os.environ.get("WHENCE_ADDRESSES", "20000"))
SLOW_COUNT = COUNT // 10  # of a file that addr2line takes long for
SECONDS = 1200

# options -> what an answer begins or ends with
LLVM_STYLES = {
    "": "\n\n", "-p -a": "\n\n", "-s --no-inlines": "\n\n", "--relativenames --no-demangle": "\n\n",
    "--functions=short": "\n\n", "--functions=none": "\n\n", "--no-inlines --functions=short": "\n\n",
    "--verbose": "\n\n", "--output-style=JSON": "\n",
    "--output-style=GNU -p": "\n", "--output-style=GNU -s --no-inlines": "\n", "--output-style=GNU -f": "\n",
}  # fmt: skip
GNU_STYLES = (
    "-afi", "-apfi", "-af", "-a", "-ai", "-afs", "-apfiCs", "-afiC", "-ap", "-api", "-apC", "-as", "-ais",
    "-R -afi", "-r -apfiC", "-b elf64-x86-64 -afi", "-j .text -afi", "-j .text -apCs",
)  # fmt: skip

# share of answers that may differ, by file and version; 0 for files that are not listed
LLVM_DIFFER = {("libstdc++", "14"): 0.001, ("ceph-mds", "14"): 0.04, ("ceph-mds", "19"): 0.006}
OF_LINES = 3  # GNU's style has nothing between answers: lines are counted there, and the answers that differ are long
EU_STYLES = ("-a -f -i", "-a -f -i -C", "-a -x", "-a -S -f", "-a -s -f --pretty-print", "-a -f -i --pretty-print", "-a")
# libpython is link-time optimized: elfutils name no call whose function another unit describes
EU_DIFFER = {"libc": 0.002, "libpython": 0.7, "libstdc++": 0.04, "ceph-mds": 0.1, "vmlinux": 0.05}
GNU_DIFFER = {"libc": 0.07, "libpython": 0.006, "libstdc++": 0.05, "ceph-mds": 0.13, "vmlinux": 0.05}


@functools.cache
def corpus(name: str) -> tuple[Path, tuple[int, ...]]:
    package, pattern, _ = CORPORA[name]
    result = sorted(fetched(package).glob(pattern), key=lambda path: path.stat().st_size)
    if not result:
        pytest.skip(f"{package} has no {pattern}")
    with ElfFile.open(result[-1]) as elf:
        return result[-1], tuple(sample(Symbols.of(elf), (), COUNT))


def without_files_of_starts(theirs: str, ours: str) -> str:
    """Return our text without files of starts that are missing in theirs: llvm-symbolizer does not read them from
    DW_FORM_implicit_const."""
    pattern = re.compile(r'("StartFileName":")([^"]*)|(Function start filename: )(.*)')
    told = iter(pattern.findall(theirs))

    def one(found: re.Match[str]) -> str:
        quoted, file, word, path = next(told, ("", "", "", ""))
        return found[0] if file or path else quoted + word

    return pattern.sub(one, ours)


def answered(program: str, words: list[str], path: Path, questions: str) -> str:
    import subprocess

    done = subprocess.run(
        [program, "-e", str(path), *words], input=questions.encode(), capture_output=True, timeout=SECONDS, check=True
    )
    return done.stdout.decode("utf-8", "surrogateescape")


def differing(theirs: list[str], ours: list[str], addresses: tuple[int, ...], told: str) -> float:
    """The share of answers that differ; prints it, with the first of them."""
    assert len(theirs) == len(ours)
    places = [index for index, (each, other) in enumerate(zip(theirs, ours, strict=True)) if each != other]
    print(f"{told}: {len(places)} of {len(ours)} differ")
    for index in places[:2]:
        address = f"{addresses[index]:#x}" if len(ours) in (len(addresses), len(addresses) + 1) else "?"
        print(f"    {address}: {theirs[index]!r:.200} but {ours[index]!r:.200}")
    return len(places) / max(1, len(ours))


@pytest.mark.parametrize("options", LLVM_STYLES)
@pytest.mark.parametrize("version", ["14", "19"])
@pytest.mark.parametrize("name", CORPORA)
def test_answers_are_llvm_symbolizers_byte_for_byte(name: str, version: str, options: str) -> None:
    symbolizer = tool(f"llvm-symbolizer-{version}")
    path, addresses = corpus(name)
    questions = "".join(f"{address:#x}\n" for address in addresses)
    theirs, ours = (
        answered(program, options.split(), path, questions)
        for program in (symbolizer, str(link(f"llvm-symbolizer-{version}")))
    )
    ours, end = without_files_of_starts(theirs, ours), LLVM_STYLES[options]
    told = f"{name}, llvm-symbolizer-{version} {options}"
    share = differing(theirs.split(end), ours.split(end), addresses, told)
    assert share <= LLVM_DIFFER.get((name, version), 0) * (OF_LINES if "GNU" in options else 1)


@pytest.mark.parametrize("options", GNU_STYLES)
@pytest.mark.parametrize("name", CORPORA)
def test_answers_are_addr2lines_byte_for_byte(name: str, options: str) -> None:
    """Each address is asked twice: addr2line's first answer about a function may name another one. With -j it is an
    offset in .text."""
    addr2line = tool("addr2line")
    path, addresses = corpus(name)
    if name in ("ceph-mds", "vmlinux"):
        addresses = addresses[:SLOW_COUNT]
    if "-j" in options:
        with ElfFile.open(path) as elf:
            start = next(section.vaddr for section in elf.sections if section.name == ".text")
        addresses = tuple(address - start for address in addresses if address >= start)
    begin = re.compile(r"^(?=0x[0-9a-f]{16}(?::|$))", re.MULTILINE)
    twice = "".join(f"{address:x}\n" * 2 for address in addresses)
    theirs = begin.split(answered(addr2line, options.split(), path, twice))[2::2]
    once = "".join(f"{address:x}\n" for address in addresses)
    ours = begin.split(answered(str(link("addr2line")), options.split(), path, once))[1:]
    assert differing(theirs, ours, addresses, f"{name}, addr2line {options}") <= GNU_DIFFER[name]


@pytest.mark.parametrize("options", EU_STYLES)
@pytest.mark.parametrize("name", CORPORA)
def test_answers_are_elfutils_byte_for_byte(name: str, options: str) -> None:
    addr2line = tool("eu-addr2line")
    path, addresses = corpus(name)
    if name in ("ceph-mds", "vmlinux"):
        addresses = addresses[:SLOW_COUNT]
    begin = re.compile(r"^(?=0x[0-9a-f]{16}(?:: |$))", re.MULTILINE)
    questions = "".join(f"{address:x}\n" for address in addresses)
    theirs, ours = (
        begin.split(answered(program, options.split(), path, questions))[1:]
        for program in (addr2line, str(link("eu-addr2line")))
    )
    assert differing(theirs, ours, addresses, f"{name}, eu-addr2line {options}") <= EU_DIFFER[name]
