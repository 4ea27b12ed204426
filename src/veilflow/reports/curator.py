"""The curator's report: a model beside the data it was fitted to. INTERNAL, and marked so throughout.

It reads private records, and no budget pays for that. It shows histograms and means, never a row, and a
few real images only on request.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from veilflow.reports import words
from veilflow.reports.detector import detector_sections, ensemble_sections
from veilflow.reports.labeled import classifier_sections
from veilflow.reports.pictures import image_sections
from veilflow.reports.posterior import posterior_sections
from veilflow.reports.render import curator_html
from veilflow.reports.tables import table_sections

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
        data: The rows or images it was fitted to: a path, a frame or an array; for a classifier of
            series, (values, mask, since). Not read for a posterior whose file holds no regression.
        test: Rows held out. Without them, scores are measured on the rows of the fit, and say so.
        labels: For images, or for series: the labels, as for a fit; those of `test` if it is given.
        label: For a classifier of rows: the column of labels.
        show_images: Show a few real images of each class beside synthetic ones.
        audit: The results of audits of the model, as JSON values; one or several.
        max_rows: The most rows to measure with; of more rows, a random sample is used. For tables,
            densities and posteriors.
        seed: The seed of everything that is drawn.

    Returns:
        A page that must not be published.

    Raises:
        TypeError: The model is of a kind that has no rows to compare.
    """
    audits = _audits(audit)
    measured = data if test is None else test
    kind = getattr(model, "kind", None)
    match kind:
        case "TableFlow" | "DensityFlow" | "MixtureDensity":
            sections = table_sections(model, data, test, max_rows=max_rows, seed=seed)
        case "ImageFlow":
            sections = image_sections(model, measured, labels, show_images=show_images, seed=seed)
        case "ExpMechClassifier":
            sections = classifier_sections(model, measured, label, labels=labels)
        case "FlowPosterior":
            sections = posterior_sections(model, measured, max_rows=max_rows, seed=seed)
        case "LikelihoodDetector":
            sections = detector_sections(model, measured, labels, seed=seed)
        case "EnsembleDetector":
            sections = ensemble_sections(model, measured)
        case _:
            raise TypeError(
                "the curator's report compares tables, densities, images, classifiers, posteriors "
                f"and detectors with their records; a {type(model).__name__} has no rows of its own "
                "to compare."
            )
    return curator_html(
        {
            "kind": words.kind(kind),
            "guarantee": model.guarantee,
            "audits": audits,
            "held_out": test is not None,
            **sections,
        }
    )


def _audits(audit: Any) -> list[dict[str, Any]]:
    """Audits as the report shows them.

    Raises:
        ValueError: Something is not the result of an audit.
    """
    audits = [] if audit is None else [audit] if isinstance(audit, Mapping) else list(audit)
    if not all(isinstance(one, Mapping) and set(_FIELDS) <= set(one) for one in audits):
        raise ValueError(
            f"an audit must be what `veilflow audit --json` prints, with {', '.join(_FIELDS)}."
        )
    return [
        {**one, "claimed": one.get("claimed"), "exceeds_claim": bool(one.get("exceeds_claim"))}
        for one in audits
    ]
