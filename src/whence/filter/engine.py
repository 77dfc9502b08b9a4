"""Bytes in, bytes out: lines as they come, named where a form of the table is found in them.

Blocks are searched for the needles of the forms; lines without any pass in whole slices. A form whose lines can't be
named for want of what is loaded where, or of a file, is no longer looked for once it was met and the reason is known;
nor is the address looked at where the file is one that can't be opened. A report that lists its modules at its end (a
Java hs_err file, a heap profile, ThreadSanitizer's) is held back until they have come, at most MAX_HELD bytes of it. A
line longer than MAX_LINE passes as it is.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from whence._base.model import Frame, Frames
from whence._base.reasons import Reason
from whence.filter.forms import (
    ANY_ADDRESS,
    FORMS,
    GO_FUNCTION,
    GO_NEEDLE,
    GO_PLACE,
    KERNEL,
    Back,
    Form,
    Holds,
    Needle,
    Needs,
    Style,
)
from whence.filter.frame_text import FrameText, shown
from whence.filter.json_text import JSON_TEXT, JsonText
from whence.filter.kernels.needles import Needles
from whence.filter.places import Places

MAX_LINE = 1 << 16  # bytes
MAX_HELD = 1 << 23  # bytes of a report


class Report(NamedTuple):
    """What is held back: how it begins (a needle), and what announces its modules: the title of a list, or a line
    that ends it and has the path of the program."""

    begins: bytes
    titles: tuple[bytes, ...] = ()
    ends: tuple[bytes, ...] = ()


LISTS = (b"Dynamic libraries:", b"MAPPED_LIBRARIES:")
HEAP = Report(b"@ heap", titles=LISTS)  # gperftools'
REPORTS = (
    Report(b"# A fatal error has been detected by the Java Runtime", titles=LISTS),
    HEAP,
    Report(b"%^heap_v2/%d", titles=LISTS),  # jemalloc's
    Report(b"WARNING: ThreadSanitizer: ", ends=(b"SUMMARY: ThreadSanitizer: ", b"==================")),
)
PROGRAM = re.compile(rb" \((?P<path>/[^\n]{1,4096}?)\+0x[0-9a-f]{1,16}\)")  # as a summary has it
MAPS_LINE = re.compile(rb"[0-9a-f]{1,16}-[0-9a-f]{1,16} [r-][w-][x-][ps] [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+")
MODULES = b"{{{m"  # LLVM markup that describes a module or where it lies
RESET = b"{{{reset"
GO_WHOLE = b"\t/"  # what a place of Go's begins with where its path is whole
GO_NO_LINE = b":0 +0x"
TOLD = {  # needles of lines that say where a file lies, or its build-id: of systemd-coredump and coredumpctl
    b" Executable: /": re.compile(rb" Executable: (?P<path>/[^\r\n\x1b(]{1,4096}+)"),
    b"odule %w with": re.compile(
        rb"\b(?:Found m|M)odule (?P<path>\S{1,4096}) with(?:out)? build-id(?::? (?P<build_id>[0-9a-f]{4,64}))?"
    ),
}
KERNEL_OFFSET = re.compile(rb"Kernel Offset: 0x(?P<offset>[0-9a-f]{1,16}) from 0x")  # printed behind the trace
KERNEL_OFFSET_LINE = 64  # bytes that such a text has at most
KERNEL_OFFSET_NEEDLE = b"Kernel Offset: 0x"
# What follows these on a kernel's line is where it was, not a return address: x86, ARM, PowerPC, MIPS and RISC-V, s390.
EXACT_PLACE = re.compile(rb"IP: |RIP  \[|\b(?:EIP|PC) is at |\bpc : |\bNIP \[|\bepc *: |Krnl PSW : |WARNING: ")
JSON_LINE = b'{"'  # an object a line: names in it are escaped, and it stays one line
NAMED = (b" in ", b" (")  # what follows an address that has a name already
CLONES = re.compile(rb"(?: \[clone [^\]\n]{1,256}\])+")  # libstdc++'s suffixes of copies, as Java's logs have them
CLONE = re.compile(rb"\[clone ([^\]]*)\]")
INTERCEPTORS = ("___interceptor_", "__interceptor_")  # longest first

MARKUP = re.compile(
    rb"\{\{\{(?:(?P<reset>reset)"
    rb"|module:(?P<number>\d{1,9}):(?P<path>[^:}\n]*):elf:(?P<build_id>[0-9a-fA-F]*)"
    rb"|mmap:0x(?P<start>[0-9a-f]{1,16}):0x(?P<size>[0-9a-f]{1,16}):load:(?P<module>\d{1,9}):\w*:0x(?P<vaddr>[0-9a-f]{1,16})"
    rb")[^}\n]*\}\}\}"
)


KEYS = ("address", "module", "build_id", "symbol", "size", "ra", "pc")  # the groups that an answer depends on
MAX_WORDS = 1 << 16  # answers that are kept as text
MAX_BEFORE = 256  # bytes before a frame that may say whether its address is exact
MAX_LOST = 1 << 12  # files that can't be opened and are remembered
SHORTEST = 5  # bytes of a frame: [0x1]
MAX_MISSES = 1000  # lines with a form's needle that it does not match, until its other needs are looked at
EVERY_NEEDLE = (1 << 64) - 1
ORDINARY = re.compile(rb"(?:%[/^])?(?:%.)?([^%]+)")  # the first ordinary bytes of a needle


class Matcher:
    """A form as the loop over lines wants it: its groups by number, its template in pieces around the frame.

    Most templates keep the text up to the end of one group (`{head} in {frame}`): `kept` is its number, else 0.
    """

    __slots__ = (
        "after", "before", "bits", "exact", "file", "form", "frame", "kept", "keys", "literals", "misses",
        "search", "tail",
    )  # fmt: skip

    def __init__(self, form: Form) -> None:
        groups = form.pattern.groupindex
        self.form = form
        self.bits = dict.fromkeys(Needs, 0)  # of its needles, by what they need
        self.search = form.pattern.search
        self.misses = 0
        self.keys = tuple(groups[name] for name in KEYS if name in groups)
        self.tail = groups.get("tail", 0)
        self.file = (
            tuple(groups[name] for name in ("module", "build_id") if name in groups) if "module" in groups else ()
        )
        self.literals = {found[1] for needle in form.needles if (found := ORDINARY.match(needle.text))}
        self.exact = form.back is Back.EXACT and "ra" not in groups
        self.before, self.frame, self.after = template_parts(form.template)
        self.kept = groups["head"] if self.before.startswith(b"{head}") else 0
        if self.kept:
            self.before = self.before.removeprefix(b"{head}")


class Lost:
    """A file that can't be opened, and how many lines it left without names."""

    __slots__ = ("lines", "module", "reason")

    def __init__(self, reason: Reason, module: str) -> None:
        self.reason, self.module, self.lines = reason, module, 0


