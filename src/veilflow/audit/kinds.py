"""Which released models rows can be held against, and how; the others say what can be done."""

from typing import Any


def attacked(model: Any) -> Any:
    """What in a released model has something to say about rows: of a detector, its density.

    Raises:
        ValueError: Nothing in it is about rows, or what is in it is not released.
    """
    from veilflow.models.detect.fitted_ensemble import FittedEnsemble
    from veilflow.models.detect.likelihood import LikelihoodDetector
    from veilflow.models.posterior.fitted_posterior import FittedPosterior

    if isinstance(model, LikelihoodDetector):
        return model.model
    if isinstance(model, FittedEnsemble):
        raise ValueError(
            "an ensemble is not audited with rows: of it only answers are released, and asking about "
            "rows would spend them. Its models are not private and never released, so an attack on "
            "them says nothing about the answers. Audit a likelihood detector or its model instead."
        )
    if isinstance(model, FittedPosterior):
        raise ValueError(
            "a posterior is a density of parameters, not of rows, so rows cannot be scored by it. In "
            "Python give vf.audit.audit an object with this guarantee and a method log_prob(rows) "
            "that averages the likelihood of each row over draws of the posterior."
        )
    return model


def is_table(model: Any) -> bool:
    """Whether a fitted model is one of tables with a schema."""
    from veilflow.models.table.fitted_table import FittedTableFlow

    return isinstance(model, FittedTableFlow)


def is_image(model: Any) -> bool:
    """Whether a fitted model is one of images."""
    from veilflow.models.image.fitted_image import FittedImageFlow

    return isinstance(model, FittedImageFlow)


def is_classifier(model: Any) -> bool:
    """Whether a model says how likely each class is."""
    return hasattr(model, "predict_proba") and hasattr(model, "classes")
