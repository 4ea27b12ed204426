"""How good the marginal model is on generated tables: `python -m tests.models.marginals.measure`.

Prints one line for each table size and budget: mean total variation of all one- and two-way marginals,
and of three-way ones with the label, between synthetic rows and 150,000 fresh rows of the generator;
AUROC of gradient boosting trained on as many synthetic rows as there were records; seconds of the fit.
"""

import time
from itertools import combinations

import jax
import numpy as np

from tests.models.marginals.generated import Generated, table
from veilflow._core.keys import Secret
from veilflow.models.marginals import MarginalPlan, private_marginal_model
from veilflow.privacy.budget import Budget
from veilflow.privacy.calibration import gaussian_mu
from veilflow.privacy.guarantees import Sensitive

SHARE = 0.8
"""Of the squared mu of (epsilon, 1e-5): what a warm start leaves for training is the rest."""
SETTINGS = {(32_000, 15): (0, 1, 2), (10_000, 10): (3, 4), (200_000, 15): (5,)}
EPSILONS = (0.5, 1.0, 3.0, 10.0)
FRESH = 150_000


def distance(one: np.ndarray, two: np.ndarray, columns: tuple[int, ...], sizes) -> float:
    """Total variation of a marginal."""
    shape = [sizes[c] for c in columns]
    first, second = (
        np.bincount(np.ravel_multi_index(rows[:, columns].T, shape), minlength=int(np.prod(shape)))
        / len(rows)
        for rows in (one, two)
    )
    return float(np.abs(first - second).sum() / 2)


def figures(rows: np.ndarray, made: Generated) -> dict[str, float]:
    """Distances of `rows` from fresh ones, and what a classifier learns from them."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    others = [c for c in range(len(made.sizes)) if c != made.label]
    sets = {
        "1-way": [(c,) for c in range(len(made.sizes))],
        "2-way": list(combinations(range(len(made.sizes)), 2)),
        "3-way": [(*pair, made.label) for pair in combinations(others, 2)],
    }
    found = {
        name: float(np.mean([distance(rows, made.test, c, made.sizes) for c in of]))
        for name, of in sets.items()
    }
    train, test = rows[: len(made.train)], made.test[:30_000]
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(train[:, others], train[:, made.label])
    found["AUROC"] = roc_auc_score(test[:, made.label], model.predict_proba(test[:, others])[:, 1])
    return found


def fit(made: Generated, epsilon: float, seed: int) -> dict[str, float]:
    """The figures of one fit."""
    plan = MarginalPlan.of(
        made.sizes,
        mu=gaussian_mu(Budget(epsilon, 1e-5)) * SHARE**0.5,
        ordered=made.ordered,
        label=made.label,
        num_records=len(made.train),
    )
    start = time.perf_counter()
    released = private_marginal_model(
        Sensitive(made.train), plan=plan, secret=Secret.from_seed(seed)
    )
    seconds = time.perf_counter() - start
    rows = released.value.sample(max(FRESH, len(made.train)), jax.random.key(seed))
    return {**figures(rows, made), "seconds": seconds}


def show(name: str, runs: list[dict[str, float]]) -> None:
    """One line with the means."""
    means = {key: np.mean([run[key] for run in runs]) for key in runs[0]}
    print(name, *(f"{key} {value:.4f}" for key, value in means.items()), flush=True)


def main() -> None:
    """All settings."""
    for (num_rows, num_columns), seeds in SETTINGS.items():
        made = {s: table(num_rows, num_columns, seed=s, num_test=FRESH) for s in seeds}
        name = f"{num_rows} x {num_columns}"
        show(f"{name}, records", [figures(one.train, one) for one in made.values()])
        rng = np.random.default_rng(1)
        mixed = {s: np.stack([rng.permutation(c) for c in m.train.T], 1) for s, m in made.items()}
        show(f"{name}, shuffled", [figures(mixed[s], m) for s, m in made.items()])
        for epsilon in EPSILONS:
            show(f"{name}, epsilon {epsilon}", [fit(m, epsilon, s) for s, m in made.items()])


if __name__ == "__main__":
    main()
