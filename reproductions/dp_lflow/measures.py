"""What tables show of a run: the name of each measure, which way is better, and where it stands."""

from collections.abc import Callable

from reproductions.blocks import Measure, Result, at
from reproductions.dp_lflow.data import FACTS
from reproductions.metrics.images import IMAGE_CLASSIFIERS, IMAGE_MEASURES


def _of_class(place: int) -> Callable[[Result], float | None]:
    return lambda result: result["ood"]["by_class"][place] if "ood" in result else None


def _num_images(result: Result) -> str:
    return f"on {result['images']:,} samples"


FID = Measure(IMAGE_MEASURES["inception"], "lower", at("fid"), digits=1, note=_num_images)
"""Measured in a pass of its own."""
LR, MLP, CNN = (
    Measure(f"{name} %", "higher", at("accuracies", name, "mean"), digits=1)
    for name in IMAGE_CLASSIFIERS
)
"""Accuracies on test images of classifiers trained on samples."""
OOD = Measure("OOD AUROC", "higher", at("ood", "mean"))
"""The mean over the classes,"""
OOD_BY_CLASS = tuple(Measure(f"class {i}", "higher", _of_class(i)) for i in range(10))
"""and each of them."""
DISTANCE = Measure(IMAGE_MEASURES["small"], "lower", at("fidelity", "distance"))
"""Never in a column with an FID."""
PRECISION = Measure("precision", "higher", at("fidelity", "precision"))
RECALL = Measure("recall", "higher", at("fidelity", "recall"))
SIZE = Measure("MB a class", "lower", at("megabytes"), digits=2)
SIZE_IN_ALL = Measure("MB of the whole model", "lower", at("megabytes_in_all"), digits=1)
FIT = Measure("seconds to fit", "lower", at("fit_seconds"), digits=1, worst=True)
SAMPLING = Measure(
    f"seconds to sample {FACTS['mnist'].sampled:,} images",
    "lower",
    at("sampling_seconds"),
    digits=1,
    worst=True,
)
MEMORY = Measure("peak memory, GB", "lower", at("peak_gigabytes"), digits=2, worst=True)
