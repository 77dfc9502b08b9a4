"""whence mcp: answers of its tools to the client of the mcp package, and the files that they may read."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.mcp_client import answered, mcp, tools_for
from tests.helpers.programs import compiled
from whence._base.errors import WrongUse
from whence.cli import main
from whence.cli.mcp import TOOLS
from whence.cli.mcp_files import AllowedFolders
from whence.cli.mcp_tools import ANSWER, bounded

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("mcp") / "demo"
    assert main(["demo", str(made)]) == 0
    return made


@pytest.fixture
def ask(demo: Path) -> Ask:
    tools = tools_for(demo)

    def question(tool: str, **fields: object) -> str:
        failed, text = answered(tools, tool, fields)
        assert not failed, text
        return text

    return question


@pytest.mark.parametrize(
    ("tool", "fields", "command"),
    [
        ("top", {"path": "cpu.pb.gz", "binaries": ["app"], "rows": 3}, "profile cpu.pb.gz --binary app --top 3"),
        ("callers", {"path": "cpu.pb.gz", "binaries": ["app"], "function": "sum"},
         "profile cpu.pb.gz --binary app --callers sum"),
        ("diff", {"new": "new.pb.gz", "old": "old.pb.gz", "binaries": ["app"], "rows": 4},
         "profile new.pb.gz --base old.pb.gz --binary app --top 4"),
        ("diff", {"new": "app", "old": "server", "rows": 7}, "size app --base server -n 7"),
        ("list", {"path": "app", "function": "sum"}, "listing app sum --lines --source-dir ."),
        ("list", {"path": "app", "function": "sum", "instructions": True}, "listing app sum --source-dir ."),
        ("list", {"path": "cpu.pb.gz", "function": "sum", "binaries": ["app"]},
         "profile cpu.pb.gz --binary app --list sum --source-dir ."),
        ("stacks", {"path": "core.4711", "binaries": ["server"]}, "core core.4711 --binary server"),
        ("name", {"path": "core.4711", "binaries": ["server"], "addresses": ["0x400158"]},
         "core core.4711 --binary server 0x400158"),
    ],
)  # fmt: skip
def test_a_tool_answers_as_its_command_prints(
    ask: Ask, demo: Path, tool: str, fields: dict[str, object], command: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(demo)
    if "instructions" in fields:
        pytest.importorskip("capstone", reason="capstone is not installed")
    main([*command.split(), "--no-cache"])
    expected = capsys.readouterr().out.strip()
    assert expected
    text = ask(tool, **fields).strip()
    assert text.replace(f"{demo}/", "").replace(str(demo), ".") == expected.replace(f"{demo}/", "").replace(
        str(demo), "."
    )


def test_addresses_have_the_names_that_addr_prints(ask: Ask) -> None:
    assert ask("name", path="app", addresses=["0x1210", "10"]).splitlines() == [
        "0x1210", "    square at /src/app.c:5 (inlined)", "    twice at /src/app.c:6 (inlined)",
        "    sum at /src/app.c:11", "0x10", "    ?? no name",
    ]  # fmt: skip


def test_open_says_what_a_file_is_and_what_to_ask(ask: Ask) -> None:
    profile = ask("open", path="cpu.pb.gz", binaries=["app"])
    assert "sample type samples (default): 100" in profile
    assert "100.0 % of the frames in samples have names" in profile
    assert profile.endswith("ask: top, callers, list, diff")
    assert "sources of names  DWARF: 1 unit" in ask("open", path="app")
    assert "threads: 8943" in ask("open", path="core.4711", binaries=["server"])
    assert ask("open", path="crash.log").endswith("no tool reads this kind of file")


@pytest.mark.parametrize(
    ("tool", "fields", "error"),
    [
        ("top", {"path": "app"}, "app is an ELF file: this tool needs a profile"),
        ("top", {"path": "cpu.pb.gz", "by": "nothing"}, "unknown group 'nothing'"),
        ("top", {"path": "cpu.pb.gz", "rows": 0}, "0 rows: give a positive number"),
        ("top", {"path": "cpu.pb.gz", "sample_type": "cpu"}, "no sample type is named 'cpu' (sample types: samples)"),
        ("callers", {"path": "cpu.pb.gz", "function": "("}, "invalid regular expression"),
        ("callers", {"path": "cpu.pb.gz", "function": "nothing"}, "no function with samples matches 'nothing'"),
        ("list", {"path": "app", "function": "nothing"}, "no function 'nothing'"),
        ("name", {"path": "app", "addresses": ["x"]}, "x"),
        ("name", {"path": "app", "addresses": ["1"] * 1001}, "1,001 addresses: a request may have 1,000"),
        ("stacks", {"path": "core.4711", "thread": 5}, "core.4711 has no thread 5 (threads: 8943)"),
        ("diff", {"new": "cpu.pb.gz", "old": "app"}, "app is an ELF file, and cpu.pb.gz is a profile"),
        ("open", {"path": "nothing"}, "nothing: no such file below"),
        ("open", {}, "path"),
    ],
)
def test_a_request_that_has_no_answer_gets_a_clear_error(
    demo: Path, tool: str, fields: dict[str, object], error: str
) -> None:
    failed, text = answered(tools_for(demo), tool, fields)
    assert failed
    assert error in text


def test_files_outside_of_the_folders_are_refused_alike(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    shutil.copy(compiled(), outside / "app")
    (inside / "link").symlink_to(outside / "app")
    (inside / "folder").symlink_to(outside)
    shutil.copy(compiled(), inside / "own")
    (inside / "alias").symlink_to("own")
    allowed = AllowedFolders([str(inside)])
    assert allowed.path("own") == allowed.path("alias") == allowed.path(str(inside / "own")) == str(inside / "own")
    for path in (
        "link", "folder/app", "../outside/app", str(outside / "app"), "nothing", "/etc/passwd", "own\0", "a" * 5000,
        f"{outside}/app!/x", "../inside-2/x",
    ):  # fmt: skip
        with pytest.raises(WrongUse, match="no such file below"):
            allowed.path(path)


def test_a_profile_names_nothing_by_files_outside_of_the_folders(demo: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    shutil.copy(compiled(), tmp_path / "app")
    shutil.copy(compiled(), inside / "app")
    from tests.helpers.profiles import program_profile
    from whence.profiles.formats import registry

    for name, program in (("out.pb.gz", tmp_path / "app"), ("in.pb.gz", inside / "app")):
        (inside / name).write_bytes(registry.to_bytes(program_profile(program), "pprof"))
    tools = tools_for(inside)
    assert "sum" in answered(tools, "top", {"path": "in.pb.gz"})[1]
    assert "sum" not in answered(tools, "top", {"path": "out.pb.gz"})[1]
    assert answered(tools, "top", {"path": "out.pb.gz", "binaries": ["../app"]})[0]


def test_a_source_file_outside_of_the_folders_is_not_printed(tmp_path: Path) -> None:
    """The program's debug info has the path of its source, which exists, in a folder of its own."""
    shutil.copy(compiled(), tmp_path / "app")
    _, text = answered(tools_for(tmp_path), "list", {"path": "app", "function": "sum"})
    assert "program.c:" in text
    assert "total += twice(i)" not in text
    _, text = answered(tools_for(tmp_path, compiled().parent), "list", {"path": "app", "function": "sum"})
    assert "total += twice(i)" in text


