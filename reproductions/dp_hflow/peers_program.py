"""AIM and MST of dpmm, as a program for the environment that dpmm needs: it imports nothing of ours.

dpmm pins versions of NumPy, pandas and scikit-learn that this project cannot have, so it runs in an
interpreter of its own: `python peers_program.py FOLDER`. The folder has `rows.csv`, codes for listed
values and numbers as they are, and `settings.json`; it gets `synthetic.csv` and `done.json`.

The budget is split by basic composition: a tenth for the bins of numbers, which are dpmm's PrivTree,
the rest for the mechanism. dpmm's own default spends the tenth on top.
"""

import json
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pandas as pd

BINNING = 0.1
"""Share of epsilon for the bins."""
NUM_BINS = 20
MODEL_MEGABYTES = 4
"""The size of the graphical model of AIM. Its authors take 80; 16 gained nothing on Adult."""


def main(folder: Path) -> None:
    """Fit and sample, both timed."""
    from dpmm.pipelines import AIMPipeline, MSTPipeline

    settings = json.loads((folder / "settings.json").read_text("utf-8"))
    listed = [name for name, column in settings["domain"].items() if "categories" in column]
    rows = pd.read_csv(folder / "rows.csv", dtype=dict.fromkeys(listed, str))
    rows = rows.astype(dict.fromkeys(listed, "category"))
    pipelines = {"aim": AIMPipeline, "mst": MSTPipeline}
    told = {"n_bins": NUM_BINS}
    if settings["method"] == "aim":
        told["max_model_size"] = MODEL_MEGABYTES
    pipeline = pipelines[settings["method"]](
        epsilon=(1 - BINNING) * settings["epsilon"],
        delta=settings["delta"],
        proc_epsilon=BINNING * settings["epsilon"],
        n_jobs=1,
        **told,
    )
    start = time.perf_counter()
    pipeline.fit(rows, settings["domain"], random_state=settings["seed"])
    fitted = time.perf_counter()
    synthetic = pipeline.generate(n_records=settings["num_rows"], random_state=settings["seed"])
    sampled = time.perf_counter()
    synthetic.to_csv(folder / "synthetic.csv", index=False)
    done = {
        "fit_seconds": fitted - start,
        "sampling_seconds": sampled - fitted,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "settings": {"share_of_epsilon_for_bins": BINNING, **told},
        "dpmm": version("dpmm"),
    }
    (folder / "done.json").write_text(json.dumps(done), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
