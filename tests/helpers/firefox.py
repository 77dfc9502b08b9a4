"""Firefox Profiler's documents, as tests look at them."""

from __future__ import annotations

from typing import Any


def stacks_of(document: dict[str, Any], thread: int = 0) -> list[list[str]]:
    """The stacks of a thread's samples, outermost first, as names; every index is checked on the way."""
    shared = document["shared"]
    strings, stacks, frames, functions = (
        shared["stringArray"], shared["stackTable"], shared["frameTable"], shared["funcTable"],
    )  # fmt: skip
    for table in (stacks, frames, functions, shared["resourceTable"], shared["sources"], shared["nativeSymbols"]):
        assert all(len(column) == table["length"] for column in table.values() if isinstance(column, list))
    assert all(above is None or 0 <= above < at for at, above in enumerate(stacks["prefix"]))
    assert all(one is None or 0 <= one < shared["sources"]["length"] for one in functions["source"])
    assert all(-1 <= one < shared["resourceTable"]["length"] for one in functions["resource"])
    assert all(one is None or 0 <= one < len(document["libs"]) for one in shared["resourceTable"]["lib"])
    assert all(0 <= one < len(document["meta"]["categories"]) for one in frames["category"])
    samples = document["threads"][thread]["samples"]
    assert len(samples["stack"]) == len(samples["time"]) == len(samples["weight"]) == samples["length"]
    assert samples["time"] == sorted(samples["time"])
    out = []
    for stack in samples["stack"]:
        names = []
        while stack is not None:
            names.append(strings[functions["name"][frames["func"][stacks["frame"][stack]]]])
            stack = stacks["prefix"][stack]
        out.append(names[::-1])
    return out
