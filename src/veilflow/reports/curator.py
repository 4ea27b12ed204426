"""The curator's report: a model beside the data it was fitted to. INTERNAL, and marked so throughout.

It reads private records, and nothing of it is paid for. It shows histograms and means, never a row; a
few real images only where somebody asks for them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from veilflow.evaluation.classifiers import ClassifierScores, compare_classifiers
from veilflow.evaluation.rank_correlation import RankCorrelations
from veilflow.evaluation.table_report import table_report
from veilflow.models.detect.fitted_ensemble import FittedEnsemble
from veilflow.models.detect.likelihood import LikelihoodDetector
from veilflow.models.domain import Ball, Box, Domain
from veilflow.models.posterior.fitted_posterior import FittedPosterior
from veilflow.reports import svg, words
from veilflow.reports.columns import Tables, marginal_drawings, pair_drawings
from veilflow.reports.detector import detector_sections, ensemble_sections
from veilflow.reports.labeled import classifier_sections
from veilflow.reports.pictures import image_sections
from veilflow.reports.posterior import posterior_sections
from veilflow.reports.render import curator_html
from veilflow.tabular.codec import encode
from veilflow.tabular.columns import Numeric
from veilflow.tabular.io import read_rows
from veilflow.tabular.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

CLASSIFIERS = ("logistic regression", "random forest")
_MOST_PAIRS = 6
_NAMES = {"FittedPosterior": "FlowPosterior", "FittedEnsemble": "EnsembleDetector"}
_FIELDS = ("method", "lower_bound", "confidence", "sentence")


def curator_report(
    model: Any,
    data: Any,
    *,
    test: Any = None,
    labels: Any = None,
    label: str | None = None,
    show_images: bool = False,
    audit: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
    max_rows: int = 20_000,
    seed: int = 0,
) -> str:
    """The report as one HTML page that needs no network.

    Args:
        model: A fitted table, density, mixture, image model, classifier, posterior or detector.
        data: The rows or images it was fitted to: a path, a frame or an array; of a classifier of
            series, (values, mask, since). Not read for a posterior whose file holds no regression.
        test: Rows held out. Without them, scores are measured on the rows of the fit, and say so.
        labels: Of images, or of series: the labels, as for a fit; those of `test` where it is given.
        label: Of a classifier of rows: the column of labels.
        show_images: Show a few real images of each class beside synthetic ones.
        audit: What an audit of the model found, as JSON values; one or several.
        max_rows: The most rows to measure with; more are drawn from at random. For tables,
            densities and posteriors.
        seed: Of all that is drawn.

    Returns:
        A page that must not be published.

    Raises:
        TypeError: The model is of a kind that has no rows to compare.
    """
    name = type(model).__name__
    audits = _audits(audit)
    measured = data if test is None else test
    if isinstance(model, LikelihoodDetector):
        sections = detector_sections(model, measured, labels, seed=seed)
    elif isinstance(model, FittedEnsemble):
        sections = ensemble_sections(model, measured)
    elif isinstance(model, FittedPosterior):
        sections = posterior_sections(model, measured, max_rows=max_rows, seed=seed)
    elif hasattr(model, "spec"):
        sections = image_sections(model, measured, labels, show_images=show_images, seed=seed)
    elif hasattr(model, "predict_proba"):
        sections = classifier_sections(model, measured, label, labels=labels)
    elif hasattr(model, "sample") and (hasattr(model, "schema") or hasattr(model, "domain")):
        sections = _table_sections(model, data, test, max_rows=max_rows, seed=seed)
    else:
        raise TypeError(
            "the curator's report compares tables, densities, images, classifiers, posteriors and "
            f"detectors with their records; a {name} has no rows of its own to compare."
        )
    return curator_html(
        {
            "kind": words.kind(_NAMES.get(name, name.removeprefix("Fitted"))),
            "guarantee": model.guarantee,
            "audits": audits,
            "held_out": test is not None,
            **sections,
        }
    )


def _table_sections(
    model: Any, data: Any, test: Any, *, max_rows: int, seed: int
) -> dict[str, Any]:
    schema, vocabularies = _columns(model)
    if not hasattr(model, "schema"):  # rows of numbers, which may come without names
        data = read_rows(data, columns=model.columns).values
        test = None if test is None else read_rows(test, columns=model.columns).values
    real, real_rows = _frame(data, schema, vocabularies, max_rows, seed)
    held = real if test is None else _frame(test, schema, vocabularies, max_rows, seed)[0]
    synthetic = _synthetic(model, len(real), schema, seed)
    scores = table_report(
        real, held, synthetic, schema, classifiers=CLASSIFIERS if schema.label else (), seed=seed
    )
    tables = Tables(
        encode(real, schema, vocabularies=vocabularies),
        encode(synthetic, schema, vocabularies=vocabularies),
        schema,
        dict(vocabularies),
    )
    one_way, two_way = scores.marginals.one_way, scores.marginals.two_way
    return {
        "table": {
            "rows": real_rows,
            "used": len(real),
            "scores": scores,
            "marginals": marginal_drawings(tables, one_way),
            "pairs": pair_drawings(tables, two_way, most=_MOST_PAIRS),
            "correlations": _correlations(scores.rank_correlations),
            "baseline": _baseline(real, held, schema, seed) if test is not None else None,
        }
    }


def _columns(model: Any) -> tuple[Schema, Mapping[str, Sequence[str]]]:
    """The schema of a table; of a density, numbers within its bounds."""
    if hasattr(model, "schema"):
        return model.schema, model.vocabularies
    names = model.columns or tuple(f"x{i + 1}" for i in range(model.dim))
    low, high = _ends(model.domain, model.dim)
    columns = {n: Numeric(float(a), float(b)) for n, a, b in zip(names, low, high, strict=True)}
    return Schema(columns), {}


def _ends(domain: Domain, dim: int) -> tuple[np.ndarray, np.ndarray]:
    if isinstance(domain, Box):
        ends = (np.asarray(domain.low, float), np.asarray(domain.high, float))
    else:
        assert isinstance(domain, Ball)
        norm = domain.row_norm
        ends = (np.array([-norm]), np.array([norm]))
    return np.broadcast_to(ends[0], (dim,)), np.broadcast_to(ends[1], (dim,))


def _frame(
    source: Any, schema: Schema, vocabularies: Mapping[str, Sequence[str]], max_rows: int, seed: int
) -> "tuple[pd.DataFrame, int]":
    """Rows as a fit reads them, at most `max_rows`, and how many there were."""
    from veilflow.tabular.codec import decode

    if isinstance(source, np.ndarray):
        import pandas as pd

        source = pd.DataFrame(source, columns=list(schema.names))
    rows = encode(source, schema, vocabularies=vocabularies, extra="ignore", invalid="replace")
    count = len(rows)
    if count > max_rows:
        kept = np.random.default_rng(seed).choice(count, max_rows, replace=False)
        rows = rows.take(np.sort(kept))
    return decode(rows, schema, vocabularies=vocabularies), count


def _synthetic(model: Any, num_rows: int, schema: Schema, seed: int) -> "pd.DataFrame":
    drawn = model.sample(num_rows, seed=seed)
    if isinstance(drawn, np.ndarray):
        import pandas as pd

        return pd.DataFrame(drawn, columns=list(schema.names))
    return drawn


def _correlations(found: RankCorrelations) -> dict[str, Any] | None:
    if len(found.columns) < 2:
        return None
    named = ", ".join(found.columns)
    return {
        "columns": found.columns,
        "rmse": found.rmse,
        "panels": [
            (what, svg.signed(matrix, alt=f"{what} of {named}: blue is positive, orange negative."))
            for what, matrix in (
                ("Real", found.real),
                ("Synthetic", found.synthetic),
                ("Difference", found.synthetic - found.real),
            )
        ],
        "worst": _worst(found),
    }


def _worst(found: RankCorrelations) -> list[tuple[str, str, float, float]]:
    places = zip(*np.triu_indices(len(found.columns), 1), strict=True)
    pairs = [
        (found.columns[i], found.columns[j], float(found.real[i, j]), float(found.synthetic[i, j]))
        for i, j in places
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[3] - pair[2]))[:8]


def _baseline(
    real: "pd.DataFrame", held: "pd.DataFrame", schema: Schema, seed: int
) -> ClassifierScores | None:
    """What classifiers reach that learned from real rows, where rows were held out."""
    if schema.label is None:
        return None
    return compare_classifiers(held, real, schema, classifiers=CLASSIFIERS, seed=seed)


def _audits(audit: Any) -> list[dict[str, Any]]:
    """Audits as the report shows them; what is no audit is refused."""
    found = [] if audit is None else [audit] if isinstance(audit, Mapping) else list(audit)
    if not all(isinstance(one, Mapping) and all(name in one for name in _FIELDS) for one in found):
        raise ValueError(
            f"an audit must be what `veilflow audit --json` prints, with {', '.join(_FIELDS)}."
        )
    return [
        {**one, "claimed": one.get("claimed"), "exceeds_claim": bool(one.get("exceeds_claim"))}
        for one in found
    ]
