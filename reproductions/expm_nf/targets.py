"""All tables: what must be reached first, then AUC over epsilon, exactness, attacks and times."""

import math

from reproductions.blocks import Block, Column, Row, across, given, numbers, over
from reproductions.expm_nf import adult
from reproductions.expm_nf.measures import (
    ACCOUNTING,
    AUC,
    BOUND,
    DISTANCE,
    DIVERGENCE,
    EFFECTIVE,
    ESTIMATE,
    EXCESS,
    FIRST,
    LOST,
    LOWEST,
    NOISE,
    OBJECTIONS,
    P_VALUE,
    PARETO_K,
    SECOND,
)
from reproductions.expm_nf.runs import AUDIT, EXACT, TIME

EPSILONS = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0, 3.5, 10.0)
TENTH_EPSILONS = (1e-2, 0.1, 1.0, 10.0)
ICU_EPSILONS = (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 10.0)
"""The paper's."""
LAST_EPSILONS = (0.1, 1.0, 10.0)
GRUD_EPSILONS = (0.1, 1.0, 3.5, 10.0)
FEATURES = {12: "adult", 30: "adult-30", adult.MOST: f"adult-{adult.MOST}"}
PLAIN = {"no privacy": "non-private"}
SQUARED = {"no privacy, l2": "non-private-l2"}
ZOOM = {"zoom": "zoom"}
DP_SGD = {"DP-SGD": "dp-sgd"}
DP_SGD_L2 = {"DP-SGD, l2": "dp-sgd-l2"}
PERTURBED = {"output perturbation": "output", "objective perturbation": "objective"}
FLOW = {"flow, CONDITIONAL": "flow"}
DROPPED = {"DP-SGD, dropout": "dp-sgd-dropout"}
ABLATIONS = {
    "no privacy, batch normalization": "non-private-batch-norm",
    "no privacy, dropout": "non-private-dropout",
    "no privacy, l2, batch normalization": "non-private-l2-batch-norm",
    "no privacy, l2, dropout": "non-private-l2-dropout",
}
BY_ACCOUNTANT = {"noise by PLD": "dp-sgd", "noise by RDP": "dp-sgd-rdp"}
LONGER = {"flow trained longer, CONDITIONAL": "flow-longer"}
NONE = (math.inf,)

_LOST = across("adult", LOST)
LEVELS = Block(
    table="targets",
    title="Adult at delta 0",
    columns=_LOST,
    rows=tuple(
        Row(name="zoom", method="zoom", epsilon=epsilon, must=numbers(_LOST, must))
        for epsilon, must in ((1.0, ".008"), (0.1, ".02"))
    ),
    words="Median AUC of ten classifiers, unconditional, below that without privacy.",
)

_FIT = across(EXACT, DISTANCE, ESTIMATE, PARETO_K, EFFECTIVE, DIVERGENCE, OBJECTIONS, AUC)
_FLOWS = ("planar", "sylvester", "realnvp", "spline")
FLOWS = Block(
    table="targets",
    title="Flows on two parameters, epsilon times records 300",
    columns=_FIT,
    rows=(
        *(
            Row(name=name, method=name, epsilon=1.0, must=numbers(_FIT, ".05 - - - - - -"))
            for name in _FLOWS
        ),
        Row(name="as published", method="narrow", epsilon=1.0, must=numbers(_FIT, "- - - - - 1 -")),
    ),
    words="Marginals beside those of a grid, the larger of the two distances. The last flow starts "
    "from a base of deviation 0.01 and takes 250 steps: diagnostics must object to it. Pareto-k is no "
    "objection of its own: it is the same for weights w and 1 + c (w - 1), so that weights of a good "
    "flow, which hardly vary, may have any. It counts where a tail holds more than 5 % of all weight. "
    "The effective share falls with the square of the largest weight, and differs much between draws; "
    "the total variation by weights does not.",
)
_FITS = across(EXACT, P_VALUE)
FITS = Block(
    table="targets",
    title="The exact regime, epsilon times records 12: a test of fit",
    columns=_FITS,
    rows=(Row(name="rejection", method="rejection", epsilon=0.04, must=numbers(_FITS, ".01")),),
    words="Chi-squared, 5,000 draws in 8 cells of each marginal of the grid, the smaller p-value times "
    "two.",
)
_DRAWN = across(EXACT, DISTANCE, AUC, LOWEST)
REGIME = Block(
    table="targets",
    title="The exact regime: what is drawn",
    columns=_DRAWN,
    rows=over(
        (0.04,), {"rejection": "rejection", "grid": "grid", "flow, CONDITIONAL": "sylvester"}
    ),
    words="Two parameters again. AUC is the mean over draws: with so little epsilon a draw hardly "
    "knows which way the one feature points, and the 5 % below are on the wrong side. Distances are in "
    "40 cells: of 5,000 draws (rejection, grid) about .035 is chance, of 50,000 (flow) about .01. The "
    "first batch of rejection, of 1,000 draws, had .116 where .08 is chance; another one had .075.",
)

