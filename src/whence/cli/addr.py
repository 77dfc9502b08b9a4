"""`whence addr FILE [ADDRESS...]`: functions, files and lines of addresses, from arguments or as a coprocess on stdin.

Complete lines are answered as soon as they are read, one line or a whole block at a time, formatted by a kernel.
Arguments may also be function names: `whence addr FILE main` prints where main is, and `main+16` is an address in it.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from itertools import chain

from whence._base.errors import ElfError, WrongUse, shown
from whence._base.files import open_regular, write_all
from whence._base.streams import STDOUT, complain, naming_stream
from whence._base.words import STDIN, is_address, plain
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import LOCATOR_DEFAULTS, add_locator_options, add_name_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from whence.binary import Binary
    from whence.cli.parser import Parser
    from whence.lidia.render import Queries, Renderer
    from whence.lidia.table import Table
    from whence.objects.interface import ObjectFile

INTERMIXED = True
# options of a command line without options, for which argparse is not imported
PLAIN = {
    "executable": None,
    "style": "llvm",
    "no_demangle": False,
    "return_addresses": False,
    "snapshot": None,
    **LOCATOR_DEFAULTS,
}
WASM_FUNCTION = "wasm-function["
ELF_MAGIC = b"\x7fELF"  # also in whence.objects.elf.layout, which archives do not need
BLOCK = 1 << 16
PIECE = 1 << 13  # bytes of lines answered at once, so that the text stays in the processor's caches
LINE_MAX = 1 << 16  # bytes kept of a line
MOST_AT_ONCE = 1 << 24  # bytes of stdin read before the first answer
PAUSE = 0.02  # seconds to wait for more after a full block
MOST_STARTS = 5  # of functions with one name, in an error
NO_FRAMES = b'"frames": [], "reason": '
OUTSIDE = (
    "an address is outside the file's code: give addresses that nm and objdump print; whence pid PID ADDRESS... names "
    "those of a process"
)


def configure(parser: Parser) -> None:
    parser.usage = "whence addr FILE [ADDRESS...] [options]"
    parser.add_argument(
        "words",
        nargs="*",
        metavar="FILE ADDRESS",
        help="an object file or an archive, then addresses in hex, FUNCTION+OFFSET, or function names; "
        '"-" or none: addresses from stdin, one per line',
    )
    parser.add_argument("-e", dest="executable", metavar="FILE", help="the FILE, given as for addr2line")
    parser.add_argument(
        "--style",
        choices=("llvm", "gnu", "json"),
        help="print as llvm-symbolizer (the default), as addr2line -a -f -i, or one JSON object per line",
    )
    parser.add_argument("--json", dest="style", action="store_const", const="json", help="short for --style json")
    parser.add_argument(
        "--return-addresses", action="store_true", help="addresses are return addresses: look up the byte before each"
    )
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="a file written by `whence pid --save-snapshot`: addresses are runtime addresses of that process, and "
        "files are binaries or archives that it had mapped; the output is that of `whence pid`",
    )
    add_name_options(parser)
    add_locator_options(parser)
    parser.set_defaults(**PLAIN)
    parser.examples(
        "whence addr app 0x1200",
        "whence addr app main                             where a function is",
        "whence addr vmlinux do_exit+0x1a/0x9d0           a line of a kernel's trace",
        "whence addr app.lidia --style gnu < addresses",
        "whence addr app.wasm 'wasm-function[3]:0x7d'     a place as browsers print it",
        "whence addr app 0x1200 --binary app.debug        with a separate debug file",
        "whence addr --snapshot app.snapshot 0x55d0c0de1170",
    )


def run(options: Namespace) -> int:
    if options.snapshot:
        if options.style == "gnu":
            complain("--snapshot has no --style gnu: leave it out, or use --json", "whence addr")
            return WRONG_USE
        from whence.cli.snapshot import answer_snapshot

        return answer_snapshot(options)
    if options.executable is not None:
        options.words.insert(0, options.executable)
    if not options.words:
        complain("a FILE is needed (see whence help addr)", "whence addr")
        return WRONG_USE
    path, *words = options.words
    if words == [STDIN]:
        words = []
    if any(WASM_FUNCTION in word for word in words):
        words = [vaddr_in_module(path, word) for word in words]
    if any("+" in word for word in words):
        words = [vaddr_in_function(path, word, options) for word in words]
    names = [word for word in words if not is_address(word)]
    if names:
        if len(names) < len(words):
            complain(f"{names[0]!r} is not an address in hex; give either addresses or names", "whence addr")
            return WRONG_USE
        return print_functions(path, names, options)
    if not begins_as_archive(path):
        return answer_object(path, words, options)
    from whence.binary import open_archive

    with open_archive(path) as binary:
        responder = Responder(binary, options)
        lines = lines_of(words)
        responder.answer_lines(lines.read_ahead(), lines)
        return SOME_UNKNOWN if responder.unknown else ANSWERED


def vaddr_in_module(path: str, word: str) -> str:
    """Return the vaddr of a place in a WebAssembly module as browsers print it; other words unchanged.

    That is `wasm-function[INDEX]:0xOFFSET`, an offset in the file, or `wasm-function[INDEX]`, the start of a function.
    Raises WrongUse if the module has no such place, OSError, and an ObjectError.
    """
    import re

    from whence.objects.opening import open_object
    from whence.objects.wasm import WasmFile

    match = re.search(r"wasm-function\[(\d{1,9})\](?::(0x[0-9a-fA-F]{1,8}))?$", word)
    if match is None:
        return word
    with open_object(path) as file:
        if not isinstance(file, WasmFile):
            raise WrongUse(f"{path}: not a WebAssembly module, so {word!r} is not a place in it")
        vaddr = file.vaddr_of(int(match[2], 16)) if match[2] else file.vaddr_of_function(int(match[1]))
    if vaddr is None:
        raise WrongUse(f"{path}: {word!r} is not in the module's code")
    return f"{vaddr:#x}"


def vaddr_in_function(path: str, word: str, options: Namespace) -> str:
    """Return the vaddr of FUNCTION+OFFSET as gdb and kernels print it, with /SIZE or not; other words unchanged.

    Raises WrongUse if several functions have this name, OSError, and an ObjectError.
    """
    import re

    from whence.cli.options import locator_of
    from whence.filter.functions import FunctionStarts

    match = re.fullmatch(r"(.+)\+(0x[0-9a-fA-F]{1,16}|\d{1,18})(?:/0x([0-9a-fA-F]{1,16}))?", word)
    if match is None:
        return word
    with locator_of(options) as locator, locator.open(path, demangle=not options.no_demangle) as binary:
        starts = FunctionStarts(binary).starts(match[1], int(match[3], 16) if match[3] else None)
    if len(starts) > 1:
        places = ", ".join(f"{start:#x}" for start in starts[:MOST_STARTS])
        raise WrongUse(f"{path}: {len(starts)} functions are named {match[1]!r}: add the offset to one of {places}")
    return f"{starts[0] + int(match[2], 0 if match[2].startswith('0x') else 10):#x}" if starts else word


def print_functions(path: str, names: Sequence[str], options: Namespace) -> int:
    """Print where functions are: address, size, name, file and line."""
    import json

    from whence._base.options import ReadOptions
    from whence.cli.options import locator_of

    unknown = 0
    read = ReadOptions(jobs=options.jobs)
    with locator_of(options) as locator, locator.open(path, options=read, demangle=not options.no_demangle) as binary:
        for name in names:
            functions = binary.find(name)
            unknown += not functions
            if options.style == "json":
                objects = [
                    {
                        "vaddr": f"{function.vaddr:#x}", "size": function.length, "function": function.function,
                        "file": function.file, "line": function.start_line,
                    }
                    for function in functions
                ]  # fmt: skip
                print(json.dumps({"name": name, "functions": objects}))
                continue
            for function in functions:
                line = f":{function.start_line}" if function.start_line else ""
                location = f" at {plain(function.file)}{line}" if function.file else ""
                print(f"{function.vaddr:#x} {function.length:8} {plain(function.function)}{location}")
            if not functions:
                complain(f"{name!r} is neither an address in hex nor a function of {path}", "whence addr")
    if unknown == len(names):
        return WRONG_USE
    return SOME_UNKNOWN if unknown else ANSWERED


def lines_of(words: list[str]) -> Lines:
    """Return the addresses in the arguments, or those on stdin if there are none."""
    return Lines([("\n".join(words) + "\n").encode()], -1) if words else Lines([], sys.stdin.fileno())


def begins_as_elf(path: str) -> bool:
    """Return True if a file starts with ELF's magic. Raises OSError; ElfError if it is not a regular file."""
    with open_regular(path, ElfError) as (descriptor, _):
        return os.read(descriptor, len(ELF_MAGIC)) == ELF_MAGIC


