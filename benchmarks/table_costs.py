"""What a fit of a table takes, for the constants of `models/table/table_costs.py`.

    python -m benchmarks.table_costs

Generated tables of several widths are fitted, and the time of the processor is set beside the public
facts that the estimate is made of. Times of one machine are no promise: the estimate says "about".
"""

import json
import resource
import time
import warnings

import numpy as np
import pandas as pd

import veilflow as vf

CASES = ((4, 2000, 20), (4, 2000, 400), (12, 2000, 20), (12, 8000, 200), (30, 4000, 20))


def table(columns: int, rows: int) -> tuple[pd.DataFrame, vf.Schema]:
    """Columns of numbers, lists and truth values in turns."""
    rng = np.random.default_rng(0)
    cells, declared = {}, {}
    for place in range(columns):
        name = f"x{place}"
        kind = place % 3
        if kind == 0:
            cells[name], declared[name] = rng.normal(50, 10, rows), vf.Numeric(0, 100)
        elif kind == 1:
            values = [f"v{i}" for i in range(3 + place % 7)]
            cells[name], declared[name] = rng.choice(values, rows), vf.Categorical(*values)
        else:
            cells[name], declared[name] = rng.random(rows) < 0.3, vf.Boolean()
    return pd.DataFrame(cells), vf.Schema(declared)


def main() -> None:
    """Fit each table and print a line for it."""
    for columns, rows, steps in CASES:
        frame, schema = table(columns, rows)
        flow = vf.TableFlow(
            schema=schema,
            budget=vf.Budget(1.0, 1e-6),
            num_records=rows,
            training=vf.Training(steps=steps),
        )
        about = flow.plan().takes()
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            flow.fit(frame, progress=False)
        line = {
            "columns": columns,
            "rows": rows,
            "steps": steps,
            "about": about,
            "processor seconds": round(time.process_time() - begin, 1),
            "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
