"""whence under the name addr2line: the answers of binutils."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.forge.elf import Section, Symbol, forge
from tests.helpers.drop_ins import SECONDS, addresses, ask, asked, link, program, symbol, tool
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants


@pytest.mark.parametrize("options", ["-f", "-aCfip", "-aCfi", "-fs", "-i"])
@pytest.mark.parametrize("flags", [(), ("-no-pie",)])
def test_the_answers_are_addr2lines(flags: tuple[str, ...], options: str) -> None:
    addr2line = tool("addr2line")
    path = program(*flags)
    stdin = "".join(f"{vaddr:x}\n" for vaddr in addresses(path)) * 2
    theirs = asked(addr2line, options, "-e", str(path), stdin=stdin).stdout.decode()
    lines = theirs.splitlines()
    ours = ask("addr2line", options, "-e", str(path), stdin=stdin).splitlines()
    assert ours[len(ours) // 2 :] == lines[len(lines) // 2 :]  # addr2line's first answer in a unit may be wrong


def test_addr2line_reads_hex_as_the_original_does() -> None:
    addr2line = tool("addr2line")
    path = program()
    start, _ = symbol(path, "main")
    words = [
        f"{start:x}",
        f"0X{start:X}",
        f"  {start:x}",
        f"\t{start:x}",
        f"{start:x} x",
        f"{start:x},",
        "0x",
        "g",
        "CODE 1",
    ]
    stdin = "".join(f"{word}\n" for word in words)
    theirs = asked(addr2line, "-af", "-e", str(path), stdin=stdin).stdout.decode()
    assert ask("addr2line", "-af", "-e", str(path), stdin=stdin) == theirs
    assert ask("addr2line", "-af", "--ex", str(path), *words) == theirs


@pytest.mark.parametrize("target", ["bogus", "", "default", "elf64-x86-64", "elf32-i386", "binary", "x86_64-linux-gnu"])
def test_accepts_the_formats_of_binutils(target: str) -> None:
    path = program()
    start, _ = symbol(path, "main")
    words = ["-b", target, "-f", "-e", str(path), f"{start:x}"]
    theirs = subprocess.run([tool("addr2line"), *words], capture_output=True, text=True, timeout=SECONDS)
    ours = subprocess.run([str(link("addr2line")), *words], capture_output=True, text=True, timeout=SECONDS)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert ours.stderr.rpartition("addr2line: ")[2] == theirs.stderr.rpartition("addr2line: ")[2]


def test_addresses_are_offsets_in_a_given_section() -> None:
    path = program()
    start, _ = symbol(path, "main")
    with ElfFile.open(path) as elf:
        text, init = (next(each.vaddr for each in elf.sections if each.name == name) for name in (".text", ".init"))
    full = ask("addr2line", "-f", "-e", str(path), hex(start))
    assert full.startswith("main\n")
    assert ask("addr2line", "-f", "-j", ".text", "-e", str(path), hex(start - text)) == full
    assert ask("addr2line", "-f", "-j", ".init", "-e", str(path), hex(start - init)) == "??\n??:0\n"  # past its end


@pytest.mark.parametrize("options", [("-a", "-f"), ("-p", "-f"), ("-s",), ()])
def test_an_stt_file_entry_without_a_name_is_an_empty_file(options: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "app"
    entry = Symbol("", type=constants.STT_FILE, bind=constants.STB_LOCAL, section=0xFFF1)
    functions = [Symbol("f", 0x1000, 8, bind=constants.STB_LOCAL), Symbol("g", 0x1010, 8)]
    path.write_bytes(forge([Section(".text", bytes(0x20), flags=6, vaddr=0x1000)], symbols=[entry, *functions]))
    words = (*options, "-e", str(path), "0x1004", "0x1012", "0x2000")
    answer = ask("addr2line", *words)
    assert ":?\n" in answer
    assert "??:?" not in answer
    assert asked(tool("addr2line"), *words).stdout.decode() == answer
