"""DP-NF (Waites and Cummings, 2021): four algorithms, five tables, twelve figures."""

from reproductions.contents.entry import Entry, Number, Paper, Terms

_LIKELIHOOD = "test log-likelihood"
_FIGURES = "veilflow reproduce dp-nf --figures"
_SETS = "reproductions/dp_nf/data.py"
_DRAWN = "reproductions/dp_nf/figures.py"
_DECLARED = (("What counts as public", "dp-nf.md#what-counts-as-public"),)
_PICTURE = "The paper prints no number."


def _row(table: str, row: str, column: str, metric: str = _LIKELIHOOD) -> Number:
    return Number(ours=(table, row, column, metric))


ALGORITHMS = (
    Entry(
        kind="Algorithm",
        number=1,
        what="DP-NF: a flow trained by clipped and noised gradients of its log-likelihood",
        where=("vf.DensityFlow", "reproductions/dp_nf/estimators.py"),
        call='vf.DensityFlow(budget=budget, bounds=(low, high), base="normal", start="whitening", '
        "flow=vf.maf(blocks=5, hidden=(100, 100)), training=vf.Training(batch_size=100, "
        'clip_norm=12.0, learning_rate=7e-4, schedule="constant", ema_decay=None), '
        "num_records=24_060).fit(rows)",
        numbers=(
            Number(
                ours=("1", "DP-NF, the paper's settings", "Life Science, 1", _LIKELIHOOD),
                paper=("1", "DP-NF", "Life Science, 1", _LIKELIHOOD),
            ),
        ),
        links=(("Table 1", "dp-nf.md#table-1-life-science"),),
        note="The call has the authors' settings on Poisson batches, without their number of steps; "
        "`vf.DensityFlow(budget=budget, bounds=(low, high))` is the library's default.",
    ),
    Entry(
        kind="Algorithm",
        number=2,
        what="DP-AD: an ensemble of densities whose votes on a row are released by the exponential "
        "mechanism",
        where=("vf.EnsembleDetector", "reproductions/anomaly_detection/ensembles.py"),
        call="vf.EnsembleDetector(budget=budget, answers=vf.Answering(max_queries=100), "
        "bounds=(low, high), parts=10).fit(rows)",
        numbers=(
            Number(
                ours=("figure 8", "flows", "Half-Moons by ten parts, 1", "right answers"),
                system="anomaly",
            ),
        ),
        links=(("Figure 8: votes", "anomaly.md#figure-8-votes"),),
    ),
    Entry(
        kind="Algorithm",
        number=3,
        what="DP-SGD, of which Algorithm 1 is an instance",
        where=("veilflow.engine.train",),
        call="engine.train(engine.TrainingPlan(clipping=engine.Flat(1.0), noise_multiplier=2.1, "
        "sampling_rate=0.01, expected_batch_size=100, steps=1_000), loss_fn, model, records, "
        "secret=engine.Secret.fresh())",
        note="Any loss and any parameters; the paper's results with it are those of Algorithm 1.",
    ),
    Entry(
        kind="Algorithm",
        number=4,
        what="DP-NF-INIT: scales and shifts of activation normalization, released before training",
        where=("vf.DensityFlow",),
        call='vf.DensityFlow(budget=budget, bounds=(low, high), base="normal", start="actnorm")'
        ".fit(rows)",
        links=(("start", "../guides/density.md#choosing-for-yourself"),),
        note="The paper prints no number: its authors saw little benefit. The sensitivity of every "
        "release is that of all columns together.",
    ),
)

TABLES = (
    Entry(
        kind="Table",
        number=1,
        what="log-likelihood on Life Science by epsilon",
        where=("vf.DensityFlow", "vf.MixtureDensity"),
        call="veilflow reproduce dp-nf --table 1",
        numbers=(_row("1", "DP-NF", "Life Science, 1"),),
    ),
    Entry(
        kind="Table",
        number=2,
        what="negative log-likelihood on Pinwheel, from several priors",
        where=("vf.DensityFlow", "vf.MixtureDensity"),
        call="veilflow reproduce dp-nf --table 2",
        numbers=(
            _row("2", "DP-NF, spherical prior", "Pinwheel, 1.5", "test negative log-likelihood"),
        ),
    ),
    Entry(
        kind="Table",
        number=3,
        what="dimensions and rows of the data sets",
        where=(_SETS,),
        call="reproductions.dp_nf.data.FACTS",
        links=_DECLARED,
        note="A list of data sets, not a result. Of Power only the first half year is at hand.",
    ),
    Entry(
        kind="Table",
        number=4,
        what="log-likelihood on Power and Gowalla by epsilon",
        where=("vf.DensityFlow", "vf.MixtureDensity"),
        call="veilflow reproduce dp-nf --table 4",
        numbers=(_row("4", "DP-NF", "Power, 1.25"),),
        note="The paper prints the best of all checkpoints on the test rows.",
    ),
    Entry(
        kind="Table",
        number=5,
        what="log-likelihood on Half-Moons and Gaussians by epsilon",
        where=("vf.DensityFlow", "vf.MixtureDensity"),
        call="veilflow reproduce dp-nf --table 5",
        numbers=(_row("5", "DP-NF", "Half-Moons, 1.5"),),
        note="The paper prints the best of all checkpoints on the test rows.",
    ),
)


