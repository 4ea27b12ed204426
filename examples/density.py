"""A private density of two moons: fit, look at it, see what it cost.

Run it with `python examples/density.py`; it needs no data and about half a minute on two cores.
"""

import argparse

import numpy as np

import veilflow as vf

NUM_RECORDS = 10_000


def main(steps: int) -> None:
    rows = vf.datasets.moons(NUM_RECORDS)

    # Bounds and the number of records are facts of the generator here. For real records, bounds come
    # from knowledge of the domain, and without num_records a private count is paid for.
    estimator = vf.DensityFlow(
        budget=vf.Budget(epsilon=2.0, delta=1e-6),
        bounds=([-1.5, -1.0], [2.5, 1.5]),
        steps=steps,
        hidden=(64, 64),
        count_clamped=True,
    )
    model = estimator.fit(rows)

    held_out = vf.datasets.moons(2_000, seed=1)
    synthetic = model.sample(2_000)
    print(f"log-density of held-out rows: {model.log_prob(held_out).mean():.3f} on average")
    for name, sample in (("held-out", held_out), ("synthetic", synthetic)):
        mean, spread = np.round(sample.mean(axis=0), 2), np.round(sample.std(axis=0), 2)
        print(f"{name:>9} rows: mean {mean}, standard deviation {spread}")

    print("\nledger")
    for purpose, epsilon, share in model.ledger.shares(model.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {model.guarantee}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500, help="noisy steps")
    main(parser.parse_args().steps)
