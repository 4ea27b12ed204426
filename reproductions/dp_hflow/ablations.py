"""What each part brings, on Adult: the warm start, the parts of the paper's flow, clipping, noise."""

from reproductions.blocks import Block, Row, over
from reproductions.dp_hflow.estimators import SPARSITIES
from reproductions.dp_hflow.measures import across

EPSILONS = (0.5, 1.0, 3.0, 10.0)
CLIPPING_EPSILON = 1.0
"""Of Figure 4; the paper does not tell its own."""

STARTS = {
    "marginals alone, all of the budget": "marginals",
    "training alone": "codes-cold",
    "both": "codes",
}
PARTS = {
    "as it comes": "hflow",
    "one network for all blocks": "hflow-conditional",
    "LU instead of low rank": "hflow-lu",
    "no linear maps": "hflow-no-linear",
    "Adam instead of AdaBelief": "hflow-adam",
}
CLIPPINGS = {
    "flat": "hflow",
    "per layer": "hflow-per-layer",
    "per unit": "hflow-per-unit",
    "sparsified": "hflow-sparsified-0.5",
}
SPARSE = {0.0: "hflow-per-layer", **{s: f"hflow-sparsified-{s:g}" for s in SPARSITIES}}
"""By sparsity; at 0 it is clipping per layer."""
DEQUANTIZATIONS = {"uniform": "hflow", "variational": "hflow-variational"}

_QUALITY = across("adult", "auroc", "f1", "ap", "two-way", "one-way", "rmse", "likelihood")
_CLASSES = across("adult", "likelihood", "auroc", "f1", "ap")

WARM_START = Block(
    table="warm start",
    title="What marginals and training bring",
    columns=_QUALITY,
    rows=over(EPSILONS, STARTS),
)
FLOW = Block(
    table="flow",
    title="Parts of the paper's flow",
    columns=_QUALITY,
    rows=over((1.0, 10.0), PARTS),
)
FIGURE_4 = Block(
    table="figure 4",
    title="Figure 4: clipping",
    columns=_CLASSES,
    rows=(
        *over((CLIPPING_EPSILON,), CLIPPINGS),
        *(
            Row(name=f"sparsity {level:g}", method=method, epsilon=CLIPPING_EPSILON)
            for level, method in SPARSE.items()
        ),
    ),
    words="Sparsity 0 is clipping per layer. The paper: flat clipping has clearly lower likelihood, "
    "classification hardly differs, moderate sparsity changes little.",
)
FIGURE_5 = Block(
    table="figure 5",
    title="Figure 5: dequantization",
    columns=_CLASSES,
    rows=over(EPSILONS, DEQUANTIZATIONS),
    words="The paper: variational dequantization is better at large epsilon, uniform at small.",
)

ABLATIONS = (WARM_START, FLOW, FIGURE_4, FIGURE_5)
"""The tables of ablations."""
