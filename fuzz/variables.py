"""Fuzz variables of frames: their types, location lists and expressions, by forged debug info and compiled programs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.forge.lines import sleb
from tests.forge.variables import LOW, STACK, base, file, variable, variables_of
from tests.hostile.inputs.variables import INT, named_doubling, nested_expressions
from whence._base.errors import WhenceError
from whence.objects.elf import ElfFile

PROGRAM = r"""
struct node { int id; const char *name; struct node *next; double d[3]; unsigned b : 3; enum { A, B = 4 } e; };
static int helper(struct node *n, int k) { int local[4] = {k, 2, 3, 4}; for (int i = 0; i < k; i++) local[i & 3] += i;
    return local[0] + n->id; }
int f(int argc, struct node n, char **argv) { int vla[argc]; vla[0] = helper(&n, argc); return vla[0] + n.b; }
"""


def compiled() -> list[bytes]:
    """Small objects of a compiler with location lists and inlined calls; none without a compiler."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return []
    result = []
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder, "p.c"), Path(folder, "p.so")
        source.write_text(PROGRAM)
        for flags in (["-O2", "-gdwarf-5"], ["-O1", "-gdwarf-4"]):
            subprocess.run([gcc, "-g", *flags, "-shared", "-fPIC", "-nostdlib", source, "-o", out], check=True)
            result.append(out.read_bytes())
    return result


def seeds() -> list[bytes]:
    simple = file([INT, base("char", 1, 6)], [variable("v", INT, b"\x91" + sleb(0))])
    return [simple, nested_expressions(), named_doubling(), *compiled()]


def target(data: bytes) -> None:
    pcs = [LOW + 0x10, LOW + 0x20]
    with suppress(WhenceError):
        pcs += [start + 0x14 for start, _ in ElfFile.from_bytes(data).code_ranges(or_loaded=True)][:4]
    memory = {STACK: bytes(range(256)) * 8}
    registers = {number: STACK + 16 * number for number in range(16)}
    for each in variables_of(data, memory, registers, pcs=pcs):
        each.as_object()
