"""Whether Figures 4 and 5 of the paper hold here: sentences that follow from the records."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from reproductions.blocks import Block, epsilon_text
from reproductions.dp_hflow.ablations import (
    CLIPPING_EPSILON,
    CLIPPINGS,
    DEQUANTIZATIONS,
    EPSILONS,
    FIGURE_4,
    FIGURE_5,
)
from reproductions.dp_hflow.measures import MEASURES
from reproductions.records import Record

_ERRORS = 2.0
"""Standard errors of a difference from which on it is one."""
_LOWER, _EQUAL, _HIGHER = "lower than", "within two standard errors of", "higher than"


def with_verdicts(blocks: Iterable[Block], records: Sequence[Record]) -> tuple[Block, ...]:
    """The tables of ablations, those of figures with a sentence on what the paper finds."""
    sentences = {FIGURE_4.table: figure_4(records), FIGURE_5.table: figure_5(records)}
    return tuple(
        replace(block, words=f"{block.words} {sentences.get(block.table, '')}".strip())
        for block in blocks
    )


def figure_4(records: Sequence[Record]) -> str:
    """How the likelihood with flat clipping compares with that of the other clippings."""
    flat, *others = (
        _found(records, FIGURE_4, name, CLIPPING_EPSILON, "likelihood") for name in CLIPPINGS
    )
    outcomes = {
        name: _compared(flat, other) for name, other in zip([*CLIPPINGS][1:], others, strict=True)
    }
    if flat is None or None in outcomes.values():
        return ""
    holds = set(outcomes.values()) == {_LOWER}
    return (
        f"Here, over {flat.splits} seeds, the log-likelihood with flat clipping is {_listed(outcomes)}"
        f"{', as in the paper' if holds else ', which contradicts the paper'}."
    )


def figure_5(records: Sequence[Record]) -> str:
    """How variational dequantization compares with uniform, epsilon by epsilon."""
    uniform, variational = DEQUANTIZATIONS
    outcomes: dict[str, str | None] = {}
    seeds = 0
    for epsilon in EPSILONS:
        one, other = (
            _found(records, FIGURE_5, name, epsilon, "auroc") for name in (variational, uniform)
        )
        outcomes[epsilon_text(epsilon)] = _compared(one, other)
        seeds = one.splits if one is not None else 0
    if None in outcomes.values():
        return ""
    least, *_, most = outcomes.values()
    holds = least == _LOWER and most == _HIGHER
    words = {_LOWER: "lower at", _EQUAL: "no different at", _HIGHER: "higher at"}
    return (
        f"Here, over {seeds} seeds, the AUROC with variational dequantization is, by epsilon, "
        f"{_listed(outcomes, words)}"
        f"{', as in the paper' if holds else ', which contradicts the paper'}."
    )


def _found(
    records: Sequence[Record], block: Block, row: str, epsilon: float, measure: str
) -> Record | None:
    key = (block.table, row, f"Adult, {epsilon:g}", MEASURES[measure].name)
    return next((record for record in records if record.key == key), None)


def _compared(one: Record | None, other: Record | None) -> str | None:
    """How one number compares with another; None where a seed or two cannot tell."""
    if one is None or other is None or one.ours is None or other.ours is None:
        return None
    if one.spread is None or other.spread is None:
        return None
    error = math.hypot(one.spread / one.splits**0.5, other.spread / other.splits**0.5)
    apart = one.ours - other.ours
    if abs(apart) <= _ERRORS * error:
        return _EQUAL
    return _HIGHER if apart > 0 else _LOWER


def _listed(outcomes: dict[str, str | None], words: dict[str, str] | None = None) -> str:
    """Names by outcome: "lower than per layer, within two standard errors of per unit"."""
    parts = []
    for outcome in (_LOWER, _EQUAL, _HIGHER):
        names = [name for name, found in outcomes.items() if found == outcome]
        if names:
            parts.append(f"{(words or {}).get(outcome, outcome)} {' and '.join(names)}")
    return ", ".join(parts)