def begins_as_archive(path: str) -> bool:
    """Return True if a file is an archive. Raises OSError; ElfError if it is not a regular file."""
    if os.path.isfile(path) and begins_as_elf(path):
        return False
    from whence.binary import is_archive

    return is_archive(path)


def opened(path: str) -> ObjectFile:
    """Open an object file; without the modules that other formats need, if it is an ELF file."""
    if os.path.isfile(path) and begins_as_elf(path):
        from whence.objects.elf.file import ElfFile

        return ElfFile.open(path)
    from whence.binary import open_elf

    return open_elf(path)


def answer_object(path: str, words: list[str], options: Namespace) -> int:
    """Answer lines of addresses from an object file and return the exit code.

    Debug info is decompressed while modules are imported, up to the units of the addresses that are already known.
    """
    elf = opened(path)
    try:
        lines = lines_of(words)
        queries = lines.read_ahead()
        vaddrs = all_vaddrs(queries or ())
        if options.return_addresses:
            vaddrs = [vaddr - 1 for vaddr in vaddrs if vaddr]
        if options.jobs != 1:
            from whence.dwarf.ahead import decompress_ahead

            decompress_ahead(elf, vaddrs)
        from whence.binary import not_a_core

        not_a_core(elf)
        with completed(elf, options) as binary:
            responder = Responder(binary, options)
            responder.answer_lines(queries, lines)
            for problem in binary.problems[:5]:
                print(f"whence: skipped: {plain(problem)}", file=sys.stderr)
            responder.report_unnamed(path)
            return SOME_UNKNOWN if responder.unknown else ANSWERED
    except KeyboardInterrupt:  # a thread may still be reading the file
        raise
    except BaseException:
        elf.close()
        raise


