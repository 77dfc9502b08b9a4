"""The import arrows of ARCHITECTURE.md hold: rooms know only what lies below them."""

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "whence"
MAP = (SRC.parent.parent / "ARCHITECTURE.md").read_text()

# room -> the rooms it imports, no more and no fewer; EVERYONES are everyone's
ARROWS: dict[str, set[str]] = {
    "errors": set(),
    "kernels": set(),
    "model": set(),
    "source": set(),
    "records": set(),
    "budget": set(),
    "deflate": set(),
    "_version": set(),
    "window": set(),
    "files": set(),
    "mapped": set(),
    "rooted": set(),
    "closing": set(),
    "forks": set(),
    "cores": set(),
    "reasons": set(),
    "demangle": set(),
    "ranges": set(),
    "elf": {"ranges", "window"},
    "dwarf": {"elf", "ranges", "window"},
    "gopclntab": {"elf", "ranges", "window"},
    "lidia": {"demangle", "ranges"},
    "lidia.build": {"demangle", "elf", "gopclntab", "lidia", "producers", "ranges"},
    "locate": {"elf", "lidia"},
    "locate.locator": {"binary", "elf", "lidia", "lidia.build", "locate", "producers"},
    "store": {"binary", "elf", "lidia", "lidia.build", "locate", "locate.locator", "procmap", "producers", "symbolize"},
    "planner": set(),
    "reverse": {"demangle"},
    "explanation": {"demangle", "elf", "lidia"},
    "producers": {"dwarf", "elf", "gopclntab", "locate", "ranges"},
    "binary": {"dwarf", "elf", "explanation", "lidia", "lidia.build", "planner", "producers", "reverse"},
    "procmap": {"elf"},
    "unwind": {"dwarf", "elf", "gopclntab", "lidia", "procmap", "ranges", "window"},
    "gotrace": set(),
    "columns": {"elf", "lidia", "locate", "locate.locator", "store", "symbolize"},
    "server": {
        "binary",
        "columns",
        "demangle",
        "elf",
        "lidia",
        "locate",
        "locate.locator",
        "producers",
        "profiles",
        "store",
        "symbolize",
    },
    "engines": {"columns", "locate.locator", "profiles", "store"},
    "symbolize": {"binary", "elf", "lidia", "locate", "locate.locator", "procmap", "unwind"},
    "filter": {"demangle", "elf", "locate", "locate.locator", "procmap", "symbolize"},
    "profiles": {"elf", "gotrace", "lidia", "locate", "locate.locator", "procmap", "symbolize", "unwind"},
}
EVERYONES = {
    "errors",
    "kernels",
    "model",
    "source",
    "records",
    "budget",
    "deflate",
    "files",
    "cores",
    "mapped",
    "rooted",
    "closing",
    "forks",
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


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # of a statement: those below it


def statements(node: ast.AST, checking: bool = False) -> Iterator[ast.stmt]:
    """The statements below that run; what stands under `if TYPE_CHECKING` only when `checking`."""
    for block in BLOCKS:
        for child in getattr(node, block, ()):
            guard = child.test if isinstance(child, ast.If) else None
            if isinstance(guard, ast.Name) and guard.id == "TYPE_CHECKING" and not checking:
                continue
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child, checking)


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return ".".join(("whence", *path.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")


FILES = sorted(path for path in SRC.rglob("*.py") if path != SRC / "__init__.py")
MODULES = {name_of(path): path for path in [SRC / "__init__.py", *FILES]}
CIMPORT = re.compile(r"^from (whence[\w.]*) cimport ([\w, ]+)", re.MULTILINE)


def meant(module: str, names: Iterable[str]) -> set[str]:
    """The modules that `from module import names` reads: submodules, else the module itself."""
    inner = {f"{module}.{name}" for name in names}
    return {name if name in MODULES else module for name in inner} & MODULES.keys()


@functools.cache
def imports(path: Path, checking: bool = False) -> set[str]:
    """The modules of whence that a file imports when it runs, kernels' cimports and functions' imports included; with
    `checking` those that only type checkers read, too."""
    found: set[str] = set()
    for node in statements(parsed(path), checking):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= meant(node.module.removeprefix("cython.cimports."), [alias.name for alias in node.names])
    header = path.with_suffix(".pxd")
    if header.exists():
        for module, names in CIMPORT.findall(header.read_text()):
            found |= meant(module, [name.strip() for name in names.split(",")])
    return found - {name_of(path)}


def graph(checking: bool = False) -> dict[str, set[str]]:
    return {name: imports(path, checking) for name, path in MODULES.items()}


@pytest.mark.parametrize("room", [*ARROWS, "cli", "__main__"])
def test_the_arrows_of_a_room_are_those_of_the_map(room: str) -> None:
    """Both ways: an arrow that nobody draws any more leaves the map."""
    found = {room_of(name) for module, used in graph().items() if room_of(module) == room for name in used}
    if room in ("cli", "__main__"):
        assert found <= {*ARROWS, "cli", "whence", *EVERYONES}
        return
    assert found - EVERYONES - {room} == ARROWS[room]


def test_the_map_in_the_documentation_is_the_same() -> None:
    """ARCHITECTURE.md names each room once, with what it imports."""
    rows = [line.strip("|").split("|") for line in MAP.splitlines() if line.startswith("| ")]
    named = [(row[0].strip().removesuffix("/"), row[-1].strip()) for row in rows if len(row) in (2, 3)]
    drawn = {room: set(filter(None, arrows.split(", "))) for room, arrows in named if room in ARROWS.keys() - EVERYONES}
    assert drawn == {room: arrows for room, arrows in ARROWS.items() if room not in EVERYONES}
    assert {room for room, _ in named} >= EVERYONES - {"_version"}


def test_every_module_has_a_place_in_the_house() -> None:
    rooms = {room_of(module) for module in MODULES if module != "whence"}
    assert rooms == {*ARROWS, "cli", "__main__"}, "add new rooms to ARROWS and ARCHITECTURE.md"


def circles(used: dict[str, set[str]]) -> set[frozenset[str]]:
    """Modules that reach one another by imports (Tarjan's strongly connected components of two and more)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        path.append(module)
        for other in sorted(used[module]):
            if other not in order:
                visit(other)
            if other in path:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            circle = path[path.index(module) :]
            del path[path.index(module) :]
            if len(circle) > 1:
                found.add(frozenset(circle))

    for module in used:
        if module not in order:
            visit(module)
    return found


def test_circles_are_found() -> None:
    used = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"e"}, "f": {"d"}}
    assert circles(used) == {frozenset("abc")}


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Inside a room as between rooms; what only type checkers read counts, too."""
    assert circles(graph()) == set()
    assert circles(graph(checking=True)) == set()


def test_nobody_imports_the_command_line() -> None:
    for path in FILES:
        if path.is_relative_to(SRC / "cli") or path == SRC / "__main__.py":
            continue
        assert not any(room_of(name) == "cli" for name in imports(path)), path


TESTS = Path(__file__).parent


def test_no_test_module_imports_another() -> None:
    """What tests share lies in forge/ (bytes), helpers/ (programs, processes) and hostile/inputs."""
    found = {}
    for path in [
        *TESTS.rglob("*.py"),
        *(TESTS.parent / "fuzz").glob("*.py"),
        *(TESTS.parent / "benchmarks").glob("*.py"),
    ]:
        used = {
            name
            for node in statements(ast.parse(path.read_text()), checking=True)
            if isinstance(node, ast.ImportFrom) and node.module
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            if name.startswith(("tests.", "fuzz."))
        }
        wrong = {name for name in used if re.search(r"\.test_\w+$", name)}
        if path.is_relative_to(TESTS):
            wrong |= {name for name in used if name.startswith("fuzz.")}
        if wrong:
            found[path.name] = sorted(wrong)
    assert not found
