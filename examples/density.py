"""A private density of two moons: fit it, compare it with held-out rows, and print what it cost.

Run `python examples/density.py`. It needs no data and takes seconds. There is nothing to tune: for two
columns the whole budget goes into one private grid.
"""

import numpy as np

import veilflow as vf

NUM_RECORDS = 10_000


def main() -> None:
    rows = vf.datasets.moons(NUM_RECORDS)

    # The bounds are known from the generator. For real records they come from knowledge of the domain.
    # The number of records is not declared, so the plan pays for a private count.
    estimator = vf.DensityFlow(
        budget=vf.Budget(epsilon=2.0, delta=1e-6),
        bounds=([-1.5, -1.0], [2.5, 1.5]),
        count_clamped=True,
    )
    model = estimator.fit(rows)

    held_out = vf.datasets.moons(2_000, seed=1)
    synthetic = model.sample(2_000)
    print(f"mean log-density of held-out rows: {model.log_prob(held_out).mean():.3f}")
    for name, sample in (("held-out", held_out), ("synthetic", synthetic)):
        mean, spread = np.round(sample.mean(axis=0), 2), np.round(sample.std(axis=0), 2)
        print(f"{name:>9} rows: mean {mean}, standard deviation {spread}")

    print("\nledger")
    for purpose, epsilon, share in model.ledger.shares(model.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {model.guarantee}")


if __name__ == "__main__":
    main()
