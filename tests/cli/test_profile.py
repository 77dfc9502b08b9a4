"""`whence profile` as people call it: formats by name, reports, gates, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

import pytest

from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence._base.model import Frame
from whence.cli import main, profile_output
from whence.cli import profile as cli_profile
from whence.cli.progress import Progress
from whence.profiles.formats import pprof
from whence.profiles.formats import registry as formats
from whence.samples.model import Mapping


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pprof file with addresses of the test program, one named already, and one whose file is gone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:9/never-asked")
    made = program_profile(compiled())
    made.mappings.append(Mapping(0x1000, 0x2000, 0, "/gone/libvendor.so", "12" * 20))
    made.samples.add([made.location(1, 0x1800)], [4])
    made.frames[2] = (Frame("known already"),)
    path = tmp_path / "in.pb.gz"
    path.write_bytes(pprof.write(made))
    return path


def functions(path: Path) -> list[str]:
    return [frames[-1].function if frames else "" for frames in formats.read(path.read_bytes())[0].frames]


def test_a_profile_is_named_in_place(profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pb.gz"
    assert main(["profile", str(profile), "-o", str(out)]) == 0
    assert functions(out) == ["main", "sum", "known already", ""]


@pytest.mark.parametrize("ending", [".otlp", ".otlp.json", ".json", ".pb", ".pb.gz"])
def test_the_format_follows_the_name_of_the_output(profile: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"out{ending}"
    assert main(["profile", str(profile), "-o", str(out)]) == 0
    assert functions(out)[:2] == ["main", "sum"]
    assert formats.read(out.read_bytes())[1] == ("otlp" if "otlp" in ending or ending == ".json" else "pprof")


def test_folded_stacks_go_to_stdout(profile: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["profile", str(profile), "--format", "folded"]) == 0
    assert b"main 2\n" in capfdbinary.readouterr().out


def test_coverage_prints_a_row_for_each_binary_with_reason_and_remedy(
    profile: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(profile), "--coverage"]) == 0
    said = capfd.readouterr().out
    assert "libvendor.so" in said
    assert "the mapped file is not on this machine" in said
    assert "60.0 % of the frames in samples have names" in said


@pytest.mark.parametrize("output", ["--top", "--flamegraph"])
def test_a_table_and_a_page_say_what_would_name_the_rest(
    output: str, profile: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    value = "5" if output == "--top" else str(tmp_path / "x.html")
    assert main(["profile", str(profile), output, value]) == 0
    assert "in.pb.gz: libvendor.so: 1 without a name (no-file): give the file" in capfd.readouterr().err
    assert main(["profile", str(profile), output, value, "--coverage"]) == 0
    assert "in.pb.gz: libvendor.so" not in capfd.readouterr().err


def test_a_gate_fails_below_its_percentage(profile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(profile), "--fail-under", "60"]) == 0
    assert main(["profile", str(profile), "--fail-under", "61"]) == 1
    assert "60.0 % named, under 61 %" in capfd.readouterr().err


def test_the_coverage_is_json_when_asked(profile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(profile), "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["named_percent"] == 60.0
    assert {row["path"] for row in report["binaries"]} == {str(compiled()), "/gone/libvendor.so"}


def test_overwriting_replaces_names_and_a_flame_graph_is_drawn(profile: Path, tmp_path: Path) -> None:
    out, page = tmp_path / "out.pb", tmp_path / "flame.html"
    assert main(["profile", str(profile), "--overwrite", "-o", str(out), "--flamegraph", str(page)]) == 0
    replaced, drawn = functions(out)[2], page.read_text()
    assert replaced not in ("", "known already")
    assert replaced in drawn
    assert "known already" not in drawn
    assert "libvendor.so+0x800" in drawn


def test_verbose_tells_every_file_tried(profile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(profile), "--coverage", "-v"]) == 0
    assert "/gone/libvendor.so: /gone/libvendor.so (own path): the file does not exist" in capfd.readouterr().err


def test_no_server_is_asked_unless_it_is_asked_for(profile: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(profile), "--coverage", "-v"]) == 0
    assert "127.0.0.1" not in capfd.readouterr().err
    assert main(["profile", str(profile), "--coverage", "-v", "--debuginfod", "http://127.0.0.1:9"]) == 0
    said = capfd.readouterr().err
    assert f"debuginfod: GET http://127.0.0.1:9/buildid/{'12' * 20}/debuginfo" in said


def test_what_is_wrong_is_one_line_and_an_exit_code(
    profile: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.pb"
    broken.write_bytes(b"\x0a\x05")
    assert main(["profile", str(broken)]) == 3
    assert capfd.readouterr().err.startswith(
        f"whence: {broken}: profile profile+0x0: a field extends past the end of its message: 0a 05"
    )
    assert main(["profile", str(tmp_path / "nowhere")]) == 3
    assert main(["profile", str(profile), "-o", str(tmp_path / "no" / "out.pb")]) == 3
    assert capfd.readouterr().err.endswith("no/out.pb: No such file or directory\n")
    assert main(["profile", str(profile), "--debuginfod", "ftp://x", "--coverage"]) == 2
    assert "http:// or https://" in capfd.readouterr().err
    assert main(["profile", str(profile), "-o", str(tmp_path / "flame.svg")]) == 2
    assert "flame.svg: unknown ending .svg for a profile: expected " in capfd.readouterr().err
    assert main(["profile", str(profile), "--flamegraph", str(tmp_path / "flame.svg")]) == 2
    assert capfd.readouterr().err.endswith("flame.svg: unknown ending .svg for a page: expected .html, .htm\n")
    assert not [*tmp_path.glob("flame*")]
    for word in ("101", "-1", "nan", "much"):
        with pytest.raises(SystemExit) as stopped:
            main(["profile", str(profile), "--fail-under", word])
        assert stopped.value.code == 2


def test_the_ending_html_and_the_format_flamegraph_draw_the_page(
    profile: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pages = [tmp_path / name for name in ("a.html", "b.html")]
    assert main(["profile", str(profile), "-o", str(pages[0])]) == 0
    assert main(["profile", str(profile), "--flamegraph", str(pages[1])]) == 0
    capfd.readouterr()
    assert main(["profile", str(profile), "--format", "flamegraph"]) == 0
    assert capfd.readouterr().out == pages[0].read_text() == pages[1].read_text()


def test_addresses_without_a_name_are_no_failure_unless_a_gate_says_so(
    profile: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(profile), "-o", str(tmp_path / "out.pb"), "--coverage"]) == 0
    assert main(["profile", str(profile), "-o", str(tmp_path / "out.pb"), "--fail-under", "60%"]) == 0
    assert main(["profile", str(profile), "-o", str(tmp_path / "out.pb"), "--fail-under", "100"]) == 1
    assert (tmp_path / "out.pb").exists()
    with pytest.raises(SystemExit):
        main(["profile", "--help"])
    assert "1 fewer names than --fail-under" in " ".join(capfd.readouterr().out.split())


def test_debuginfod_without_any_server_is_wrong_use(
    profile: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DEBUGINFOD_URLS")
    assert main(["profile", str(profile), "--coverage", "--debuginfod"]) == 2
    assert "DEBUGINFOD_URLS" in capfd.readouterr().err


def test_fedoras_word_about_signatures_among_the_servers_is_passed_over(
    profile: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DEBUGINFOD_URLS", "ima:enforcing http://127.0.0.1:9/ ima:ignore")
    assert main(["profile", str(profile), "--coverage", "-v", "--debuginfod"]) == 0
    assert "debuginfod: GET http://127.0.0.1:9/buildid/" in capfd.readouterr().err


@pytest.mark.parametrize("word", ["nan", "inf", "-1", "1e400", "much"])
def test_an_invalid_cache_size_is_wrong_use(profile: Path, word: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["profile", str(profile), "--coverage", f"--cache-size={word}"])
    assert stopped.value.code == 2
    assert "invalid number of GiB value" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"PERFFILE" + bytes(100), "perf script"),
        (b"\x7fELF" + bytes(60), "an ELF file"),
        (b"FLR\0\0\2", "jfrconv"),
        (b"<html><body>404</body></html>", "HTML"),
    ],
)
def test_a_file_that_is_no_profile_is_told_apart_with_what_to_do(
    tmp_path: Path, data: bytes, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").write_bytes(data)
    assert main(["profile", str(tmp_path / "in")]) == 3
    assert said in capfd.readouterr().err


def test_lines_that_could_not_be_read_are_counted_on_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "in.folded"
    path.write_bytes(b"main;work 3\nodd\x1b[2J\nmain 4\nodd again\nmain;idle 5\n")
    assert main(["profile", str(path), "--format", "folded"]) == 0
    said = capfd.readouterr()
    assert said.out == "main 4\nmain;idle 5\nmain;work 3\n"
    assert "in.folded: 2 lines skipped; the first is folded line 2: expected a stack and" in said.err
    assert "\x1b" not in said.err


def test_the_sample_type_can_be_chosen(profile: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    two = tmp_path / "two.pb"
    text = "app 1 1.0: 7 cycles:\n\t1d6 f (/bin/app)\n\napp 1 1.0: 9 faults:\n\t1e6 g (/bin/app)\n"
    two.write_bytes(pprof.write(formats.read(text.encode())[0]))
    for name, out in (("cycles", "app;f 7\n"), ("faults", "app;g 9\n"), ("samples", "app;f 1\napp;g 1\n")):
        assert main(["profile", str(two), "--format", "folded", "--sample-type", name]) == 0
        assert capfd.readouterr().out == out
    assert main(["profile", str(two), "--format", "folded", "--sample-type", "cylces"]) == 2
    assert "the profile has no cylces; its types: samples, cycles, faults" in capfd.readouterr().err


def test_reading_and_writing_show_that_they_go_on(
    profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Noted(Progress):
        def __enter__(self) -> Self:
            shown.append(self.what)
            return super().__enter__()

    for module in (cli_profile, profile_output):
        monkeypatch.setattr(module, "Progress", Noted)
    outputs = ["-o", str(tmp_path / "out.folded"), "--flamegraph", str(tmp_path / "out.html")]
    assert main(["profile", str(profile), *outputs]) == 0
    assert shown == ["reading in.pb.gz", "naming", "writing folded", "drawing"]
