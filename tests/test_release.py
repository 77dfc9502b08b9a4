"""Files in packaging/ name commands, options and scopes that exist."""

import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from whence.cli.main import COMMANDS, parser_of
from whence.server.access import SCOPES

ROOT = Path(__file__).parent.parent
HADOLINT = Path(sys.executable).with_name("hadolint")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")


def options_of(command: str) -> set[str]:
    return {
        *OPTION.findall(parser_of(command, False, import_module(f"whence.cli.{COMMANDS[command][0]}")).format_help())
    }


def test_the_server_is_started_with_options_it_has() -> None:
    unit = (ROOT / "packaging" / "systemd" / "whence.service").read_text()
    (start,) = re.findall("^ExecStart=(.*)$", unit, re.MULTILINE)
    assert start.split()[1] == "serve"
    docker = (ROOT / "packaging" / "docker" / "Dockerfile").read_text()
    entry = " ".join(re.findall("^(?:ENTRYPOINT|CMD) (.*)$", docker, re.MULTILINE))
    (command,) = re.findall(r"^    command: (.*)$", (ROOT / "packaging/docker/compose.yaml").read_text(), re.MULTILINE)
    assert {*OPTION.findall(start), *OPTION.findall(entry), *OPTION.findall(command)} <= options_of("serve")


def test_tokens_are_made_with_scopes_that_the_server_knows() -> None:
    pages = [ROOT / "README.md", *(ROOT / "packaging").rglob("*.*"), *(ROOT / "docs").rglob("*.md")]
    made = [words for page in pages for words in re.findall(r"--make-token ([a-z,]+)", page.read_text())]
    assert len(made) >= 2
    assert {scope for words in made for scope in words.split(",")} <= {*SCOPES}


def test_the_gates_for_ci_use_options_that_profile_has() -> None:
    action = (ROOT / "packaging" / "github-action" / "action.yml").read_text()
    words = "\n".join(line for line in action.splitlines() if "words" in line)
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text()
    used = {*OPTION.findall(words), *OPTION.findall(hook)}
    assert {"--fail-under", "--binary", "--store"} <= used <= options_of("profile")


@pytest.mark.skipif(not HADOLINT.exists(), reason="there is no hadolint (make release installs it)")
def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    done = subprocess.run([HADOLINT, ROOT / "packaging" / "docker" / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_knows_every_setting_of_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "whence.service"
    text = (ROOT / "packaging" / "systemd" / "whence.service").read_text()
    unit.write_text(re.sub("^ExecStart=whence", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert "whence.service" not in done.stderr, done.stderr