class LogFilter:
    """Names what it recognizes in a stream of text.

    `feed` takes blocks of any size and returns what can be written by now; `finish` returns the rest. With `every`,
    every address that stands by itself is looked up as well; with `links`, files become hyperlinks of the terminal
    (OSC 8). `kernel_offsets` are what the whole text says about where kernels were loaded (`kernel_offsets_in`), for a
    caller who has read it before: a kernel prints it behind its trace. Without them an offset counts from its line on.
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
        self._offsets = list(reversed(kernel_offsets))
        self._kernel_offset = self._offsets[-1] if self._offsets else 0
        self._places = places
        self._style = style
        self._text = FrameText(style, links=links)
        self._matchers = tuple(map(Matcher, (*FORMS, ANY_ADDRESS) if every else FORMS))
        others = (MODULES, RESET, KERNEL_OFFSET_NEEDLE, *TOLD, *(report.begins for report in REPORTS))
        self._sought: list[tuple[Needle, Matcher | None]] = [
            *((needle, matcher) for matcher in self._matchers for needle in matcher.form.needles),
            (GO_NEEDLE, None),
            *((Needle(text), None) for text in others),
        ]
        for bit, (needle, matcher) in enumerate(self._sought):
            if matcher is not None:
                matcher.bits[needle.needs] |= 1 << bit
        self._needles = Needles(tuple(needle.text for needle, _ in self._sought))
        self._go_bit = 1 << [needle for needle, _ in self._sought].index(GO_NEEDLE)
        self._report_bits = {1 << at: report for at, report in enumerate(REPORTS, len(self._sought) - len(REPORTS))}
        self._reports = sum(self._report_bits)
        telling = (MODULES, RESET, KERNEL_OFFSET_NEEDLE, *TOLD)
        self._tells = sum(1 << bit for bit, (needle, _) in enumerate(self._sought) if needle.text in telling)
        self._literals: dict[tuple[Matcher, ...], re.Pattern[bytes]] = {}  # of the needles of forms
        self._wanted = EVERY_NEEDLE  # the needles that are looked for, a bit each
        self._lost: dict[tuple[bytes, ...], Lost] = {}  # files that can't be opened
        self._chosen: dict[int, tuple[Matcher, ...]] = {}
        self._words: dict[tuple[object, ...], tuple[bytes, ...]] = {}
        self._tail = b""
        self._endless = False
        self._held: list[bytes] | None = None
        self._held_report = HEAP
        self._held_size = 0
        self._maps: list[bytes] | None = None
        self._last_line = b""
        self._run: tuple[Form | None, int] = (None, -1)

    def feed(self, block: bytes) -> bytes:
        """What can be written after these bytes: all whole lines, unless a report is held back."""
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
        """The rest: a last line without newline, and a report that listed no modules."""
        tail, self._tail = self._tail, b""
        rest = (self._lines(tail) if tail else b"") + self._release()
        self._count_lost()
        return rest

    # reports that are held back

    def _lines(self, text: bytes) -> bytes:
        out: list[bytes] = []
        while text:
            text = self._hold(text, out) if self._held is not None else self._scan(text, out)
        return b"".join(out)

    def _scan(self, text: bytes, out: list[bytes]) -> bytes:
        """Name lines up to the start of a report; returns the text from there on."""
        found = self._needles.lines(text, self._wanted).numbers()
        starts = [
            (found[at], self._report_bits[bits & -bits])
            for at in range(0, len(found), 3)
            if (bits := found[at + 2] & self._reports)
        ]
        if not starts:
            out.append(self._named(text, found))
            return b""
        at, report = starts[0]
        out.append(self._named(text[:at], found[: 3 * sum(start < at for start in found[::3])]))
        self._held, self._held_size, self._maps, self._held_report = [], 0, None, report
        if report.titles:
            self._places.forget()
            self._learnt()
        return text[at:]

    def _hold(self, text: bytes, out: list[bytes]) -> bytes:
        """Hold lines back until their modules have been listed. Returns the text behind them."""
        assert self._held is not None
        if self._maps is not None:
            return self._hold_maps(text, out)
        ends = [at for title in (*self._held_report.titles, *self._held_report.ends) if (at := text.find(title)) >= 0]
        if ends and min(ends) <= MAX_HELD - self._held_size:
            end = text.find(b"\n", min(ends)) + 1 or len(text)
            self._held.append(text[:end])
            self._held_size += end
            if self._held_report.titles:
                self._maps = []
            else:
                program = PROGRAM.search(text, min(ends), end)
                if program:
                    self._places.add_program(os.fsdecode(program["path"]))
                    self._learnt()
                out.append(self._release())
            return text[end:]
        self._held.append(text)
        self._held_size += len(text)
        if self._held_size > MAX_HELD:
            out.append(self._release())
        return b""

    def _hold_maps(self, text: bytes, out: list[bytes]) -> bytes:
        """Hold the lines of a list of modules back, and what stands before the first of them."""
        assert self._held is not None
        assert self._maps is not None
        done = 0
        while done < len(text):
            end = text.find(b"\n", done) + 1 or len(text)
            line = text[done:end]
            found = MAPS_LINE.search(line)
            if found:
                self._maps.append(line[found.start() :].rstrip(b"\r\n").partition(b"\x1b")[0] + b"\n")
            elif self._maps:
                break
            self._held.append(line)
            self._held_size += len(line)
            done = end
            if self._held_size > MAX_HELD:
                break
        else:
            return b""
        out.append(self._release())
        return text[done:]

    def _release(self) -> bytes:
        """The report that was held back, named."""
        if self._held is None:
            return b""
        text, self._held = b"".join(self._held), None
        if self._maps:
            self._places.learn(b"".join(self._maps))
            self._learnt()
        return self._named(text, self._needles.lines(text, self._wanted).numbers())

    def _learnt(self) -> None:
        """What was found before may lie elsewhere now, and what could not be named may have a name."""
        self._words.clear()
        self._count_lost()
        self._lost.clear()
        self._wanted = EVERY_NEEDLE

    # lines

    def _named(self, text: bytes, found: memoryview) -> bytes:
        """The text with names; `found` has its lines with needles, as `Needles.lines` returns them."""
        out: list[bytes] = []
        done = 0
        lines = iter(found)
        for start, end, present in zip(lines, lines, lines, strict=True):
            wanted = present & self._wanted
            if not wanted or (wanted == self._go_bit and full_go_place(text, start, end)):
                continue
            line = text[start:end]
            if end - start > MAX_LINE or b"\0" in line:
                continue
            named = self._line(text, start, line, wanted)
            if named is not None:
                out += text[done:start], named
                done = end
        if text:
            self._last_line = text[text.rfind(b"\n", 0, len(text) - 1) + 1 :][:MAX_LINE].rstrip(b"\n")
        self._run = self._run[0], self._run[1] - len(text)
        if not out:
            return text
        out.append(text[done:])
        return b"".join(out)

    def _count_lost(self) -> None:
        """Tell the lines that were not looked at for want of their file."""
        for lost in self._lost.values():
            self._places.reasons[lost.reason, lost.module] += lost.lines
            lost.lines = 0

    def _choose(self, present: int) -> tuple[Matcher, ...]:
        """The forms with a needle among those present (bits as `Needles.lines` returns them)."""
        here = {matcher for bit, (_, matcher) in enumerate(self._sought) if present >> bit & 1}
        chosen = tuple(matcher for matcher in self._matchers if matcher in here)
        self._chosen[present] = chosen
        return chosen

    def _line(self, text: bytes, start: int, line: bytes, present: int) -> bytes | None:
        """The line with names; None when it stays as it is."""
        if present & self._go_bit:
            found = GO_PLACE.search(line)
            if found:
                named = self._go_place(
                    found, text[text.rfind(b"\n", 0, start - 1) + 1 : start - 1] if start else self._last_line
                )
                return None if named is None else line[: found.start("place")] + named + line[found.end("place") :]
        if present & self._tells:
            self._take_kernel_offset(line)
            self._take_markup(line)
            self._take_told(line)
        matchers = self._chosen.get(present)
        if matchers is None:
            matchers = self._choose(present)
        if line.startswith(JSON_LINE):
            return self._json_line(text, start, line, matchers, present)
        for index, matcher in enumerate(matchers):
            match = matcher.search(line)
            if match is None:
                matcher.misses += 1
                if matcher.misses > MAX_MISSES:
                    matcher.misses = 0
                    self._give_up(matcher, present)
                continue
            form = matcher.form
            follows = self._run == (form, start)
            self._run = form, start + len(line) + 1
            lost = self._lost.get(match.group(*matcher.file, 0)[:-1]) if self._lost and matcher.file else None
            if lost is not None:
                lost.lines += 1
                named = None
            else:
                named = self._by(matcher, match, line, follows)
                if named is None:
                    self._lose(matcher, match)
                    self._give_up(matcher, present)
            later = matchers[index + 1 :]
            if not later or not self._others_in(line, match, later):
                return named
            return self._by_others(named, line, later)
        return None

    def _others_in(self, line: bytes, match: re.Match[bytes], matchers: tuple[Matcher, ...]) -> bool:
        """Whether what stands around a match may hold other forms."""
        start, end = match.span()
        if start < SHORTEST and len(line) - end < SHORTEST:
            return False
        literals = self._literals.get(matchers)
        if literals is None:
            texts = sorted({literal for matcher in matchers for literal in matcher.literals})
            literals = self._literals[matchers] = re.compile(b"|".join(map(re.escape, texts)))
        return literals.search(line, 0, start) is not None or literals.search(line, end) is not None

    def _lose(self, matcher: Matcher, match: re.Match[bytes]) -> None:
        """After a match without names: a file that can't be opened is not asked for again."""
        if not matcher.file or not match[matcher.file[0]] or len(self._lost) >= MAX_LOST:
            return
        file = match.group(*matcher.file, 0)[:-1]
        names = [os.fsdecode(text or b"") for text in file]
        lost = self._places.lost(names[0], names[1] if len(names) > 1 else "")
        if lost is not None:
            self._lost[file] = Lost(*lost)

    def _give_up(self, matcher: Matcher, present: int) -> None:
        """Look no longer for the needles of a form that wait for what no line has said."""
        unmet = 0 if self._places.knows_addresses else matcher.bits[Needs.PLACED]
        if not self._places.knows_files:
            unmet |= matcher.bits[Needs.FILES]
        if not present & matcher.bits[Needs.NOTHING]:
            self._wanted &= ~unmet

    def _by(self, matcher: Matcher, match: re.Match[bytes], line: bytes, follows: bool) -> bytes | None:
        """The line with the names of one form, of which `match` is the first in it; None when it stays as it is."""
        form = matcher.form
        end = match.end()
        alone = len(line) - end < SHORTEST or matcher.search(line, end) is None
        if alone and form.template and self._style is Style.SAME:
            return self._rewritten(matcher, match, line, follows)
        return self._appended(form, line, follows)

    def _by_others(self, named: bytes | None, line: bytes, matchers: tuple[Matcher, ...]) -> bytes | None:
        """A line that several forms may be in, with the names of the later ones, too."""
        lines = (line if named is None else named).split(b"\n")
        changed = named is not None
        for matcher in matchers:
            for index, part in enumerate(lines):
                match = matcher.search(part)
                found = self._by(matcher, match, part, False) if match else None
                if found is not None:
                    lines[index] = found
                    changed = True
            lines = b"\n".join(lines).split(b"\n")
        return b"\n".join(lines) if changed else None

    def _rewritten(self, matcher: Matcher, match: re.Match[bytes], line: bytes, follows: bool) -> bytes | None:
        """The line once for each frame."""
        back = 0 if matcher.exact else self._back(matcher.form, match, line[: match.start()], follows)
        key = matcher, back, match.group(*matcher.keys)
        words = self._words.get(key)
        if words is None:
            words = self._words_of(matcher, match, back)
            if len(self._words) >= MAX_WORDS:
                self._words.clear()
            self._words[key] = words
        if not words:
            return None
        if matcher.kept:
            head = line[: match.end(matcher.kept)]
        else:
            head = line[: match.start()] + filled(matcher.before, match.groupdict(b""))
        rest = line[match.end() :]
        if len(words) == 1:
            return head + words[0] + rest
        return b"\n".join([head + text + rest for text in words])

    def _words_of(self, matcher: Matcher, match: re.Match[bytes], back: int) -> tuple[bytes, ...]:
        """For each frame of a match, what the template has behind its groups; () where there are no frames."""
        before = matcher.before if matcher.kept else b""
        tail = match[matcher.tail] or b"" if matcher.tail else b""
        frames = self._frames(matcher.form, match, back)
        if self._tells_nothing(matcher.form, frames, match[0]):
            return ()
        texts = [self._laid_out(matcher, frame, tail) for frame in (frames[:1] if matcher.form.innermost else frames)]
        return tuple(before + text + matcher.after for text in texts)

    def _laid_out(self, matcher: Matcher, frame: Frame, tail: bytes) -> bytes:
        """A frame as the form's template has it; `tail` where the log has its file."""
        if not matcher.frame:
            words = self._text.frame(frame, b" ")
            return words if frame.file or not tail else words + b" " + tail
        place = self._text.place(frame) if frame.file else tail
        return filled(matcher.frame, {"function": shown(frame.function or "??"), "place": place})

    def _appended(self, form: Form, line: bytes, follows: bool) -> bytes | None:
        """The line with names behind each match."""
        out: list[bytes] = []
        done = 0
        for _, end, words in self._words_behind(form, line, follows):
            if words:
                out += line[done:end], words
                done = end
        return b"".join([*out, line[done:]]) if out else None

    def _words_behind(self, form: Form, line: bytes, follows: bool) -> Iterator[tuple[int, int, bytes]]:
        """The start and end of each match of a form that has no names yet, and what to write behind it."""
        for match in form.pattern.finditer(line):
            if line.startswith(NAMED[form is ANY_ADDRESS], match.end()):
                continue
            before = line[max(0, match.start() - MAX_BEFORE) : match.start()]
            frames = self._frames(form, match, self._back(form, match, before, follows))
            if self._tells_nothing(form, frames, match[0]):
                frames = ()
            yield match.start(), match.end(), self._mark(form, frames) if frames else b""

    def _tells_nothing(self, form: Form, frames: Frames, text: bytes) -> bool:
        """Whether frames without files say no more than what the log has already."""
        if self._style is not Style.SAME or any(frame.file for frame in frames):
            return False
        known = CLONES.sub(lambda found: b" (" + b"".join(CLONE.findall(found[0])) + b")", text)
        return form.lines_only or all(shown(frame.function) in known for frame in frames)

    def _json_line(
        self, text: bytes, start: int, line: bytes, matchers: tuple[Matcher, ...], present: int
    ) -> bytes | None:
        """A JSON object with names behind the frames in its strings; None when it stays as it is.

        Each line of each string is looked at as it reads without escapes; what is written there is escaped.
        """
        edits: list[tuple[int, int, bytes]] = []
        run = self._run[0] if self._run[1] == start else None
        previous = b""
        for index, part in enumerate(JSON_TEXT.finditer(line)):
            piece = JsonText(part)
            if present & self._go_bit and (found := GO_PLACE.search(piece.text)):
                before = previous if part.start("text") > part.start() else self._json_text_before(text, start, index)
                place = self._go_place(found, before)
                if place is not None:
                    edits.append((piece.place(found.start("place")), piece.place(found.end("place")), place))
            previous = piece.text
            taken: list[tuple[int, int]] = []  # by the forms before, in order
            for matcher in matchers:
                found_here: list[tuple[int, int]] = []
                for low, high, words in self._words_behind(matcher.form, piece.text, run is matcher.form):
                    earlier = bisect_left(taken, (high, 0)) - 1
                    if earlier >= 0 and taken[earlier][1] > low:
                        continue
                    if not taken and not found_here:
                        self._run = matcher.form, start + len(line) + 1
                        run = matcher.form
                    found_here.append((low, high))
                    if words:
                        edits.append((piece.place(high), piece.place(high), words))
                if found_here:
                    taken = sorted(taken + found_here)
                    if not edits:
                        self._give_up(matcher, present)
        if not edits:
            return None
        out: list[bytes] = []
        done = 0
        for low, high, words in sorted(edits):
            out += line[done:low], json.dumps(os.fsdecode(words))[1:-1].encode()
            done = high
        return b"".join([*out, line[done:]])

    def _json_text_before(self, text: bytes, start: int, index: int) -> bytes:
        """What the object before this one has where this one has its text `index`."""
        line = text[text.rfind(b"\n", 0, start - 1) + 1 : start - 1] if start else self._last_line
        found = next(islice(JSON_TEXT.finditer(line), index, None), None)
        return JsonText(found).text if found else b""

    def _mark(self, form: Form, frames: Frames) -> bytes:
        words = self._text.chain(frames)
        return b" (" + words + b")" if form is ANY_ADDRESS else b" in " + words

    # what a match holds

    def _frames(self, form: Form, match: re.Match[bytes], back: int) -> Frames:
        """Return the frames of a match, looked up `back` bytes before its number, as the form's tools name them."""
        frames = self._looked_up(form, match, back)
        if form.intercepts and self._style is Style.SAME:
            return tuple(frame._replace(function=intercepted(frame.function)) for frame in frames)
        return frames

    def _looked_up(self, form: Form, match: re.Match[bytes], back: int) -> Frames:
        """Return the frames of a match, looked up `back` bytes before its number."""
        groups = match.groupdict()
        address = int(groups["address"], 16)
        if form.module == KERNEL:
            address -= self._kernel_offset
        module = os.fsdecode(groups.get("module") or form.module)
        if (form.holds is Holds.RUNTIME and not module) or form.holds is Holds.LOADED:
            return self._places.at_runtime(address, module, back)
        build_id = (groups.get("build_id") or b"").decode("ascii")
        symbol = groups.get("symbol")
        runtime = int(groups["runtime"], 16) if groups.get("runtime") else None
        if runtime is not None and self._places.knows_mappings:
            return self._places.at_runtime(runtime, module, back)
        if symbol:
            size = groups.get("size")
            known = int(size, 16) if size else None
            return self._places.in_function(os.fsdecode(symbol), address, known, module, build_id, back, runtime)
        return self._places.in_module(module, build_id, address, form.holds, back)

    @staticmethod
    def _back(form: Form, match: re.Match[bytes], before: bytes, follows: bool) -> int:
        """How many bytes before the number the address to look up is: 0 or 1."""
        groups = form.pattern.groupindex
        if "ra" in groups and match["ra"]:
            return 1
        if form.back is Back.EXACT or ("pc" in groups and match["pc"]):
            return 0
        if b"pc" in before and before.rstrip().endswith(b":"):
            return 0
        if form.holds is Holds.SYMBOL and (EXACT_PLACE.search(before) or not int(match["address"], 16)):
            return 0
        if form.back is Back.RETURN:
            return 1
        first = int(match["number"]) == 0 if "number" in groups and match["number"] is not None else not follows
        return 0 if first else 1

    def _go_place(self, found: re.Match[bytes], previous: bytes) -> bytes | None:
        """A file and line of a Go panic, where its own say less than the binary's; `previous` is the line before."""
        if found["place"].startswith((b"/", b"./")) and int(found["line"]):
            return None
        function = GO_FUNCTION.search(previous)
        if function is None:
            return None
        symbol = os.fsdecode(function["symbol"])
        runtime = int(found["pc"], 16) if found["pc"] else None
        frames = self._places.in_function(symbol, int(found["address"], 16), None, "", "", 1, runtime)
        if not frames and not self._places.knows_files:
            self._wanted &= ~self._go_bit
        frame = next((frame for frame in frames if frame.function == symbol), frames[-1] if frames else None)
        return self._text.place(frame) if frame is not None and frame.file else None

    def _take_kernel_offset(self, line: bytes) -> None:
        """Behind a kernel's line of where it was loaded, the next line's is true; the last one's stays."""
        found = KERNEL_OFFSET.search(line)
        if found:
            if self._offsets:
                self._offsets.pop()
            self._kernel_offset = self._offsets[-1] if self._offsets else int(found["offset"], 16)
            self._learnt()

    def _take_told(self, line: bytes) -> None:
        for pattern in TOLD.values():
            if found := pattern.search(line):
                build_id = found.groupdict().get("build_id") or b""
                self._places.add_program(os.fsdecode(found["path"].rstrip()), build_id.decode())
                self._learnt()

    def _take_markup(self, line: bytes) -> None:
        for found in MARKUP.finditer(line):
            self._learnt()
            if found["reset"]:
                self._places.forget()
            elif found["number"]:
                self._places.add_module(int(found["number"]), os.fsdecode(found["path"]), found["build_id"].decode())
            else:
                numbers = (
                    int(found["start"], 16),
                    int(found["size"], 16),
                    int(found["module"]),
                    int(found["vaddr"], 16),
                )
                self._places.add_range(*numbers)


