"""Build the compiled kernels. Everything else about the package is in pyproject.toml.

A kernel is ordinary Python with Cython's type annotations (pure-Python mode). Every Python file of a folder named
`kernels` is one; tests/test_packaging.py compares what was built with the files on disk. All are linked into one shared
object, COMPILED, where whence/kernels/__init__.py finds them.

Equal sources give equal bytes, wherever and whenever they are built: `make reproducible` compares two builds.
"""

import gzip
import os
import sys
import sysconfig
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.modified import newer_group

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # a build front end may leave it out

from tools import sbom

# The time of every file in what is built: 1980-01-01, the first that a zip file can store.
EPOCH = int(os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800"))

KERNELS = sorted(
    ".".join(path.relative_to("src").with_suffix("").parts)
    for path in Path("src", "whence").rglob("kernels/*.py")
    if path.name != "__init__.py"
)

# Newer than the shared object where a kernel was deleted: it is linked again, without that one.
FOLDERS = sorted({str(Path("src", *name.split(".")[:-1])) for name in KERNELS})

if sys.platform == "win32":
    KERNELS.remove("whence.kernels.mapped")  # no signals there, and no file that is mapped can be cut

if sys.platform != "linux":
    KERNELS.remove("whence.unwind.kernels.ptrace")  # stops threads of live processes

# The buffer code that every module using typed memoryviews needs lives once, in this module, instead of once a kernel:
# it costs seconds of compile time each time it is repeated.
SHARED = "whence.kernels._cyutility"

COMPILED = "whence.kernels.compiled"  # the shared object

# One build for CPython 3.11 and every later one; free-threaded ones have no limited API before 3.15 (PEP 803).
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED_API = [] if FREE_THREADED else [("Py_LIMITED_API", "0x030b0000")]
HEADER = str(Path("src", "whence", "kernels", "limited_api.h"))  # keeps Cython from importing a big module
CHECKED = bool(os.environ.get("WHENCE_CHECKED"))  # bounds-checked kernels, for the fuzzers (make checked)
SANITIZED = bool(os.environ.get("WHENCE_SANITIZED"))  # kernels under AddressSanitizer (make sanitized)

# What setuptools asks the compiler for first comes from Python's own build; these come after it and win.
SANITIZER = ["-fsanitize=address"] if SANITIZED else []
if sys.platform == "win32":  # Microsoft's compiler
    COMPILE_ARGS = ["/O2", "/Brepro", *(["/FI", str(Path(HEADER).absolute())] if LIMITED_API else [])]
    LINK_ARGS = ["/Brepro"]  # no time in the file
else:
    LINK_ARGS = SANITIZER
    COMPILE_ARGS = ["-O1", "-g1"] if CHECKED or SANITIZED else ["-O3", "-g0"]
    COMPILE_ARGS += [*SANITIZER, "-Wno-unused-function", "-fno-strict-aliasing"]
    COMPILE_ARGS += ["-include", HEADER] if LIMITED_API else []


def extension(name: str, sources: list[str]) -> Extension:
    return Extension(
        name,
        sources,
        define_macros=LIMITED_API,
        py_limited_api=not FREE_THREADED,
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=LINK_ARGS,
        depends=["setup.py", HEADER],
    )


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# Kernels built differently keep apart.
BUILD_BASE = "build/checked" if CHECKED else "build/sanitized" if SANITIZED else "build"


def report(text: str) -> None:
    """Write a line to the file that WHENCE_PROGRESS names. Pip shows no output of a build before its end."""
    path = os.environ.get("WHENCE_PROGRESS", "")
    if os.path.exists(path):
        with suppress(OSError), open(path, "a") as output:
            print(text, file=output)


def plain_mode(mode: int) -> int:
    """Return permissions that do not depend on the umask: a file is executable by all or by none."""
    return 0o755 if mode & 0o100 else 0o644


class AbiWheel(bdist_wheel):
    """One wheel for CPython 3.11 and every later one, with a bill of materials (PEP 770)."""

    def finalize_options(self) -> None:
        if not FREE_THREADED:
            self.py_limited_api = "cp311"
        super().finalize_options()

    def write_wheelfile(self, wheelfile_base: str, *arguments: str) -> None:
        super().write_wheelfile(wheelfile_base, *arguments)
        path = Path(wheelfile_base, "sboms", "whence.cdx.json")
        path.parent.mkdir()
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        path.write_text(sbom.of_wheel(self.distribution.get_version(), project))
        for each in Path(self.bdist_dir).rglob("*"):
            if each.is_file():
                each.chmod(plain_mode(each.stat().st_mode))


class SortedArchive(sdist):
    """The source distribution, with its files in order and without times and owners."""

    def make_archive(
        self, base_name: str, format: str, root_dir: str | None = None, base_dir: str = "", **_: object
    ) -> str:
        def without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = EPOCH
            member.mode = 0o755 if member.isdir() else plain_mode(member.mode)
            return member

        path = f"{base_name}.tar.gz"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", 9, file, EPOCH) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for each in sorted([Path(base_dir), *Path(base_dir).rglob("*")]):
                archive.add(each, recursive=False, filter=without_owner)
        return path


def start_function(source: str) -> str:
    """Return the name of a kernel's start function, which has the module's full name to be unique in the object."""
    parts = Path(source).with_suffix("").parts
    return "PyInit_" + "_".join(parts[parts.index("whence") :] if "whence" in parts else SHARED.split("."))


class BuildKernels(build_ext):
    """Compiles what is newer than its object, on all cores; then links all."""

    def build_extensions(self) -> None:
        compile_all = self.compiler.compile
        for extension in self.extensions:
            extension.depends = [*extension.depends, *FOLDERS]

        def compile_newer(
            sources: list[str], output_dir: str, macros: list[tuple[str, str]], depends: list[str], **settings: object
        ) -> list[str]:
            objects = self.compiler.object_filenames(sources, output_dir=output_dir)
            started = {source: (f"PyInit_{Path(source).stem}", start_function(source)) for source in sources}
            outdated = [
                source for source, made in zip(sources, objects)
                if self.force or newer_group([source, "setup.py", HEADER], made)
            ]  # fmt: skip
            jobs = [
                pool.submit(compile_all, [source], output_dir=output_dir, macros=[*macros, started[source]], **settings)
                for source in outdated
            ]
            for number, job in enumerate(as_completed(jobs), 1):
                job.result()
                report(f"  compiled kernel {number} of {len(outdated)}")
            return objects

        with ThreadPoolExecutor(CORES) as pool:
            self.compiler.compile = compile_newer
            super().build_extensions()

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return [start_function(source) for source in ext.sources]


class WithoutKernelSources(build_py):
    """A wheel has kernels compiled: their sources are of use to who builds, and in the source distribution."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        found = super().find_package_modules(package, package_dir)
        return [one for one in found if f"{package}.{one[1]}" not in KERNELS]


def source_of(kernel: str) -> str:
    return str(Path("src", *kernel.split(".")).with_suffix(".py"))


def c_file_of(kernel: str) -> str:
    return str(Path(TRANSLATED, source_of(kernel)).with_suffix(".c"))


TRANSLATED = "build/cython-checked" if CHECKED else "build/cython"
NEED_NO_KERNELS = {"dist_info", "egg_info", "sdist"}  # commands


def translate(extensions: list[Extension]) -> list[Extension]:
    """Translate changed kernels to C."""
    changed = [name for name in KERNELS if newer_group([source_of(name)], c_file_of(name))]
    if changed:
        report(f"  translating {len(changed)} kernels to C")
    return cythonize(
        [*extensions, extension(SHARED, [str(Path("build", "cython", "_cyutility.c"))])],
        build_dir=TRANSLATED,
        force=newer_group(["setup.py"], c_file_of(KERNELS[0])),
        shared_utility_qualified_name=SHARED,
        nthreads=0 if sys.platform == "win32" else CORES,
        language_level=3,
        compiler_directives={
            "boundscheck": CHECKED,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
            "embedsignature": True,
            "embedsignature.format": "python",
            "binding": False,  # plain built-in functions: a tenth less machine code in every kernel
            "auto_pickle": False,  # Column pickles by a function of its own, nothing else is pickled
            "freethreading_compatible": True,
        },
    )


kernels = [extension(name, [source_of(name)]) for name in KERNELS]
if not NEED_NO_KERNELS & {*sys.argv[1:]}:
    kernels = translate(kernels)

# The commands. What pip makes of an entry point imports more than `whence` does, so that one is a file of ours; on
# Windows, where no file without an ending is a program, it is an entry point like the others, and pip makes whence.exe.
SCRIPTS = [] if sys.platform == "win32" else ["bin/whence"]
ENTRY_POINTS = [
    *(["whence = whence.cli.main:main"] if sys.platform == "win32" else []),
    "whence-addr2line = whence.cli.main:addr2line",
    "whence-llvm-symbolizer = whence.cli.main:llvm_symbolizer",
]

setup(
    scripts=SCRIPTS,
    entry_points={"console_scripts": ENTRY_POINTS},
    ext_modules=[extension(COMPILED, [source for kernel in kernels for source in kernel.sources])],
    cmdclass={
        "bdist_wheel": AbiWheel,
        "build_ext": BuildKernels,
        "build_py": WithoutKernelSources,
        "sdist": SortedArchive,
    },
    options={
        "build": {"build_base": BUILD_BASE},  # no build may take another's objects
        "build_ext": {"parallel": CORES},
    },
)
