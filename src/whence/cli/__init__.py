"""The command line: one module per command, loaded only when it is the one asked for.

A command's module has `configure(parser)` (adds its options to an argparse parser) and `run(options) -> int` (does it;
returns the exit code); main.py lists the commands with their one-line descriptions. Data goes to stdout, messages to
stderr.

Exit codes: 0 answered, 1 some unknown, 2 wrong use, 3 broken input. A WhenceError becomes one line on stderr with its
hint; --debug shows the traceback.
"""

from __future__ import annotations

from whence.cli.main import main

__all__ = ["main"]
