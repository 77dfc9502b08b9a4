"""`whence explain FILE|PID ADDRESS`: the whole chain for one address, each step with what came of it.

`--stack TID` instead of an address: how each frame of a thread's stack was found, in a core file or a live process.

A live process: mapping, how its file was opened, whether the build-id is the same, file offset, vaddr. A file: segment
and section, every debug file that was looked for, what each source of names says, other names of the place, and the
range and line row that answered; or what is missing and what to do.
"""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.options import ReadOptions
from whence._base.streams import complain
from whence._base.words import address
from whence.binary import Binary, is_archive, open_archive, open_elf
from whence.cli.answers import executable_mappings, frame_text
from whence.cli.answers import where as where_text
from whence.cli.main import ANSWERED, SOME_UNKNOWN, WRONG_USE
from whence.cli.options import add_json_option, add_locator_options, locator_of
from whence.explanation import Step, frame_steps
from whence.locate.search import Wanted
from whence.unwind.steps import End
from whence.unwind.unwinder import INNER_KEPT

if TYPE_CHECKING:
    from whence.locator.locator import Locator
    from whence.procmap import Mapping
    from whence.symbolize import Symbolized


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("where", metavar="FILE|PID", help="an ELF file, an archive, a core file, or a live process")
    parser.add_argument(
        "address", nargs="?", metavar="ADDRESS", help="a vaddr of the file, or a runtime address of the process"
    )
    parser.add_argument("--stack", type=int, metavar="TID", help="how each frame of a thread's stack is found, instead")
    parser.add_argument("--scan", action="store_true", help="guess callers that no table gives, by words on the stack")
    add_json_option(parser, "the steps as JSON")
    add_locator_options(parser)


def run(options: Namespace) -> int:
    if (options.address is None) is (options.stack is None):
        raise WrongUse("either an ADDRESS is explained or, with --stack TID, a thread's stack")
    try:
        asked = 0 if options.address is None else address(options.address)
    except ValueError as error:
        complain(error, "whence explain")
        return WRONG_USE
    steps: list[Step] = []
    live = options.where.isdecimal() and not os.path.exists(options.where)
    with locator_of(options) as locator:
        if options.stack is not None:
            chain = of_stack(options.where, live, options.stack, locator, options.scan, options.binary)
        else:
            chain = of_process(int(options.where), asked, locator) if live else of_file(options.where, asked, locator)
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
    """Each frame of a thread of a live process or a core, and the rule by which its caller was found."""
    from whence.cli.stacks import ending
    from whence.symbolize import Core, Process, Symbolizer

    with Symbolizer(locator=locator, demangle=True) as symbolizer:
        whose: Process | Core
        if live:
            whose = Process(int(where), resolver=symbolizer.resolver)
        else:
            whose = Core(where, programs=programs, sysroot=locator.root)
        if isinstance(whose, Process):
            executable_mappings(whose)
        found = whose.explain_stack(tid, symbolizer, scan=scan)
        if found is None:
            threads = whose.threads() if isinstance(whose, Process) else whose.threads
            known = ", ".join(str(thread.tid) for thread in threads) or "none"
            raise WrongUse(f"{where} has no thread {tid} (it has {known})")
    stack, rules = found
    for number, (frame, rule) in enumerate(zip(stack.frames, rules, strict=True)):
        yield Step(f"#{number}", where_text(frame.place))
        yield Step("found by", str(frame.found_by))
        for one in frame.place.frames:
            yield Step("function", frame_text(one))
        yield Step("caller by", rule)
        if stack.skipped and number == INNER_KEPT - 1:
            yield Step("", f"{stack.skipped:,} frames that were counted and not kept")
    yield Step("answer", ending(stack), stack.end is End.COMPLETE)
    if stack.missing is not None:
        yield Step("to do", stack.missing.remedy)


# a process


def of_process(pid: int, runtime: int, locator: Locator) -> Iterator[Step]:
    """From a runtime address to the file and vaddr, then on in the file."""
    from whence.symbolize import Symbolizer

    with Symbolizer(locator=locator) as symbolizer:
        symbolizer.resolver.require(pid)
        answer = symbolizer.symbolize(pid, [runtime])[0]
        mapping = answer.mapping
        if mapping is None:
            none = (
                "the kernel's half of the addresses" if runtime >> 63 else f"none holds {runtime:#x} in process {pid}"
            )
            yield Step("mapping", none, answer.reason is None)
            yield from the_end(answer)
            return
        yield from of_mapping(mapping, runtime)
        path = ""
        if mapping.kind.has_file:
            try:
                path = mapping.openable_path(prefer_name=True)
            except OSError as error:
                yield Step("opened", str(error), False)
            else:
                yield Step("opened", path or "in no way that leads to the mapped file", bool(path))
        if path:
            found = symbolizer.resolver.build_id(path)
            same = not mapping.build_id or found == mapping.build_id
            yield Step("build-id", f"{found or 'none'}{'' if same else f', but {mapping.build_id} was mapped'}", same)
        if answer.vaddr is None or not path:
            yield from the_end(answer)
            return
        yield Step("vaddr", f"{answer.vaddr:#x}, file offset {answer.file_offset:#x}")
        vaddr = answer.vaddr
    yield from of_file(path, vaddr, locator, mapping.path)


def of_mapping(mapping: Mapping, runtime: int) -> Iterator[Step]:
    deleted = ", deleted" if mapping.deleted and str(mapping.kind) != "deleted" else ""
    about = f"{mapping.start:#x}-{mapping.end:#x} {mapping.shown_permissions} {mapping.kind}{deleted}"
    yield Step("mapping", f"{about} {mapping.path or '(no name)'}", mapping.is_exec)
    offset = mapping.file_offset_of(runtime)
    yield Step("", f"{runtime - mapping.start:#x} into it; maps the file from {mapping.offset:#x}, so byte {offset:#x}")


def the_end(answer: Symbolized) -> Iterator[Step]:
    """An answer that needed no file, or the reason why there is none."""
    if answer.frames:
        yield from frame_steps(answer.frames)
    elif answer.reason is not None:
        detail = f" ({answer.detail})" if answer.detail else ""
        yield Step("answer", f"none: {answer.reason.sentence}{detail}", False)
        yield Step("to do", answer.reason.remedy)


# a file


def of_file(path: str, vaddr: int, locator: Locator, mapped: str = "") -> Iterator[Step]:
    """What a file says of a vaddr. `mapped` is the name a process knows it by, where that is another."""
    if is_archive(path):
        with open_archive(path) as binary:
            yield from binary.explain(vaddr).steps
        return
    elf = open_elf(path)
    finder, options = locator.debug_files.for_file(mapped), ReadOptions(jobs=locator.jobs)
    with Binary.from_elf(elf, debug_files=finder, options=options) as binary:
        found = binary.explain(vaddr, mapped=mapped)
        yield from found.steps
        build_id = binary.build_id
    named = False
    if found.in_code and not any(frame.line for frame in found.frames):
        named = yield from elsewhere(Wanted(build_id, mapped or os.path.abspath(path), local=False), vaddr, locator)
    if found.remedy and not named:
        yield Step("to do", found.remedy)


def elsewhere(wanted: Wanted, vaddr: int, locator: Locator) -> Generator[Step, None, bool]:
    """What the files given by hand, the archives and the servers say; returns whether they name the address."""
    search = locator.search(wanted)
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
        yield Step("answer", "none there either", False)
    return bool(frames)
