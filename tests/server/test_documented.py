"""The curl commands of the documentation, run by a shell against a server."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.helpers.profiles import program_profile
from tests.helpers.serving import needs, started
from tests.helpers.stores import Files
from whence.profiles.formats import pprof

ROOT = Path(__file__).parent.parent.parent
ADDRESS = "http://127.0.0.1:8002"
CURL = re.compile(r"^(?:    |\$ )((?:ID=|.*\bcurl ).*)$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def test_every_curl_command_of_the_documentation_gets_an_answer(tmp_path: Path, files: Files) -> None:
    needs("curl")
    commands = [command for page in PAGES for command in CURL.findall(page.read_text())]
    assert sum("curl" in command for command in commands) >= 4
    shutil.copy(files.stripped, tmp_path / "app")
    shutil.copy(files.debug, tmp_path / "app.debug")
    (tmp_path / "cpu.pb.gz").write_bytes(gzip.compress(pprof.write(program_profile(files.whole))))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CURL_HOME": str(tmp_path)}
    with started(tmp_path / "store") as url:
        script = "\n".join(f"echo '$' {number}; {command}; echo" for number, command in enumerate(commands))
        script = script.replace(ADDRESS, url).replace("0x11b2", hex(files.vaddr)).replace("curl ", "curl -sS --fail ")
        done = subprocess.run(
            ["bash", "-ec", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert "<html" in (tmp_path / "cpu.html").read_text()
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert answers[0]["outcome"] == "added"
    assert (answers[0]["build_id"], answers[1]["outcome"]) == (files.build_id, "same")
    assert answers[2]["frames"][0]["function"] == "sum"
