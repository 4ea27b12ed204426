"""What tables show of a run: the name of each measure, which way is better, and where it stands."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.provenance import Better

Result = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """One number of a run.

    Attributes:
        name: As tables have it.
        better: Which way is better.
        read: From a result to the number; None where the run did not measure it.
        digits: How many are shown behind the point.
        worst: Of several runs the worst is told, not the mean: for bounds on time and memory.
        note: What is to be told beside, from a result.
    """

    name: str
    better: Better
    read: Callable[[Result], float | None]
    digits: int = 3
    worst: bool = False
    note: Callable[[Result], str] | None = None


def _at(*path: str) -> Callable[[Result], float | None]:
    def read(result: Result) -> float | None:
        found: Any = result
        for name in path:
            if found is None or name not in found:
                return None
            found = found[name]
        return found

    return read


def _zeros(column: str) -> Measure:
    def read(result: Result) -> float | None:
        share = result["zeros"].get(column)
        return None if share is None else abs(share["synthetic"] - share["real"])

    def note(result: Result) -> str:
        share = result["zeros"][column]
        return f"the share is {share['synthetic']:.3f}, that of real rows {share['real']:.3f}"

    return Measure(f"exact zeros in {column}, distance of the share", "lower", read, note=note)


def _seconds(name: str, key: str) -> Measure:
    return Measure(name, "lower", _at(key), digits=1, worst=True)


MEASURES = {
    "auroc": Measure("AUROC", "higher", _at("classifiers", "mean", "auroc")),
    "f1": Measure("macro-F1", "higher", _at("classifiers", "mean", "macro_f1")),
    "ap": Measure("average precision", "higher", _at("classifiers", "mean", "average_precision")),
    "two-way": Measure(
        "mean 2-way total variation", "lower", _at("marginals", "mean_two_way"), digits=4
    ),
    "one-way": Measure(
        "mean 1-way total variation", "lower", _at("marginals", "mean_one_way"), digits=4
    ),
    "rmse": Measure("Kendall RMSE", "lower", _at("rank_correlations", "rmse"), digits=4),
    "mae": Measure("Kendall MAE", "lower", _at("rank_correlations", "mae"), digits=4),
    "zero gains": _zeros("capital_gain"),
    "zero losses": _zeros("capital_loss"),
    "detection": Measure("AUROC of a discriminator", "lower", _at("detection")),
    "likelihood": Measure("test log-likelihood", "higher", _at("log_likelihood", "mean"), digits=2),
    "fit": _seconds("seconds to fit", "fit_seconds"),
    "sampling": _seconds("seconds to sample 100,000 rows", "sampling_seconds"),
    "memory": Measure("peak memory, GB", "lower", _at("peak_gigabytes"), digits=2, worst=True),
}
"""By the short name that columns use."""
