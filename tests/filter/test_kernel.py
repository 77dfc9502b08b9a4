"""Frames in a Linux kernel's log: sizes of functions, sections of modules, exact addresses."""

import re
import subprocess
from pathlib import Path

import pytest

from whence._base.reasons import Reason
from whence.filter import LogFilter, Places
from whence.locator.locator import Locator

MODULE = """
#define INIT __attribute__((section(".init.text"), noinline))
extern int other(int);
static __attribute__((noinline)) int show(int x) { return other(x) + 1; }
INIT int init_module(int x) { return other(x) * 3; }
int run(int x) { return show(x) + 2; }
int setup(int) __attribute__((alias("init_module")));
"""
TWICE = """
extern int other(int);
static __attribute__((noinline, aligned(64))) int show(int x)
{ %s }
__attribute__((aligned(64))) int %s(int x) { return show(x) + 2; }
"""
LONGER = "".join("x ^= other(x) + 1;" for _ in range(9)) + "return x;"


def filtered(text: bytes, *given: Path) -> tuple[bytes, list[Reason]]:
    with Places(Locator(files=given)) as places:
        log = LogFilter(places)
        return log.feed(text) + log.finish(), [reason for reason, _ in places.reasons]


def built(folder: Path, name: str, *sources: tuple[str, str]) -> Path:
    for source, text in sources:
        (folder / source).write_text(text)
    names = [source for source, _ in sources]
    out = folder / name
    if len(names) == 1:
        subprocess.run(["gcc", "-g", "-O1", "-c", names[0], "-o", out], cwd=folder, check=True)
    else:
        subprocess.run(["gcc", "-g", "-O1", "-c", *names], cwd=folder, check=True)
        objects = [source.replace(".c", ".o") for source in names]
        subprocess.run(["ld", "-r", *objects, "-o", out], cwd=folder, check=True)
    return out


def calls(path: Path, function: str) -> list[tuple[int, int]]:
    """Return the offset after the first call and the size up to the next symbol, for each function of a name."""
    text = subprocess.run(["objdump", "-d", path], capture_output=True, check=True, text=True).stdout
    result = []
    for body in re.findall(rf"^[0-9a-f]+ <{function}>:\n((?:.+\n)+)", text, re.MULTILINE):
        lines = [
            (int(offset, 16), word)
            for offset, word in re.findall(r"^ +([0-9a-f]+):\t[0-9a-f ]+\t(\S+)", body, re.MULTILINE)
        ]
        behind = next(lines[index + 1][0] for index, (_, word) in enumerate(lines) if word.startswith("call"))
        result.append((behind - lines[0][0], lines[-1][0] + 1 - lines[0][0]))  # a ret is the last
    return result


@pytest.mark.parametrize("function", ["init_module", "setup"])
def test_a_function_in_another_section_of_a_module_is_found_by_each_of_its_names(function: str, tmp_path: Path) -> None:
    module = built(tmp_path, "drive.ko", ("m.c", MODULE))
    ((offset, size),) = calls(module, "init_module")
    text = b" %s+0x%x/0x%x [drive]\n" % (function.encode(), offset, size)
    assert re.search(rb"\[drive\] in init_module at \S*m\.c:5\n$", filtered(text, module)[0])


def test_functions_of_one_name_are_distinguished_by_the_size_up_to_the_next_symbol(tmp_path: Path) -> None:
    """The sizes of their symbols are less: a kernel counts the padding after a function, too."""
    parts = [(f"{name}.c", TWICE % (body, name)) for name, body in (("a", "return other(x) + 1;"), ("b", LONGER))]
    objects = built(tmp_path, "drive.o", *parts)
    kernel = tmp_path / "vmlinux"
    subprocess.run(["ld", "-Ttext=0x100000", "--defsym=other=0x100200", objects, "-o", kernel], check=True)
    listed = subprocess.run(["nm", "-n", kernel], capture_output=True, check=True, text=True).stdout.split("\n")
    symbols = [(int(line[:16], 16), line[19:]) for line in listed if " t " in line.lower()]
    rooms = [symbols[index + 1][0] - vaddr for index, (vaddr, name) in enumerate(symbols) if name == "show"]
    result = [(offset, size, room) for (offset, size), room in zip(calls(kernel, "show"), rooms, strict=True)]
    assert all(size < room for _, size, room in result)
    for (offset, _, room), source in zip(result, (b"a", b"b"), strict=True):
        named, reasons = filtered(b" show+0x%x/0x%x\n" % (offset, room), kernel)
        assert re.search(rb" in show at \S*%s\.c:4\n$" % source, named), (named, reasons)


def test_ambiguous_functions_are_not_named_but_copies_of_one_function_are(tmp_path: Path) -> None:
    same = "static __attribute__((noinline)) int show(int x) { return other(x) + 1; }\n"
    (tmp_path / "h.h").write_text("extern int other(int);\n" + same)
    users = [(f"{name}.c", f'#include "h.h"\nint {name}(int x) {{ return show(x); }}\n') for name in "ab"]
    copies = built(tmp_path, "drive.ko", *users)
    offset, size = calls(copies, "show")[0]
    line = b" show+0x%x/0x%x [drive]\n" % (offset, size)
    assert re.search(rb" in show at \S*h\.h:2\n$", filtered(line, copies)[0])
    apart = [(f"{name}.c", f"extern int other(int);\n{same}int {name}(int x) {{ return show(x); }}\n") for name in "ab"]
    module = built(tmp_path, "drive.ko", *apart)
    assert filtered(line, module) == (line, [Reason.AMBIGUOUS])


@pytest.mark.parametrize(
    ("before", "exact"),
    [
        (b"RIP: 0010:", True), (b"RIP  [<ffffffff81000000>] ", True), (b"IP: [<ffffffff81000000>] ", True),
        (b"EIP is at ", True), (b"PC is at ", True), (b"pc : ", True), (b"NIP [c000000000012344] ", True),
        (b"epc : ", True), (b"epc   : ffffffff80100000 ", True), (b"WARNING: CPU: 0 PID: 1 at kernel/a.c:9 ", True),
        (b"Krnl PSW : 0704c00180000000 000000000013b8ca (", True),
        (b" ? ", False), (b"LR is at ", False), (b"lr : ", False), (b"LR [c000000000012344] ", False),
        (b" ra : ", False), (b"BUG: KASAN: use-after-free in ", False), (b"[<c010b5c4>] (", False),
    ],
)  # fmt: skip
def test_an_address_is_exact_where_the_kernel_prints_a_pc(before: bytes, exact: bool, tmp_path: Path) -> None:
    source = "extern int other(int);\nint run(int x)\n{\n    other(x);\n    return x * 7;\n}\n"
    module = built(tmp_path, "drive.ko", ("m.c", source))
    ((offset, size),) = calls(module, "run")
    named = filtered(before + b"run+0x%x/0x%x [drive]\n" % (offset, size), module)[0]
    assert named.endswith(b"m.c:%d\n" % (5 if exact else 4))


def test_the_start_of_a_function_is_itself(tmp_path: Path) -> None:
    """As in `initcall f+0x0/0x10 returned`, even if the file has no code that shows the call."""
    module = built(tmp_path, "drive.ko", ("m.c", MODULE))
    subprocess.run(["objcopy", "--only-keep-debug", module], check=True)
    assert b" in show at " in filtered(b"initcall show+0x0/0x10 [drive] returned 0\n", module)[0]
    assert b" in run at " in filtered(b"initcall run+0x0/0x10 [drive] returned 0\n", module)[0]
