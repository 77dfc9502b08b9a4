"""Build the compiled kernels. Everything else about the package is in pyproject.toml.

A kernel is ordinary Python with Cython's type annotations (pure-Python mode). Every Python file of a folder named
`kernels` is one; tests/test_packaging.py compares what was built with the files on disk.
"""

import os
import sys
import sysconfig
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

KERNELS = sorted(
    ".".join(path.relative_to("src").with_suffix("").parts)
    for path in Path("src", "whence").rglob("kernels/*.py")
    if path.name != "__init__.py"
)

if sys.platform == "win32":
    KERNELS.remove("whence.kernels.mapped")  # no signals there, and no file that is mapped can be cut

if sys.platform != "linux":
    KERNELS.remove("whence.unwind.kernels.ptrace")  # stops threads of live processes

# The buffer code that every module using typed memoryviews needs lives once, in this module, instead of once a kernel:
# it costs seconds of compile time each time it is repeated.
SHARED = "whence._cyutility"

# What every kernel's C reads first: keeps Cython's start-up code from importing a big module for seven constants.
START = str(Path("src", "whence", "limited_api.h"))

# One build for CPython 3.11 and every later one; free-threaded ones have no limited API before 3.15 (PEP 803).
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
LIMITED_API = [] if FREE_THREADED else [("Py_LIMITED_API", "0x030b0000")]
CHECKED = bool(os.environ.get("WHENCE_CHECKED"))  # bounds-checked kernels, for the fuzzers (make checked)
SANITIZED = bool(os.environ.get("WHENCE_SANITIZED"))  # kernels under AddressSanitizer (make sanitized)

# What setuptools asks the compiler for first comes from Python's own build; these come after it and win.
SANITIZER = ["-fsanitize=address"] if SANITIZED else []
if sys.platform == "win32":  # Microsoft's compiler
    COMPILE_ARGS = ["/O2", "/FI", str(Path(START).absolute())]
else:
    COMPILE_ARGS = ["-O1", "-g1"] if CHECKED or SANITIZED else ["-O3", "-g0"]
    COMPILE_ARGS += [*SANITIZER, "-Wno-unused-function", "-fno-strict-aliasing", "-include", START]


def extension(name: str, source: str) -> Extension:
    return Extension(
        name,
        [source],
        define_macros=LIMITED_API,
        py_limited_api=not FREE_THREADED,
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=SANITIZER,
        depends=[START],
    )


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

# Kernels built differently keep apart.
BUILD_BASE = "build/checked" if CHECKED else "build/sanitized" if SANITIZED else "build"


class AbiWheel(bdist_wheel):
    """One wheel for CPython 3.11 and every later one."""

    def finalize_options(self) -> None:
        if not FREE_THREADED:
            self.py_limited_api = "cp311"
        super().finalize_options()


class WithoutKernelSources(build_py):
    """A wheel has kernels compiled: their sources are of use to who builds, and in the source distribution."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        found = super().find_package_modules(package, package_dir)
        return [one for one in found if f"{package}.{one[1]}" not in KERNELS]


def source_of(kernel: str) -> str:
    return str(Path("src", *kernel.split(".")).with_suffix(".py"))


extensions = cythonize(
    [extension(name, source_of(name)) for name in KERNELS]
    + [extension(SHARED, str(Path("build", "cython", "_cyutility.c")))],
    build_dir="build/cython-checked" if CHECKED else "build/cython",
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

setup(
    ext_modules=extensions,
    cmdclass={"bdist_wheel": AbiWheel, "build_py": WithoutKernelSources},
    options={
        "build": {"build_base": BUILD_BASE},  # no build may take another's objects
        "build_ext": {"parallel": CORES},
    },
)
