"""DP-NF-VI (Su et al., 2023): two algorithms, nine tables, four figures."""

from reproductions.contents.entry import Entry, Number, Paper, Terms

_PATIENTS = "Simulated patients stand in for the paper's, whose records are not used."
_COHORT = "reproductions/dp_nf_vi/simulator/cohort.py"
_SIMULATOR = "reproductions/dp_nf_vi/simulator/cvsim6.py"
_DRAWN = "reproductions/dp_nf_vi/figures.py"
_SETTINGS = "reproductions/dp_nf_vi/estimators.py"
_DIFFERENT = (("What is different", "dp-nf-vi.md#what-is-different"),)


def _both(table: str, row: str, column: str, metric: str) -> tuple[Number, ...]:
    """A flow as the paper's made sound, and the library's default."""
    ways = ("flow from a normal", "library's default")
    return tuple(Number(ours=(table, f"{row}, {way}", column, metric)) for way in ways)


ENTRIES = (
    Entry(
        kind="Algorithm",
        number=1,
        what="DP-NF for density estimation, with which synthetic rows are drawn",
        where=("vf.DensityFlow", _SETTINGS),
        call='vf.DensityFlow(budget=budget, bounds=(low, high), base="normal", flow=vf.maf(), '
        'training=vf.Training(optimizer="rmsprop", schedule="exponential", rate_decay=0.999))'
        ".fit(rows)",
        links=(("settings", "../guides/density.md#choosing-for-yourself"),),
        note="Its results are those of Tables 2, 3, 5 and 7. Batch normalization, which no budget "
        "pays for, is left out, and noisy sums are divided by a public number.",
    ),
    Entry(
        kind="Algorithm",
        number=2,
        what="DP-NF-VI: a variational posterior trained by noisy gradients of the free energy",
        where=("vf.FlowPosterior", "vf.Guide"),
        call='vf.FlowPosterior(log_likelihood=log_likelihood, parameters=("intercept", "slope"), '
        'budget=budget, precondition=False, flow=vf.Guide(kind="iaf", num_draws=1_000), '
        'training=vf.Training(steps=8_000, batch_size=500, clip_norm=10.0, optimizer="rmsprop", '
        'learning_rate=0.01, schedule="exponential", rate_decay=0.999, ema_decay=None), '
        "num_records=6_000).fit(records)",
        numbers=(
            Number(
                ours=(
                    "algorithm 2",
                    "as in the paper",
                    "simulated regression, 5",
                    "largest error of a mean, in SDs",
                )
            ),
        ),
        blocks=("parts",),
        note="Without `precondition`, `flow` and `training` it is the library's default, which is "
        "compared in Table 6.",
    ),
    Entry(
        kind="Table",
        number=1,
        what="summary statistics of 26 clinical attributes",
        where=(_COHORT,),
        call="reproductions.dp_nf_vi.simulator.ATTRIBUTES",
        links=_DIFFERENT,
        note=f"A list, not a result: {_PATIENTS[0].lower()}{_PATIENTS[1:-1]}, with the table's "
        "ranges, errors and shares of missing cells.",
    ),
    Entry(
        kind="Table",
        number=2,
        what="accuracy of a support vector machine trained on synthetic patients",
        where=("vf.DensityFlow", "vf.ChainedImputer", _SETTINGS),
        call="veilflow reproduce dp-nf-vi --table 2",
        numbers=_both("2", "synthetic", "cohort of 64, 4", "accuracy"),
        note=_PATIENTS,
    ),
    Entry(
        kind="Table",
        number=3,
        what="squared error of a random forest trained on synthetic patients",
        where=("vf.DensityFlow", "vf.ChainedImputer", _SETTINGS),
        call="veilflow reproduce dp-nf-vi --table 3",
        numbers=_both("3", "synthetic", "cohort of 64, 4", "MSE"),
        note=_PATIENTS,
    ),
    Entry(
        kind="Table",
        number=4,
        what="default parameters of the simulator CVSim-6",
        where=(_SIMULATOR,),
        call="reproductions.dp_nf_vi.simulator.Circulation()",
        links=(("a simulator", "../guides/posterior.md#a-simulator-as-the-likelihood"),),
        note="Settings, not a result.",
    ),
    Entry(
        kind="Table",
        number=5,
        what="posterior of two parameters of the circulation",
        where=("vf.FlowPosterior", "reproductions/dp_nf_vi/circulation.py"),
        call="veilflow reproduce dp-nf-vi --table 5",
        numbers=(
            Number(ours=("5", "direct", "cohort of 5,000, 4", "r_ri: error, in SDs")),
            *_both("5", "from synthetic patients", "cohort of 5,000, 4", "r_ri: error, in SDs"),
        ),
        blocks=("equations",),
        note=f"{_PATIENTS} The paper prints posteriors of other patients, and no error.",
    ),
    Entry(
        kind="Table",
        number=6,
        what="posterior of a regression, by Algorithm 2",
        where=("vf.FlowPosterior", "reproductions/dp_nf_vi/data.py"),
        call="veilflow reproduce dp-nf-vi --table 6",
        numbers=(Number(ours=("6", "direct", "simulated regression, 1", "beta1: SD ratio")),),
    ),
    Entry(
        kind="Table",
        number=7,
        what="the same posterior from private synthetic data",
        where=("vf.DensityFlow", "vf.combine_posteriors"),
        call="veilflow reproduce dp-nf-vi --table 7",
        numbers=_both(
            "7",
            "from synthetic data",
            "simulated regression, 1",
            "beta3: error of the mean over runs, in SDs",
        ),
    ),
    Entry(
        kind="Table",
        number=8,
        what="acronyms of the simulator",
        where=(_SIMULATOR,),
        call="reproductions.dp_nf_vi.simulator.Circulation._fields",
        note="Names, not a result.",
    ),
    Entry(
        kind="Table",
        number=9,
        what="hyper-parameters of all experiments",
        where=(_SETTINGS,),
        call="reproductions.dp_nf_vi.estimators.DIRECT",
        note="Settings, not a result.",
    ),
    Entry(
        kind="Figure",
        number=1,
        what="which cells of the clinical data are missing",
        where=(_COHORT, _DRAWN),
        call="veilflow reproduce dp-nf-vi --figures",
        note=f"{_PATIENTS} Their cells go missing at random, by the shares of Table 1.",
    ),
    Entry(
        kind="Figure",
        number=2,
        what="two beats of CVSim-6",
        where=(_SIMULATOR, _DRAWN),
        call="veilflow reproduce dp-nf-vi --figures",
        note="The paper prints no number.",
    ),
    Entry(
        kind="Figure",
        number=3,
        what="posterior samples of the two parameters of the circulation",
        where=("vf.FlowPosterior", _DRAWN),
        call="veilflow reproduce dp-nf-vi --figures",
        note=f"{_PATIENTS} The paper prints no number.",
    ),
    Entry(
        kind="Figure",
        number=4,
        what="divergences between a normal and one that is too wide",
        where=("reproductions/dp_nf_vi/divergences.py",),
        call="veilflow reproduce dp-nf-vi --figures",
        note="The paper prints no number.",
    ),
)

DP_NF_VI = Paper(
    system="dp-nf-vi",
    title="DP-NF-VI",
    citation='Su et al., "Differentially private normalizing flows for density estimation, data '
    'synthesis, and variational inference with application to electronic health records" (2023)',
    terms=Terms(
        budget=(
            "epsilon by the central limit theorem of Gaussian differential privacy, at delta 1e-5 for "
            "the regression and 0.01 for patients; batch normalization and the filling of missing "
            "cells not paid for",
            "the same epsilons at delta 1e-5 by privacy loss distributions, everything declared or "
            "paid",
        ),
        rows=(
            "6,000 simulated subjects; 64 patients to learn from and 20 to judge by",
            "another draw of 6,000 subjects of the same model; simulated cohorts of 64 and 5,000 "
            "patients, judged by others; as many synthetic rows as real ones",
        ),
        tuning=(
            "settings for each experiment (Table 9); how they were found is not stated",
            "rounds were chosen on other draws of the regression",
        ),
    ),
    counts=(2, 9, 4),
    entries=ENTRIES,
)
