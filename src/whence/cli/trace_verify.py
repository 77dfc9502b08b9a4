"""`whence trace verify IN`: one problem per line. The exit code is 0 without problems, else 3."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from whence.cli.options import add_json_option
from whence.cli.trace_files import add_input, converting, readable_twice


def configure(parser: ArgumentParser) -> None:
    add_input(parser, "in the wire form")
    add_json_option(parser, "print one JSON object")


def run(options: Namespace) -> int:
    from whence.gotrace.verification import BATCH_SIZE, verify

    with converting(options):
        problems = verify(readable_twice(options.input))
    if options.json:
        objects = [{"code": problem.code, "problem": str(problem)} for problem in problems]
        print(json.dumps({"trace": options.input, "ok": not problems, "problems": objects}))
        return 3 if problems else 0
    for problem in problems:
        print(f"{options.input}: {problem}")
    if not problems:
        print(f"{options.input}: no problems")
    if any(problem.code == BATCH_SIZE for problem in problems):
        print("whence: correct the sizes with whence trace wire --fix-sizes", file=sys.stderr)
    return 3 if problems else 0
