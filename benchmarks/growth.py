"""Growth: the time to archive a file against its megabytes of DWARF, from small files to the biggest there are.

Prints a line a file and draws docs/growth.svg. Flat milliseconds a megabyte mean that nothing grows faster than the
input.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.inputs import ROOT, debug_files
from benchmarks.timing import processes
from whence.objects.elf import ElfFile

WHENCE = str(Path(sys.executable).parent / "whence")
SECTIONS = (".debug_info", ".debug_line")
WIDTH, HEIGHT, MARGIN = 640, 320, 56


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    megabytes: float
    seconds: float

    @property
    def rate(self) -> float:
        """Milliseconds a megabyte, the start of the interpreter taken off."""
        return self.seconds * 1e3 / self.megabytes


def dwarf_megabytes(path: Path) -> float:
    with ElfFile.open(path) as elf:
        return sum(len(elf.content(name)) for name in SECTIONS) / 1e6


def run() -> None:
    out = str(ROOT / ".cache" / "bench" / "growth.lidia")
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    start = processes({"start": [WHENCE, "--version"]}, runs=5)["start"].seconds
    points = []
    for path in debug_files():
        cost = processes({"create": [WHENCE, "lidia", "create", str(path), "-o", out]}, runs=3)["create"]
        points.append(Point(path.name, dwarf_megabytes(path), max(cost.seconds - start, 1e-4)))
    points.sort(key=lambda point: point.megabytes)
    for point in points:
        print(f"  {point.name[:48]:48} {point.megabytes:8.1f} MB {point.seconds:7.3f} s {point.rate:6.2f} ms/MB")
    (ROOT / "docs" / "growth.svg").write_text(drawn(points))


def drawn(points: list[Point]) -> str:
    """Seconds over megabytes, both axes from 0: a straight line is linear growth."""
    most_mb = max(point.megabytes for point in points)
    most_s = max(point.seconds for point in points)

    def place(point: Point) -> tuple[float, float]:
        x = MARGIN + point.megabytes / most_mb * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - point.seconds / most_s * (HEIGHT - 2 * MARGIN)
        return x, y

    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, points))
    dots = "\n".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{point.name}: {point.rate:.2f} ms/MB</title></circle>'
        for point, (x, y) in ((point, place(point)) for point in points)
    )
    low, right = HEIGHT - MARGIN, WIDTH - MARGIN
    head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif"'
    return f"""<svg {head} font-size="13">
<rect width="100%" height="100%" fill="white"/>
<path d="M{MARGIN} {MARGIN}V{low}H{right}" fill="none" stroke="#555"/>
<polyline points="{line}" fill="none" stroke="#36c" stroke-width="2"/>
<g fill="#36c">
{dots}
</g>
<text x="{right}" y="{low + 32}" text-anchor="end">{most_mb:.0f} MB of .debug_info and .debug_line</text>
<text x="{MARGIN}" y="{MARGIN - 16}">{most_s:.2f} s to archive it</text>
<text x="{MARGIN - 8}" y="{low + 16}" text-anchor="end">0</text>
</svg>
"""
