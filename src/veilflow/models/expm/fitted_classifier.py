"""A fitted classifier: probabilities, and the guarantee they carry."""

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core.chunks import apply_in_chunks
from veilflow.models.domain import Domain
from veilflow.models.expm.classifier_plan import Class, classes_of
from veilflow.models.expm.inputs import read_inputs
from veilflow.models.fitted import ARRAYS, Fitted
from veilflow.releases.expm.draw import ExponentialDraw
from veilflow.releases.expm.network import Network
from veilflow.releases.plan import FitPlan

_CHUNK = 1024
"""Records per call of the compiled program."""


class Parameters(NamedTuple):
    """The arrays of a classifier."""

    thetas: Float[np.ndarray, "models dim"]


@dataclass(frozen=True, kw_only=True, repr=False)
class FittedExpMechClassifier(Fitted):
    """Released parameter vectors. All methods are post-processing: they cost nothing.

    A prediction for a private record is as private as the record.

    Attributes:
        domain: The declared bounds.
        columns: Names of the features, where they had any.
        classes: The declared values of a label.
        parameters: The released parameters.
    """

    kind: ClassVar[str] = "ExpMechClassifier"

    domain: Domain
    columns: tuple[str, ...] | None
    classes: tuple[Class, ...]
    parameters: Parameters = field(repr=False, metadata=ARRAYS)

    @property
    def thetas(self) -> Float[np.ndarray, "models dim"]:
        """The parameters, one row per released model."""
        return np.asarray(self.parameters.thetas)

    @property
    def network(self) -> Network:
        """The network that the parameters belong to."""
        return self._draw.target.network

    @cached_property
    def classes_(self) -> np.ndarray:
        """The columns of `predict_proba`, under the name that scikit-learn uses."""
        return np.array(self.classes)

    @property
    def conditional(self) -> bool:
        """Whether the guarantee rests on an unproved assumption about the sampler."""
        return self._draw.sampler.assumption is not None

    @property
    def _draw(self) -> ExponentialDraw:
        return self.plan.release(ExponentialDraw)

    def predict_proba(self, features: Any) -> Float[np.ndarray, "records classes"]:
        """The probability of each class, averaged over the released models.

        Args:
            features: As for `fit`.
        """
        inputs, network = read_inputs(features, columns=self.columns), self.network
        if inputs.num_features != network.num_features:
            raise ValueError(
                f"records must have {network.num_features} features, got {inputs.num_features}."
            )
        thetas = jnp.asarray(self.thetas)
        probabilities = apply_in_chunks(
            lambda part: _mean(network, thetas, part), inputs.scaled(self.domain), size=_CHUNK
        )
        return probabilities.astype(np.float64)

    def predict(self, features: Any) -> np.ndarray:
        """The likeliest class of each record.

        Args:
            features: As for `fit`.
        """
        return self.classes_[self.predict_proba(features).argmax(axis=1)]

    @classmethod
    def shapes(cls, plan: FitPlan, public: dict[str, Any], *, num_numbers: int) -> Parameters:
        release = plan.release(ExponentialDraw)
        network, columns = release.target.network, public["columns"]
        public["domain"].check_dim(network.num_features)
        if columns is not None and len(columns) != network.num_features:
            raise ValueError("columns must name every feature.")
        if len(classes_of(public["classes"])) != network.num_classes:
            raise ValueError("there must be as many classes as the network has.")
        shape = (release.num_models, network.dim)
        thetas: Any = jax.ShapeDtypeStruct(shape, np.dtype(np.float32))
        return Parameters(thetas)

    def _about(self) -> str:
        draw = self._draw
        kind, features = type(draw.target.network).__name__, draw.target.network.num_features
        models = f", {draw.num_models} models" if draw.num_models > 1 else ""
        how = f"{kind}, {features} features, {len(self.classes)} classes{models}"
        return f"{how}, by {draw.sampler.name}{', CONDITIONAL' if self.conditional else ''}"


@partial(jax.jit, static_argnums=0)
def _mean(network: Network, thetas: Array, records: Any) -> Float[Array, "records classes"]:
    """Probabilities of all classes, one record per row."""
    each = jax.vmap(jax.vmap(network.outputs, (None, 0)), (0, None))(thetas, records)
    mean = jnp.mean(each, axis=0)
    return jnp.stack([1.0 - mean, mean], axis=1) if mean.ndim == 1 else mean
