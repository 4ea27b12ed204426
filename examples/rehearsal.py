"""Try settings of a private fit without paying for it: rehearse them on twins of a released mixture.

Run `python examples/rehearsal.py`, with `--picture FILE` to draw the twins. It needs no data and takes
about a minute. A mixture is released with a quarter of the epsilon. Twins are rows that are made from
it, with structure of their own, so settings can be tried on them as often as one likes.
"""

import argparse
from dataclasses import replace

import numpy as np

import veilflow as vf

NUM_RECORDS, EPSILON = 20_000, 1.0
KINDS = ("flow", "bent", "sheet")


def people(n: int, seed: int = 0) -> np.ndarray:
    """Five curved clusters in four columns, all inside a ball of radius 12."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(size=(5, 4)) * [3.0, 2.0, 1.0, 1.0]
    shape = 0.6 * rng.normal(size=(n, 4))
    shape[:, 1] += 1.2 * shape[:, 0] ** 2 - 0.4
    return centers[rng.choice(5, n, p=[0.35, 0.25, 0.2, 0.1, 0.1])] + shape


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--picture")
    options = parser.parse_args()
    rows = people(NUM_RECORDS)
    public = {"num_records": NUM_RECORDS, "row_norm": 12.0}

    # what is released before: a mixture, for a quarter of the budget
    first = vf.Budget(epsilon=EPSILON / 4, delta=2e-7)
    mixture = vf.MixtureDensity(budget=first, num_components=8, **public).fit(rows, progress=False)

    # what is tried: the second fit, with the rest, and what a flow over that mixture could look like
    second = vf.Budget(epsilon=EPSILON * 3 / 4, delta=8e-7)
    steps = vf.Training(steps=options.steps)
    plain = vf.DensityFlow(budget=second, training=steps, **public)
    settings = {
        "as planned": plain,
        "a rate of 0.05": replace(plain, training=replace(steps, learning_rate=0.05)),
        "from a normal": replace(plain, base="normal"),
        "no flow": replace(plain, training=vf.Training(steps=0)),
    }
    found = vf.rehearse(settings, on=mixture, kinds=KINDS)
    print(found)

    model = settings[found.best].fit(rows, progress=False)
    held_out = people(2_000, seed=1)
    print(f"\nheld-out rows of the data itself: {model.log_prob(held_out).mean():.3f}")
    if options.picture:
        draw(options.picture, rows, mixture)

    print("\nledger")
    for purpose, epsilon, share in model.ledger.shares(model.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {model.guarantee}")


def draw(path: str, rows: np.ndarray, mixture: vf.FittedMixtureDensity) -> None:
    """Records, the released mixture, and its twins, in two of the columns."""
    import matplotlib.pyplot as plt

    start = vf.Start.of(mixture)
    panels = {
        "records\n(never seen by a rehearsal)": rows,
        "what was released:\nrows of the mixture": mixture.sample(len(rows), seed=0),
        **{f'twin "{kind}"': start.twin(kind, len(rows), seed=0) for kind in KINDS},
    }
    figure, axes = plt.subplots(1, len(panels), figsize=(15, 3.6), sharex=True, sharey=True)
    for axis, (title, points) in zip(axes, panels.items(), strict=True):
        axis.plot(*points[:4000, :2].T, ".", markersize=1.5, alpha=0.4, color="#20639b")
        axis.set(title=title, xlim=(-9, 9), ylim=(-7, 9), xticks=[], yticks=[])
    figure.tight_layout()
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
