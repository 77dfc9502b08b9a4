"""The import arrows of ARCHITECTURE.md hold: rooms know only what lies below them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "whence"

# room -> the rooms it may import. errors, model, records, budget, files, cores, mapped, rooted, forks, interrupts,
# reasons and _version are everyone's.
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "kernels": set(),
    "model": set(),
    "records": set(),
    "budget": set(),
    "_version": set(),
    "window": set(),
    "files": {"rooted"},
    "mapped": set(),
    "rooted": set(),
    "forks": set(),
    "interrupts": set(),
    "cores": set(),
    "reasons": set(),
    "demangle": set(),
    "ranges": {"window"},
    "elf": {"window", "ranges"},
    "dwarf": {"window", "ranges", "elf"},
    "gopclntab": {"window", "ranges", "elf"},
    "lidia": {"window", "ranges", "demangle"},
    "lidia.build": {"window", "ranges", "demangle", "lidia", "elf", "gopclntab", "locate", "producers"},
    "locate": {"window", "elf", "lidia"},
    "locate.locator": {"binary", "elf", "lidia", "lidia.build", "locate", "producers"},
    "planner": set(),
    "reverse": {"demangle", "lidia"},
    "explanation": {"demangle", "elf", "lidia", "producers"},
    "producers": {"window", "ranges", "elf", "dwarf", "gopclntab", "locate"},
    "binary": {
        "explanation",
        "planner",
        "reverse",
        "producers",
        "window",
        "ranges",
        "demangle",
        "elf",
        "dwarf",
        "gopclntab",
        "lidia",
        "lidia.build",
        "locate",
    },
    "procmap": {"window", "elf"},
    "gotrace": {"window"},
    "symbolize": {
        "window",
        "ranges",
        "demangle",
        "elf",
        "lidia",
        "lidia.build",
        "procmap",
        "locate",
        "locate.locator",
        "binary",
        "producers",
    },
    "filter": {"demangle", "elf", "locate", "locate.locator", "symbolize", "procmap"},
    "profiles": {
        "window",
        "demangle",
        "elf",
        "lidia",
        "lidia.build",
        "binary",
        "symbolize",
        "procmap",
        "gotrace",
        "locate",
        "locate.locator",
    },
}
EVERYONES = {
    "errors",
    "kernels",
    "model",
    "records",
    "budget",
    "files",
    "cores",
    "mapped",
    "rooted",
    "forks",
    "interrupts",
    "reasons",
    "_version",
}


def room_of(module: str) -> str:
    """The room a whence module belongs to: the longest name in ARROWS that starts it."""
    parts = module.removeprefix("whence.").split(".")
    for size in (2, 1):
        name = ".".join(parts[:size])
        if name in ARROWS or name == "cli":
            return name
    return parts[0]


def running(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below that run: what stands under `if TYPE_CHECKING` does not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        yield child
        yield from running(child)


def imports(path: Path) -> set[str]:
    found = set()
    for node in running(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("whence.")}


FILES = sorted(path for path in SRC.rglob("*.py") if path != SRC / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_a_room_imports_only_the_rooms_below_it(path: Path) -> None:
    module = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
    room = room_of(module)
    if room in ("cli", "__main__"):
        return
    assert room in ARROWS, f"{room} has no place in the house: add it to ARROWS and ARCHITECTURE.md"
    allowed = ARROWS[room] | EVERYONES | {room}
    wrong = {name for name in imports(path) if room_of(name) not in allowed and name != "whence"}
    assert not wrong, f"{module} imports {sorted(wrong)}"


def test_nobody_imports_the_command_line() -> None:
    for path in FILES:
        if path.is_relative_to(SRC / "cli") or path == SRC / "__main__.py":
            continue
        assert not any(room_of(name) == "cli" for name in imports(path)), path