def test_a_profile_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "stacks.folded"
    path.write_text("main;old 5\n")
    tools = tools_for(tmp_path)
    assert "old" in tools.top("stacks.folded")
    path.write_text("main;newer 5\n")
    assert "newer" in tools.top("stacks.folded")


def test_answers_are_bounded(tmp_path: Path) -> None:
    text = bounded(str(number) * 50 for number in range(10_000, 20_000))
    assert len(text) <= ANSWER + 50
    assert text.splitlines()[-1] == "[9,761 more lines: ask for less]"
    (tmp_path / "stacks.folded").write_text("".join(f"main;{'f' * 2000}{number} 1\n" for number in range(400)))
    tools = tools_for(tmp_path)
    assert len(tools.top("stacks.folded", rows=10_000)) <= ANSWER + 50
    assert len(tools.callers("stacks.folded", "f")) <= ANSWER + 50


def test_the_command_answers_on_stdin_and_stdout(demo: Path) -> None:
    command = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "whence", "mcp", "--root", str(demo), "--no-cache"]
    )

    async def talk() -> tuple[list[Any], Any]:
        async with mcp.Client(command) as client:
            tools = (await client.list_tools()).tools
            return tools, await client.call_tool("top", {"path": "cpu.pb.gz", "binaries": ["app"], "rows": 1})

    tools, result = asyncio.run(asyncio.wait_for(talk(), 60))
    assert tuple(tool.name for tool in tools) == TOOLS
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools)
    assert all("path" in tool.input_schema["properties"] or tool.name == "diff" for tool in tools)
    assert "sum" in result.content[0].text


def test_a_server_without_folders_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp"]) == 2
    assert "give the folders that may be read: whence mcp --root DIR" in capsys.readouterr().err
    assert main(["mcp", "--root", str(tmp_path / "nothing")]) == 2
    assert "not a folder" in capsys.readouterr().err


def test_a_missing_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ImportError('no', name='mcp')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from whence.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "mcp", "--root", "."], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "mcp is not installed, or too old: pip install 'whence[mcp]'" in done.stderr
