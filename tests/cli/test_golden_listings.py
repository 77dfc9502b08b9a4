"""What `whence listing`, `profile --list` and `--annotate` print, kept and reviewed: tests/data/listing/README.md."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path

import pytest

from whence.cli import main

DATA = Path(__file__).parent.parent / "data"
GOLDEN = DATA / "listing" / "golden.txt"
CALLS = "listing/calls --source-dir listing"
PROFILE = "listing/calls.pb.gz --binary listing/calls --source-dir listing --no-cache"
COMMANDS = (
    f"whence listing {CALLS} choose",
    f"whence listing {CALLS} checked --att --raw-bytes",
    f"whence listing {CALLS} sum",
    f"whence listing {CALLS} sum --lines",
    "whence listing listing/calls 0x1110,0x1121",
    *(f"whence listing cores/{name} deep" for name in ("i386", "aarch64", "arm-plain", "riscv64", "ppc64le", "s390x")),
    f"whence profile {PROFILE} --list '^(sum|checked)$'",
    f"whence profile {PROFILE} --list '^square$' --sample-type samples",
    f"whence profile {PROFILE} --annotate '^sum$'",
    f"whence profile {PROFILE} --annotate '^checked$' --skid 1",
)


def printed(command: str) -> str:
    """Return what a command prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(shlex.split(command)[1:])
    return out.getvalue()


def kept() -> dict[str, str]:
    """Return the output of each command in the file."""
    parts = re.split(r"^\$ (.*)\n", GOLDEN.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_is_kept() -> None:
    assert [*kept()] == [*COMMANDS]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_listing_prints_what_was_reviewed(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("capstone")
    monkeypatch.chdir(DATA)
    assert printed(command) == kept()[command]


if __name__ == "__main__":
    os.chdir(DATA)
    for each in COMMANDS:
        print(f"$ {each}")
        print(printed(each), end="")
