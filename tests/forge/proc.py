"""Forging /proc trees and maps files from values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Line:
    """A line of maps. `device` and `inode` are taken from the file `of` when that is given."""

    start: int
    limit: int
    name: str = ""
    offset: int = 0
    permissions: str = "r-xp"
    device: tuple[int, int] = (0, 0)
    inode: int = 0
    of: Path | None = None

    def text(self) -> bytes:
        device, inode = self.device, self.inode
        if self.of is not None:
            status = self.of.stat()
            device, inode = (os.major(status.st_dev), os.minor(status.st_dev)), status.st_ino
        head = f"{self.start:08x}-{self.limit:08x} {self.permissions} {self.offset:08x}"
        head += f" {device[0]:02x}:{device[1]:02x} {inode} "
        name = self.name.encode("utf-8", "surrogateescape").replace(b"\n", b"\\012")
        return (head.ljust(73).encode() if name else head.encode()) + name + b"\n"


def maps_text(lines: Sequence[Line | bytes]) -> bytes:
    return b"".join(line if isinstance(line, bytes) else line.text() for line in lines)


def stat_text(start_time: int = 100, places: Sequence[int] = (1, 2, 3, 4), name: str = "a (b) c") -> str:
    """A /proc/PID/stat with its start time and the places of code, stack and heap."""
    fields = ["0"] * 52
    fields[0], fields[1], fields[2], fields[21] = "7", f"({name})", "S", str(start_time)
    for field, location in zip((26, 27, 28, 47), places, strict=True):
        fields[field - 1] = str(location)
    return " ".join(fields)


def process(root: Path, pid: int, lines: Sequence[Line | bytes], start_time: int = 100) -> Path:
    """A process's directory with maps and stat."""
    directory = root / str(pid)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "maps").write_bytes(maps_text(lines))
    (directory / "stat").write_text(stat_text(start_time))
    return directory
