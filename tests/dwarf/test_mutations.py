"""Real debug files with damages: each ends in an answer or in one of our errors, within a second of processor time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.forge.builds import MissingTool, Recipe, build
from tests.forge.mutations import mutated
from tests.helpers.survive import survives
from whence.objects.elf import ElfFile
from whence.producers import Producers

RECIPES = [
    Recipe("gcc", 4, "-O2"),
    Recipe("gcc", 5, "-O3 -flto"),
    Recipe("x86_64-linux-musl", 5, "-O2"),
    Recipe("x86_64-linux-musl", 5, "-O2 -gsce -fdebug-types-section"),  # names along type units
    Recipe("x86_64-linux-musl", 4, "-O2 -gsce -fdebug-types-section"),  # the same in .debug_types
]


def damaged(whole: bytes, spans: list[tuple[int, int]], dice: random.Random) -> bytes:
    """Return the file with one debug section mutated, cut or filled up to its old size."""
    start, size = dice.choice(spans)
    part = mutated(whole[start : start + size], dice)[:size]
    return whole[:start] + part + bytes(size - len(part)) + whole[start + size :]


def answer(data: bytes) -> None:
    with ElfFile.from_bytes(data) as elf, Producers(elf) as producers:
        ranges = producers.ranges()
        for name in {*ranges.function, *ranges.file, *ranges.call_file}:
            ranges.strings.text(name)


def slowest_answer(directory: Path, count: int) -> float:
    """Return the processor time of the slowest of `count` damaged files, in seconds."""
    slowest = 0.0
    for recipe in RECIPES:
        try:
            full = build(recipe, directory / str(recipe).replace(" ", "_")).read_bytes()
        except MissingTool as reason:
            pytest.skip(str(reason))
        with ElfFile.from_bytes(full) as elf:
            spans = [(each.file_offset, each.size) for each in elf.sections if each.name.startswith(".debug")]
        dice = random.Random(str(recipe))
        for _ in range(count // len(RECIPES)):
            data = damaged(full, spans, dice)
            (directory / "current").write_bytes(data)
            began = time.process_time()
            survives(answer, data)
            slowest = max(slowest, time.process_time() - began)
    return slowest


def test_a_few_hundred_damaged_files_end_in_an_answer_or_an_error(tmp_path: Path) -> None:
    assert slowest_answer(tmp_path, 600) < 1


@pytest.mark.oracle
def test_ten_thousand_damaged_files_end_in_an_answer_or_an_error(tmp_path: Path) -> None:
    assert slowest_answer(tmp_path, 10_000) < 1
