"""A private copy of a messy table: declare it, print the plan, fit, sample, impute gaps.

Run `python examples/table.py`. It needs no data. The settings are small, so that it takes seconds;
leave them out for a table of your own.
"""

import argparse

import numpy as np
import pandas as pd

import veilflow as vf

NUM_RECORDS = 3_000

SCHEMA = vf.Schema(
    age=vf.Numeric(17, 90, integer=True, nullable=True),
    gain=vf.Numeric(0, 100_000),
    town=vf.OpenCategorical(),
    school=vf.Ordinal("primary", "secondary", "university"),
    rich=vf.Boolean(),
    label="rich",
)


def people(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Ages with gaps, gains that are mostly zero, towns that nobody has declared."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(42, 14, num_rows), 17, 90).round()
    gain = np.where(rng.uniform(size=num_rows) < 0.8, 0.0, rng.lognormal(8, 1, num_rows))
    table = pd.DataFrame(
        {
            "age": age,
            "gain": np.minimum(gain, 100_000),
            "town": rng.choice(["Bern", "Oslo", "Rome"], num_rows, p=[0.6, 0.3, 0.1]),
            "school": rng.choice(["primary", "secondary", "university"], num_rows),
            "rich": rng.uniform(size=num_rows) < np.where(gain > 0, 0.8, 0.1),
        }
    )
    table.loc[rng.uniform(size=num_rows) < 0.1, "age"] = np.nan
    table.loc[0, "town"] = "Atlantis"  # one person's town, which must not be released
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    steps = parser.parse_args().steps
    rows = people(NUM_RECORDS)

    # Neither the number of records nor the list of towns is declared, so the plan pays for both.
    estimator = vf.TableFlow(
        schema=SCHEMA,
        budget=vf.Budget(epsilon=3.0, delta=1e-6),
        warm_start=False,
        flow=vf.codes(hidden=(32,)),
        training=vf.Training(steps=steps),
    )
    plan = estimator.plan()
    print("before a row is read:")
    print(plan)

    model = estimator.fit(rows, plan=plan)
    synthetic = model.sample(2_000)
    print(f"towns that many records share: {', '.join(model.vocabularies['town'])}")
    for name, table in (("generated", rows), ("synthetic", synthetic)):
        print(
            f"{name:>9} rows: {table.age.isna().mean():.0%} without an age, "
            f"{(table.gain == 0).mean():.0%} without a gain, {table.rich.mean():.0%} rich"
        )
    # age and gain come first in the order of the columns, so these rows are exact draws
    gainers = model.sample(1_000, given={"age": 50, "gain": 5_000})
    print(f"of those aged 50 who gained 5000, {gainers.rich.mean():.0%} are rich")
    filled = model.impute(rows)
    print(f"gaps left after imputation: {filled.isna().sum().sum()}")

    print("\nledger")
    for purpose, epsilon, share in model.ledger.shares(model.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {model.guarantee}")


if __name__ == "__main__":
    main()
