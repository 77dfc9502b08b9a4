"""What is built is what is there: no kernel forgotten, none stale."""

import importlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
ON_DISK = sorted(
    ".".join(path.relative_to(SRC).with_suffix("").parts)
    for path in (SRC / "whence").rglob("kernels/*.py")
    if path.name != "__init__.py"
)


@pytest.mark.parametrize("name", ON_DISK)
def test_the_imported_kernel_is_compiled_and_not_older_than_its_source(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    built = Path(module.__file__)
    assert built.suffix == ".so", f"{name} runs interpreted: make test builds it"
    source = (SRC / Path(*name.split("."))).with_suffix(".py")
    assert built.stat().st_mtime >= source.stat().st_mtime, f"{built} is older than {source}: run make test"


def test_all_kernels_are_one_shared_object() -> None:
    """Files built by an earlier version are ignored: every kernel is imported from the object of whence.kernels."""
    kernels = importlib.import_module("whence.kernels")
    assert Path(kernels.__path__[0]).name.startswith("compiled.")
    for name in ON_DISK:
        module = importlib.import_module(name)
        assert module.__file__ == kernels.__path__[0]
        assert (module.__name__, module.__package__) == (name, name.rpartition(".")[0])
    names = [name.rpartition(".")[2] for name in ON_DISK]
    assert len({*names}) < len(names), "no two packages have kernels of the same name"


def test_where_no_kernel_is_built_the_import_says_what_builds_them(tmp_path: Path) -> None:
    from whence.kernels import shared_object

    with pytest.raises(ImportError, match="the kernels are not built for this Python: `pip install"):
        shared_object(str(tmp_path))


def test_a_kernel_that_there_is_not_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="PyInit_whence_kernels_nothing"):
        importlib.import_module("whence.kernels.nothing")


def test_the_source_distribution_has_every_kernel_and_every_file_the_package_reads(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        there = {name.partition("/")[2] for name in tar.getnames()}
    skipped = {".so", ".pyc", ".c"}
    package = {str(p.relative_to(ROOT)) for p in (SRC / "whence").rglob("*") if p.is_file() and p.suffix not in skipped}
    assert package <= there, sorted(package - there)
    assert {"setup.py", "pyproject.toml", "README.md", "LICENSE"} <= there


# What setup.py says of the package on a system, without translating a kernel.
METADATA = """
import json, sys, types
import setuptools.modified, setuptools.command.bdist_wheel, setuptools.command.build_ext, setuptools.command.build_py
from distutils.core import run_setup
build = types.ModuleType("Cython.Build")
build.cythonize = lambda extensions, **options: extensions
sys.modules.update({"Cython": types.ModuleType("Cython"), "Cython.Build": build})
setuptools.modified.newer_group = lambda sources, target: False
sys.platform = sys.argv[1]
made = run_setup("setup.py", ["--quiet"], stop_after="config")
sources = {module.name: len(module.sources) for module in made.ext_modules}
print(json.dumps({"scripts": made.scripts, "sources": sources, **made.entry_points}))
"""


@pytest.fixture(scope="session")
def metadata() -> Callable[[str], dict[str, Any]]:
    @cache
    def on(system: str) -> dict[str, Any]:
        words = [sys.executable, "-W", "ignore", "-c", METADATA, system]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr[-2000:]
        return dict(json.loads(done.stdout))

    return on


def test_on_windows_the_command_is_an_entry_point_that_pip_makes_a_program_of(
    metadata: Callable[[str], dict[str, Any]],
) -> None:
    there = metadata("win32")
    assert there["scripts"] == []
    points = dict(each.split(" = ") for each in there["console_scripts"])
    assert {*points} == {"whence", "whence-addr2line", "whence-llvm-symbolizer"}
    for target in points.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_the_command_is_a_script_that_starts_whence(metadata: Callable[[str], dict[str, Any]]) -> None:
    current = metadata("linux")
    assert [each.split()[0] for each in current["console_scripts"]] == ["whence-addr2line", "whence-llvm-symbolizer"]
    (name,) = current["scripts"]
    assert name == "bin/whence"
    done = subprocess.run([sys.executable, ROOT / name, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("whence ")


@pytest.mark.parametrize("where", ["whence._base.errors", "whence.cli.main"])
def test_ctrl_c_before_the_command_is_there_ends_it_without_a_traceback(where: str, tmp_path: Path) -> None:
    """`where`: what is being imported then."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {where!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    command = [sys.executable, str(ROOT / "bin/whence"), "--version"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_kernels_that_need_what_a_system_lacks_are_left_out_there(metadata: Callable[[str], dict[str, Any]]) -> None:
    built = {system: sum(metadata(system)["sources"].values()) for system in ("linux", "darwin", "win32")}
    assert built["linux"] == len(ON_DISK) + 1  # and the buffer code that all share
    assert (built["darwin"], built["win32"]) == (built["linux"] - 1, built["linux"] - 2)
