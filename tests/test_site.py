"""The documentation site: its commands print what the pages show, no warning, no broken link."""

import doctest
import importlib.util
import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.helpers.live import running
from tests.helpers.survive import survives
from whence.cli.main import COMMANDS, main

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [DOCS / "five-minutes.md", *sorted((DOCS / "howto").glob("*.md"))]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMES = re.compile(r"\d[\d.]* s\b|\b20\d\d-\d\d-\d\d\b")
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files of `whence demo`, which the pages use."""
    made = tmp_path_factory.mktemp("pages") / "demo"
    assert main(["demo", str(made)]) == 0
    return made


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a page's commands, with a cache that no other page has filled."""
    return {
        **{name: value for name, value in os.environ.items() if name not in ("DEBUGINFOD_URLS", "FORCE_COLOR")},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": str(tmp_path),  # without the cache of perf
    }


def table_commands(page: str) -> list[tuple[str, str]]:
    """The commands of whence in a page's tables, each with its row."""
    rows = [line for line in (DOCS / page).read_text().splitlines() if line.startswith("| ")]
    return [(command, row) for row in rows for command in re.findall(r"`(whence [^`]*)`", row)]


def of_these_files(command: str, pid: int, folder: Path) -> str:
    """Return a command of a page with an existing process, and outputs that replace no file."""
    named = re.sub(r"\b(pid|maps|-p|--pid) (1234|4711)\b", rf"\1 {pid}", command).replace("--for 10", "--for 0.1")
    named = re.sub(r"\bstore (add|ls) store\b", r"store \1 one", named)
    named = named.replace("-o cpu.pb.gz", "-o sampled.pb.gz")
    return re.sub(r"\bcore core\b(?!\.)", "core core.4711", named)


def test_every_command_in_the_page_for_users_of_other_tools_answers(folder: Path, environment: dict[str, str]) -> None:
    with running(["sleep", "60"], speaks=False) as (pid, _):
        for command, _row in table_commands("coming-from.md"):
            words = of_these_files(command, pid, folder)
            done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, cwd=folder, env=environment)
            assert done.returncode in (0, 1), f"$ {words}\n{done.stderr}"


def test_objects_of_json_have_the_members_that_the_reference_lists(folder: Path, environment: dict[str, str]) -> None:
    checked = 0
    with running(["sleep", "60"], speaks=False) as (pid, _):
        for command, row in table_commands("reference/output.md"):
            words = of_these_files(command, pid, folder)
            done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, cwd=folder, env=environment)
            assert done.stdout, f"$ {words}\n{done.stderr}"
            told = re.findall(r"`(\w+)`", re.sub(r"\(.*\)", "", row.split("|")[2]))
            assert list(json.loads(done.stdout.splitlines()[0])) == told, f"$ {words}\n{done.stdout}{done.stderr}"
            checked += 1
    assert checked > 10


def commands(page: Path) -> list[tuple[str, str]]:
    """Each command of a page's console blocks, with the output below it."""
    result = []
    for block in CONSOLE.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            result.append((command, output))
    return result


def form(text: str) -> str:
    """Replace durations and dates, which differ from run to run, and widths of columns."""
    return re.sub(TIMES, "N", " ".join(text.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path, folder: Path, environment: dict[str, str]) -> None:
    for command, output in commands(page):
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, cwd=folder, env=environment, timeout=60
        )
        assert doctest.OutputChecker().check_output(form(output), form(done.stdout), doctest.ELLIPSIS), (
            f"$ {command}\n{done.stdout}{done.stderr}instead of\n{output}"
        )
        assert done.returncode == 0, f"$ {command}\n{done.stderr}"


def test_the_commands_of_the_landing_page_run(folder: Path, environment: dict[str, str], tmp_path: Path) -> None:
    environment = {**environment, "XDG_CACHE_HOME": str(tmp_path)}
    result = commands(DOCS / "index.md")
    assert len(result) == 3
    for command, _ in result:
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, env=environment)
        assert (done.returncode, bool(done.stdout)) == (0, True), f"$ {command}\n{done.stderr}"


def test_the_readme_shows_commands_that_run_and_print_lines_of_that_form(folder: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)}
    environment["NO_COLOR"] = "1"
    result = commands(DOCS.parent / "README.md")
    assert len(result) == 6
    for command, output in result:
        command = command.replace("add store", "add readme-store")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, env=environment)
        assert form(done.stdout) == form(output), command


@pytest.mark.parametrize(
    "page", [each for each in PAGES if PYTHON.search(each.read_text())], ids=lambda page: page.stem
)
def test_the_python_of_a_page_runs(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for block in PYTHON.findall(page.read_text()):
        survives(exec, block, {}, refused=())


class Links(HTMLParser):
    """The links of a page, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.ids.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for module in ("sphinx", "furo", "myst_parser", "sphinx_copybutton", "linkify_it"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"takes {module} (make docs installs it)")
    out = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "-b", "html", str(DOCS), str(out)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def test_every_link_of_the_site_leads_to_a_page_and_a_place_in_it(site: Path) -> None:
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) > 30
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists() or (target in pages and unquote(parts.fragment) not in pages[target].ids):
                broken.append(f"{path.name}: {link}")
    assert not broken


def test_the_reference_has_every_command_and_the_names_that_whence_exports(site: Path) -> None:
    import whence

    told = (site / "reference" / "commands.html").read_text()
    assert all(f"whence {name}" in told for name in COMMANDS)
    page = (site / "reference" / "api" / "whence.html").read_text()
    assert all(f'id="whence.{name}"' in page for name in whence.__all__ if name[0].isupper() and name != "Frames")


def test_signatures_in_the_reference_link_their_types(site: Path) -> None:
    pages = {path.name: Links(path.read_text()) for path in (site / "reference" / "api").glob("*.html")}
    assert {"#whence.Binary", "#whence.Stack", "whence.lidia.html#whence.lidia.Table"} <= pages["whence.html"].links
    assert "whence.html#whence.Process" in pages["whence.profiles.html"].links
    assert "whence.errors.html#whence._base.errors.LidiaError" in pages["whence.lidia.html"].links
    assert not any(link.endswith("#whence.Source") for link in pages["whence.gotrace.html"].links)  # another Source


def test_the_landing_page_shows_the_picture_the_install_line_and_three_commands(site: Path) -> None:
    page = (site / "index.html").read_text()
    text = re.sub(r"<[^>]*>", "", page)
    assert 'src="_images/flamegraph.svg"' in page
    assert "pip install whence" in text
    assert len(re.findall(r"^\$ whence ", text, re.MULTILINE)) == 3
    assert "which-command.html" in Links(page).links
