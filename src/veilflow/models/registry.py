"""The classes that files are read by: a fixed table, so that a file cannot name code to import."""

import importlib
import os
from typing import Any

from veilflow._core.errors import ArtifactError, BudgetError
from veilflow.models import artifact as artifacts
from veilflow.models.artifact import Artifact

# Name in the manifest -> (module, class with a classmethod from_artifact). The module is the
# estimator's, because it imports every release that the plan in a file may name.
_MODELS: dict[str, tuple[str, str]] = {
    "ChainedImputer": ("veilflow.models.chained", "FittedImputer"),
    "DensityFlow": ("veilflow.models.density", "FittedDensityFlow"),
    "EnsembleDetector": ("veilflow.models.detect.ensemble", "FittedEnsemble"),
    "ExpMechClassifier": ("veilflow.models.expm.classifier", "FittedExpMechClassifier"),
    "FlowPosterior": ("veilflow.models.posterior.flow_posterior", "FittedPosterior"),
    "ImageFlow": ("veilflow.models.image.image_flow", "FittedImageFlow"),
    "LikelihoodDetector": ("veilflow.models.detect.likelihood", "LikelihoodDetector"),
    "MixtureDensity": ("veilflow.models.mixture", "FittedMixtureDensity"),
    "TableFlow": ("veilflow.models.table.table_flow", "FittedTableFlow"),
}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a fitted model from a `*.veil` file. Runs no code from the file.

    Args:
        path: A file that `save` wrote.

    Returns:
        The fitted model, of the class the file names.

    Raises:
        ArtifactError: The file is damaged, foreign, or of a model that this version does not know.
        OSError: There is no such file, or it may not be read.
    """
    model = from_artifact(artifacts.read(path))
    # an ensemble counts its answers in a journal beside its file
    return model.beside(path) if hasattr(model, "beside") else model


def from_artifact(artifact: Artifact) -> Any:
    """The fitted model that an artifact describes."""
    if artifact.model not in _MODELS:
        raise ArtifactError(
            f"the file holds a model of class {artifact.model[:40]!r}; known: "
            f"{', '.join(sorted(_MODELS))}. It may come from a newer version of veilflow."
        )
    module, name = _MODELS[artifact.model]
    cls = getattr(importlib.import_module(module), name)
    try:
        return cls.from_artifact(artifact)
    except (
        ArithmeticError,
        AttributeError,
        BudgetError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise ArtifactError(
            f"the settings and arrays in the file do not make a {artifact.model}: "
            f"{type(error).__name__}. Copy the file again from its source, or fit and save again."
        ) from error
