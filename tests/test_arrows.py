"""Packages import what the table of ARCHITECTURE.md says, and never in a circle."""

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "whence"
MAP = (SRC.parent.parent / "ARCHITECTURE.md").read_text()

# what every package may import
COMMON = {"_base", "_version", "kernels"}


def rows(text: str) -> dict[str, set[str]]:
    """Return the packages of the table in ARCHITECTURE.md, with what each imports."""
    cells = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    named = [(row[0].strip().removesuffix("/"), row[2].strip()) for row in cells if len(row) == 3]
    return {package: set(filter(None, imports.split(", "))) for package, imports in named if package != "package"}


ARROWS = rows(MAP)


def package_of(module: str) -> str:
    """Return the package a whence module belongs to: its first folder, or the module itself."""
    return module.removeprefix("whence.").split(".")[0]


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # of a statement: those below it


def statements(node: ast.AST, checking: bool = False) -> Iterator[ast.stmt]:
    """Yield the statements below that run, and those under `if TYPE_CHECKING` only if `checking`."""
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
    """Return the modules of whence that a file imports when it runs, including kernels' cimports and imports in
    functions; with `checking`, also imports that only type checkers read."""
    result: set[str] = set()
    for node in statements(parsed(path), checking):
        if isinstance(node, ast.Import):
            result |= {alias.name for alias in node.names if alias.name in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module:
            result |= meant(node.module.removeprefix("cython.cimports."), [alias.name for alias in node.names])
    header = path.with_suffix(".pxd")
    if header.exists():
        for module, names in CIMPORT.findall(header.read_text()):
            result |= meant(module, [name.strip() for name in names.split(",")])
    return result - {name_of(path)}


def graph(checking: bool = False) -> dict[str, set[str]]:
    return {name: imports(path, checking) for name, path in MODULES.items()}


@pytest.mark.parametrize("package", [*sorted(ARROWS), "__main__"])
def test_a_package_imports_what_the_map_says(package: str) -> None:
    """Both ways: an import that no module has any more leaves the map."""
    used = {package_of(name) for module, names in graph().items() if package_of(module) == package for name in names}
    if package in ("cli", "__main__"):
        assert used <= {*ARROWS, *COMMON, "whence"}
        return
    assert used - COMMON - {package} == ARROWS[package]


def test_every_package_is_in_the_map() -> None:
    packages = {package_of(module) for module in MODULES if module != "whence"}
    assert packages == {*ARROWS, *COMMON, "__main__"}


def circles(used: dict[str, set[str]]) -> set[frozenset[str]]:
    """Modules that reach one another by imports (Tarjan's strongly connected components of two and more)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    result: set[frozenset[str]] = set()

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
                result.add(frozenset(circle))

    for module in used:
        if module not in order:
            visit(module)
    return result


def test_circles_are_found() -> None:
    used = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"e"}, "f": {"d"}}
    assert circles(used) == {frozenset("abc")}


def test_no_modules_import_one_another_in_a_circle() -> None:
    """Inside packages and between packages, including imports that only type checkers read."""
    assert circles(graph()) == set()
    assert circles(graph(checking=True)) == set()


def test_only_the_console_imports_the_console() -> None:
    for path in FILES:
        if path.is_relative_to(SRC / "cli") or path == SRC / "__main__.py":
            continue
        assert not {package_of(name) for name in imports(path)} & {"cli", "dropin"} - {package_of(name_of(path))}, path


def test_packages_do_not_import_one_another_in_a_circle() -> None:
    between: dict[str, set[str]] = {package_of(module): set() for module in MODULES}
    for module, used in graph().items():
        between[package_of(module)] |= {package_of(name) for name in used} - {package_of(module)}
    assert circles(between) == set()


TESTS = Path(__file__).parent


def test_no_test_module_imports_another() -> None:
    """Shared code of tests is in forge/ (bytes), helpers/ (programs, processes) and hostile/inputs."""
    result = {}
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
            result[path.name] = sorted(wrong)
    assert not result


def test_readers_of_debug_info_do_not_know_the_format_of_the_object_file() -> None:
    """Only code that opens files, and readers of core files, name a format."""
    opens = {"whence.unwind.core", "whence.unwind.modules"}
    for name, path in MODULES.items():
        if package_of(name) in ("dwarf", "gopclntab", "unwind") and name not in opens:
            assert not [each for each in imports(path) if each.startswith("whence.objects.elf")], path