def _figure(number: int, what: str, **named: object) -> Entry:
    settings: dict = {"where": (_DRAWN,), "call": _FIGURES, **named}
    return Entry(kind="Figure", number=number, what=what, **settings)


FIGURES = (
    _figure(
        1,
        "log-likelihood on Life Science over epsilon",
        where=("vf.DensityFlow", _DRAWN),
        numbers=(_row("1", "DP-NF", "Life Science, 4"),),
    ),
    _figure(
        2,
        "error of nearest neighbors trained on synthetic rows",
        where=("vf.DensityFlow", "reproductions/metrics/regression.py"),
        numbers=(_row("figure 2", "DP-NF", "Life Science, 1", "k-NN mean squared error"),),
        links=(("Beside the tables", "dp-nf.md#beside-the-tables"),),
        note="Five neighbors, as in the authors' code; the paper says three.",
    ),
    _figure(
        3,
        "histograms of three features, real and synthetic",
        where=("reproductions/metrics/marginals.py", _DRAWN),
        note=_PICTURE,
    ),
    _figure(
        4,
        "synthetic rows along the two widest directions",
        where=("reproductions/metrics/projection.py", _DRAWN),
        note=_PICTURE,
    ),
    _figure(
        5,
        "ROC of anomalies by a threshold on the likelihood",
        where=("vf.LikelihoodDetector", "reproductions/metrics/roc.py"),
        numbers=(_row("figure 5", "DP-NF", "Life Science, 1", "AUROC of anomalies"),),
        links=(("Figure 5: Life Science", "anomaly.md#figure-5-life-science"),),
        note="The threshold of the paper was chosen on the rows that are judged; an area needs none.",
    ),
    _figure(
        6,
        "the framework of Algorithm 2",
        where=("vf.EnsembleDetector", _DRAWN),
        note="A sketch in the paper; ours shows the ensemble at work.",
    ),
    _figure(7, "the Half-Moons set", where=(_SETS, _DRAWN), note="A picture of the data."),
    _figure(
        8,
        "right answers of Algorithm 2 over epsilon, with flows and with mixtures",
        where=("vf.EnsembleDetector", "reproductions/anomaly_detection/ensembles.py"),
        call="veilflow reproduce anomaly --only ensemble",
        numbers=(
            Number(
                ours=("figure 8", "mixtures", "Half-Moons by ten parts, 1", "right answers"),
                system="anomaly",
            ),
        ),
        links=(("Figure 8: votes", "anomaly.md#figure-8-votes"),),
        note="The paper chose the threshold on the rows that are judged; ours comes from another "
        "draw of the generator.",
    ),
    _figure(
        9,
        "epsilon over steps by several accountants",
        where=("veilflow account", "reproductions/dp_nf/accounting.py"),
        call="veilflow account --sampling-rate 0.004676 --noise-multiplier 2.1 --steps 10000 "
        "--delta 1e-4",
        note=f"{_PICTURE} The call is one point of the curve of privacy loss distributions.",
    ),
    _figure(10, "the Pinwheel set", where=(_SETS, _DRAWN), note="A picture of the data."),
    _figure(
        11,
        "histograms of all features, real and synthetic",
        where=("reproductions/metrics/marginals.py", _DRAWN),
        numbers=(
            _row(
                "figure 11",
                "DP-NF",
                "Life Science, 0.5",
                "mean total variation of the features, first split",
            ),
        ),
        links=(("Beside the tables", "dp-nf.md#beside-the-tables"),),
    ),
    _figure(12, "the Gaussians set", where=(_SETS, _DRAWN), note="A picture of the data."),
)

DP_NF = Paper(
    system="dp-nf",
    title="DP-NF",
    citation='Waites and Cummings, "Differentially private normalizing flows for privacy-preserving '
    'density estimation" (2021)',
    terms=Terms(
        budget=(
            "epsilon as its accountants claim it, for batches of fixed size, where the settings for "
            "Life Science really spend more than twice as much",
            "the same epsilon and delta, by privacy loss distributions for Poisson batches, with "
            "scales and priors paid for",
        ),
        rows=(
            "ten random splits, nine tenths to train",
            "the same sets, also in ten splits; cells without a deviation are of one split",
        ),
        tuning=(
            "on the data itself, not charged",
            "a planner picks by public facts, by rules fitted on generated data; only the row with "
            "the paper's settings has those of its authors",
        ),
    ),
    counts=(4, 5, 12),
    entries=(*ALGORITHMS, *TABLES, *FIGURES),
)
