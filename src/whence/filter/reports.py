"""Reports that list their modules at the end, and are held back until then."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from whence.filter import apple

MAX_HELD = 1 << 23  # bytes of a report
MAPS_LINE = re.compile(rb"[0-9a-f]{1,16}-[0-9a-f]{1,16} [r-][w-][x-][ps] [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+")


class ReportKind(NamedTuple):
    """A kind of report: the needles it may start with, and what announces its modules.

    That is the title of a list, or a line that ends the report, in which `program` finds the path of the program. A
    report in JSON has its modules in it.
    """

    starts: tuple[bytes, ...]
    titles: tuple[bytes, ...] = ()
    ends: tuple[bytes, ...] = ()
    program: re.Pattern[bytes] | None = None
    line: re.Pattern[bytes] = MAPS_LINE  # of the list
    json: bool = False  # a report in JSON, which ends with a line that closes an object


LISTS = (b"Dynamic libraries:", b"MAPPED_LIBRARIES:")
REPORTS = (
    ReportKind((b"# A fatal error has been detected by the Java Runtime",), titles=LISTS),
    ReportKind((b"@ heap",), titles=LISTS),  # gperftools
    ReportKind((b"%^heap_v2/%d",), titles=LISTS),  # jemalloc
    ReportKind((b"-- C level backtrace information -",), titles=(b"* Process memory map:",)),  # Ruby
    ReportKind((b"%^Exception Type:%_EXC_",), titles=(apple.TITLE,), line=apple.IMAGE_LINE),
    ReportKind((b'"bug_type":"309"',), json=True),  # .ips
    ReportKind(
        (b"WARNING: ThreadSanitizer: ", b"ERROR: ThreadSanitizer: "),
        ends=(b"SUMMARY: ThreadSanitizer: ", b"=================="),
        program=re.compile(rb"SUMMARY: [^\n]{1,4096}? \((?P<path>/[^\n(]{1,4096}?)\+0x[0-9a-f]{1,16}\)"),
    ),
    ReportKind(
        (b"=== REDIS BUG REPORT START",),
        ends=(b"=== REDIS BUG REPORT END",),
        program=re.compile(rb"^executable:(?P<path>/[^\r\n]{1,4096})", re.MULTILINE),
    ),
)


class HeldReport:
    """A report that is held back.

    Attributes:
        complete: True once its modules were listed, or it has MAX_HELD bytes.
        program: the path of the program, "" if unknown.
    """

    def __init__(self, report: ReportKind) -> None:
        self.complete = False
        self.program = ""
        self._report = report
        self._lines: list[bytes] = []
        self._size = 0
        self._maps: list[bytes] | None = None  # the list of modules, once its title was read

    @property
    def text(self) -> bytes:
        """The text that is held back."""
        return b"".join(self._lines)

    @property
    def is_json(self) -> bool:
        return self._report.json

    @property
    def maps(self) -> bytes:
        """The lines of the list of modules, in the format of /proc/PID/maps; b"" if the list has another format."""
        return b"".join(self._maps or ()) if self._report.line is MAPS_LINE else b""

    @property
    def images(self) -> list[apple.Image]:
        """The images of a report of macOS."""
        return apple.images_of(b"".join(self._maps or ())) if self._report.line is apple.IMAGE_LINE else []

    def add(self, text: bytes) -> int:
        """Hold back the lines of `text` that belong to the report; return the number of bytes held back."""
        if self._report.json:
            return self._add_json(text)
        if self._maps is not None:
            return self._add_maps(text, self._maps)
        titles = (*self._report.titles, *self._report.ends)
        ends = [offset for title in titles if (offset := text.find(title)) >= 0]
        if not ends or min(ends) > MAX_HELD - self._size:
            self._hold(text)
            self.complete = self._size > MAX_HELD
            return len(text)
        end = text.find(b"\n", min(ends)) + 1 or len(text)
        self._hold(text[:end])
        if self._report.titles:
            self._maps = []
        else:
            program = self._report.program.search(self.text) if self._report.program else None
            self.program = os.fsdecode(program["path"]) if program else ""
            self.complete = True
        return end

    def _add_json(self, text: bytes) -> int:
        """Hold back the first line, and lines up to the end of the object after it."""
        done = 0
        while done < len(text) and not self.complete:
            end = text.find(b"\n", done) + 1 or len(text)
            line = text[done:end].rstrip()
            self.complete = bool(self._lines) and (line == b"}" or line[:1] + line[-1:] == b"{}")
            self._hold(text[done:end])
            done = end
            self.complete = self.complete or self._size > MAX_HELD
        return done

    def _add_maps(self, text: bytes, maps: list[bytes]) -> int:
        """Hold back the lines of a list of modules, and the lines before the first of them."""
        done = 0
        while done < len(text) and not self.complete:
            end = text.find(b"\n", done) + 1 or len(text)
            line = text[done:end]
            match = self._report.line.search(line)
            if match:
                maps.append(line[match.start() :].rstrip(b"\r\n").partition(b"\x1b")[0] + b"\n")
            elif maps:
                self.complete = True
                break
            self._hold(line)
            done = end
            self.complete = self._size > MAX_HELD
        return done

    def _hold(self, text: bytes) -> None:
        self._lines.append(text)
        self._size += len(text)
