"""`whence completion bash|zsh|fish`: print the shell's completion script, made by tools/shell_files.py."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from whence.cli.main import ANSWERED

if TYPE_CHECKING:
    from whence.cli.parser import Parser

FOLDER = Path(__file__).with_name("shell")
FILES = {"bash": "whence", "zsh": "_whence", "fish": "whence.fish"}  # named as the shells require


def configure(parser: Parser) -> None:
    parser.add_argument("shell", choices=list(FILES), help="the shell")
    parser.epilog = "Save the script where your shell reads it, or evaluate it at the shell's start:"
    parser.examples(
        'eval "$(whence completion bash)"                           in ~/.bashrc',
        "whence completion zsh > ~/.zfunc/_whence                   with fpath+=~/.zfunc before compinit",
        "whence completion fish > ~/.config/fish/completions/whence.fish",
    )


def run(options: Namespace) -> int:
    print((FOLDER / FILES[options.shell]).read_text(), end="")
    return ANSWERED