def kernel_offsets_in(blocks: Iterable[bytes]) -> list[int]:
    """Where the kernels of a log were loaded (KASLR), in the order of its lines; the blocks may end anywhere."""
    found: list[int] = []
    rest = b""
    for block in blocks:
        text = rest + block
        end = 0
        if KERNEL_OFFSET_NEEDLE in text:
            for match in KERNEL_OFFSET.finditer(text):
                found.append(int(match["offset"], 16))
                end = match.end()
        rest = text[max(end, len(text) - KERNEL_OFFSET_LINE) :]
    return found


def intercepted(function: str) -> str:
    """Return the name of the function that a sanitizer's interceptor replaces, any other name unchanged.

    >>> intercepted("___interceptor_malloc"), intercepted("malloc")
    ('malloc', 'malloc')
    """
    for prefix in INTERCEPTORS:
        if function.startswith(prefix):
            return function.removeprefix(prefix)
    return function


def template_parts(template: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands in a template before a frame, how the frame is laid out (nothing for `{frame}`), and what follows."""
    if b"{frame}" in template:
        before, _, after = template.partition(b"{frame}")
        return before, b"", after
    places = [at for name in (b"{function}", b"{place}") if (at := template.find(name)) >= 0]
    first = min(places, default=len(template))
    return template[:first], template[first:], b""


def full_go_place(text: bytes, start: int, end: int) -> bool:
    """Whether a line is a place of Go's with its whole path and its line."""
    return text.startswith(GO_WHOLE, start) and text.find(GO_NO_LINE, start, end) < 0


def filled(template: bytes, groups: Mapping[str, bytes]) -> bytes:
    """A template with the groups that its braces name."""
    return re.sub(rb"\{(\w+)\}", lambda name: groups[name[1].decode()], template)
