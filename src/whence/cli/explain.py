"""`whence explain FILE|PID [ADDRESS]`: each step from an address to its names.

The steps of a live process are the mapping, how its file was opened, the build-ids, file offset and vaddr. The steps of
a file are segment and section, each debug file tried, the answer of each source of names, other symbols at the address,
and the range and line row of the answer; or what is missing and what to do. `--stack TID` explains the frames of a
thread's stack. Without an address, prints what a file has.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.options import ReadOptions
from whence._base.streams import complain
from whence._base.words import address, counted
from whence.binary import Binary, is_archive, open_archive, open_elf
from whence.cli.answers import executable_mappings, frame_text
from whence.cli.answers import where as where_text
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import add_json_option, add_locator_options, locator_of
from whence.cli.overview import show_overview
from whence.explanation import Step, frame_steps
from whence.locate.search import FileQuery
from whence.unwind.steps import End
from whence.unwind.unwinder import INNER_KEPT

if TYPE_CHECKING:
    from whence.cli.parser import Parser
    from whence.locator.locator import Locator
    from whence.procmap import Mapping
    from whence.symbolize import Symbolized


def configure(parser: Parser) -> None:
    parser.add_argument("where", metavar="FILE|PID", help="an ELF file, an archive, a core dump, or a live process")
    parser.add_argument(
        "address", nargs="?", metavar="ADDRESS",
        help="a vaddr of the file, or a runtime address of the process (default: print what the file has)",
    )  # fmt: skip
    parser.add_argument("--stack", type=int, metavar="TID", help="explain each frame of a thread's stack instead")
    parser.add_argument("--scan", action="store_true", help="with --stack: guess callers from words on the stack")
    add_json_option(parser, "print the steps as JSON")
    add_locator_options(parser)
    parser.examples(
        "whence explain app                         what the file has, and what names its addresses",
        "whence explain app 0x1200                  each step from an address to its names",
        "whence explain 4711 0x55d0c0de1170         of a runtime address of a process",
        "whence explain core.4711 --stack 4711      how each frame of a thread was found",
    )


def run(options: Namespace) -> int:
    if options.address is not None and options.stack is not None:
        raise WrongUse("give either an ADDRESS or --stack TID")
    try:
        requested = 0 if options.address is None else address(options.address)
    except ValueError as error:
        complain(error, "whence explain")
        return WRONG_USE
    steps: list[Step] = []
    live = options.where.isdecimal() and not os.path.exists(options.where)
    if options.address is None and options.stack is None:
        if live:
            raise WrongUse("a process needs an ADDRESS or --stack TID")
        with locator_of(options) as locator:
            if is_archive(options.where):
                raise WrongUse(f"{options.where}: an archive needs an ADDRESS (whence lidia info prints what it has)")
            return show_overview(options.where, locator, options.json)
    with locator_of(options) as locator:
        if options.stack is not None:
            chain = of_stack(options.where, live, options.stack, locator, options.scan, options.binary)
        else:
            chain = (
                of_process(int(options.where), requested, locator)
                if live
                else of_file(options.where, requested, locator)
            )
        for step in chain:
            steps.append(step)
            if not options.json:
                print(step, flush=True)
    answered = any(step.what == "answer" and step.good for step in steps)
    if options.json:
        print(json.dumps({"answered": answered, "steps": [step._asdict() for step in steps]}))
    return ANSWERED if answered else SOME_UNKNOWN


# a stack


def of_stack(
    where: str, live: bool, tid: int, locator: Locator, scan: bool, programs: Sequence[str] = ()
) -> Iterator[Step]:
    """Yield each frame of a thread of a process or core, and the rule that found its caller."""
    from whence.symbolize import Core, Process, Symbolizer
    from whence.symbolize.stacks import ending

    with Symbolizer(locator=locator, demangle=True) as symbolizer:
        process: Process | Core
        if live:
            process = Process(int(where), resolver=symbolizer.resolver)
        else:
            process = Core(where, programs=programs, sysroot=locator.root)
        if isinstance(process, Process):
            executable_mappings(process)
        explained = process.explain_stack(tid, symbolizer, scan=scan)
        if explained is None:
            threads = process.threads() if isinstance(process, Process) else process.threads
            tids = ", ".join(str(thread.tid) for thread in threads) or "none"
            raise WrongUse(f"{where} has no thread {tid} (threads: {tids})")
    stack, rules = explained
    for number, (frame, rule) in enumerate(zip(stack.frames, rules, strict=True)):
        yield Step(f"#{number}", where_text(frame.place))
        yield Step("found by", str(frame.found_by))
        for function in frame.place.frames:
            yield Step("function", frame_text(function))
        yield Step("caller by", rule)
        if stack.skipped and number == INNER_KEPT - 1:
            yield Step("", f"{counted(stack.skipped, 'frame')} not shown")
    yield Step("answer", ending(stack), stack.end is End.COMPLETE)
    if stack.missing is not None:
        yield Step("to do", stack.missing.remedy)


# a process


def of_process(pid: int, runtime: int, locator: Locator) -> Iterator[Step]:
    """Yield the steps from a runtime address to a vaddr, then those of the file."""
    from whence.symbolize import Symbolizer

    with Symbolizer(locator=locator) as symbolizer:
        symbolizer.resolver.require(pid)
        answer = symbolizer.symbolize(pid, [runtime])[0]
        mapping = answer.mapping
        if mapping is None:
            text = "an address of the kernel" if runtime >> 63 else f"no mapping of process {pid} contains {runtime:#x}"
            yield Step("mapping", text, answer.reason is None)
            yield from unlocated(answer)
            return
        yield from of_mapping(mapping, runtime)
        path = ""
        if mapping.kind.has_file:
            try:
                path = mapping.openable_path(prefer_name=True)
            except OSError as error:
                yield Step("opened", str(error), False)
            else:
                yield Step("opened", path or "the mapped file cannot be reached", bool(path))
        if path:
            build_id = symbolizer.resolver.build_id(path)
            same = not mapping.build_id or build_id == mapping.build_id
            mismatch = "" if same else f", but the mapped file has {mapping.build_id}"
            yield Step("build-id", f"{build_id or 'none'}{mismatch}", same)
        if answer.vaddr is None or not path:
            yield from unlocated(answer)
            return
        yield Step("vaddr", f"{answer.vaddr:#x}, file offset {answer.file_offset:#x}")
        vaddr = answer.vaddr
    yield from of_file(path, vaddr, locator, mapping.path)


def of_mapping(mapping: Mapping, runtime: int) -> Iterator[Step]:
    deleted = ", deleted" if mapping.deleted and str(mapping.kind) != "deleted" else ""
    about = f"{mapping.start:#x}-{mapping.end:#x} {mapping.shown_permissions} {mapping.kind}{deleted}"
    yield Step("mapping", f"{about} {mapping.path or '(no name)'}", mapping.is_exec)
    offset = mapping.file_offset_of(runtime)
    yield Step(
        "",
        f"offset {runtime - mapping.start:#x} in it, which maps file offset {mapping.offset:#x}: byte {offset:#x}",
    )


def unlocated(answer: Symbolized) -> Iterator[Step]:
    """Yield the frames of an answer that needed no file, or the reason why there are none."""
    if answer.frames:
        yield from frame_steps(answer.frames)
    elif answer.reason is not None:
        detail = f" ({answer.detail})" if answer.detail else ""
        yield Step("answer", f"none: {answer.reason.sentence}{detail}", False)
        yield Step("to do", answer.reason.remedy)


# a file


def of_file(path: str, vaddr: int, locator: Locator, mapped: str = "") -> Iterator[Step]:
    """Yield the steps of a vaddr in a file. `mapped` is the path in the process, if that differs."""
    if is_archive(path):
        with open_archive(path) as binary:
            yield from binary.explain(vaddr).steps
        return
    elf = open_elf(path)
    finder, options = locator.debug_files.for_file(mapped), ReadOptions(jobs=locator.jobs)
    with Binary.from_elf(elf, debug_files=finder, options=options) as binary:
        explanation = binary.explain(vaddr, mapped=mapped)
        yield from explanation.steps
        build_id = binary.build_id
    named = False
    if explanation.in_code and not any(frame.line for frame in explanation.frames):
        named = yield from elsewhere(FileQuery(build_id, mapped or os.path.abspath(path), local=False), vaddr, locator)
    if explanation.remedy and not named:
        yield Step("to do", explanation.remedy)


def elsewhere(query: FileQuery, vaddr: int, locator: Locator) -> Generator[Step, None, bool]:
    """Yield what given files, archives and servers know, and return True if they name the address."""
    search = locator.search(query)
    for tried in search.tried:
        yield Step("elsewhere", str(tried))
    if search.opened is None:
        return False
    try:
        yield Step("elsewhere", search.opened.how, True)
        frames = search.opened.binary.lookup(vaddr)
    finally:
        search.opened.close()
    yield from frame_steps(frames)
    if not frames:
        yield Step("answer", "no names there either", False)
    return bool(frames)
