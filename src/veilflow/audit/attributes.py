"""Attribute inference: is a cell easier to guess from the others for members than for non-members?

That a model predicts a column is its purpose and not a breach: it does so for people whose data it has
never seen. Differential privacy limits how much better it does for those it was fitted on.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from veilflow.audit.membership import balanced, drawn_rows, from_guarantee
from veilflow.audit.result import AuditResult
from veilflow.audit.rows import attacked, encoded_rows, is_table
from veilflow.models.domain import Box
from veilflow.tabular.encoded import EncodedRows
from veilflow.tabular.io import read_rows

_BINS = 16
"""Equal parts of a number's range; the one that contains it is guessed."""


@dataclass(frozen=True)
class Guesses:
    """A model's probabilities for one cell of each row, given the others. Its repr shows no row."""

    probabilities: Float[np.ndarray, "rows values"]
    truth: Int[np.ndarray, " rows"]

    @property
    def correct(self) -> Bool[np.ndarray, " rows"]:
        """Whether the most likely value is the true one."""
        return self.probabilities.argmax(axis=1) == self.truth

    @property
    def log_probability(self) -> Float[np.ndarray, " rows"]:
        """The log-probability of the true value."""
        return np.log(
            np.maximum(self.probabilities[np.arange(len(self.truth)), self.truth], 1e-300)
        )

    def __repr__(self) -> str:
        return f"Guesses(values={self.probabilities.shape[1]})"


def audit_attribute(
    model: Any,
    members: Any,
    non_members: Any,
    column: str | int,
    *,
    guesses: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> AuditResult:
    """Guess one column of rows from the others, for members and non-members.

    Besides the bound, `scores` holds the accuracy for members and for non-members, and that of always
    guessing the most common value of the model's own marginal, which is public.

    Args:
        model: A fitted table model, or a density of numbers within bounds.
        members: Rows the model was fitted on.
        non_members: Rows from the same source that it was not fitted on.
        column: The column to guess: its name or its index.
        guesses: As for `membership.audit`.
        confidence: Confidence of the bound.
        seed: Seed of the choice of rows.
    """
    of_rows = attacked(model)
    if not is_table(of_rows) and not (hasattr(of_rows, "log_prob") and _in_box(of_rows)):
        raise ValueError(
            "attributes are guessed with table models and with densities of numbers within bounds; a "
            f"{type(of_rows).__name__} is neither."
        )
    place = _place(of_rows, column)
    inside, outside = (guess_cells(of_rows, rows, place) for rows in (members, non_members))
    scores, member = balanced(inside.log_probability, outside.log_probability, seed=seed)
    settings = {"guesses": guesses, "confidence": confidence, "seed": seed}
    result = from_guarantee(model, scores, member, method="attribute", **settings)
    commonest = np.bincount(_cells(of_rows, drawn_rows(of_rows, seed), place)[1]).argmax()
    accuracies = {
        "accuracy_members": float(inside.correct.mean()),
        "accuracy_non_members": float(outside.correct.mean()),
        "accuracy_baseline": float(np.mean(outside.truth == commonest)),
    }
    return replace(result, scores={**result.scores, **accuracies})


def guess_cells(model: Any, rows: Any, place: int) -> Guesses:
    """The probability of every value of one column, given the other cells of each row."""
    from scipy.special import softmax

    candidates, truth = _cells(model, rows, place)
    density = model.density.log_prob if is_table(model) else model.log_prob
    scores = np.stack([np.asarray(density(rows), float) for rows in candidates], axis=1)
    # a row that is impossible with every value says nothing about the cell
    scores[~np.isfinite(scores).any(axis=1)] = 0.0
    return Guesses(softmax(scores, axis=1), truth)


def _cells(model: Any, rows: Any, place: int) -> tuple[list[Any], np.ndarray]:
    """The rows with each value of the column in turn, and the index of their own value."""
    if is_table(model):
        return _codes(model, encoded_rows(model, rows), place)
    values = read_rows(rows, columns=model.columns).values
    low, high = (
        np.broadcast_to(side, values.shape[1])[place]
        for side in (np.asarray(model.domain.low), np.asarray(model.domain.high))
    )
    parts = (values[:, place] - low) / (high - low) * _BINS
    truth = np.clip(np.nan_to_num(parts), 0, _BINS - 1).astype(int)
    candidates = []
    for index in range(_BINS):
        changed = values.copy()
        changed[:, place] = low + (index + 0.5) / _BINS * (high - low)
        candidates.append(changed)
    return candidates, truth


def _in_box(model: Any) -> bool:
    return isinstance(getattr(model, "domain", None), Box)


def _codes(model: Any, rows: EncodedRows, place: int) -> tuple[list[Any], np.ndarray]:
    core = model.schema.core
    name = core.names[place]
    column = core.columns[name]
    codes, positions = rows.codes[:, place], rows.positions[:, place]
    if column.has_position:
        parts = np.minimum((positions * _BINS).astype(int), _BINS - 1)
        truth = np.where(codes == 0, parts, _BINS)  # a missing cell has its own value
        values = [(0, (i + 0.5) / _BINS) for i in range(_BINS)]
        values += [(1, 0.0)] if column.nullable else []
    else:
        truth = codes.astype(int)
        values = [(code, 0.0) for code in range(column.num_codes(model.vocabularies.get(name)))]
    candidates = []
    for code, position in values:
        changed = EncodedRows(rows.codes.copy(), rows.positions.copy())
        changed.codes[:, place], changed.positions[:, place] = code, position
        candidates.append(changed)
    return candidates, truth


def _place(model: Any, column: str | int) -> int:
    # what follows from other columns is not guessed
    names = model.schema.core.names if is_table(model) else tuple(model.columns or ())
    if isinstance(column, str):
        if column not in names:
            raise ValueError(f"column must be one of {', '.join(names) or 'none'}, got {column!r}.")
        return names.index(column)
    number = len(names) if names else model.dim
    if not 0 <= column < number:
        raise ValueError(f"column must be from 0 to {number - 1}, got {column}.")
    return int(column)