_ICU = ("lr-mortality", "lr-stay")
_LAST = ("last-mortality", "last-stay")
_GRUD = ("grud-mortality", "grud-stay")


def _auc(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, AUC) for name in names)


_PUBLISHED = (*_auc("lr-mortality"), *_auc("grud-mortality"))
PUBLISHED = Block(
    table="targets",
    title="ICU mortality without privacy",
    columns=_PUBLISHED,
    rows=(
        Row(
            name="no privacy",
            method="non-private",
            epsilon=math.inf,
            must=numbers(_PUBLISHED, ".7625 .8424"),
        ),
    ),
    words="The bounds are from Table 2 of Che et al., arXiv:1606.01865, version 2: AUC of mortality on "
    "set a, by cross-validation. GRU-D has .8424 ± .012, logistic regression of means, masks and times "
    "(LR-simple) .7625 ± .004, of the last values (LR-forward) .7423 ± .011. Theirs are 33 features, "
    "ours 44; ours are tested on set c.",
)
TARGETS = (LEVELS, PUBLISHED, FLOWS, FITS, REGIME)

ADULT = Block(
    table="adult",
    title="Adult, 12 features, 32,561 records",
    columns=_auc("adult"),
    rows=(
        *over(NONE, PLAIN | SQUARED),
        *over(EPSILONS, ZOOM | DP_SGD | DP_SGD_L2 | PERTURBED),
    ),
    words="Zoom and both perturbations have a delta of 0, DP-SGD one of 1e-5.",
)
TENTH = Block(
    table="tenth",
    title="Adult, every tenth record",
    columns=_auc("adult-tenth"),
    rows=(*over(NONE, PLAIN), *over(TENTH_EPSILONS, ZOOM | DP_SGD)),
)
WIDE = Block(
    table="features",
    title="Adult with more features",
    columns=_auc(*FEATURES.values()),
    rows=(
        *over(NONE, PLAIN),
        *over((1.0, 0.1), ZOOM | DP_SGD | {"objective perturbation": "objective"}),
    ),
)
ICU = Block(
    table="icu",
    title="ICU, logistic regression over all hours: 1,784 parameters",
    columns=_auc(*_ICU),
    rows=(
        *over(NONE, PLAIN | SQUARED),
        *over(ICU_EPSILONS, DP_SGD | DP_SGD_L2 | FLOW),
        *over((1.0,), LONGER),
    ),
    words="The paper's Table 1 has these epsilons. Of each flow, 1,000 draws; ten flows.",
)
_PRICED = tuple(Column(name, what) for name in _ICU for what in (NOISE, AUC))
ACCOUNTANTS = Block(
    table="icu-rdp",
    title="ICU, DP-SGD by two accountants",
    columns=_PRICED,
    rows=over(ICU_EPSILONS, BY_ACCOUNTANT),
    words="The same settings and the same budget; one accountant needs more noise than the other. The "
    "paper takes PRV, which like our PLD adds up distributions of privacy loss, and falls back to RDP.",
)
LAST = Block(
    table="icu-last",
    title="ICU, logistic regression over last values: 45 parameters",
    columns=_auc(*_LAST),
    rows=(
        *over(NONE, PLAIN),
        *over(LAST_EPSILONS, ZOOM | DP_SGD | {"objective perturbation": "objective"}),
    ),
    words="What is exact does not reach 1,784 parameters on 4,000 records. Of these 45, zoom learns "
    "mortality only at epsilon 10, and the long stay, where labels are nearly all the same, not at "
    "all.",
)
GRUD = Block(
    table="icu-grud",
    title="ICU, GRU-D with 16 hidden units: 5,865 parameters",
    columns=_auc(*_GRUD),
    rows=(*over(NONE, PLAIN | SQUARED), *over(GRUD_EPSILONS, DP_SGD | DP_SGD_L2 | FLOW)),
    words="Of each flow, 100 draws; three flows.",
)
NORMALIZED = Block(
    table="icu-ablations",
    title="ICU, GRU-D with batch normalization and with dropout",
    columns=_auc(*_GRUD),
    rows=(*over(NONE, PLAIN | SQUARED | ABLATIONS), *over((1.0,), DP_SGD | DROPPED)),
    words="Both are of the last state, as in the authors' code; dropout is .5. Batch normalization "
    "mixes records, so private classifiers have none. For the exponential mechanism the loss of a "
    "record must be a function of the parameters alone, so there is no dropout. (In the authors' code "
    "there is, while the flow is trained.)",
)
_BOUNDS = across(AUDIT, BOUND, EXCESS)
ATTACKS = Block(
    table="audit",
    title="What attackers find",
    columns=_BOUNDS,
    rows=(
        *over(
            (0.1,),
            {
                "one run: rejection": "one-run:rejection",
                "one run: flow as published, CONDITIONAL": "one-run:narrow",
                "one run: flow trained longer, CONDITIONAL": "one-run:sylvester",
            },
        ),
        *over(
            (0.5,),
            {
                "membership: grid": "membership:grid",
                "membership: flow as published, CONDITIONAL": "membership:narrow",
            },
        ),
    ),
    words="Lower bounds on epsilon at 95 % confidence, beside the nominal epsilon. A bound above it "
    "refutes the guarantee; one below it proves nothing.",
)


