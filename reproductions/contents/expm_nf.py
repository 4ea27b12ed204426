"""ExpM+NF (Bridges, Tombs and Stanley, 2024): one algorithm, five tables, two figures."""

from reproductions.contents.entry import Entry, Number, Paper, Terms

_AUC = "AUC"
_MIMIC = "MIMIC-III is behind credentialed access; PhysioNet 2012 stands in for it. "
_READER = "reproductions/expm_nf/mimic.py"
_TIMES = (
    "The paper's times are not comparable: the code behind them measures statements that name the "
    "training function and do not call it."
)


def _cell(table: str, row: str, column: str, metric: str = _AUC) -> Number:
    return Number(ours=(table, row, column, metric))


ENTRIES = (
    Entry(
        kind="Algorithm",
        number=1,
        what="ExpM+NF: a flow trained towards the exponential mechanism, and drawn from once",
        where=("vf.ExpMechClassifier", "vf.expm.FlowSampler"),
        call="vf.ExpMechClassifier(budget=vf.Budget(epsilon=1.0, delta=0), bounds=(low, high), "
        "prior=vf.GaussianPrior(2.0), sampler=vf.expm.FlowSampler(), num_records=4_000)"
        ".fit(features, labels)",
        numbers=(_cell("icu", "flow, CONDITIONAL", "mortality (LR), 1"),),
        links=(
            ("What holds, and what does not", "expm-nf.md#what-holds-and-what-does-not"),
            ("samplers", "../guides/classify.md#which-sampler"),
        ),
        note="Its epsilon is CONDITIONAL: it holds if the flow's density equals the mechanism's.",
    ),
    Entry(
        kind="Table",
        number=1,
        what="AUC by epsilon, mortality and length of stay, LR and GRU-D",
        where=("vf.ExpMechClassifier", _READER),
        call="veilflow reproduce expm-nf --only lr-mortality --only grud-mortality",
        numbers=(
            _cell("icu", "DP-SGD", "mortality (LR), 3.5"),
            _cell("icu-grud", "flow, CONDITIONAL", "mortality (GRU-D), 1"),
        ),
        blocks=("icu", "icu-grud"),
        note=f"{_MIMIC}The table is an image in the copy at hand, so that its numbers are not here.",
    ),
    Entry(
        kind="Table",
        number=2,
        what="seconds to train for mortality",
        where=("reproductions/expm_nf/timing.py",),
        call="veilflow reproduce expm-nf --only time",
        numbers=(_cell("time", "flow, CONDITIONAL", "LR, 1", "seconds of a second fit"),),
        blocks=("time",),
        note=_TIMES,
    ),
    Entry(
        kind="Table",
        number=3,
        what="AUC of logistic regression without privacy",
        where=("reproductions/expm_nf/baselines/",),
        call="veilflow reproduce expm-nf --only lr-mortality/inf",
        numbers=(
            Number(
                ours=("icu", "no privacy", "mortality (LR), inf", _AUC),
                paper=("3", "the paper, cross-entropy", "mortality (LR), inf", _AUC),
            ),
        ),
        blocks=("icu",),
        note=f"{_MIMIC}Other patients: not to be compared cell by cell.",
    ),
    Entry(
        kind="Table",
        number=4,
        what="AUC of GRU-D without privacy",
        where=("vf.expm.GruD", "reproductions/expm_nf/baselines/"),
        call="veilflow reproduce expm-nf --only grud-mortality/inf",
        numbers=(
            Number(
                ours=("icu-grud", "no privacy", "mortality (GRU-D), inf", _AUC),
                paper=("3", "the paper, cross-entropy", "mortality (GRU-D), inf", _AUC),
            ),
        ),
        blocks=("3", "icu-grud"),
        note=f"{_MIMIC}Rows with batch normalization are not made: it has no place in a private "
        "model.",
    ),
    Entry(
        kind="Table",
        number=5,
        what="seconds to train for length of stay",
        missing=f"{_TIMES} The same fits are timed for mortality, beside Table 2.",
    ),
    Entry(
        kind="Figure",
        number=1,
        what="a data enclave that releases parameters",
        where=("vf.ExpMechClassifier",),
        call="veilflow fit classifier people.csv --label answered --classes no,yes --low 18,0,0 "
        "--high 90,80,1 --num-records 8000 --epsilon 1 --prior-scale 2 --sampler flow --out m.veil",
        links=(("on the command line", "../guides/classify.md#on-the-command-line"),),
        note="A sketch.",
    ),
    Entry(
        kind="Figure",
        number=2,
        what="spread of the AUC over draws from flows",
        where=("vf.expm.FlowSampler", "reproductions/expm_nf/figures.py"),
        call="veilflow reproduce expm-nf --figures",
        note="The paper prints no number. Ten flows and 1,000 draws there, three and 100 here.",
    ),
)

EXPM_NF = Paper(
    system="expm-nf",
    title="ExpM+NF",
    citation='Bridges, Tombs and Stanley, "Differentially private training via the exponential '
    'mechanism and normalizing flows" (2024)',
    terms=Terms(
        budget=(
            "an epsilon at delta 0 that holds if the flow is exact; DP-SGD at delta 1e-5",
            "the same for the flow, marked CONDITIONAL; zoom, rejection and grid at delta 0 without "
            "a condition; DP-SGD at delta 1e-5 by privacy loss distributions",
        ),
        rows=(
            "MIMIC-III, split into training, development and test rows; median of ten models",
            "Adult, and the open ICU stays of PhysioNet 2012: set a to learn, set c to judge; "
            "medians over one to ten seeds, as the page says",
        ),
        tuning=(
            "60 to 90 random trials for each model and epsilon on the development rows, not charged",
            "on generated problems; for references without privacy on set b",
        ),
    ),
    counts=(1, 5, 2),
    entries=ENTRIES,
)
