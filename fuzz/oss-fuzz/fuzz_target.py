"""A target of atheris. Its name says which parser it feeds: fuzz_elf.py runs the module fuzz.elf.

    python fuzz_elf.py CORPUS -max_total_time=60 -dict=FILE          (libFuzzer's options)

WHENCE_FUZZ_TARGET names the parser where the file has another name.
"""

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import atheris

NAME = os.environ.get("WHENCE_FUZZ_TARGET") or Path(sys.argv[0]).stem.removeprefix("fuzz_").removesuffix(".pkg")

with atheris.instrument_imports(include=["whence"]):
    from whence._base.errors import WhenceError

    module = import_module(f"fuzz.{NAME}")


def run_once(data: bytes) -> None:
    """Feed one input. Errors that whence raises on purpose are answers; any other is a finding."""
    with suppress(WhenceError):
        module.target(data)


if __name__ == "__main__":
    atheris.Setup(sys.argv, run_once)
    atheris.Fuzz()
