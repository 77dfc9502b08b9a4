"""`whence addr FILE [ADDRESS...]`: functions, files and lines of addresses, from arguments or as a coprocess on stdin.

Whole lines are answered as they come: one, or the hundred thousand that one read brings, rendered in compiled code.
"""

from __future__ import annotations

import os
import sys

from whence.binary import UNPACKED_AHEAD, is_archive, open_archive, open_elf
from whence.blocks import contextmanager
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.words import STDIN, is_address, plain
from whence.errors import shown
from whence.files import write_all
from whence.lidia.render import Queries, Renderer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterator

    from whence.binary import Binary

INTERMIXED = True
PLAIN = {  # the options when none is given (cli.options.LOCATOR_DEFAULTS among them); `words` are all the others
    "style": "llvm", "no_demangle": False, "return_addresses": False, "snapshot": None,
    "binary": [], "archive_dir": [], "store": [], "sysroot": "", "debug_dir": None, "debuginfod": None,
    "debuginfod_allow": None, "cache_dir": None, "cache_size": 4.0, "no_cache": False, "jobs": None, "verbose": False,
}  # fmt: skip
BLOCK = 1 << 16
NO_FRAMES = b'"frames": [], "reason": '


def configure(parser: ArgumentParser) -> None:
    from whence.cli.options import add_locator_options, add_name_options

    parser.usage = "whence addr FILE [ADDRESS...] [options]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="FILE ADDRESS",
        help='an ELF file or an archive, then addresses in hex; none, or "-": they are read from stdin, one a line',
    )
    parser.add_argument(
        "--style",
        choices=("llvm", "gnu", "json"),
        default="llvm",
        help="llvm-symbolizer's text (the default), addr2line -a -f -i's, or a JSON object a line",
    )
    parser.add_argument(
        "--json", dest="style", action="store_const", const="json", default="llvm", help="the same as --style json"
    )
    parser.add_argument(
        "--return-addresses", action="store_true", help="each address is one past a call: look up the byte before it"
    )
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="a process that `whence pid --save-snapshot` wrote down: the arguments are its runtime addresses, and "
        "binaries or archives for its files (as with --binary); printed as `whence pid` does (--json: as JSON)",
    )
    add_name_options(parser)
    add_locator_options(parser)


def run(options: Namespace) -> int:
    if options.snapshot:
        if options.style == "gnu":
            print("whence addr: --snapshot answers in words (the default) or as --style json", file=sys.stderr)
            return WRONG_USE
        from whence.cli.snapshot import answer_snapshot

        return answer_snapshot(options)
    if not options.words:
        print("whence addr: a FILE is needed (whence addr --help)", file=sys.stderr)
        return WRONG_USE
    path, *words = options.words
    if words == [STDIN]:
        words = []
    for word in words:
        if not is_address(word):
            print(f"whence addr: {word!r} is not an address in hex", file=sys.stderr)
            return WRONG_USE
    given = [("\n".join(words) + "\n").encode()] if words else []
    with opened(path, options, given) as binary:
        responder = Responder(binary, options)
        for block in given or lines_from(sys.stdin.fileno()):
            answers = responder.answer(block)
            sys.stdout.flush()
            write_all(sys.stdout.fileno(), answers)
        for problem in binary.problems[:5]:
            print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
        return SOME_UNKNOWN if responder.unknown else ANSWERED


@contextmanager
def opened(path: str, options: Namespace, given: list[bytes]) -> Iterator[Binary]:
    """The file that the command names, for the lines of addresses that are given, if any are. An archive needs no more
    than itself."""
    if is_archive(path):
        with open_archive(path) as binary:
            yield binary
        return
    from whence.dwarf.ahead import unpack_ahead

    vaddrs = [max(0, vaddr - options.return_addresses) for block in given for vaddr in Queries(block).vaddrs]
    elf = open_elf(path)
    try:
        if options.jobs != 1:
            unpack_ahead(elf, UNPACKED_AHEAD, vaddrs)  # while the rest is imported
        from whence.cli.options import locator_of

        with (
            locator_of(options) as locator,
            locator.complete(elf, columns=options.style != "gnu", ahead=vaddrs) as binary,
        ):
            yield binary
    except BaseException:
        elf.close()
        raise


def lines_from(descriptor: int) -> Iterator[bytes]:
    """Whole lines, as many as the other side has written each time."""
    rest: list[bytes] = []
    while block := os.read(descriptor, BLOCK):
        lines, newline, tail = block.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, lines, newline])
            rest = []
        rest.append(tail)
    if any(rest):
        yield b"".join(rest) + b"\n"


class Responder:
    """Answers blocks of lines from one binary, by a renderer for each table that the binary answers with."""

    def __init__(self, binary: Binary, options: Namespace) -> None:
        self.binary = binary
        self.style = options.style
        self.back = options.return_addresses
        self.raw_names = options.no_demangle
        self.unknown = 0
        self._renderer: tuple[object, Renderer] | None = None

    def answer(self, block: bytes) -> bytes:
        """The answers to lines with an address each, in order."""
        asked = Queries(block)
        if self.binary.is_archive:
            table = self.binary.table()
        else:
            table = self.binary.table_for(asked.vaddrs, return_address=self.back)
        if self._renderer is None or self._renderer[0] is not table:
            self._renderer = table, self._new_renderer(table)
        renderer = self._renderer[1]
        before = renderer.unknown
        out = renderer.answers(asked)
        found_nothing = renderer.unknown - before
        self.unknown += found_nothing
        if found_nothing:
            self._report_bad_lines(asked)
            if self.style == "json" and not self.binary.is_archive:
                lines = zip(out.splitlines(), asked.vaddrs, asked.is_bad, strict=True)
                out = b"".join(line + b"\n" if bad else self._reasoned(line, vaddr) for line, vaddr, bad in lines)
        return out

    def _new_renderer(self, table: object) -> Renderer:
        bits = 64 if self.binary.producers is None else self.binary.producers.elf.bits
        names = None if self.raw_names else readable
        return Renderer(table, self.style, demangle=names, return_address=self.back, width=bits // 4)  # type: ignore[arg-type]

    @staticmethod
    def _report_bad_lines(asked: Queries) -> None:
        for line in asked.bad_lines():
            print(f"whence addr: '{shown(line.decode('utf-8', 'replace'))}' is not an address in hex", file=sys.stderr)

    def _reasoned(self, line: bytes, asked: int) -> bytes:
        """A JSON answer without frames, its reason made precise by what the ELF file says of the address."""
        head, found, _ = line.partition(NO_FRAMES)
        if not found:
            return line + b"\n"
        from whence.reasons import Reason

        vaddr = asked - self.back
        producers = self.binary.producers
        assert producers is not None
        inside = any(
            segment.vaddr <= vaddr < segment.vaddr + segment.memory_size for segment in producers.elf.code_segments()
        )
        outside = producers.elf.segments and not inside
        reason = Reason.OUTSIDE_SEGMENTS if outside else producers.why_unnamed()
        return head + NO_FRAMES + f'"{reason.word}"}}\n'.encode()


def readable(name: str) -> str:
    """A readable form of a linkage name. The demangler is imported when the first such name comes up."""
    if not _demanglers:
        from whence.demangle import demangle

        _demanglers.append(demangle)
    return _demanglers[0](name)


_demanglers: list[Callable[[str], str]] = []
