"""The measures that tables have across."""

from reproductions.blocks import Measure, Result, at

ERROR = Measure("largest error of a mean, in SDs", "lower", at("largest_error"), 2, worst=True)
LEAST = Measure("smallest SD over the reference's", "higher", at("least_ratio"), 2, worst=True)
LARGEST = Measure("largest SD over the reference's", "lower", at("largest_ratio"), 2, worst=True)
CORRELATION = Measure(
    "largest difference of a correlation", "lower", at("correlation"), 2, worst=True
)
ERRORS = tuple(
    Measure(f"beta{i}: error, in SDs", "lower", at("error", str(i)), 2) for i in range(5)
)
BIASES = tuple(
    Measure(f"beta{i}: error of the mean over runs, in SDs", "lower", at("signed", str(i)), 2)
    for i in range(5)
)
"""The paper's way: errors of several runs may cancel. What a run says has a sign."""
RATIOS = tuple(Measure(f"beta{i}: SD ratio", "lower", at("ratio", str(i)), 2) for i in range(5))
RATIOS_APART = tuple(
    Measure(
        f"beta{i}: mean SD of the sets over the reference's",
        "lower",
        at("apart", "ratio", str(i)),
        2,
    )
    for i in range(5)
)
CORRELATIONS = tuple(
    Measure(f"beta{i}, beta{j}: difference of correlation", "lower", at("pairs", f"{i}{j}"), 2)
    for i in range(5)
    for j in range(i + 1, 5)
)
BETA3 = Measure("error of beta3", "lower", at("off", "3"), 3)

ACCURACY = Measure("accuracy", "higher", at("accuracy"), 2)
MSE = Measure("MSE", "lower", at("mse"), 2)
IMPUTATIONS = (1, 2, 3, 4, 5)


def _of(imputation: int, what: Measure) -> Measure:
    def read(result: Result) -> float | None:
        return what.read(result) if result.get("imputation") == imputation else None

    return Measure(f"{what.name}, imputation {imputation}", what.better, read, what.digits)


ACCURACIES = tuple(_of(i, ACCURACY) for i in IMPUTATIONS)
MSES = tuple(_of(i, MSE) for i in IMPUTATIONS)
"""A seed is an imputation, with a fit of its own."""

TWO = tuple(
    measure
    for i, name in enumerate(("r_ri", "c_a"))
    for measure in (
        Measure(f"{name}: error, in SDs", "lower", at("two", "error", str(i)), 2),
        Measure(f"{name}: SD ratio", "lower", at("two", "ratio", str(i)), 2),
    )
)
TWO_CORRELATION = Measure("difference of correlation", "lower", at("two", "correlation"), 2)
