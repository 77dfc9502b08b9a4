"""Filter a log block by block: search the lines for forms, hold back reports, write the rest with names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whence._base.model import Frames
from whence.filter import apple
from whence.filter.forms import ANY_ADDRESS, FORMS, Holds, Style
from whence.filter.matching import KERNEL_OFFSET_NEEDLE, FormIndex
from whence.filter.naming import KERNEL_OFFSET, MAX_LINE, LineNamer
from whence.filter.places import Places
from whence.filter.reports import HeldReport

PIECE = 1 << 15  # bytes scanned at once
FIRST_PIECE = 1 << 9  # after a report; what follows the next one in a piece is scanned again
KERNEL_OFFSET_LINE = 64  # bytes of the longest text that KERNEL_OFFSET matches


class LogFilter:
    """Names what it recognizes in a stream of text.

    Args:
        places: finds the frames of addresses.
        style: how names are written.
        every: also look up every other address in the text.
        links: write files as hyperlinks of the terminal (OSC 8).
        kernel_offsets: where the kernels of the whole text were loaded (`kernel_offsets_in`), if the text was read
            before: a kernel prints its offset after its trace. Otherwise an offset is used after its line.
    """

    def __init__(
        self,
        places: Places,
        *,
        style: Style = Style.SAME,
        every: bool = False,
        links: bool = False,
        kernel_offsets: Sequence[int] = (),
    ) -> None:
        self._places = places
        self._forms = FormIndex((*FORMS, ANY_ADDRESS) if every else FORMS)
        self._namer = LineNamer(places, self._forms, style, links=links, kernel_offsets=kernel_offsets)
        self._report_bits = sum(self._forms.reports)
        self._tail = b""  # the last line, until its end was read
        self._endless = False  # True inside a line longer than MAX_LINE
        self._report: HeldReport | None = None
        self._piece = PIECE

    def feed(self, block: bytes) -> bytes:
        """Filter a block of any size; return all complete lines that are not held back."""
        passed = b""
        if self._endless:
            end = block.find(b"\n") + 1
            if not end:
                return block
            self._endless = False
            passed, block = block[:end], block[end:]
        end = block.rfind(b"\n") + 1
        text = self._tail + block[:end] if end else b""
        self._tail = block[end:] if end else self._tail + block
        named = self._lines(text) if text else b""
        if len(self._tail) > MAX_LINE:
            passed_tail, self._tail, self._endless = self._release() + self._tail, b"", True
            return passed + named + passed_tail
        return passed + named

    def finish(self) -> bytes:
        """Return the rest: a last line without newline, and a report without a list of modules."""
        tail, self._tail = self._tail, b""
        rest = (self._lines(tail) if tail else b"") + self._release()
        self._namer.count_missing()
        return rest

    def _lines(self, text: bytes) -> bytes:
        out: list[bytes] = []
        start = 0
        while start < len(text):
            piece = text[start : text.find(b"\n", start + self._piece) + 1 or len(text)]
            self._piece = min(2 * self._piece, PIECE)
            if self._report is None:
                start += self._scan(piece, out)
            else:
                start += self._report.add(piece)
                if self._report.complete:
                    out.append(self._release())
                    self._piece = FIRST_PIECE
        return b"".join(out)

    def _scan(self, text: bytes, out: list[bytes]) -> int:
        """Name lines up to the start of a report; return the number of bytes before it."""
        lines = self._forms.needles.lines(text, self._namer.active).numbers()
        for index in range(0, len(lines), 3):
            if bits := lines[index + 2] & self._report_bits:
                start = lines[index]
                out.append(self._namer.name(text[:start], lines[:index]))
                kind = self._forms.reports[bits & -bits]
                self._report = HeldReport(kind)
                if kind.titles or kind.json:
                    self._places.forget()
                    self._namer.forget_answers()
                return int(start)
        out.append(self._namer.name(text, lines))
        return len(text)

    def _frames_at(self, image: apple.Image, offset: int, back: int) -> Frames:
        return self._places.in_module(image.path or image.name, image.uuid, offset, Holds.FROM_START, back)

    def _release(self) -> bytes:
        """Return the report that was held back, with names."""
        report, self._report = self._report, None
        if report is None:
            return b""
        if report.program and self._places.add_program(report.program):
            self._namer.forget_answers()
        if report.is_json:
            return apple.named_report(report.text, self._frames_at)
        if report.images:
            self._places.learn_images(report.images)
            self._namer.forget_answers()
        if report.maps:
            self._places.learn(report.maps)
            self._namer.forget_answers()
        return self._namer.name(report.text, self._forms.needles.lines(report.text, self._namer.active).numbers())


def kernel_offsets_in(blocks: Iterable[bytes]) -> list[int]:
    """Return where the kernels of a log were loaded (KASLR), in the order of its lines.

    The blocks of the log may end anywhere.
    """
    offsets: list[int] = []
    rest = b""
    for block in blocks:
        text = rest + block
        end = 0
        if KERNEL_OFFSET_NEEDLE in text:
            for match in KERNEL_OFFSET.finditer(text):
                offsets.append(int(match["offset"], 16))
                end = match.end()
        rest = text[max(end, len(text) - KERNEL_OFFSET_LINE) :]
    return offsets
