"""`whence demo DIR`: write the files that README and the guides use, from an archive that tools/demo_files.py makes."""

from __future__ import annotations

import os
import sys
import zipfile
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.files import atomic_write
from whence._base.words import plain
from whence.cli.main import ANSWERED

if TYPE_CHECKING:
    from whence.cli.parser import Parser

ARCHIVE = Path(__file__).with_name("demo.zip")
FILES = {
    "app.c": "a C program",
    "app": "the program, built by gcc -g -O2 for x86-64 Linux; ./app 60 runs for a minute",
    "cpu.pb.gz": "a pprof profile of app that has only addresses",
    "old.pb.gz": "an earlier profile of app",
    "new.pb.gz": "a later profile of app",
    "crash.log": "a report of AddressSanitizer without names",
    "samples.csv": "a table of build-ids and addresses",
    "perf.data": "a recording of perf",
    "symbols/spin": "the program in the recording, with debug info",
    "core.4711": "a core dump of an arm64 machine",
    "server": "the program in the core dump",
    "trace.out": "a Go execution trace",
    "image/": "an empty folder for an unpacked image",
}


def configure(parser: Parser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the folder to write: a new or an empty one")
    parser.examples("whence demo demo && cd demo", "whence app main", "whence cpu.pb.gz --binary app")


def run(options: Namespace) -> int:
    """Write the files and list them. Raises WrongUse if the folder has files."""
    folder = Path(options.folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise WrongUse(f"demo: {folder} exists and is not an empty folder: give another one")
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(ARCHIVE) as archive:
        for entry in archive.infolist():
            path = folder / entry.filename
            if entry.is_dir():
                path.mkdir()
            else:
                path.parent.mkdir(exist_ok=True)
                with atomic_write(path) as file:
                    file.write(archive.read(entry))
            os.chmod(path, entry.external_attr >> 16)
    for name, what in FILES.items():
        print(f"{name:13} {what}")
    print(f"whence: the files are in {plain(options.folder)}: go there to follow the guides", file=sys.stderr)
    return ANSWERED
