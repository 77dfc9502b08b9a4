"""Hostile debug info of variables: types that multiply, expressions in expressions, lists without end, mutations."""

from __future__ import annotations

import random
from contextlib import suppress

from tests.forge.lines import sleb
from tests.forge.mutations import mutated
from tests.forge.variables import LOW, STACK, file, variable, variables_of
from tests.hostile import bounded
from tests.hostile.inputs.variables import (
    FBREG,
    INT,
    arrays_of_arrays,
    doubling,
    named_doubling,
    nested_expressions,
)
from whence._base.errors import WhenceError


def answers(made: str, frames: int = 1) -> dict[str, str]:
    data = {
        "doubling": doubling, "named": named_doubling, "arrays": arrays_of_arrays, "expressions": nested_expressions
    }[made]()  # fmt: skip
    result = variables_of(
        data, {STACK: bytes(1 << 12)}, {6: STACK, 0: 1}, pcs=[LOW + 1 + n % 200 for n in range(frames)]
    )
    assert all(len(each.type) <= 2000 and len(str(each.value)) <= 1 << 20 for each in result)
    return {each.name: str(each.value)[:100] for each in result}


def test_structures_that_double_end() -> None:
    outcome = bounded(answers, "doubling", seconds=10, megabytes=200)
    assert outcome.error == ""
    assert 10 < len(outcome.answer) <= 500  # the budget of all values ends the list


def test_names_of_types_that_double_end() -> None:
    outcome = bounded(answers, "named", seconds=10, megabytes=120)
    assert outcome.error == ""
    assert outcome.answer == {"v": "0x0"}


def test_endless_arrays_and_chains_end() -> None:
    outcome = bounded(answers, "arrays", seconds=10, megabytes=120)
    assert outcome.error == ""
    assert set(outcome.answer) == {"a", "p"}


def test_expressions_in_expressions_end() -> None:
    outcome = bounded(answers, "expressions", 200, seconds=30, megabytes=150)
    assert outcome.error == ""
    assert all(value.startswith("<") for value in outcome.answer.values())


def mutants(seed: int, many: int) -> int:
    """Read the variables of mutated debug info; gives how many variables were found."""
    dice = random.Random(seed)
    seeds = [nested_expressions(), file([INT], [variable("v", INT, FBREG + sleb(0))])]
    result = 0
    for _ in range(many):
        data = mutated(dice.choice(seeds), dice)
        with suppress(WhenceError):
            result += len(variables_of(data, {STACK: bytes(1 << 12)}, {6: STACK}))
    return result


def test_mutated_debug_info_has_variables_or_none() -> None:
    outcome = bounded(mutants, 5, 300, seconds=30, megabytes=150)
    assert outcome.error == ""
    assert outcome.answer
