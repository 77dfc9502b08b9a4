"""Source lines and instructions in the page of a flame graph: what is embedded, and how a browser shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import DESK, PHONE, needs_chromium, run
from whence import profiles
from whence._base.model import Frame
from whence.cli import main
from whence.listing import SourceOptions
from whence.profiles import Mapping, Profile, SampleType
from whence.profiles import page_code as page_code_module

PERF = Path(__file__).parent.parent / "data" / "perf"
SOURCES = SourceOptions(folders=(str(PERF),), own_paths=False)
SECRET = "static volatile unsigned long sum;"
HELP = """
const el = (id) => document.getElementById(id);
const all = (kind) => [...document.querySelectorAll(kind)];
const press = (key) => page.dispatchEvent(new page.KeyboardEvent("keydown", { key, bubbles: true }));
const click = (text) => all(".f").find((one) => one.firstChild?.textContent === text).click();
const text = (row) => [...row.children].map((one) => one.textContent.trim()).filter(Boolean).join(" ");
const rows = () => all("#code-rows .row").map(text);
const cost = () => all("#code-rows .row").filter((row) => row.firstChild.textContent).map(text);
const scroll = (top) => { el("code-rows").scrollTop = top; el("code-rows").dispatchEvent(new page.Event("scroll")); };
"""


@pytest.fixture(scope="module")
def spin() -> Profile:
    profile = profiles.read(PERF / "plain.data")
    profile.symbolize(PERF / "spin")
    return profile


def embedded(page: str) -> Any:
    result = re.search(r'<script id="code-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert result is not None
    return json.loads(result[1])


def test_a_page_has_no_code_unless_it_is_requested(spin: Profile) -> None:
    page = spin.flamegraph()
    assert embedded(page) is None
    assert SECRET not in page
    with_code = spin.flamegraph(embed_code=True, locator=PERF / "spin", sources=SOURCES)
    assert SECRET not in with_code
    assert embedded(with_code)["listings"] == []
    with_source = embedded(spin.flamegraph(embed_source=True, locator=PERF / "spin", sources=SOURCES))
    assert SECRET in with_source["texts"]["0"]["text"]
    assert with_source["assembly"] == []


def test_the_command_embeds_what_is_requested(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    out = tmp_path / "cpu.html"
    given = ["profile", str(PERF / "plain.data"), "--binary", str(PERF / "spin"), "--no-cache"]
    given += ["--source-dir", str(PERF), "--flamegraph", str(out)]
    assert main(given) == 0
    assert embedded(out.read_text()) is None
    assert main([*given, "--embed-source", "--embed-code"]) == 0
    result = embedded(out.read_text())
    assert SECRET in result["texts"]["0"]["text"]
    assert any("<leaf+" in text for text in result["instructions"])
    capsys.readouterr()
    for words, fault in (
        (given[:-2], "give --flamegraph HTML or --open"),
        ([*given, "--base", "x"], "cannot be used with --base"),
        ([*given[:2], *given[1:]], "give one profile"),
        ([*given, "--list", "leaf"], "--list prints lines or instructions and cannot be used with --embed-source"),
    ):
        assert main([*words, "--embed-source"]) == 2
        assert fault in capsys.readouterr().err


def test_missing_sources_and_files_are_noted(spin: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = SourceOptions(own_paths=False)
    result = embedded(spin.flamegraph(embed_source=True, locator=PERF / "spin", sources=nowhere))
    assert result["texts"] == {}
    assert result["listings"][0]["rows"][0] is not None
    assert result["notes"][0].startswith("No source of ")
    assert "--source-dir" in result["notes"][0]
    monkeypatch.setattr(page_code_module, "LINES", 5)
    monkeypatch.setattr(page_code_module, "CODE_BYTES", 1)
    few = embedded(spin.flamegraph(embed_source=True, embed_code=True, locator=PERF / "spin", sources=SOURCES))
    assert few["notes"] == [
        "Functions with lines here: 1, the most expensive.", "Functions with instructions here: 0, the most expensive.",
    ]  # fmt: skip


@needs_chromium
@pytest.mark.parametrize(("size", "theme"), [(DESK, "light"), (PHONE, "dark")])
def test_a_click_shows_the_lines_and_a_tab_the_instructions(
    spin: Profile, size: tuple[int, int], theme: str, tmp_path: Path
) -> None:
    pytest.importorskip("capstone")
    page = spin.flamegraph(embed_source=True, embed_code=True, locator=PERF / "spin", sources=SOURCES)
    script = """
    click("leaf");
    out.name = el("code-name").textContent;
    out.note = el("code-note").textContent;
    out.lines = cost();
    out.all = rows().length;
    el("tab-assembly").click();
    out.instructions = cost();
    out.marks = all("#code-rows .mark").map((one) => one.textContent);
    out.first = rows()[1];
    out.selected = el("tab-assembly").getAttribute("aria-selected");
    el("type").value = 0; el("type").dispatchEvent(new page.Event("change"));
    out.counts = cost();
    el("code-close").click();
    out.closed = el("code").hidden;
    press("Backspace");
    click("leaf");
    out.stays = el("code").hidden;
    out.theme = document.documentElement.dataset.theme;
    """
    seen = run(page, HELP + script, tmp_path, size, hash=f"#theme={theme}")
    out = seen.out
    assert seen.console == []
    assert out["name"] == "leaf"
    assert out["lines"] == ["30.00 ms 30.00 ms 5 for (int i = 0; i < n; i++)", "10.00 ms 10.00 ms 6 sum += i * i;"]
    assert "spin.c:4, from " in out["note"]
    assert out["all"] >= 20
    assert out["instructions"] == ["10.00 ms 40018c mov eax, edx", "30.00 ms 40019d add edx, 1"]
    assert out["marks"][0] == "spin.c:5 | for (int i = 0; i < n; i++)"
    assert out["first"] == "40017c test edi, edi"
    assert out["selected"] == "true"
    assert out["counts"] == ["1 40018c mov eax, edx", "3 40019d add edx, 1"]
    assert (out["closed"], out["stays"], out["theme"]) == (True, True, theme)


@needs_chromium
def test_the_code_is_used_by_the_keyboard(spin: Profile, tmp_path: Path) -> None:
    page = spin.flamegraph(embed_source=True, locator=PERF / "spin", sources=SOURCES)
    script = """
    press("s");
    out.empty = el("code-name").textContent;
    press("s");
    for (let step = 0; step < 9; step++) press("ArrowDown");
    press("Enter");
    press("s");
    out.name = el("code-name").textContent;
    press("j");
    out.hot = document.querySelector("#code-rows .current")?.textContent.trim();
    press("j"); press("k");
    out.again = document.querySelector("#code-rows .current")?.textContent.trim();
    press("a");
    out.note = el("code-note").textContent;
    el("code-rows").dispatchEvent(new page.KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
    out.kept = document.querySelector(".f.current").textContent;
    el("code").dispatchEvent(new page.KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    out.closed = el("code").hidden;
    out.zoom = el("path").textContent;
    """
    out = run(page, HELP + script, tmp_path).out
    assert out["empty"] == "Click a frame to see its code"
    assert out["name"] == "leaf"
    assert out["hot"] == out["again"]
    assert "for (int i = 0" in out["hot"]
    assert "--embed-code embeds them" in out["note"]
    assert out["kept"].startswith("leaf")
    assert out["closed"] is True
    assert out["zoom"].endswith("leaf")


def large(lines: int, folder: Path) -> Profile:
    """Return a profile of a function with so many lines, each with a cost, and a call that is inlined in its first."""
    (folder / "large.c").write_text("".join(f"  line({number});\t/* \x1b[2J </script> */\n" for number in range(lines)))
    profile = Profile(sample_types=[SampleType("cpu", "nanoseconds")])
    profile.mappings.append(Mapping(0x1000, 0x9000_0000, 0, "/bin/app"))
    file = str(folder / "large.c")
    for number in range(1, lines + 1):
        frames: tuple[Frame, ...] = (Frame("large", file, number, start_line=1),)
        if number == 1:
            frames = (Frame("inner", "/src/inner.h", 7, True), *frames)
        profile.samples.add([profile.location(0, 0x1000 + number, frames)], [1000 * number])
    return profile


@needs_chromium
def test_ten_thousand_lines_are_shown_by_a_few_elements(tmp_path: Path) -> None:
    page = large(10_000, tmp_path).flamegraph(embed_source=True)
    script = """
    click("large");
    out.rows = el("code-rows").getAttribute("aria-rowcount");
    out.elements = all("#code-rows .row").length;
    out.inlined = rows()[1];
    for (let step = 0; step < 50; step++) scroll(step * 3600);
    scroll(1e9);
    out.last = rows().at(-1);
    out.still = all("#code-rows .row").length;
    """
    seen = run(page, HELP + script, tmp_path)
    out = seen.out
    assert seen.console == []
    assert out["rows"] == "10001"
    assert max(out["elements"], out["still"]) < 100
    assert out["inlined"].startswith("1.00 µs 1.00 µs inner inner.h:7")
    assert out["last"] == "10.00 ms 10.00 ms 10000 line(9999);\t/* ␛[2J </script> */"
