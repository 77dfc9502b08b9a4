"""Find the forms in lines and write the names of their addresses.

A form whose lines can't be named because no line has said what is loaded where is no longer searched for after its
first match; addresses of a file that can't be opened are not looked up again.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from whence import stack_token
from whence._base.model import Frame, Frames
from whence._base.reasons import Reason
from whence.filter.forms import (
    ANY_ADDRESS,
    GO_FUNCTION,
    GO_LOCATION,
    KERNEL,
    Back,
    Form,
    Holds,
    Needs,
    Style,
)
from whence.filter.frame_text import FrameText, shown
from whence.filter.json_text import JSON_TEXT, JsonText
from whence.filter.matching import FILES, FormIndex, Matcher, filled
from whence.filter.places import FunctionQuery, Places
from whence.stack_token import StackToken, TokenFrame

MAX_LINE = 1 << 16  # bytes; a longer line is copied
MAX_TEXTS = 1 << 16  # cached texts of answers
MAX_MISSING = 1 << 12  # files that can't be opened and are remembered
MAX_BEFORE = 256  # bytes before a frame that may say that its address is exact
MAX_MISSES = 1000  # lines with a form's needle that the form does not match, until its needs are checked
SHORTEST = 5  # bytes of a frame: [0x1]
EVERY_NEEDLE = (1 << 64) - 1

GO_FULL_PATH = b"\t/"  # start of a location of Go with a full path
GO_NO_LINE = b":0 +0x"
KERNEL_OFFSET = re.compile(rb"Kernel Offset: 0x(?P<offset>[0-9a-f]{1,16}) from 0x")  # printed after a trace
# After these, a kernel's line has a pc, not a return address: x86, ARM, PowerPC, MIPS and RISC-V, s390.
EXACT_PC = re.compile(rb"IP: |RIP  \[|\b(?:EIP|PC) is at |\bpc : |\bNIP \[|\bepc *: |Krnl PSW : |WARNING: ")
JSON_LINE = b'{"'  # one object per line: names in it are escaped, and it stays one line
NAMED_TOKEN = b" =>"  # follows a token that has names
NAMED = (b" in ", b" (")  # follow an address that has a name
CLONES = re.compile(rb"(?: \[clone [^\]\n]{1,256}\])+")  # libstdc++'s suffixes of copies, in Java's logs
CLONE = re.compile(rb"\[clone ([^\]]*)\]")
INTERCEPTORS = ("___interceptor_", "__interceptor_")  # longest first

MARKUP = re.compile(
    rb"\{\{\{(?:(?P<reset>reset)"
    rb"|module:(?P<number>\d{1,9}):(?P<path>[^:}\n]*):elf:(?P<build_id>[0-9a-fA-F]*)"
    rb"|mmap:0x(?P<start>[0-9a-f]{1,16}):0x(?P<size>[0-9a-f]{1,16}):load:(?P<module>\d{1,9}):\w*:0x(?P<vaddr>[0-9a-f]{1,16})"
    rb")[^}\n]*\}\}\}"
)


class MissingFile:
    """A file that can't be opened, and the number of lines without names because of it."""

    __slots__ = ("lines", "module", "reason")

    def __init__(self, reason: Reason, module: str) -> None:
        self.reason, self.module, self.lines = reason, module, 0


