"""A fitted classifier: probabilities, and the guarantee they carry."""

import os
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow.models import artifact as artifacts
from veilflow.models.domain import Domain
from veilflow.models.expm import files
from veilflow.models.expm.inputs import read_inputs
from veilflow.models.expm.network import Network
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger

_CHUNK = 1024
"""Records handled at once, by one compiled program."""


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedExpMechClassifier:
    """Released parameter vectors. All methods are post-processing: they cost nothing.

    What is computed for private records is as private as they are.

    Attributes:
        thetas: One row for each released model.
        network: What the parameters are of.
        domain: The declared bounds.
        columns: Names of the features, where they had any.
        classes: The declared values of a label.
        ledger: Every release that went into the model.
        guarantee: What the ledger adds up to, with its assumptions.
        settings: Public settings and released facts of the fit.
    """

    thetas: Float[np.ndarray, "models dim"] = field(repr=False)
    network: Network
    domain: Domain
    columns: tuple[str, ...] | None
    classes: tuple[Any, ...]
    ledger: Ledger
    guarantee: Guarantee
    settings: dict[str, Any]

    @cached_property
    def classes_(self) -> np.ndarray:
        """The classes as scikit-learn names them: the columns of `predict_proba`."""
        return np.array(self.classes)

    @property
    def conditional(self) -> bool:
        """Whether the guarantee rests on a sentence about the sampler that is not proved."""
        return any(text.startswith("CONDITIONAL") for text in self.guarantee.assumptions)

    def predict_proba(self, features: Any) -> Float[np.ndarray, "records classes"]:
        """The probability of each class, the mean over the released models.

        Args:
            features: As for `fit`.
        """
        inputs = read_inputs(features, columns=self.columns)
        wanted = self.settings["network"]["num_features"]
        if inputs.num_features != wanted:
            raise ValueError(f"features must be {wanted}, got {inputs.num_features}.")
        scaled, thetas = inputs.scaled(self.domain), jnp.asarray(self.thetas)
        found = np.empty((len(inputs), len(self.classes)))
        for start in range(0, len(inputs), _CHUNK):
            stop = min(start + _CHUNK, len(inputs))

            def take(array: np.ndarray, start: int = start, stop: int = stop) -> Array:
                filled = np.zeros((_CHUNK, *array.shape[1:]), array.dtype)
                filled[: stop - start] = array[start:stop]
                return jnp.asarray(filled)

            chunk = jax.tree.map(take, scaled)
            found[start:stop] = np.asarray(_mean(self.network, thetas, chunk))[: stop - start]
        return found

    def predict(self, features: Any) -> np.ndarray:
        """The likeliest class of each record.

        Args:
            features: As for `fit`.
        """
        return self.classes_[self.predict_proba(features).argmax(axis=1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one `*.veil` file, all or nothing."""
        artifacts.save(self.to_artifact(), path)

    def to_artifact(self) -> artifacts.Artifact:
        """The model as plain data."""
        return artifacts.Artifact(
            model="ExpMechClassifier",
            manifest=self.settings,
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema=files.schema_of(self.domain, self.columns, self.classes),
            arrays={"thetas": self.thetas},
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedExpMechClassifier":
        """The model that `to_artifact` described."""
        return cls(
            **files.read(artifact),
            ledger=artifact.ledger,
            guarantee=artifact.guarantee,
            settings=artifact.manifest,
        )

    def __repr__(self) -> str:
        kind = self.settings["network"]["name"]
        features = self.settings["network"]["num_features"]
        models = f", {len(self.thetas)} models" if len(self.thetas) > 1 else ""
        how = f"{kind}, {features} features, {len(self.classes)} classes{models}"
        word = "CONDITIONAL " if self.conditional else ""
        return (
            f"{type(self).__name__}({how}, by {self.settings['sampler']}; {word}{self.guarantee})"
        )


@partial(jax.jit, static_argnums=0)
def _mean(network: Network, thetas: Array, records: Any) -> Float[Array, "records classes"]:
    """Probabilities of all classes, one record a row."""
    each = jax.vmap(jax.vmap(network.outputs, (None, 0)), (0, None))(thetas, records)
    mean = jnp.mean(each, axis=0)
    return jnp.stack([1.0 - mean, mean], axis=1) if mean.ndim == 1 else mean
