"""Check rules of text and layout that ruff does not know: one line per finding, and exit code 1 if there are any.

    python -m tools.lint

`make lint` runs it. Each check is a function that yields findings; it needs no build of whence.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from tools import english, portable
from tools.try_wheels import EMULATED, QUICK, THREADS, TRIES
from tools.wheels import ELSEWHERE, TARGETS

ROOT = Path(__file__).parent.parent
HEX_COMPARISON = re.compile(r"(==|!=|<=?|>=?)\s*0x[0-9a-fA-F]+")
VERSION_COMPARISON = re.compile(r"\bversion (==|!=|<=?|>=?) \d")
CLASS_COMPARISON = re.compile(r"\bbits (==|!=) (32|64)\b")
# of the folder dwarf: on the right of a comparison; a DWARF code that is compared with
DWARF_NUMBER = re.compile(r"[=!<>]=? (?:<u64>)?0x[0-9A-Fa-f]+\b")
DWARF_FIELDS = "tag|name|form|language|content|opcode|kind|what|slot"
DWARF_CODE = re.compile(rf"\b(?:{DWARF_FIELDS}|\w+\[(?:TAG|KIND|LANGUAGE)\]) [=!]= [1-9]")
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
REPEATED_GROUP = re.compile(r"\)(?:[?*+]|\{\d*,?\d*\})\+[^+ ]")
CONSTANT = re.compile(r"^ *(?:[A-Z]\w+, )*[A-Z]\w+ = ")
CLASS_FOLDERS = ("objects/elf", "locate", "locator", "procmap")  # whose bits are always those of an ELF class
LOCAL_EXAMPLES = {"fleet_ray"}  # needs a cluster: tests/engines runs it


def sources(root: Path, *suffixes: str) -> Iterator[Path]:
    package = root / "src" / "whence"
    yield from sorted(path for path in package.rglob("*") if path.suffix in suffixes)


def hex_comparisons(text: str) -> Iterator[int]:
    """Yield the lines of Python code that compare with a number in hex, as numbers of file formats are written."""
    if "0x" not in text:
        return
    lines = text.encode().split(b"\n")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                for item in side.elts if isinstance(side, ast.Tuple | ast.Set | ast.List) else [side]:
                    if isinstance(item, ast.Constant) and lines[item.lineno - 1][item.col_offset :].startswith(b"0x"):
                        yield node.lineno


def format_numbers(root: Path) -> Iterator[str]:
    """Check that no comparison in src is with a bare number of a format."""
    for path in sources(root, ".py"):
        for line in hex_comparisons(path.read_text()):
            yield f"{path.relative_to(root)}:{line}: comparison with a bare number: give the number a name"
    for path in sources(root, ".pxd"):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if HEX_COMPARISON.search(text.split("#")[0]):
                yield f"{path.relative_to(root)}:{line}: comparison with a bare number: give the number a name"


def format_versions(root: Path) -> Iterator[str]:
    for path in sources(root, ".py", ".pxd"):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if VERSION_COMPARISON.search(text):
                yield f"{path.relative_to(root)}:{line}: comparison with a bare version: give the version a name"


def elf_classes(root: Path) -> Iterator[str]:
    for path in sources(root, ".py"):
        if path.relative_to(root / "src" / "whence").as_posix().startswith(CLASS_FOLDERS):
            for line, text in enumerate(path.read_text().splitlines(), 1):
                if CLASS_COMPARISON.search(text):
                    yield f"{path.relative_to(root)}:{line}: comparison with a bare width: use ELF32 or ELF64"


def dwarf_numbers(root: Path) -> Iterator[str]:
    """Check that only dwarf/kernels/constants.pxd has numbers of the DWARF standards."""
    for path in sources(root, ".py", ".pxd"):
        if "dwarf" in path.relative_to(root).parts and path.name != "constants.pxd":
            for line, text in enumerate(path.read_text().splitlines(), 1):
                if not CONSTANT.match(text) and (DWARF_NUMBER.search(text) or DWARF_CODE.search(text)):
                    yield f"{path.relative_to(root)}:{line}: number of DWARF without a name: use kernels/constants.pxd"


def repeated_groups(root: Path) -> Iterator[str]:
    """Check that no group of a pattern is possessive: CPython before 3.11.5 matches the rest elsewhere."""
    for path in sources(root, ".py"):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            if REPEATED_GROUP.search(text):
                yield f"{path.relative_to(root)}:{line}: possessive quantifier of a group: write (?>(?:...)*)"


def version(root: Path) -> Iterator[str]:
    """Check that CHANGELOG and the citation name the package's version."""
    number = re.findall(r'"(.+)"', (root / "src" / "whence" / "_version.py").read_text())[0]
    if number not in (root / "CHANGELOG.md").read_text():
        yield f"CHANGELOG.md:1: version {number} is missing"
    if f"\nversion: {number}\n" not in (root / "CITATION.cff").read_text():
        yield f"CITATION.cff:1: version {number} is missing"


