"""All tables: what must be reached first, then detection, thresholds, votes and streams."""

import math

from reproductions.anomaly_detection import ensembles, fits, sets, streams
from reproductions.anomaly_detection.runs import ENSEMBLE, PARTS, REFERENCE, STREAMS
from reproductions.blocks import Block, Column, Measure, Row, across, at, numbers, over

PURE, APPROXIMATE = STREAMS
DETECTION_EPSILONS = (1.0, 4.0)
THRESHOLD_EPSILON = 4.0
STREAM_EPSILON = streams.TOTAL[0]

AREA = Measure("AUROC", "higher", at("auroc"))
PRECISION = Measure("average precision", "higher", at("precision"))
ALARMS = Measure("false alarms", "lower", at("alarms"), digits=4)
MISSED = Measure("false alarms, off the asked rate by", "lower", at("alarms"), digits=3)
"""The error of the mean over splits, relative to the requested rate; see `tables`."""
CORRECT = Measure("right answers", "higher", at("correct"), digits=4)
KEPT = Measure("normal rows kept", "higher", at("kept"), digits=4)
FOUND = Measure("anomalies found", "higher", at("found"), digits=4)
LEAD = Measure("right answers, above those of mixtures by", "higher", at("correct"), digits=5)
"""The difference of the means over draws; see `tables`."""
EQUAL = Measure("queries, each paid for, that are as accurate", "lower", at("equal"), digits=0)
MAJORITY = Measure("the same, with a quorum of a half", "lower", at("equal_majority"), digits=0)
WHOLE = Measure("right answers to 10,000 queries", "higher", at("sparse"), digits=5)
REAL = Measure("right answers, one stream through the library", "higher", at("library"), digits=5)
PLAIN = Measure("each query paid for", "higher", at("plain"), digits=5)
SPARSE = Measure("sparse vector", "higher", at("sparse"), digits=5)

FLOW, MIXTURE = {"flow": "flow"}, {"mixture": "mixture-3"}
ENSEMBLES = {"flows": "flow", "mixtures": "mixture"}


def _asked(
    name: str, way: str, rate: float, columns: tuple[Column, ...] = (), must: str = ""
) -> Row:
    return Row(
        name=f"{name}, asked {rate:g}",
        method="flow",
        epsilon=THRESHOLD_EPSILON,
        part=f"{way} {rate:g}",
        must=numbers(columns, must) if must else {},
    )


def _votes(epsilon: float, name: str, method: str) -> Row:
    must = {}
    if method == "flow" and epsilon == 1.0:
        must = {_VOTES[0]: 0.95}
    part = f"epsilon {epsilon:g}"
    return Row(name=name, method=method, epsilon=epsilon, part=part, must=must)


