"""The measures that tables have across."""

from reproductions.blocks import Measure, at

ERROR = Measure("largest error of a mean, in SDs", "lower", at("largest_error"), 2, worst=True)
LEAST = Measure("smallest SD over the reference's", "higher", at("least_ratio"), 2, worst=True)
LARGEST = Measure("largest SD over the reference's", "lower", at("largest_ratio"), 2, worst=True)
CORRELATION = Measure(
    "largest difference of a correlation", "lower", at("correlation"), 2, worst=True
)
ERRORS = tuple(
    Measure(f"beta{i}: error, in SDs", "lower", at("error", str(i)), 2) for i in range(5)
)
RATIOS = tuple(Measure(f"beta{i}: SD ratio", "lower", at("ratio", str(i)), 2) for i in range(5))
BETA3 = Measure("error of beta3", "lower", at("off", "3"), 3)

ACCURACY = Measure("accuracy", "higher", at("accuracy"), 2)
MSE = Measure("MSE", "lower", at("mse"), 2)

TWO = tuple(
    measure
    for i, name in enumerate(("r_ri", "c_a"))
    for measure in (
        Measure(f"{name}: error, in SDs", "lower", at("two", "error", str(i)), 2),
        Measure(f"{name}: SD ratio", "lower", at("two", "ratio", str(i)), 2),
    )
)
TWO_CORRELATION = Measure("difference of correlation", "lower", at("two", "correlation"), 2)
