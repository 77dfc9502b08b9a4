"""Completion files and man pages say what the parsers of the commands say."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from whence.cli import completion
from whence.cli.main import COMMANDS, main

pytest.importorskip("shtab", reason="takes shtab and argparse-manpage (make test installs them)")
pytest.importorskip("argparse_manpage", reason="takes shtab and argparse-manpage (make test installs them)")

from tools import shell_files

ROOT = Path(__file__).parent.parent
BASH = ROOT / shell_files.COMPLETION["bash"]


def long_options(name: str) -> set[str]:
    return {
        word
        for action in shell_files.actions(shell_files.command_parser(name))
        for word in action.option_strings
        if word.startswith("--") and action.help != "==SUPPRESS=="
    } - {"--debug", "--help"}


def made_files() -> list[Path]:
    """Return the completion files and man pages on disk."""
    folders = [completion.FOLDER, ROOT / shell_files.MANUAL]
    return [path for folder in folders for path in folder.iterdir()]


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the files are made with Python 3.11: others word help anew"
)
def test_the_files_on_disk_are_those_the_parsers_make() -> None:
    made = shell_files.contents()
    there = {str(path.relative_to(ROOT)) for path in made_files()}
    assert there == {*made}
    for path, text in made.items():
        assert (ROOT / path).read_text() == text, f"{path} is not of these parsers: make shell-files"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_man_page_and_in_every_completion(name: str) -> None:
    page = (ROOT / shell_files.MANUAL / f"whence-{name}.1").read_text().replace("\\-", "-")
    assert long_options(name) <= {*re.findall(r"--[a-z][a-z-]*", page)}
    for shell, path in shell_files.COMPLETION.items():
        text = (ROOT / path).read_text()
        # fish has long options as `-l NAME`
        words = {f"--{each}" for each in re.findall(r"-l (?:'|\")?([a-z][a-z-]*)", text)} if shell == "fish" else set()
        assert long_options(name) <= words | {*re.findall(r"--[a-z][a-z-]*", text)}, shell


@pytest.mark.parametrize("shell", completion.FILES)
def test_the_command_prints_the_script_of_a_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == (ROOT / shell_files.COMPLETION[shell]).read_text()


def completed(*words: str) -> list[str]:
    script = f'. {BASH}; COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _shtab_whence; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script, "-", *words], capture_output=True, text=True, cwd=ROOT)
    return done.stdout.split()


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes_commands_options_choices_and_files() -> None:
    assert completed("whence", "pro") == ["profile"]
    assert completed("whence", "lidia", "cr") == ["create"]
    assert completed("whence", "help", "ad") == ["addr"]
    assert completed("whence", "profile", "--fail") == ["--fail-under"]
    assert completed("whence", "addr", "--style", "") == ["llvm", "gnu", "json"]
    assert completed("whence", "addr", "READ") == ["README.md"]


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish (Debian: apt-get install fish)")
def test_fish_completes_commands_options_choices_and_files() -> None:
    lines = ["pro", "lidia cr", "help ad", "profile --fail", "addr --style ", "addr READ"]
    script = f"source {ROOT / shell_files.COMPLETION['fish']}; " + "; ".join(
        f"complete -C 'whence {line}'; echo" for line in lines
    )
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, cwd=ROOT)
    result = [[each.partition("\t")[0] for each in part.splitlines()] for part in done.stdout.split("\n\n")]
    wanted = [["profile"], ["create"], ["addr"], ["--fail-under"], ["llvm", "gnu", "json"], ["README.md"]]
    assert result[: len(lines)] == wanted, done.stderr


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man")
def test_man_reads_every_page_without_a_warning() -> None:
    for page in (ROOT / shell_files.MANUAL).iterdir():
        done = subprocess.run(
            ["man", "--warnings", "-l", str(page)],
            capture_output=True,
            text=True,
            env={**os.environ, "MANPAGER": "cat", "MANWIDTH": "200"},
        )
        assert (done.returncode, done.stderr) == (0, ""), page.name
        assert page.stem in done.stdout.replace("‐", "-").replace("‐\n", "-")


def test_the_wheel_installs_every_one_of_them() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["data-files"]
    installed = {str(path.relative_to(ROOT)) for where in table.values() for name in where for path in ROOT.glob(name)}
    files = {str(path.relative_to(ROOT)) for path in made_files()}
    assert installed == files


@pytest.mark.parametrize("name", COMMANDS)
def test_help_prints_what_the_option_help_prints(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for words in (["help", name], [name, "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""