@contextmanager
def completed(elf: ObjectFile, options: Namespace) -> Iterator[Binary]:
    """Open an object file as a Binary, with a Locator if it has no debug info or an option affects the search."""
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
    """Close a binary at the end, except after Ctrl-C: closing would wait for a thread that is reading it."""
    try:
        yield binary
    except KeyboardInterrupt:
        raise
    except BaseException:
        binary.close()
        raise
    binary.close()


def write(answers: bytes) -> None:
    """Write answers to stdout after flushing printed text."""
    with naming_stream(STDOUT):
        sys.stdout.flush()
        write_all(sys.stdout.fileno(), answers)


class Lines:
    """Lines of addresses: given blocks, then those of a file descriptor (-1: none)."""

    def __init__(self, blocks: list[bytes], descriptor: int) -> None:
        self._blocks, self._descriptor = blocks, descriptor
        self._size = 0
        self.ended = descriptor < 0  # all lines were read

    def _read_available(self) -> bool:
        """Read what can be read without waiting, up to MOST_AT_ONCE bytes. Return True if that was everything."""
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
                self._blocks.append(block)
        return self.ended

    def read_ahead(self) -> list[Queries] | None:
        """Return all lines in pieces if they are available now, else None."""
        from whence.lidia.render import Queries

        if not self._read_available():
            return None
        return [Queries(piece) for block in self.blocks() for piece in pieces(block)]

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of complete lines, as they are read."""
        more = () if self.ended else iter(lambda: os.read(self._descriptor, BLOCK), b"")
        return complete_lines(chain(self._blocks, more))


def complete_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of complete lines. A line longer than LINE_MAX is cut and marked, so that it is not an address."""
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
    """Yield pieces of complete lines, each of at most PIECE bytes or one longer line."""
    start = 0
    while len(lines) - start > PIECE:
        end = lines.rfind(b"\n", start, start + PIECE) + 1 or lines.index(b"\n", start + PIECE) + 1
        yield lines[start:end]
        start = end
    if start < len(lines):
        yield lines[start:]


