"""The user's moment: a 30 MB OTLP profile over five binaries whose archives exist; beside pprof's of the same stacks.

Whole processes, in and out; "whence" is the binary form.
"""

from __future__ import annotations

import sys

from benchmarks import name_profile
from benchmarks.timing import processes, report
from whence.profiles.formats import otlp, pprof

BYTES = 30_000_000


def run() -> None:
    folder, paths = name_profile.archived()
    plain = name_profile.made(paths, BYTES)
    profile = pprof.read(plain)
    inputs = {"in.pb": plain, "in.otlp": otlp.write(profile), "in.otlp.json": otlp.write(profile, json=True)}
    for name, data in inputs.items():
        (folder / name).write_bytes(data)
    print(", ".join(f"{name} {len(data):,} bytes" for name, data in inputs.items()))
    base = [name_profile.WHENCE, "profile", "--no-cache", "--archive-dir", str(folder)]
    commands = {
        "whence" if name == "in.otlp" else f"whence, {name}": [
            *base,
            str(folder / name),
            "-o",
            str(folder / name.replace("in.", "out.")),
        ]
        for name in inputs
    }
    commands["python3 -c pass"] = [sys.executable, "-c", "pass"]
    report("a 30 MB profile", processes(commands, runs=3))
