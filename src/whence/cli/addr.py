"""`whence addr FILE [ADDRESS...]`: functions, files and lines of addresses, from arguments or as a coprocess on stdin.

Whole lines are answered as they come: one, or the hundred thousand that one read brings, rendered in compiled code.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from itertools import chain

from whence._base.errors import ElfError, shown
from whence._base.files import open_regular, write_all
from whence._base.streams import complain
from whence._base.words import STDIN, is_address, plain
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import LOCATOR_DEFAULTS, add_locator_options, add_name_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from whence.binary import Binary
    from whence.lidia.render import Queries, Renderer
    from whence.lidia.table import Table
    from whence.objects.elf.file import ElfFile

INTERMIXED = True
# the options when none is given: argparse is not imported then
PLAIN = {"style": "llvm", "no_demangle": False, "return_addresses": False, "snapshot": None, **LOCATOR_DEFAULTS}
ELF_MAGIC = b"\x7fELF"  # whence.objects.elf.layout has it, too, which an archive does without
BLOCK = 1 << 16
PIECE = 1 << 13  # bytes of lines answered at once: the text of some hundred answers stays in the processor's caches
LINE_MAX = 1 << 16  # bytes of a line that are kept, and those that came with them
MOST_AT_ONCE = 1 << 24  # bytes of stdin that are read before the first answer
PAUSE = 0.02  # seconds without more from whoever has written a whole block
NO_FRAMES = b'"frames": [], "reason": '


def configure(parser: ArgumentParser) -> None:
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
        help="llvm-symbolizer's text (the default), addr2line -a -f -i's, or a JSON object a line",
    )
    parser.add_argument("--json", dest="style", action="store_const", const="json", help="the same as --style json")
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
    parser.set_defaults(**PLAIN)


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
            complain(f"{word!r} is not an address in hex", "whence addr")
            return WRONG_USE
    if begins_as_elf(path):
        return answer_elf(path, lines_of(words), options)
    from whence.locator.opening import open_binary

    with open_binary(path) as binary:  # an archive, which needs no more than itself; else this raises what it is
        responder = Responder(binary, options)
        lines = lines_of(words)
        responder.answer_lines(lines.asked(), lines)
        return SOME_UNKNOWN if responder.unknown else ANSWERED


def lines_of(words: list[str]) -> Lines:
    """The addresses that are arguments; without any, those of stdin."""
    return Lines([("\n".join(words) + "\n").encode()], -1) if words else Lines([], sys.stdin.fileno())


def begins_as_elf(path: str) -> bool:
    """Whether a file begins as ELF files do. Raises OSError; ElfError when it is no regular file."""
    with open_regular(path, ElfError) as (descriptor, _):
        return os.read(descriptor, len(ELF_MAGIC)) == ELF_MAGIC


def answer_elf(path: str, lines: Lines, options: Namespace) -> int:
    """Answer lines of addresses from an ELF file; returns the exit code.

    Debug info is decompressed while modules are imported, as far as the lines need it if they are known by then.
    """
    from whence.objects.elf.file import ElfFile

    elf = ElfFile.open(path)
    try:
        asked = lines.asked()
        vaddrs = all_vaddrs(asked or ())
        if options.return_addresses:
            vaddrs = [vaddr - 1 for vaddr in vaddrs if vaddr]
        if options.jobs != 1:
            from whence.dwarf.ahead import decompress_ahead

            decompress_ahead(elf, vaddrs)
        from whence.binary import not_a_core

        not_a_core(elf)
        with completed(elf, options) as binary:
            responder = Responder(binary, options)
            responder.answer_lines(asked, lines)
            for problem in binary.problems[:5]:
                print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
            return SOME_UNKNOWN if responder.unknown else ANSWERED
    except KeyboardInterrupt:  # a thread may still be reading the file, and the process ends
        raise
    except BaseException:
        elf.close()
        raise


@contextmanager
def completed(elf: ElfFile, options: Namespace) -> Iterator[Binary]:
    """Return an ELF file as a Binary, completed by a Locator if it lacks debug info or an option is for one."""
    from whence._base.options import ReadOptions
    from whence.cli.options import default_debug_files, locator_of, needs_locator

    read = ReadOptions(columns=options.style != "gnu", jobs=options.jobs)
    if needs_locator(elf, options):
        with locator_of(options) as locator, closed(locator.complete(elf, options=read, prepare=False)) as binary:
            yield binary
        return
    from whence.binary import Binary

    with closed(Binary.from_elf(elf, debug_files=default_debug_files(), options=read, prepare=False)) as binary:
        yield binary


@contextmanager
def closed(binary: Binary) -> Iterator[Binary]:
    """Close it in the end, but not after Ctrl-C: a thread may still be reading it, and closing waits for that."""
    try:
        yield binary
    except KeyboardInterrupt:
        raise
    except BaseException:
        binary.close()
        raise
    binary.close()


def write(answers: bytes) -> None:
    """Write answers to stdout, behind what was printed before."""
    sys.stdout.flush()
    write_all(sys.stdout.fileno(), answers)


class Lines:
    """Lines of addresses: those that are given, and those that come from a descriptor (-1: no others)."""

    def __init__(self, given: list[bytes], descriptor: int) -> None:
        self._read, self._descriptor = given, descriptor
        self._size = 0
        self.ended = descriptor < 0  # all were read

    def look(self) -> bool:
        """Read all lines, where they can be read at once: from a file of reasonable size, or from a pipe whose other
        end is closed by the time that all it has is read. Returns whether they are known now."""
        if not self.ended:
            from select import select

            while (
                self._size < MOST_AT_ONCE and select([self._descriptor], [], [], PAUSE if self._size >= BLOCK else 0)[0]
            ):
                block = os.read(self._descriptor, BLOCK)
                if not block:
                    self.ended = True
                    break
                self._size += len(block)
                self._read.append(block)
        return self.ended

    def asked(self) -> list[Queries] | None:
        """All lines, in pieces to be answered one by one; None where they are not known yet."""
        from whence.lidia.render import Queries

        return [Queries(piece) for block in self.coming() for piece in pieces(block)] if self.look() else None

    def coming(self) -> Iterator[bytes]:
        """Whole lines, as many at a time as were read at once: first what was read, then what comes."""
        more = () if self.ended else iter(lambda: os.read(self._descriptor, BLOCK), b"")
        return whole_lines(chain(self._read, more))


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of blocks, whole: those of a block, and of the ones before it that ended in the midst of one. Of a line
    of more than LINE_MAX bytes a few blocks are kept, and marked as no address: it may never end."""
    rest: list[bytes] = []
    size = 0
    for block in blocks:
        lines, newline, tail = block.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, lines, newline])
            rest, size = [], 0
        if size <= LINE_MAX:
            size += len(tail)
            rest += [tail, b"..."] if size > LINE_MAX else [tail]
    if any(rest):
        yield b"".join(rest) + b"\n"