def all_vaddrs(queries: Iterable[Queries]) -> Sequence[int]:
    """Return the addresses of all queries."""
    from array import array

    vaddrs = array("Q")
    for block in queries:
        vaddrs.frombytes(block.vaddrs.cast("B"))
    return vaddrs


class Responder:
    """Answers blocks of lines from one binary, with a renderer for each table of the binary."""

    def __init__(self, binary: Binary, options: Namespace) -> None:
        self.binary = binary
        self.style = options.style
        self.jobs = options.jobs
        self.back = options.return_addresses
        self.raw_names = options.no_demangle
        self.unknown = self.unnamed = 0  # lines without a name; those of them that are addresses
        self._has_outside = False  # an address is below or above all code
        self._renderer: tuple[object, Renderer] | None = None
        self._code: list[range] | None = None  # vaddrs of code segments, computed on first use

    def answer_lines(self, queries: Sequence[Queries] | None, lines: Lines) -> None:
        """Write the answers to all lines in order: to `queries` if all are known, else to `lines` as they are read."""
        if queries is None:
            from whence.lidia.render import Queries

            for block in lines.blocks():
                for piece in pieces(block):
                    write(self.answer(Queries(piece)))
        elif len(queries) == 1 and self.binary.is_archive:
            write(self.answer(queries[0]))
        else:
            self.answer_all(queries, write)

    def answer(self, queries: Queries) -> bytes:
        """Return the answers to lines with one address each, in order."""
        if self.binary.is_archive:
            table = self.binary.table()
        else:
            table = self.binary.table_for(queries.vaddrs, return_address=self.back)
        if self._renderer is None or self._renderer[0] is not table:
            self._renderer = table, self._new_renderer(table)
        text, unknown = self._rendered(self._renderer[1], queries)
        self._count(unknown, queries)
        return text

    def answer_all(self, queries: Sequence[Queries], write: Callable[[bytes], None]) -> None:
        """Write the answers to all lines in order, on `jobs` threads (None: one per core).

        No other lines will follow, so no more of an ELF file is kept than these need.
        """
        if not queries:
            return
        if self.binary.is_archive:
            table = self.binary.table()
        else:
            vaddrs = all_vaddrs(queries)
            table = self.binary.table_for(vaddrs, return_address=self.back, last=True, starts=self.style == "json")
        renderers = [self._new_renderer(table)]
        if len(queries) == 1:
            text, unknown = self._rendered(renderers[0], queries[0])
            self._count(unknown, queries[0])
            write(text)
            return
        from _thread import allocate_lock

        from whence._base import cores

        renderers += [renderers[0].another() for _ in range(1, min(self.jobs or cores.available(), len(queries)))]
        pending: dict[int, tuple[bytes, int]] = {}  # rendered blocks that wait for an earlier one
        lock, written = allocate_lock(), 0

        def work(renderer: Renderer, piece: tuple[int, Queries]) -> None:
            nonlocal written
            index, block = piece
            rendered = self._rendered(renderer, block)
            with lock:
                pending[index] = rendered
                while written in pending:
                    text, unknown = pending.pop(written)
                    self._count(unknown, queries[written])
                    write(text)
                    written += 1

        cores.share(renderers, enumerate(queries), work)

    def _rendered(self, renderer: Renderer, queries: Queries) -> tuple[bytes, int]:
        """Return the answers to a block of lines, and the number of lines without a name."""
        before = renderer.unknown
        text = renderer.answers(queries)
        unknown = renderer.unknown - before
        if unknown and self.style == "json" and not self.binary.is_archive:
            lines = zip(text.splitlines(), queries.vaddrs, queries.is_bad, strict=True)
            text = b"".join(line + b"\n" if bad else self._with_reason(line, vaddr) for line, vaddr, bad in lines)
        return text, unknown

    def _count(self, unknown: int, queries: Queries) -> None:
        """Count lines without a name, and report lines that are not an address."""
        self.unknown += unknown
        if not unknown:
            return
        bad_lines = queries.bad_lines()
        for line in bad_lines:
            complain(f"'{shown(line.decode('utf-8', 'replace'))}' is not an address in hex", "whence addr")
        self.unnamed += unknown - len(bad_lines)
        if unknown > len(bad_lines) and not self._has_outside and not self.binary.is_archive:
            vaddrs: Sequence[int] = queries.vaddrs
            if bad_lines:
                vaddrs = [vaddr for vaddr, is_bad in zip(vaddrs, queries.is_bad, strict=True) if not is_bad]
            self._has_outside = any(map(self._is_outside, (min(vaddrs), max(vaddrs))))

    def report_unnamed(self, path: str) -> None:
        """Say on stderr what to do about addresses without a name, if a debug file or other addresses would help."""
        if not self.unnamed or self.style == "json":
            return
        from whence._base.reasons import Missing, Reason, remedy_for

        producers = self.binary.producers
        assert producers is not None
        reason, build_id = producers.why_unnamed(), producers.elf.build_id
        if self._has_outside:
            complain(f"{path}: {OUTSIDE}")
        elif reason is Reason.NO_DEBUG_FILE:
            remedy = remedy_for(Missing(reason), os.path.abspath(path), build_id)
            complain(f"{path}: {reason.sentence}: {remedy}")

    def _new_renderer(self, table: Table) -> Renderer:
        from whence.lidia.render import Renderer

        bits = 64 if self.binary.producers is None else self.binary.producers.elf.bits
        names = None if self.raw_names else readable
        return Renderer(table, self.style, demangle=names, return_address=self.back, width=bits // 4)

    def _is_outside(self, address: int) -> bool:
        """Return True if an address is in no code segment of an object file that has segments."""
        producers = self.binary.producers
        assert producers is not None
        if self._code is None:
            segments = producers.elf.code_segments()
            self._code = [range(segment.vaddr, segment.vaddr + segment.memory_size) for segment in segments]
        return bool(producers.elf.segments) and not any(address - self.back in code for code in self._code)

    def _with_reason(self, line: bytes, address: int) -> bytes:
        """Return a JSON answer without frames with the reason that the ELF file gives."""
        head, separator, _ = line.partition(NO_FRAMES)
        if not separator:
            return line + b"\n"
        from whence._base.reasons import Reason

        producers = self.binary.producers
        assert producers is not None
        reason = Reason.OUTSIDE_SEGMENTS if self._is_outside(address) else producers.why_unnamed()
        return head + NO_FRAMES + f'"{reason.word}"}}\n'.encode()


def readable(name: str) -> str:
    """Return a demangled name. The demangler is imported with the first name."""
    if not _demanglers:
        from whence.demangle import demangle_once  # renderers cache names

        _demanglers.append(demangle_once)
    return _demanglers[0](name)


_demanglers: list[Callable[[str], str]] = []