def pythons(root: Path) -> Iterator[str]:
    """Check that the classifiers name the Pythons that the tests run on."""
    tested = re.findall(r"^PYTHONS \?= (.+)$", (root / "Makefile").read_text(), re.MULTILINE)[0].split()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    named = [f"3.{each.removeprefix(prefix)}" for each in project["classifiers"] if each.startswith(prefix)]
    if named != tested:
        yield f"pyproject.toml:1: classifiers name Python {', '.join(named)}, the Makefile tests {', '.join(tested)}"
    if project["requires-python"] != f">={tested[0]}":
        yield f"pyproject.toml:1: requires-python is {project['requires-python']}, the Makefile tests from {tested[0]}"


def workflows(root: Path) -> Iterator[str]:
    """Check that workflows pin actions, call targets of the Makefile, and try every wheel as try_wheels.py does."""
    targets = {*re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.MULTILINE)}
    for path in sorted((root / ".github" / "workflows").glob("*.yml")):
        for line, text in enumerate(path.read_text().splitlines(), 1):
            for target in re.findall(r"run: make ([a-z-]+)", text):
                if target not in targets:
                    yield f"{path.relative_to(root)}:{line}: the Makefile has no target {target}"
            if "uses:" in text and not PINNED.search(text):
                yield f"{path.relative_to(root)}:{line}: action without a commit's hash and the version"
    ci = (root / ".github" / "workflows" / "ci.yml").read_text()
    tried = re.findall(r"- { try: \"?([\w.]+)\"?, wheel: ([\w.-]+) }", ci)
    if [name for name, _ in tried] != list(TRIES):
        yield f".github/workflows/ci.yml:1: wheels are not tried in these environments: {', '.join(TRIES)}"
    if {wheel for _, wheel in tried} != {*TARGETS} - {"musllinux-aarch64"}:  # no loader to try that wheel with
        yield f".github/workflows/ci.yml:1: not all of these wheels are tried: {', '.join(TARGETS)}"
    if f'WHEELS="{" ".join(ELSEWHERE)} musllinux-aarch64"' not in ci:
        yield f".github/workflows/ci.yml:1: these wheels are not compiled: {' '.join(ELSEWHERE)} musllinux-aarch64"
    for name in sorted({*QUICK, *EMULATED, *THREADS}):
        if not (root / name).exists():
            yield f"tools/try_wheels.py:1: {name} does not exist"
    for name in portable.listed():
        if not (root / name).exists():
            yield f"tests/portable.txt:1: {name} does not exist"


def examples(root: Path) -> Iterator[str]:
    """Check that every example is named in tests/test_examples.py, which runs them."""
    tests = (root / "tests" / "test_examples.py").read_text()
    for path in sorted((root / "examples").iterdir()):
        is_named = f'"{path.stem}"' in tests or f"{path.stem}.ipynb" in tests
        if path.suffix in (".py", ".ipynb") and path.stem not in LOCAL_EXAMPLES and not is_named:
            yield f"{path.relative_to(root)}:1: tests/test_examples.py does not run it"


CHECKS: tuple[Callable[[Path], Iterator[str]], ...] = (
    format_numbers, format_versions, dwarf_numbers, elf_classes, repeated_groups, version, pythons, workflows, examples,
    english.findings,
)  # fmt: skip


def findings(root: Path = ROOT) -> list[str]:
    return [finding for check in CHECKS for finding in check(root)]


def main() -> int:
    results = findings()
    print(*results, sep="\n", end="\n" if results else "")
    return 1 if results else 0


if __name__ == "__main__":
    sys.exit(main())
