"""DP-HFlow (Lee et al., 2022): three tables, five figures."""

from reproductions.contents.entry import Entry, Number, Paper, Terms

_PAPER_FLOW = (
    "vf.TableFlow(schema=schema, budget=budget, flow=vf.hflow(), warm_start=False).fit(table)"
)
_OURS, _SOUND = "TableFlow", "DP-HFlow made sound"
_DRAWN = "reproductions/dp_hflow/figures.py"


def _both(table: str, column: str, metric: str) -> tuple[Number, ...]:
    """The paper's flow made sound, and the library's default."""
    return tuple(Number(ours=(table, row, column, metric)) for row in (_SOUND, _OURS))


ENTRIES = (
    Entry(
        kind="Table",
        number=1,
        what="distance of the rank correlations of Covertype",
        where=("vf.TableFlow", "reproductions/dp_hflow/measures.py"),
        call="veilflow reproduce dp-hflow --table 1",
        numbers=_both("1", "Covertype, 1", "Kendall RMSE"),
    ),
    Entry(
        kind="Table",
        number=2,
        what="macro-F1 of nine classifiers trained on synthetic rows",
        where=("vf.TableFlow", "reproductions/dp_hflow/measuring.py"),
        call="veilflow reproduce dp-hflow --table 2",
        numbers=_both("2", "Adult, 1", "macro-F1"),
        blocks=("shares",),
    ),
    Entry(
        kind="Table",
        number=3,
        what="AUROC and average precision of the same classifiers",
        where=("vf.TableFlow", "reproductions/dp_hflow/measuring.py"),
        call="veilflow reproduce dp-hflow --table 3",
        numbers=_both("3", "Census, 1", "AUROC"),
        blocks=("shares",),
    ),
    Entry(
        kind="Figure",
        number=1,
        what="architecture: dequantization, linear maps, splines with one network for all blocks",
        where=("vf.hflow",),
        call=_PAPER_FLOW,
        blocks=("flow",),
        note="A sketch; the table shows what each part brings.",
    ),
    Entry(
        kind="Figure",
        number=2,
        what="lengths of per-example gradients in three networks and their layers",
        where=("vf.hflow", "reproductions/dp_hflow/gradients.py"),
        call="veilflow reproduce dp-hflow --figures",
        note="The paper prints no number. Norms of single gradients are as private as the rows: they "
        "are shown of a public benchmark, and no setting is chosen by them.",
    ),
    Entry(
        kind="Figure",
        number=3,
        what="marginal distributions of Covertype and Adult",
        where=("vf.TableFlow", _DRAWN),
        call="veilflow reproduce dp-hflow --figures",
        note="The paper prints no number.",
    ),
    Entry(
        kind="Figure",
        number=4,
        what="log-likelihood and classification by clipping and by sparsity",
        where=("vf.Training", "reproductions/dp_hflow/ablations.py"),
        call="vf.TableFlow(schema=schema, budget=budget, flow=vf.hflow(), warm_start=False, "
        'training=vf.Training(clipping="sparsified", sparsity=0.5)).fit(table)',
        numbers=(Number(ours=("figure 4", "per unit", "Adult, 1", "test log-likelihood")),),
        note="The paper states neither epsilon nor scale.",
    ),
    Entry(
        kind="Figure",
        number=5,
        what="classification by dequantization over epsilon",
        where=("vf.hflow", "reproductions/dp_hflow/ablations.py"),
        call="vf.TableFlow(schema=schema, budget=budget, "
        'flow=vf.hflow(dequantization="variational"), warm_start=False).fit(table)',
        numbers=(Number(ours=("figure 5", "variational", "Adult, 10", "AUROC")),),
    ),
)

DP_HFLOW = Paper(
    system="dp-hflow",
    title="DP-HFlow",
    citation='Lee, Kim, Jeong and Ro, "Differentially private normalizing flows for synthetic tabular '
    'data generation" (2022)',
    terms=Terms(
        budget=(
            "(1, 1e-5) by Renyi accounting of batches that are not described; bounds and lists of "
            "values not accounted for",
            "the same epsilon and delta by privacy loss distributions for Poisson batches, "
            "everything declared or paid",
        ),
        rows=(
            "it does not state rows, columns, splits or scales, and names three of nine classifiers",
            "canonical splits of Adult and Census, random ones of Covertype and Intrusion, nine "
            "classifiers of scikit-learn; the share of what real rows reach compares better",
        ),
        tuning=(
            "not stated",
            "the planner's, from public facts, by rules that were fitted on generated tables",
        ),
    ),
    counts=(0, 3, 5),
    entries=ENTRIES,
)
