"""Build the compiled kernels. Everything else about the package is in pyproject.toml.

A kernel is ordinary Python with Cython's type annotations (pure-Python mode). Every Python file of a folder named
`kernels` is one; tests/test_packaging.py compares what was built with the files on disk.
"""

import os
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

KERNELS = sorted(
    ".".join(path.relative_to("src").with_suffix("").parts)
    for path in Path("src", "whence").rglob("kernels/*.py")
    if path.name != "__init__.py"
)

if sys.platform == "win32":
    KERNELS.remove("whence.mapped_kernel")  # no signals there, and no file that is mapped can be cut

# The buffer code that every module using typed memoryviews needs lives once, in this module, instead of once a kernel:
# it costs seconds of compile time each time it is repeated.
SHARED = "whence._cyutility"

# What every kernel's C reads first: keeps Cython's start-up code from importing a big module for seven constants.
START = str(Path("src", "whence", "limited_api.h"))

LIMITED_API = ("Py_LIMITED_API", "0x030b0000")
CHECKED = bool(os.environ.get("WHENCE_CHECKED"))  # bounds-checked kernels, for the fuzzers (make checked)
SANITIZED = bool(os.environ.get("WHENCE_SANITIZED"))  # kernels under AddressSanitizer (make sanitized)

# What setuptools asks the compiler for first comes from Python's own build; these come after it and win.
COMPILE_ARGS = ["-O1", "-g1"] if CHECKED or SANITIZED else ["-O3", "-g0"]
SANITIZER = ["-fsanitize=address"] if SANITIZED else []
COMPILE_ARGS += SANITIZER
COMPILE_ARGS += ["-Wno-unused-function", "-fno-strict-aliasing", "-include", START]


def extension(name: str, source: str) -> Extension:
    return Extension(
        name,
        [source],
        define_macros=[LIMITED_API],
        py_limited_api=True,
        extra_compile_args=COMPILE_ARGS,
        extra_link_args=SANITIZER,
        depends=[START],
    )


# Kernels built differently keep apart.
BUILD_BASE = "build/checked" if CHECKED else "build/sanitized" if SANITIZED else "build"


class AbiWheel(bdist_wheel):
    """One wheel for CPython 3.11 and every later one."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


def source_of(kernel: str) -> str:
    return str(Path("src", *kernel.split(".")).with_suffix(".py"))


extensions = cythonize(
    [extension(name, source_of(name)) for name in KERNELS]
    + [extension(SHARED, str(Path("build", "cython", "_cyutility.c")))],
    build_dir="build/cython-checked" if CHECKED else "build/cython",
    shared_utility_qualified_name=SHARED,
    nthreads=0 if sys.platform == "win32" else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
    language_level=3,
    compiler_directives={
        "boundscheck": CHECKED,
        "wraparound": False,
        "initializedcheck": False,
        "cdivision": True,
        "embedsignature": True,
        "embedsignature.format": "python",
        "freethreading_compatible": True,
    },
)

setup(
    ext_modules=extensions,
    cmdclass={"bdist_wheel": AbiWheel},
    options={"build": {"build_base": BUILD_BASE}},  # no build may take another's objects
)
