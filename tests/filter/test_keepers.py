"""Lines with the prefixes of log collectors, or in JSON objects: journald, Kubernetes, Compose and Docker."""

import json
import re
from pathlib import Path

import pytest

from tests.filter.examples import example_of
from tests.helpers.functions import place_of
from tests.helpers.programs import compiled
from whence.filter import FORMS, Form, LogFilter, Places, Style
from whence.locator.locator import Locator

PREFIXES = (
    b"Nov 22 04:56:14 host app[123]: ",
    b"2026-11-22T04:56:14.123456789Z stderr F ",
    b"2026-11-22T04:56:14.123456789Z stdout F ",
    b"app-1  | ",
)


def filtered(text: bytes, *files: Path, style: Style = Style.SAME) -> bytes:
    with Places(Locator(files=files)) as places:
        log = LogFilter(places, style=style)
        return log.feed(text) + log.finish()


def program_of(form: Form, folder: Path) -> Path:
    program = compiled("-no-pie")
    if form.module:
        program = folder / form.module.decode()
        program.symlink_to(compiled("-no-pie"))
    return program


def common(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix."""
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def docker(line: bytes) -> bytes:
    """Return a line as Go's encoding/json writes it, which escapes <, > and &, too."""
    text = json.dumps(
        {"log": line.decode() + "\n", "stream": "stderr", "time": "2026-11-22T04:56:14Z"}, separators=(",", ":")
    )
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text.encode() + b"\n"


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_line_with_the_prefix_of_a_log_collector_is_named(form: Form, prefix: bytes, tmp_path: Path) -> None:
    program = program_of(form, tmp_path)
    line = prefix + example_of(form, program) + b"\n"
    named = filtered(line, program)
    assert named.startswith(prefix)
    assert b"program.c:" in named
    assert filtered(named, program) == named


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_line_in_a_json_object_is_named_and_the_rest_stays_byte_for_byte(
    form: Form, style: Style, tmp_path: Path
) -> None:
    program = program_of(form, tmp_path)
    line = docker(example_of(form, program))
    named = filtered(line, program, style=style)
    assert named.count(b"\n") == 1
    text = json.loads(named)["log"]
    assert "program.c" in text
    assert "sum" in text.replace(example_of(form, program).decode(), "")
    assert filtered(named, program, style=style) == named
    same = common(line, named) + common(line[::-1], named[::-1])
    assert same >= len(line) or form.name in ("Seastar, in one line", "Ada")  # which have two


def test_a_whole_trace_in_one_string_gets_a_name_in_each_of_its_lines() -> None:
    program = compiled("-no-pie")
    start, size = place_of(program, "sum")
    frames = f"#0 0x1  ({program}+{start:#x})\n\t#1 0x2 <unknown>\n{program}() [{start + size:#x}]\n"
    trace = "boom \u00e9\n" + frames
    line = json.dumps({"level": "error", "message": trace, "n": 3}).encode() + b"\n"
    text = json.loads(filtered(line))["message"].split("\n")
    assert [" in sum at " in part for part in text] == [False, True, False, True, False]
    assert text[0] == "boom \u00e9"


@pytest.mark.parametrize("whole", [True, False])
def test_a_trimmed_path_of_go_in_json_is_completed(whole: bool) -> None:
    program = compiled()
    _, size = place_of(program, "sum")
    lines = ["sum(0x1, 0x2)", "\tapp/program.c:0 +0x%x" % (size - 1)]
    records = (
        [{"stream": "stderr", "log": "\n".join(lines)}]
        if whole
        else [{"stream": "stderr", "log": line + "\n"} for line in lines]
    )
    text = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    named = filtered(text, program)
    assert re.search(rb"\\t/\S+/program\.c:[1-9]\d* \+0x", named)
    assert filtered(named, program) == named


def test_a_hostile_object_takes_linear_time() -> None:
    line = b'{"' + b'":"\\u003c#0 0x1' * 3000 + b"#0 0x1  (/a+0x1)\n"
    assert filtered(line * 20) == line * 20
