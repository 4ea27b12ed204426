"""Rules about gaps, applied to encoded rows: which cells are missing because others are."""

import numpy as np
from jaxtyping import Bool

from veilflow.tabular.constraints import MissingIf, MissingTogether
from veilflow.tabular.encoded import EncodedRows, Vocabularies
from veilflow.tabular.schema import Schema


def with_gaps(rows: EncodedRows, schema: Schema, vocabularies: Vocabularies) -> EncodedRows:
    """The rows with every gap that follows from another one. Each row depends on itself alone.

    Args:
        rows: Encoded rows, columns in the order of the schema's core.
        schema: The schema with its constraints.
        vocabularies: The values of open columns.
    """
    rules = [
        rule for rule in schema.core.constraints if isinstance(rule, MissingIf | MissingTogether)
    ]
    if not rules:
        return rows
    missing = _missing(rows, schema, vocabularies, {n for rule in rules for n in rule.columns})
    before = {name: gaps.copy() for name, gaps in missing.items()}
    for _ in range(len(rules) + 1):  # each pass carries gaps one rule further at least
        num = sum(int(gaps.sum()) for gaps in missing.values())
        for rule in rules:
            if isinstance(rule, MissingIf):
                missing[rule.column] |= missing[rule.when]
                continue
            together = np.any([missing[name] for name in rule.columns], axis=0)
            for name in rule.columns:
                missing[name] |= together
        if sum(int(gaps.sum()) for gaps in missing.values()) == num:
            break
    new = {name: gaps & ~before[name] for name, gaps in missing.items()}
    if not any(gaps.any() for gaps in new.values()):
        return rows
    codes, positions = rows.codes.copy(), rows.positions.copy()
    for name, gaps in new.items():
        place, column = schema.core.names.index(name), schema.core.columns[name]
        codes[gaps, place] = column.num_codes(vocabularies.get(name)) - 1
        positions[gaps, place] = 0
    return EncodedRows(codes, positions)


def _missing(
    rows: EncodedRows, schema: Schema, vocabularies: Vocabularies, names: set[str]
) -> dict[str, Bool[np.ndarray, " rows"]]:
    gaps = {}
    for name in sorted(names):
        column = schema.core.columns[name]
        own = rows.codes[:, schema.core.names.index(name)]
        last = column.num_codes(vocabularies.get(name)) - 1
        gaps[name] = (own == last) if column.nullable else np.zeros(len(rows), bool)
    return gaps
