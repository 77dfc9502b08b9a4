"""The commands' finder of whence's own modules: it finds what Python would, and leaves alone what it does not know."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import py_compile
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from whence.cli import imports
from whence.cli.imports import BytecodeFinder

TAG = sys.implementation.cache_tag or ""
INVALIDATION = py_compile.PycInvalidationMode


def found(folder: Path, name: str = "whence.one") -> ModuleSpec | None:
    return BytecodeFinder(TAG).find_spec(name, [str(folder)])


def compiled(path: Path, text: str = "answer = 42\n", mode: INVALIDATION = INVALIDATION.TIMESTAMP) -> Path:
    """A module, and the path of its bytecode."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    cached = py_compile.compile(str(path), doraise=True, invalidation_mode=mode)
    assert cached is not None
    return Path(cached)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Path]:
    """The finder is asked first for the modules of a package `whence.forged`, which lies in this folder."""
    compiled(tmp_path / "__init__.py", "")
    spec = importlib.util.spec_from_file_location(
        "whence.forged", tmp_path / "__init__.py", submodule_search_locations=[str(tmp_path)]
    )
    assert spec is not None
    sys.modules["whence.forged"] = importlib.util.module_from_spec(spec)
    finder = BytecodeFinder(TAG)
    sys.meta_path.insert(0, finder)
    yield tmp_path
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.startswith("whence.forged")]:
        del sys.modules[name]


def python(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()


@pytest.mark.parametrize("file", ["one.py", "one/__init__.py"], ids=["module", "package"])
def test_a_module_is_found_as_python_finds_it(tmp_path: Path, file: str) -> None:
    compiled(tmp_path / file)
    spec, expected = found(tmp_path), importlib.machinery.PathFinder.find_spec("whence.one", [str(tmp_path)])
    assert spec is not None
    assert expected is not None
    for name in ("name", "origin", "cached", "parent", "has_location", "submodule_search_locations"):
        assert getattr(spec, name) == getattr(expected, name), name
    assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
    module, alike = importlib.util.module_from_spec(spec), importlib.util.module_from_spec(expected)
    for name in ("__name__", "__file__", "__cached__", "__package__", "__path__"):
        assert getattr(module, name, None) == getattr(alike, name, None), name
    spec.loader.exec_module(module)
    assert module.answer == 42


def test_a_package_is_found_where_bytecode_of_a_deleted_module_has_its_name(tmp_path: Path) -> None:
    compiled(tmp_path / "one.py")
    compiled(tmp_path / "one" / "__init__.py")
    (tmp_path / "one.py").unlink()
    spec = found(tmp_path)
    assert spec is not None
    assert spec.submodule_search_locations == [str(tmp_path / "one")]


def test_no_module_lies_beside_a_package_of_its_name() -> None:
    """Python would take the package, the finder the module."""
    whence = Path(imports.__file__).parents[1]
    assert not [path for path in whence.rglob("*.py") if path.with_suffix("").is_dir()]


def test_bytecode_of_another_source_is_left_to_python(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    compiled(path)
    now = path.stat()
    path.write_text("answer = 143\n")  # a byte longer
    os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns))
    assert found(tmp_path) is None
    path.write_text("answer = 43\n")
    os.utime(path, (now.st_atime, now.st_mtime + 1))
    assert found(tmp_path) is None
    os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns))
    assert found(tmp_path) is not None


def test_bytecode_without_its_source_is_left_to_python(tmp_path: Path) -> None:
    compiled(tmp_path / "one.py")
    (tmp_path / "one.py").unlink()
    assert found(tmp_path) is None


@pytest.mark.parametrize("mode", [INVALIDATION.CHECKED_HASH, INVALIDATION.UNCHECKED_HASH])
def test_bytecode_that_knows_its_source_by_a_hash_is_left_to_python(tmp_path: Path, mode: INVALIDATION) -> None:
    compiled(tmp_path / "one.py", mode=mode)
    assert found(tmp_path) is None


@pytest.mark.parametrize("size", [0, 3, 4, 8, 12, 15])
def test_bytecode_that_is_cut_off_is_left_to_python(tmp_path: Path, size: int) -> None:
    cached = compiled(tmp_path / "one.py")
    cached.write_bytes(cached.read_bytes()[:size])
    assert found(tmp_path) is None


def test_bytecode_of_another_python_is_left_to_python(tmp_path: Path) -> None:
    cached = compiled(tmp_path / "one.py")
    content = cached.read_bytes()
    cached.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert found(tmp_path) is None


def test_other_packages_are_left_to_python(tmp_path: Path) -> None:
    compiled(tmp_path / "one.py")
    assert found(tmp_path, "whencever.one") is None
    assert found(tmp_path, "one") is None
    assert BytecodeFinder(TAG).find_spec("whence.one", None) is None
    assert found(tmp_path / "nowhere") is None


def test_a_module_that_was_changed_can_be_imported_again(installed: Path) -> None:
    compiled(installed / "one.py")
    module = importlib.import_module("whence.forged.one")
    assert isinstance(module.__loader__, imports.ReadLoader)
    assert module.answer == 42
    (installed / "one.py").write_text("answer = 1043\n")
    assert importlib.reload(module).answer == 1043


def test_source_and_code_of_a_module_are_there(installed: Path) -> None:
    compiled(installed / "one.py", "def work():\n    return 1\n")
    module = importlib.import_module("whence.forged.one")
    assert inspect.getsource(module.work) == "def work():\n    return 1\n"
    assert isinstance(module.__loader__, imports.ReadLoader)
    code = module.__loader__.get_code("whence.forged.one")  # what was read is no longer kept
    assert code is not None
    assert code.co_filename == str(installed / "one.py")


def test_kernels_are_found_where_they_are() -> None:
    import whence.elf.kernels as kernels

    (shared,) = kernels.__path__
    importlib.import_module("whence.elf.kernels.constants")  # Python asks the folder's finder, and remembers it
    spec = BytecodeFinder(TAG).find_spec("whence.elf.kernels.constants", [shared])
    assert spec is not None
    assert spec.origin == shared
    assert BytecodeFinder(TAG).find_spec("whence.elf.kernels.constants", ["/nowhere/compiled.so"]) is None


def test_commands_have_it_and_libraries_do_not() -> None:
    names = "[type(one).__name__ for one in sys.meta_path]"
    assert "BytecodeFinder" not in python("-c", f"import sys, whence; whence.open; print({names})")
    printed = python("-c", f"import sys; from whence.cli.main import alone; alone(lambda: print({names}))")
    assert "BytecodeFinder" in printed


@pytest.mark.parametrize(("options", "environment"), [(["-O"], {}), (["-OO"], {}), ([], {"PYTHONPYCACHEPREFIX": "/x"})])
def test_it_is_not_used_where_bytecode_lies_elsewhere(options: list[str], environment: dict[str, str]) -> None:
    script = (
        "import sys; from whence.cli import imports; before = len(sys.meta_path); imports.install();"
        "print(len(sys.meta_path) - before)"
    )
    assert python("-c", script) == "1"
    assert python("-B", *options, "-c", script, **environment) == "0"
