"""One program, many builds: frames equal those of other tools, for every compiler.

Every byte of every function is asked about. The other tools are asked about the plain build of the same code, as each
of them fails to read some of the variants.
"""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path

import pytest

from tests.forge.builds import MissingTool, Recipe, build
from tests.oracle import compare, ours
from whence.objects.elf import ElfFile

X86, LEVELS = "x86_64-linux-musl", ("-O0", "-O2", "-O3 -flto")
RECIPES = [
    *(Recipe("gcc", version, level) for version, level in product((2, 3, 4, 5), LEVELS)),
    *(Recipe(X86, version, level) for version, level in product((2, 3, 4, 5), LEVELS)),
    *(Recipe("gcc", version, "-O2", variant) for version, variant in product((4, 5), ("zlib", "zstd", "split", "dwp"))),
    *(Recipe(X86, version, "-O2", variant) for version, variant in product((4, 5), ("zlib", "zstd", "split", "dwp"))),
    Recipe("gcc", 4, "-O2", "dwz"),
    Recipe("gcc", 5, "-O2", "dwz"),
    Recipe("gcc", 4, "-O2", "dwz-common"),
    Recipe("gcc", 5, "-O2", "dwz-common"),
    Recipe("gcc", 5, "-O2", "static"),
    Recipe("gcc", 5, "-O0", "split"),
    *(Recipe(f"{machine}-linux-musl", 5) for machine in ("x86", "aarch64", "riscv32")),
    *(Recipe(f"{machine}-linux-musl", version) for machine in ("s390x", "powerpc", "mips") for version in (3, 5)),
    Recipe("powerpc64-linux-musl", 4),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_chains_of_a_build_are_what_other_tools_say(recipe: Recipe, tmp_path: Path) -> None:
    try:
        program = build(recipe, tmp_path / "variant")
        plain = program
        if recipe != recipe.plain:
            plain = build(recipe.plain, tmp_path / "plain", said=program.parent)
    except MissingTool as reason:
        pytest.skip(str(reason))
    with ElfFile.open(plain) as elf:
        symbols = compare.Symbols.of(elf)
    ends = zip(symbols.values, symbols.ends, strict=True)
    addresses = sorted({address for low, high in ends for address in range(low, high)})
    chains = ours.answers(str(program), addresses)
    report = compare.compare(str(plain), addresses, chains, symbols)
    assert report.agreement == 1, str(report)
    assert ours.from_archive(str(program), addresses) == chains
    if shutil.which("llvm-symbolizer"):
        assert compare.differing_starts(str(plain), str(program), addresses[::7]) == []