class LineNamer:
    """Names the addresses in lines of a log, and learns from its lines what is loaded where."""

    def __init__(
        self, places: Places, forms: FormIndex, style: Style, *, links: bool = False, kernel_offsets: Sequence[int] = ()
    ) -> None:
        self.active = EVERY_NEEDLE  # the needles that are searched for, as bits
        self._places = places
        self._forms = forms
        self._go_bit, self._fact_bits, self._token_bit = forms.go_bit, forms.fact_bits, forms.token_bit
        self._style = style
        self._frame_text = FrameText(style, links=links)
        self._kernel_offsets = list(reversed(kernel_offsets))
        self._kernel_offset = self._kernel_offsets[-1] if self._kernel_offsets else 0
        self._missing: dict[tuple[bytes, ...], MissingFile] = {}
        self._texts: dict[tuple[object, ...], tuple[bytes, ...]] = {}
        self._last_line = b""
        self._run: tuple[Form | None, int] = (None, -1)  # the form of the last line, and where the next one starts

    def forget_answers(self) -> None:
        """Forget what depends on the facts known so far, because a line had new ones."""
        self._texts.clear()
        self.count_missing()
        self._missing.clear()
        self.active = EVERY_NEEDLE

    def name(self, text: bytes, lines: memoryview) -> bytes:
        """Return the text with names; `lines` are its lines with needles, as `Needles.lines` returns them."""
        out: list[bytes] = []
        done = 0
        numbers = iter(lines)
        for start, end, present in zip(numbers, numbers, numbers, strict=True):
            present &= self.active
            if not present or (present == self._go_bit and is_full_go_location(text, start, end)):
                continue
            line = text[start:end]
            if end - start > MAX_LINE or b"\0" in line:
                continue
            named = self._named_line(text, start, line, present)
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

    def count_missing(self) -> None:
        """Count the lines without names because of a missing file."""
        for file in self._missing.values():
            self._places.reasons[file.reason, file.module] += file.lines
            file.lines = 0

    def _named_line(self, text: bytes, start: int, line: bytes, present: int) -> bytes | None:
        """Return the line with names; None if it stays as it is."""
        if present & self._go_bit:
            match = GO_LOCATION.search(line)
            if match:
                named = self._go_location(match, self._line_before(text, start))
                return (
                    None if named is None else line[: match.start("location")] + named + line[match.end("location") :]
                )
        if present & self._fact_bits:
            self._read_kernel_offset(line)
            self._read_markup(line)
            self._read_files(line)
        if present & self._token_bit and not line.startswith(JSON_LINE):
            named = self._named_tokens(line)
            if named is not None:
                return named
        matchers = self._forms.with_needles(present)
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
            file = self._missing.get(match.group(*matcher.file, 0)[:-1]) if self._missing and matcher.file else None
            if file is not None:
                file.lines += 1
                named = None
            else:
                named = self._named_by(matcher, match, line, follows)
                if named is None:
                    self._note_missing(matcher, match)
                    self._give_up(matcher, present)
            others = matchers[index + 1 :]
            if not others or not self._may_have_others(line, match, others):
                return named
            return self._named_by_others(named, line, others)
        return None

    def _named_tokens(self, line: bytes) -> bytes | None:
        """Return the line and, for each stack token, a line for each address; None if it has no valid token."""
        out: list[bytes] = []
        done = 0
        for end, frames in self._token_frames(line):
            out += line[done:end], NAMED_TOKEN, *(b"\n    " + frame for frame in frames)
            done = end
            if line[end:].strip():
                out.append(b"\n")
        return b"".join([*out, line[done:].lstrip(b" ")]) if out else None

    def _token_frames(self, text: bytes) -> Iterator[tuple[int, list[bytes]]]:
        """Yield the end of each valid stack token without names, and the text of each of its addresses."""
        for match in stack_token.PATTERN.finditer(text):
            if text.startswith(NAMED_TOKEN, match.end()):
                continue
            try:
                token = stack_token.decode(match[0].decode("ascii"))
            except stack_token.TokenError:
                self._places.reasons[Reason.DAMAGED_TOKEN, ""] += 1
                continue
            frames = [
                self._places.of_token(token, frame, 1 if index or token.is_return else 0)
                for index, frame in enumerate(token.frames)
            ]
            yield (
                match.end(),
                [
                    b"#%d " % index + (self._frame_text.chain(named) or unnamed(token, token.frames[index]))
                    for index, named in enumerate(frames)
                ],
            )

    def _may_have_others(self, line: bytes, match: re.Match[bytes], matchers: tuple[Matcher, ...]) -> bool:
        """Return True if the text around a match may have other forms."""
        start, end = match.span()
        if start < SHORTEST and len(line) - end < SHORTEST:
            return False
        literals = self._forms.literals(matchers)
        return literals.search(line, 0, start) is not None or literals.search(line, end) is not None

    def _note_missing(self, matcher: Matcher, match: re.Match[bytes]) -> None:
        """Remember the file of a match without names if it can't be opened."""
        if not matcher.file or not match[matcher.file[0]] or len(self._missing) >= MAX_MISSING:
            return
        groups = match.groupdict()
        module = self._module(matcher.form, groups)
        reason = self._places.missing(module, (groups.get("build_id") or b"").decode("ascii"))
        if reason is not None:
            self._missing[match.group(*matcher.file, 0)[:-1]] = MissingFile(reason, module)

    def _give_up(self, matcher: Matcher, present: int) -> None:
        """Stop searching for the needles of a form that need facts which no line has given."""
        unmet = 0 if self._places.knows_addresses else matcher.bits[Needs.PLACED]
        if not self._places.knows_files:
            unmet |= matcher.bits[Needs.FILES]
        if not present & matcher.bits[Needs.NOTHING]:
            self.active &= ~unmet

    def _named_by(self, matcher: Matcher, match: re.Match[bytes], line: bytes, follows: bool) -> bytes | None:
        """Return the line with the names of one form, whose first match is `match`; None if it stays as it is."""
        form = matcher.form
        end = match.end()
        single = len(line) - end < SHORTEST or matcher.search(line, end) is None
        if single and form.template and self._style is Style.SAME:
            return self._rewritten(matcher, match, line, follows)
        return self._appended(form, line, follows)

    def _named_by_others(self, named: bytes | None, line: bytes, matchers: tuple[Matcher, ...]) -> bytes | None:
        """Return a line with the names of other forms, too; `named` is the line with the names of the first."""
        lines = (line if named is None else named).split(b"\n")
        changed = named is not None
        for matcher in matchers:
            for index, part in enumerate(lines):
                match = matcher.search(part)
                named_part = self._named_by(matcher, match, part, False) if match else None
                if named_part is not None:
                    lines[index] = named_part
                    changed = True
            lines = b"\n".join(lines).split(b"\n")
        return b"\n".join(lines) if changed else None

    def _rewritten(self, matcher: Matcher, match: re.Match[bytes], line: bytes, follows: bool) -> bytes | None:
        """Return the line once for each frame."""
        back = 0 if matcher.exact else self._back(matcher.form, match, line[: match.start()], follows)
        key = matcher, back, match.group(*matcher.keys)
        texts = self._texts.get(key)
        if texts is None:
            texts = self._texts_of(matcher, match, back)
            if len(self._texts) >= MAX_TEXTS:
                self._texts.clear()
            self._texts[key] = texts
        if not texts:
            return None
        if matcher.head_group:
            head = line[: match.end(matcher.head_group)]
        else:
            head = line[: match.start()] + filled(matcher.before, match.groupdict(b""))
        rest = line[match.end() :]
        return b"\n".join([head + text + rest for text in texts])

    def _texts_of(self, matcher: Matcher, match: re.Match[bytes], back: int) -> tuple[bytes, ...]:
        """Return the text of each frame of a match, as the template has it after its groups; () without frames."""
        before = matcher.before if matcher.head_group else b""
        tail = match[matcher.tail] or b"" if matcher.tail else b""
        frames = self._frames(matcher.form, match, back)
        if self._adds_nothing(matcher.form, frames, match[0]):
            return ()
        texts = [self._formatted(matcher, frame, tail) for frame in (frames[:1] if matcher.form.innermost else frames)]
        return tuple(before + text + matcher.after for text in texts)

    def _formatted(self, matcher: Matcher, frame: Frame, tail: bytes) -> bytes:
        """Return a frame as the form's template has it; `tail` is the text of the log in place of a file."""
        if not matcher.frame:
            text = self._frame_text.frame(frame, b" ")
            return text if frame.file or not tail else text + b" " + tail
        location = self._frame_text.location(frame) if frame.file else tail
        return filled(matcher.frame, {"function": shown(frame.function or "??"), "location": location})

    def _appended(self, form: Form, line: bytes, follows: bool) -> bytes | None:
        """Return the line with names after each match."""
        out: list[bytes] = []
        done = 0
        for _, end, names in self._names_after(form, line, follows):
            if names:
                out += line[done:end], names
                done = end
        return b"".join([*out, line[done:]]) if out else None

    def _names_after(self, form: Form, line: bytes, follows: bool) -> Iterator[tuple[int, int, bytes]]:
        """Yield the start and end of each match of a form without names, and the names to write after it."""
        for match in form.pattern.finditer(line):
            if line.startswith(NAMED[form is ANY_ADDRESS], match.end()):
                continue
            before = line[max(0, match.start() - MAX_BEFORE) : match.start()]
            frames = self._frames(form, match, self._back(form, match, before, follows))
            if self._adds_nothing(form, frames, match[0]):
                frames = ()
            yield match.start(), match.end(), self._mark(form, frames) if frames else b""

    def _adds_nothing(self, form: Form, frames: Frames, text: bytes) -> bool:
        """Return True if frames without files say no more than the log."""
        if self._style is not Style.SAME or any(frame.file for frame in frames):
            return False
        text = CLONES.sub(lambda match: b" (" + b"".join(CLONE.findall(match[0])) + b")", text)
        return form.lines_only or all(shown(frame.function) in text for frame in frames)

    def _json_line(
        self, text: bytes, start: int, line: bytes, matchers: tuple[Matcher, ...], present: int
    ) -> bytes | None:
        """Return a JSON object with names after the frames in its strings; None if it stays as it is.

        Each line of each string is searched without its escapes; names are escaped.
        """
        edits: list[tuple[int, int, bytes]] = []
        run = self._run[0] if self._run[1] == start else None
        previous = b""
        for index, part in enumerate(JSON_TEXT.finditer(line)):
            piece = JsonText(part)
            if present & self._go_bit and (match := GO_LOCATION.search(piece.text)):
                before = previous if part.start("text") > part.start() else self._json_text_before(text, start, index)
                location = self._go_location(match, before)
                if location is not None:
                    low, high = match.span("location")
                    edits.append((piece.offset(low), piece.offset(high), location))
            previous = piece.text
            if present & self._token_bit:
                for end, frames in self._token_frames(piece.text):
                    edits.append((piece.offset(end), piece.offset(end), NAMED_TOKEN + b" " + b", ".join(frames)))
            spans: list[tuple[int, int]] = []  # of the matches of earlier forms, in order
            for matcher in matchers:
                new: list[tuple[int, int]] = []
                for low, high, names in self._names_after(matcher.form, piece.text, run is matcher.form):
                    earlier = bisect_left(spans, (high, 0)) - 1
                    if earlier >= 0 and spans[earlier][1] > low:
                        continue
                    if not spans and not new:
                        self._run = matcher.form, start + len(line) + 1
                        run = matcher.form
                    new.append((low, high))
                    if names:
                        edits.append((piece.offset(high), piece.offset(high), names))
                if new:
                    spans = sorted(spans + new)
                    if not edits:
                        self._give_up(matcher, present)
        if not edits:
            return None
        out: list[bytes] = []
        done = 0
        for low, high, names in sorted(edits):
            out += line[done:low], json.dumps(os.fsdecode(names))[1:-1].encode()
            done = high
        return b"".join([*out, line[done:]])

    def _json_text_before(self, text: bytes, start: int, index: int) -> bytes:
        """Return text `index` of the object on the line before."""
        match = next(islice(JSON_TEXT.finditer(self._line_before(text, start)), index, None), None)
        return JsonText(match).text if match else b""

    def _line_before(self, text: bytes, start: int) -> bytes:
        return text[text.rfind(b"\n", 0, start - 1) + 1 : start - 1] if start else self._last_line

    def _mark(self, form: Form, frames: Frames) -> bytes:
        text = self._frame_text.chain(frames)
        return b" (" + text + b")" if form is ANY_ADDRESS else b" in " + text

    def _module(self, form: Form, groups: Mapping[str, bytes | None]) -> str:
        """Return the module of a match; the program of a process whose title is in place of its path."""
        module = os.fsdecode(groups.get("module") or form.module)
        title = groups.get("title")
        return self._places.program_of(os.fsdecode(title), module) if title and "/" not in module else module

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
        if groups.get("base"):
            address -= int(groups["base"], 16)
        module = self._module(form, groups)
        if (form.holds is Holds.RUNTIME and not module) or form.holds is Holds.LOADED:
            return self._places.at_runtime(address, module, back, form.programs)
        if groups.get("placed") and int(groups["placed"], 16) == address:
            return self._places.at_runtime(address, module, back)
        build_id = (groups.get("build_id") or b"").decode("ascii")
        if groups.get("in_zip") and not build_id:
            module, build_id = self._places.library_in_zip(module, int(groups["in_zip"], 16))
        symbol = groups.get("symbol")
        runtime = int(groups["runtime"], 16) if groups.get("runtime") else None
        if runtime is not None and self._places.knows_mappings:
            return self._places.at_runtime(runtime, module, back)
        if symbol:
            size = int(groups["size"], 16) if groups.get("size") else None
            query = FunctionQuery(os.fsdecode(symbol), address, size, module, build_id, back, runtime)
            return self._places.in_function(query)
        return self._places.in_module(module, build_id, address, form.holds, back)

    @staticmethod
    def _back(form: Form, match: re.Match[bytes], before: bytes, follows: bool) -> int:
        """Return how many bytes before the number to look up: 0 or 1."""
        groups = form.pattern.groupindex
        if "ra" in groups and match["ra"]:
            return 1
        if form.back in (Back.EXACT, Back.INSIDE) or ("pc" in groups and match["pc"]):
            return 0
        if b"pc" in before and before.rstrip().endswith(b":"):
            return 0
        if form.holds is Holds.SYMBOL and (EXACT_PC.search(before) or not int(match["address"], 16)):
            return 0
        if form.back is Back.RETURN:
            return 1
        first = int(match["number"]) == 0 if "number" in groups and match["number"] is not None else not follows
        return 0 if first else 1

    def _go_location(self, match: re.Match[bytes], previous: bytes) -> bytes | None:
        """Return the file and line of a Go panic if the binary has more than the log; `previous` is the line before."""
        if match["location"].startswith((b"/", b"./")) and int(match["line"]):
            return None
        function = GO_FUNCTION.search(previous)
        if function is None:
            return None
        symbol = os.fsdecode(function["symbol"])
        runtime = int(match["pc"], 16) if match["pc"] else None
        frames = self._places.in_function(FunctionQuery(symbol, int(match["address"], 16), back=1, runtime=runtime))
        if not frames and not self._places.knows_files:
            self.active &= ~self._go_bit
        frame = next((frame for frame in frames if frame.function == symbol), frames[-1] if frames else None)
        return self._frame_text.location(frame) if frame is not None and frame.file else None

    def _read_kernel_offset(self, line: bytes) -> None:
        """Read the offset of a kernel, printed after its trace: the next lines have the next kernel's."""
        match = KERNEL_OFFSET.search(line)
        if match:
            if self._kernel_offsets:
                self._kernel_offsets.pop()
            self._kernel_offset = self._kernel_offsets[-1] if self._kernel_offsets else int(match["offset"], 16)
            self.forget_answers()

    def _read_files(self, line: bytes) -> None:
        for pattern in FILES.values():
            if match := pattern.search(line):
                build_id = match.groupdict().get("build_id") or b""
                self._places.add_program(os.fsdecode(match["path"].rstrip()), build_id.decode())
                self.forget_answers()

    def _read_markup(self, line: bytes) -> None:
        for match in MARKUP.finditer(line):
            self.forget_answers()
            if match["reset"]:
                self._places.forget()
            elif match["number"]:
                self._places.add_module(int(match["number"]), os.fsdecode(match["path"]), match["build_id"].decode())
            else:
                start, size, vaddr = (int(match[name], 16) for name in ("start", "size", "vaddr"))
                self._places.add_range(start, size, int(match["module"]), vaddr)


def intercepted(function: str) -> str:
    """Return the name of the function that a sanitizer's interceptor replaces, any other name unchanged.

    >>> intercepted("___interceptor_malloc"), intercepted("malloc")
    ('malloc', 'malloc')
    """
    for prefix in INTERCEPTORS:
        if function.startswith(prefix):
            return function.removeprefix(prefix)
    return function


def unnamed(token: StackToken, frame: TokenFrame) -> bytes:
    """Return the text of an address of a token that has no frames."""
    build_id = "" if frame.module is None else token.modules[frame.module]
    return f"{frame.address:#x} ({f'build-id {build_id}...' if build_id else 'no build-id'})".encode()


def is_full_go_location(text: bytes, start: int, end: int) -> bool:
    """Return True if a line of a Go panic has a full path and a line number."""
    return text.startswith(GO_FULL_PATH, start) and text.find(GO_NO_LINE, start, end) < 0
