"""What OSS-Fuzz is given is complete: seeds, dictionaries and a script that names every target."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import corpus

FOLDER = Path(__file__).parent.parent / "fuzz" / "oss-fuzz"
WORD = re.compile(r'"(?:[^"\\]|\\\\|\\"|\\x[0-9a-f]{2})+"')  # libFuzzer's form


def test_every_target_is_named_and_has_no_other_module_s_name() -> None:
    names = corpus.names()
    assert len(names) > 30
    assert {"elf", "dwarf", "lidia"} <= {*names}
    assert "__main__" not in names
    assert {*corpus.WORDS} <= {*names}


@pytest.mark.parametrize("path", sorted(corpus.DICTIONARIES.glob("*.dict")), ids=lambda path: path.stem)
def test_a_dictionary_has_only_words_that_libfuzzer_reads(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) > 3
    assert [line for line in lines if not WORD.fullmatch(line)] == []
    assert len({*lines}) == len(lines)
    assert path.stem in corpus.WORDS.values()


def test_every_dictionary_that_a_target_names_exists() -> None:
    missing = [name for name in corpus.WORDS if not Path(str(corpus.dictionary(name))).exists()]
    assert missing == []
    assert corpus.dictionary("otlp") is None


def test_seeds_are_files_with_the_names_that_libfuzzer_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "names", lambda: ["gsym", "maps"])
    counts = corpus.write(tmp_path)
    for name, count in counts.items():
        paths = list((tmp_path / name).iterdir())
        assert len(paths) == count > 1
        assert all(hashlib.sha1(path.read_bytes()).hexdigest() == path.name for path in paths)


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_the_build_script_is_one_and_uses_files_that_exist() -> None:
    script = FOLDER / "build.sh"
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert script.stat().st_mode & 0o100
    text = script.read_text()
    for name in re.findall(r"fuzz/oss-fuzz/[\w.]+", text):
        assert (FOLDER.parent.parent / name).exists(), name
    assert set(re.findall(r"tools\.corpus (--[a-z]+)", text)) == {"--names", "--dictionary"}
