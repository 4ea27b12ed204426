"""Plan before spending: print what several fits would do, without any data, then run one of them.

Run `python examples/planner.py`. It needs no data and takes about a minute on two cores, nearly all of
it for the noisy steps of the last fit.
"""

import argparse
from dataclasses import replace

import numpy as np

import veilflow as vf

NUM_RECORDS, NUM_COLUMNS = 20_000, 6
BUDGET = vf.Budget(epsilon=1.0, delta=1e-6)


def main(steps: int | None) -> None:
    in_box = vf.DensityFlow(budget=BUDGET, bounds=(-5, 5), num_records=NUM_RECORDS)
    in_ball = vf.DensityFlow(budget=BUDGET, row_norm=10.0, num_records=NUM_RECORDS)
    spline = replace(in_box, flow=vf.nsf(blocks=2, hidden=(32,)))
    print("what a fit would do")
    for name, estimator, dim in (
        ("2 columns with bounds", in_box, 2),
        ("6 columns with bounds", in_box, NUM_COLUMNS),
        ("6 columns with bounds, splines", spline, NUM_COLUMNS),
        ("10 columns in a ball", in_ball, 10),
    ):
        plan = estimator.plan(dim)
        flow = "no flow" if plan.flow is None else f"a flow of kind {plan.flow.kind}"
        print(f"  {name}: {', '.join(one.purpose for one in plan.releases)} ({flow})")
    in_box = replace(in_box, training=vf.Training(steps=steps))
    print(f"\n{in_box.plan(NUM_COLUMNS)}")

    rows = vf.datasets.correlated(NUM_RECORDS, NUM_COLUMNS)
    model = in_box.fit(rows)

    held_out = vf.datasets.correlated(2_000, NUM_COLUMNS, seed=1)
    print(f"\nmean log-density of held-out rows: {model.log_prob(held_out).mean():.3f}")
    # chunks of any size: memory does not grow with the number of rows
    count, total = 0, np.zeros(NUM_COLUMNS)
    for chunk in model.sample_chunks(50_000, chunk_size=10_000):
        count, total = count + len(chunk), total + chunk.sum(axis=0)
    print(f"mean of {count} synthetic rows: {np.round(total / count, 2)}")

    print("\nledger")
    for purpose, epsilon, share in model.ledger.shares(model.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {model.guarantee}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, help="noisy steps; by default, planned")
    main(parser.parse_args().steps)