def _times(table: str, title: str, *names: str) -> Block:
    measures = (ACCOUNTING, FIRST, SECOND)
    return Block(
        table=table,
        title=title,
        columns=tuple(Column(f"{TIME}/{name}", what) for name in names for what in measures),
        rows=(*over(NONE, PLAIN | SQUARED), *over((1.0,), DP_SGD | DP_SGD_L2 | FLOW)),
        words="Real calls of `fit`. The first compiles, and finds the price, which is told apart; the "
        "second has other seeds. Newton's method fits logistic regression without privacy.",
    )


TIMES = _times("time", "Table 2: seconds to train, mortality", "lr-mortality", "grud-mortality")
TIMES_STAY = _times("time-stay", "Table 5: seconds to train, long stay", "lr-stay", "grud-stay")
_PAPER = _auc("lr-mortality", "lr-stay", "grud-mortality", "grud-stay")
PAPER = Block(
    table="3",
    title="Tables 3 and 4 of the paper: without privacy, on MIMIC-III",
    columns=_PAPER,
    rows=tuple(
        given(name, _PAPER, text, epsilon=math.inf)
        for name, text in {
            "Wang et al., as the paper cites them": ".887 .716 .891 .733",
            "Suriyakumar et al., as the paper cites them": ".82 .69 .79 .67",
            "the paper, cross-entropy": ".83 .681 .878 .722",
            "the paper, l2": ".839 .675 .875 .724",
            "the paper, cross-entropy, batch normalization": "- - .877 .722",
            "the paper, l2, batch normalization": "- - .855 .721",
        }.items()
    ),
    words="Other patients, other measurements and another definition of a long stay: not to be "
    "compared with ours cell by cell.",
)
SMALL = Block(
    table="small",
    title="Small: generated records",
    columns=_auc("generated"),
    rows=(
        *over(NONE, PLAIN),
        *over((1.0,), ZOOM | DP_SGD | PERTURBED | FLOW),
    ),
    words="`veilflow reproduce expm-nf --small` runs this table and the attacks in one run: 2,000 "
    "records with six features, no files.",
)
BLOCKS = (
    *TARGETS,
    ADULT,
    TENTH,
    WIDE,
    ICU,
    ACCOUNTANTS,
    LAST,
    GRUD,
    NORMALIZED,
    PAPER,
    ATTACKS,
    TIMES,
    TIMES_STAY,
    SMALL,
)