_MISSED = tuple(Column(name, MISSED) for name in fits.CALIBRATED)
THRESHOLDS = Block(
    table="targets",
    title="Thresholds of models at epsilon 4",
    columns=_MISSED,
    rows=(
        _asked("samples of the model", "samples", 0.05, _MISSED, ".2 .2 .2 .2"),
        _asked("private quantile", "private", 0.05, _MISSED, ".2 .2 .2 .2"),
    ),
    words="How far the false-alarm rate on rows that no fit has seen is off the 5 % that were asked "
    "for, relative to these. The density is that of a detector as it comes: a mixture of normals and "
    "their shape, also on the plane, where a smoothed histogram would be the density otherwise. The "
    "first line, which is free, was asked for; the second, which costs an epsilon of 1 beside the "
    "model's, is our own.",
)
_STREAM = across(PURE, EQUAL, MAJORITY, WHOLE, REAL)
ONE_STREAM = Block(
    table="targets",
    title="Sparse vector, 10,000 queries of which 100 are odd, delta 0",
    columns=_STREAM,
    rows=(
        Row(
            name="sparse vector",
            method="mixture",
            epsilon=STREAM_EPSILON,
            must={_STREAM[0]: 200.0},
        ),
    ),
    words="How many queries of Algorithm 2 the same budget pays for if their answers are to be as "
    "accurate. Without a delta epsilons add up: this is the comparison that the paper's remark on "
    "sparse vector is about.",
)
_STREAM_PLD = across(APPROXIMATE, EQUAL, MAJORITY, WHOLE, REAL)
OTHER_STREAM = Block(
    table="stream",
    title="The same with a delta of 1e-6",
    columns=_STREAM_PLD,
    rows=(Row(name="sparse vector", method="mixture", epsilon=STREAM_EPSILON),),
    words="With a delta, answers of Algorithm 2 compose far better than their epsilons say, and "
    "sparse vector, whose searches are known to be no more than pure, gains less: a small factor, not "
    "fifty. Of a million simulated answers next to none is wrong here, so that the first two numbers "
    "are rough ones.",
)
_LEADS = across(ENSEMBLE, LEAD)
LEADS = Block(
    table="targets",
    title="Half-moons: an ensemble of flows above one of mixtures",
    columns=_LEADS,
    rows=tuple(
        Row(
            name="flows",
            method="flow",
            epsilon=epsilon,
            part=f"epsilon {epsilon:g}",
            must=numbers(_LEADS, "0"),
        )
        for epsilon in ensembles.EPSILONS
    ),
)
_VOTES = across(ENSEMBLE, CORRECT, KEPT, FOUND)
FIGURE_8 = Block(
    table="figure 8",
    title="Half-moons, ten parts",
    columns=_VOTES,
    rows=tuple(
        _votes(epsilon, name, method)
        for epsilon in ensembles.EPSILONS
        for name, method in ENSEMBLES.items()
    ),
    words="Probabilities are exact, from the votes. Epsilon is of one answer. With ten parts that all "
    "agree, no answer is right more often than sigmoid(5 epsilon): .9933 at 1.",
)
LENGTHS = Block(
    table="stream",
    title="Right answers by number of queries, epsilon 4 for all of them",
    columns=tuple(Column(name, what) for name in STREAMS for what in (PLAIN, SPARSE)),
    rows=tuple(
        Row(
            name=f"{length} queries",
            method="mixture",
            epsilon=STREAM_EPSILON,
            part=f"{length} queries",
        )
        for length in streams.LENGTHS
    ),
    words="One thousand parts of 400 records; one row in a hundred is odd; a row that is left without "
    "an answer counts as a wrong one.",
)
_COUNTS = tuple(
    Measure(f"{count} queries", "higher", at(f"{count} queries"), digits=3)
    for count in streams.COUNTS
)
TRADE_OFF = Block(
    table="parts",
    title="Right answers by number of parts, epsilon 4 and delta 1e-6 for all queries",
    columns=across(PARTS, *_COUNTS),
    rows=tuple(
        Row(name=f"{parts} parts", method="mixture", epsilon=STREAM_EPSILON, part=f"{parts} parts")
        for parts in streams.KS
    ),
    words="Half-moons, 27,000 records in all, mixtures, each query paid for. More parts bear more "
    "noise and know less: few queries want tens of parts, many queries hundreds.",
)
DETECTION = Block(
    table="detection",
    title="Attacks and frauds, learned from normal rows only",
    columns=(*across(sets.NETWORK, AREA, PRECISION), *across(sets.CARDS, AREA, PRECISION)),
    rows=(
        *over((math.inf,), {"flow": REFERENCE} | MIXTURE),
        *over(DETECTION_EPSILONS, FLOW | MIXTURE),
    ),
    words="Connections: as many attacks as normal rows. Payments: 492 frauds among 20,492 rows, so "
    "that a precision of .024 is chance. The flow without privacy is as large as the private ones, "
    "and takes as many steps. On connections three normals are ahead of every flow, and of the one "
    "without privacy most: a flood repeats values that normal connections have as well, and the "
    "sharper a density is, the more it trusts them.",
)
ALL_THRESHOLDS = Block(
    table="thresholds",
    title="False alarms on held-out rows, epsilon 4",
    columns=tuple(Column(name, ALARMS) for name in fits.CALIBRATED),
    rows=tuple(
        _asked(name, way, rate)
        for name, way in {"samples of the model": "samples", "private quantile": "private"}.items()
        for rate in fits.RATES
    ),
    words="`from_samples`, which is free, and `from_private` with epsilon 1 on top of the model's. Of "
    "some 2,700 held-out rows of Life Science, chance alone moves a rate of .01 by a fifth.",
)
TARGETS = (THRESHOLDS, LEADS, ONE_STREAM)
BLOCKS = (
    *TARGETS,
    FIGURE_8,
    OTHER_STREAM,
    LENGTHS,
    TRADE_OFF,
    DETECTION,
    ALL_THRESHOLDS,
)
SMALL = (TRADE_OFF,)
"""What `--small` runs."""
