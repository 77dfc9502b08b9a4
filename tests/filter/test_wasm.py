"""Stacks of WebAssembly modules in logs: browsers, Node, wasmtime."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whence.archive.create import create
from whence.filter import LogFilter, Places
from whence.locator.locator import Locator

SOURCE = """
static inline __attribute__((always_inline)) int check(int x) { if (x > 3) __builtin_trap(); return x; }
__attribute__((noinline)) int inner(int x) { return check(x) * 2; }
__attribute__((noinline)) int outer(int x) { return inner(x + 1) + 1; }
__attribute__((export_name("run"))) int run(int x) { return outer(x); }
"""
SCRIPT = """
import fs from 'fs';
const module = new WebAssembly.Module(fs.readFileSync(process.argv[2]));
try { new WebAssembly.Instance(module, {}).exports.run(7); } catch (error) { console.log(error.stack); }
"""
NAMES = ["check at t.c:2 (inlined by) inner at t.c:3", "outer at t.c:4", "run at t.c:5"]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("ziglang")
    folder = tmp_path_factory.mktemp("wasm")
    (folder / "t.c").write_text(SOURCE)
    options = ["-target", "wasm32-freestanding", "-g", "-O1", "-nostdlib", "-Wl,--no-entry"]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *options, "t.c", "-o", "app.wasm"], cwd=folder, check=True)
    return folder / "app.wasm"


def filtered(text: str, *binaries: Path) -> str:
    with Places(Locator(binaries=binaries)) as places:
        log = LogFilter(places)
        return (log.feed(text.encode()) + log.finish()).decode()


def names_in(text: str) -> list[str]:
    plain = re.sub(r" at /\S*/", " at ", text)
    return re.findall(r"(?:0x\w+|!\w+) in (.*?)\)?$", plain, re.MULTILINE)


def offsets_of(module: Path) -> list[str]:
    """The offsets in the file of the trap and the two calls around it, as Node prints them."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (module.parent / "run.mjs").write_text(SCRIPT)
    done = subprocess.run([node, "run.mjs", module.name], cwd=module.parent, capture_output=True, text=True, check=True)
    (module.parent / "stack").write_text(done.stdout)
    return re.findall(r"wasm-function\[\d+\]:(0x[0-9a-f]+)", done.stdout)


def test_a_stack_of_node_gets_names_and_inlined_calls(module: Path, tmp_path: Path) -> None:
    assert len(offsets_of(module)) == 3
    stack = (module.parent / "stack").read_text()
    named = filtered(stack, module)
    assert names_in(named) == NAMES
    assert filtered(named, module) == named
    assert filtered(stack) == stack
    archive = tmp_path / "app.lidia"
    create(module, archive)
    assert names_in(filtered(stack, archive)) == NAMES


@pytest.mark.parametrize(
    "line",
    [
        "    at app.outer (http://localhost:8080/lib/app.wasm:wasm-function[1]:{})",  # Chrome
        "outer@http://localhost:8080/lib/app.wasm:wasm-function[1]:{}",  # Firefox
        "    at file://{module}:wasm-function[1]:{}",  # Node, a module of a file
        "    1:   {} - app.wasm!outer",  # wasmtime
        "           1:     {} - <unknown>!outer",
    ],
)
def test_stacks_of_other_programs_get_names(module: Path, line: str) -> None:
    offset = offsets_of(module)[1]
    text = line.replace("{module}", str(module)).replace("{}", offset) + "\n"
    assert names_in(filtered(text, module)) == NAMES[1:2]


def test_the_path_in_the_log_names_the_module(module: Path) -> None:
    text = f"    at file://{module}:wasm-function[1]:{offsets_of(module)[1]}\n"
    assert names_in(filtered(text)) == NAMES[1:2]


def test_an_offset_outside_of_code_has_no_name(module: Path) -> None:
    text = f"    at file://{module}:wasm-function[1]:0x3\n"
    assert filtered(text, module) == text
