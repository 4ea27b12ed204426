"""What tables show of a run: the name of each measure, which way is better, and where it stands."""

from reproductions import blocks
from reproductions.blocks import Columns, Measure, Result, at

TITLES = {
    "adult": "Adult",
    "covertype": "Covertype",
    "census": "Census",
    "intrusion": "Intrusion",
}
"""Titles of the data sets."""


def _zeros(column: str) -> Measure:
    def read(result: Result) -> float | None:
        share = result["zeros"].get(column)
        return None if share is None else abs(share["synthetic"] - share["real"])

    def note(result: Result) -> str:
        share = result["zeros"][column]
        return f"the share is {share['synthetic']:.3f}, that of real rows {share['real']:.3f}"

    return Measure(f"exact zeros in {column}, distance of the share", "lower", read, note=note)


def _seconds(name: str, key: str) -> Measure:
    return Measure(name, "lower", at(key), digits=1, worst=True)


MEASURES = {
    "auroc": Measure("AUROC", "higher", at("classifiers", "mean", "auroc")),
    "f1": Measure("macro-F1", "higher", at("classifiers", "mean", "macro_f1")),
    "ap": Measure("average precision", "higher", at("classifiers", "mean", "average_precision")),
    "two-way": Measure(
        "mean 2-way total variation", "lower", at("marginals", "mean_two_way"), digits=4
    ),
    "one-way": Measure(
        "mean 1-way total variation", "lower", at("marginals", "mean_one_way"), digits=4
    ),
    "rmse": Measure("Kendall RMSE", "lower", at("rank_correlations", "rmse"), digits=4),
    "mae": Measure("Kendall MAE", "lower", at("rank_correlations", "mae"), digits=4),
    "zero gains": _zeros("capital_gain"),
    "zero losses": _zeros("capital_loss"),
    "detection": Measure("AUROC of a discriminator", "lower", at("detection")),
    "likelihood": Measure("test log-likelihood", "higher", at("log_likelihood", "mean"), digits=2),
    "fit": _seconds("seconds to fit", "fit_seconds"),
    "sampling": _seconds("seconds to sample 100,000 rows", "sampling_seconds"),
    "memory": Measure("peak memory, GB", "lower", at("peak_gigabytes"), digits=2, worst=True),
}
"""By the short name that columns use."""


def across(data: str, *measures: str, share: bool = False) -> Columns:
    """Several measures, by their short names, on one data set."""
    return blocks.across(data, *(MEASURES[name] for name in measures), share=share)