def pieces(lines: bytes) -> Iterator[bytes]:
    """Whole lines in pieces of whole lines, each of PIECE bytes at most or one longer line."""
    start = 0
    while len(lines) - start > PIECE:
        end = lines.rfind(b"\n", start, start + PIECE) + 1 or lines.index(b"\n", start + PIECE) + 1
        yield lines[start:end]
        start = end
    if start < len(lines):
        yield lines[start:]


def all_vaddrs(asked: Iterable[Queries]) -> Sequence[int]:
    """The addresses of lines that are answered together."""
    from array import array

    vaddrs = array("Q")
    for one in asked:
        vaddrs.frombytes(one.vaddrs.cast("B"))
    return vaddrs


class Responder:
    """Answers blocks of lines from one binary, by a renderer for each table that the binary answers with."""

    def __init__(self, binary: Binary, options: Namespace) -> None:
        self.binary = binary
        self.style = options.style
        self.jobs = options.jobs
        self.back = options.return_addresses
        self.raw_names = options.no_demangle
        self.unknown = 0
        self._renderer: tuple[object, Renderer] | None = None
        self._code: list[range] | None = None  # the vaddrs of segments with code, once somebody wants them

    def answer_lines(self, asked: Sequence[Queries] | None, lines: Lines) -> None:
        """Write the answers to all lines in order, where they are known (`asked`), else to those that come, as soon as
        they do."""
        if asked is None:
            from whence.lidia.render import Queries

            for block in lines.coming():
                for piece in pieces(block):
                    write(self.answer(Queries(piece)))
        elif len(asked) > 1:
            self.answer_all(asked, write)  # each step has a thread of its own
        elif self.binary.is_archive:
            for one in asked:
                write(self.answer(one))
        else:
            self.answer_all(asked, write)

    def answer(self, asked: Queries) -> bytes:
        """The answers to lines with an address each, in order."""
        if self.binary.is_archive:
            table = self.binary.table()
        else:
            table = self.binary.table_for(asked.vaddrs, return_address=self.back)
        if self._renderer is None or self._renderer[0] is not table:
            self._renderer = table, self._new_renderer(table)
        out, unknown = self._rendered(self._renderer[1], asked)
        self._count(unknown, asked)
        return out

    def answer_all(self, asked: Sequence[Queries], write: Callable[[bytes], None]) -> None:
        """Write the answers to lines, in order, when there will be no others: no more of an ELF file is kept than what
        answers them. Works on `jobs` threads (None: one a core)."""
        if not asked:
            return
        if self.binary.is_archive:
            table = self.binary.table()
        else:
            vaddrs = all_vaddrs(asked)
            table = self.binary.table_for(vaddrs, return_address=self.back, last=True, starts=self.style == "json")
        renderers = [self._new_renderer(table)]
        if len(asked) == 1:
            out, unknown = self._rendered(renderers[0], asked[0])
            self._count(unknown, asked[0])
            write(out)
            return
        from _thread import allocate_lock

        from whence._base import cores

        renderers += [renderers[0].another() for _ in range(1, min(self.jobs or cores.available(), len(asked)))]
        done: dict[int, tuple[bytes, int]] = {}  # by block: what is to be written once those before it are
        lock, written = allocate_lock(), 0

        def work(renderer: Renderer, piece: tuple[int, Queries]) -> None:
            nonlocal written
            number, one = piece
            rendered = self._rendered(renderer, one)
            with lock:
                done[number] = rendered
                while written in done:
                    out, unknown = done.pop(written)
                    self._count(unknown, asked[written])
                    write(out)
                    written += 1

        cores.share(renderers, enumerate(asked), work)

    def _rendered(self, renderer: Renderer, asked: Queries) -> tuple[bytes, int]:
        """The answers to a block of lines, and how many of them say nothing."""
        before = renderer.unknown
        out = renderer.answers(asked)
        unknown = renderer.unknown - before
        if unknown and self.style == "json" and not self.binary.is_archive:
            lines = zip(out.splitlines(), asked.vaddrs, asked.is_bad, strict=True)
            out = b"".join(line + b"\n" if bad else self._reasoned(line, vaddr) for line, vaddr, bad in lines)
        return out, unknown

    def _count(self, unknown: int, asked: Queries) -> None:
        """Count the answers that say nothing; report on stderr which lines have no address."""
        self.unknown += unknown
        if unknown:
            for line in asked.bad_lines():
                shorter = shown(line.decode("utf-8", "replace"))
                print(f"whence addr: '{shorter}' is not an address in hex", file=sys.stderr)

    def _new_renderer(self, table: Table) -> Renderer:
        from whence.lidia.render import Renderer

        bits = 64 if self.binary.producers is None else self.binary.producers.elf.bits
        names = None if self.raw_names else readable
        return Renderer(table, self.style, demangle=names, return_address=self.back, width=bits // 4)

    def _reasoned(self, line: bytes, asked: int) -> bytes:
        """A JSON answer without frames, its reason made precise by what the ELF file says of the address."""
        head, found, _ = line.partition(NO_FRAMES)
        if not found:
            return line + b"\n"
        from whence._base.reasons import Reason

        vaddr = asked - self.back
        producers = self.binary.producers
        assert producers is not None
        if self._code is None:
            segments = producers.elf.code_segments()
            self._code = [range(one.vaddr, one.vaddr + one.memory_size) for one in segments]
        outside = producers.elf.segments and not any(vaddr in code for code in self._code)
        reason = Reason.OUTSIDE_SEGMENTS if outside else producers.why_unnamed()
        return head + NO_FRAMES + f'"{reason.word}"}}\n'.encode()


def readable(name: str) -> str:
    """A readable form of a linkage name. The demangler is imported when the first such name comes up."""
    if not _demanglers:
        from whence.demangle import demangle_once  # renderers remember names

        _demanglers.append(demangle_once)
    return _demanglers[0](name)


_demanglers: list[Callable[[str], str]] = []
