"""Put a lidia archive next to each extension module of wheels, and strip the modules.

    python wheel_archives.py wheelhouse/ [--debug-dir debug/]

Each `pkg/module.so` that has debug info gets a `pkg/module.so.lidia`, which whence finds by its name and build-id when
the wheel is installed. The debug info itself is removed; with --debug-dir it is kept in debug files by build-id, for
debuggers. Needs strip and objcopy (binutils), as the images of cibuildwheel have them. Run it after auditwheel, which
may change the modules.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import whence

DATE = (1980, 1, 1, 0, 0, 0)  # equal builds give equal wheels


def add_archives(wheel: Path, debug_dir: Path | None = None) -> list[str]:
    """Rewrite a wheel in place; return the names of the modules that have an archive now."""
    named = []
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as old:
            contents = {info: old.read(info) for info in old.infolist() if not info.is_dir()}
        record = next(info for info in contents if info.filename.endswith(".dist-info/RECORD"))
        files: dict[zipfile.ZipInfo, bytes] = {}
        for info, content in contents.items():
            if info is record:
                continue
            if info.filename.endswith(".so"):
                module = Path(folder, "module.so")
                module.write_bytes(content)
                archive = archived(module, debug_dir)
                if archive:
                    named.append(info.filename)
                    content = module.read_bytes()
                    files[zipfile.ZipInfo(f"{info.filename}.lidia", DATE)] = archive
            files[info] = content
        if not named:
            return []
        rows = [f"{info.filename},sha256={digest(content)},{len(content)}\n" for info, content in files.items()]
        files[record] = "".join([*rows, f"{record.filename},,\n"]).encode()
        new = Path(folder, wheel.name)
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as out:
            for info, content in files.items():
                out.writestr(info, content, zipfile.ZIP_DEFLATED)
        wheel.write_bytes(new.read_bytes())
    return named


def archived(module: Path, debug_dir: Path | None) -> bytes:
    """Return the archive of a module, and strip it; b"" for a module without debug info or build-id."""
    with whence.open(module) as binary:
        build_id = binary.build_id
        has_lines = any(entry.line_table for entry in binary.functions())
    if not build_id or not has_lines:
        print(f"{module}: no debug info or no build-id: build with CFLAGS=-g LDFLAGS=-Wl,--build-id", file=sys.stderr)
        return b""
    archive = module.with_suffix(".so.lidia")
    whence.lidia.create(module, archive)
    if debug_dir is not None:
        debug = debug_dir / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
        debug.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["objcopy", "--only-keep-debug", module, debug], check=True)
    subprocess.run(["strip", "--strip-debug", module], check=True)
    content = archive.read_bytes()
    archive.unlink()
    return content


def digest(content: bytes) -> str:
    """Return the SHA-256 as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def main() -> None:
    """Rewrite the wheels of the command line."""
    parser = argparse.ArgumentParser(description="Put an archive next to each extension module of wheels.")
    parser.add_argument("wheels", nargs="+", type=Path, help="wheels, and folders of wheels")
    parser.add_argument("--debug-dir", type=Path, help="keep the debug info in this folder")
    options = parser.parse_args()
    for path in options.wheels:
        for wheel in sorted(path.glob("*.whl")) if path.is_dir() else [path]:
            before = wheel.stat().st_size
            for name in add_archives(wheel, options.debug_dir):
                print(f"{wheel.name}: {name}.lidia")
            print(f"{wheel.name}: {before:,} -> {wheel.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
