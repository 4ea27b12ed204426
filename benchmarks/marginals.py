"""What the start from noisy marginals brings by itself: table flows that are never trained on records.

80 % of the squared privacy parameter of (epsilon, 1e-5) goes to marginals, a tenth to histograms of
columns, the rest stays unspent; one fit each. Mean total variation of columns and of pairs of columns,
numbers in 20 bins, from 100,000 fresh rows of the generator, so the records themselves are not at
zero; AUROC of gradient boosting trained on as many synthetic rows as there were records; seconds of
the fit. "Shuffled columns" are records whose columns no longer know each other. The peer is the
inference of `mbi` on a spanning tree of pairs and all pairs with the label, by the whole budget. Its
tree and its bins are chosen from the records without pay, to its advantage.
"""

from importlib.util import find_spec

import numpy as np
import pandas as pd

import veilflow as vf
from benchmarks.generated_tables import TABLES
from benchmarks.records import Record, record
from benchmarks.timing import clock, in_fresh_process
from veilflow import evaluation

DELTA, SHARE, SEED = 1e-5, 0.8, 7
FRESH = 100_000
CASES = (("people", 32_561), ("terrain", 200_000))
EPSILONS = (0.5, 1.0, 3.0, 10.0)
PEER = "mbi, spanning tree"
Figures = dict[str, float]


def run(*, quick: bool = False) -> list[Record]:
    """One fit of ours and of the peer's for each table and budget."""
    found = []
    num_fresh = 2_000 if quick else FRESH
    for name, size in (("people", 400),) if quick else CASES:
        records, fresh, schema = tables(name, size, num_fresh)
        table = f"{name}, {size:,} rows"
        found += _records(f"{table}: the records", figures(records, fresh, schema, size))
        found += _records(
            f"{table}: shuffled columns", figures(_shuffled(records), fresh, schema, size)
        )
        for epsilon in EPSILONS[-1:] if quick else EPSILONS:
            setting = f"{table}, epsilon {epsilon:g}"
            found += _records(setting, ours(name, size, num_fresh, epsilon))
            if find_spec("mbi"):
                # alone: it asks for double precision in the whole process
                args = (name, str(size), str(num_fresh), str(epsilon))
                theirs = in_fresh_process("benchmarks.mbi_tree", *args)
                found += _records(f"{setting}: {PEER}", theirs, peer=PEER)
            else:
                skipped = f"{setting}: {PEER} (skipped: pip install mbi)"
                found.append(record(skipped, None, "s", peer=PEER))
    return found


def tables(name: str, size: int, num_fresh: int) -> tuple[pd.DataFrame, pd.DataFrame, vf.Schema]:
    """Records, fresh rows and what is declared of both."""
    frame, schema = TABLES[name](size + num_fresh, seed=SEED)
    return frame.head(size), frame.tail(num_fresh), schema


def ours(name: str, size: int, num_fresh: int, epsilon: float) -> Figures:
    """The figures of a start alone."""
    records, fresh, schema = tables(name, size, num_fresh)
    estimator = vf.TableFlow(
        schema=schema,
        budget=vf.Budget(epsilon=epsilon, delta=DELTA),
        num_records=size,
        warm_start=SHARE,
        training=vf.Training(steps=0),
    )
    fitted: list[vf.FittedTableFlow] = []
    seconds = clock(lambda: fitted.append(estimator.fit(records, progress=False)))
    rows = fitted[0].sample(max(num_fresh, size), seed=SEED)
    return {**figures(rows, fresh, schema, size), "seconds": seconds}


def figures(rows: pd.DataFrame, fresh: pd.DataFrame, schema: vf.Schema, size: int) -> Figures:
    """Distances of `rows` from fresh ones, and what a classifier learns from `size` of them."""
    apart = evaluation.compare_table_marginals(fresh, rows, schema)
    scores = evaluation.compare_classifiers(
        fresh.head(30_000), rows.head(size), schema, classifiers=["gradient boosting"]
    )
    return {
        "total variation of columns": apart.mean_one_way,
        "total variation of pairs": apart.mean_two_way,
        "AUROC": scores.mean.auroc,
    }


def _shuffled(records: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(SEED)
    return pd.DataFrame({name: rng.permutation(records[name].to_numpy()) for name in records})


def _records(what: str, found: Figures, *, peer: str | None = None) -> list[Record]:
    return [
        record(
            f"{what}: {name}",
            value,
            "s" if name == "seconds" else "ratio",
            better="higher" if name == "AUROC" else "lower",
            peer=peer,
        )
        for name, value in found.items()
    ]
