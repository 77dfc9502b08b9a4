"""Collected cores: .crash files of apport, compressed cores, their signatures, and reports of what they have."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.forge.core import Mapped, core, status
from tests.forge.minidump import everything
from whence._base.errors import WhenceError
from whence.crashes import ReportOptions, crash_report, report_page, report_text
from whence.crashes.collected import read_collected
from whence.symbolize import Core, Symbolizer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PIECE = 64  # bytes of a stream in a line of a .crash file


def seeds() -> list[bytes]:
    mapped = [
        Mapped(0x10000, 0x11000, "/opt/app", memory=bytes(0x1000)),
        Mapped(0x70000, 0x71000, flags=6, memory=bytes(0x1000)),
    ]
    dump = core(mapped, [status(78, 0x10010, 0x70100), status(79, 0x10010, 0x70200)])
    packed = gzip.compress(dump)
    lines = b"".join(
        b" " + base64.b64encode(packed[offset : offset + PIECE]) + b"\n" for offset in range(0, len(packed), PIECE)
    )
    head = b"ProblemType: Crash\nExecutablePath: /opt/app\nProcStatus:\n Pid:\t9\nSignal: 11\nCoreDump: base64\n"
    return [dump, packed, zstd.compress(dump), lzma.compress(dump), head + lines, everything()]


def target(data: bytes) -> None:
    with TemporaryDirectory() as folder, Symbolizer() as symbolizer:
        path = Path(folder) / "core"
        path.write_bytes(data)
        result = read_collected(str(path), symbolizer)
        if result is None:
            return
        assert result.signature is not None or result.problem
        try:
            core = Core(path)
        except WhenceError:
            return
        report = crash_report(core, symbolizer, ReportOptions(variables=True, memory=True))
        assert report_text(report)
        assert "<script>" not in report_page(report).partition("<body>")[2].rpartition("<script>")[0]
        json.dumps(report.as_json())
