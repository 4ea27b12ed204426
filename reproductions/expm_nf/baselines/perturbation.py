"""What output and objective perturbation share: the pull to zero, and noise without direction."""

import os
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv, ndtri

import veilflow as vf
from reproductions.expm_nf.baselines.baseline import Baseline
from reproductions.expm_nf.baselines.convex import radius
from veilflow.privacy.assumptions import Conditional

TOLERANCE = 1e-7
"""Length of the gradient at which a minimum counts as found."""
DOUBLE_ASSUMPTION = Conditional("noise and sums in float64 count as exact")


@dataclass(frozen=True, kw_only=True)
class Perturbation(Baseline):
    """Logistic regression of two classes whose objective is strongly convex.

    Args:
        regularization: Half of it times the squared norm of the parameters is added to the sum of
            losses. More of it needs less noise, and pulls harder. None for a rule that knows epsilon
            and the number of features.
    """

    regularization: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.model, vf.expm.Logistic):
            raise ValueError(
                "a perturbation is for logistic regression: its proof is for convex losses."
            )
        if not self.budget.private:
            raise ValueError("epsilon must be finite. Without privacy use NonPrivateClassifier.")

    def _norm(self) -> float:
        return radius(self.model.num_features)

    def _usual(self, *, length: float) -> float:
        """The pull at which noise moves parameters by about `length`, whatever epsilon is.

        Of all rules that do without the number of records, this did well on generated problems.
        """
        return self.model.dim * self._norm() / (self.budget.epsilon * length)


def spherical(dim: int, *, scale: float) -> Float[np.ndarray, " dim"]:
    """A vector with a density proportional to exp(-length / scale), from operating-system entropy.

    Its direction is even over the sphere; its length has a gamma distribution of shape `dim`.
    """
    return scale * float(gammaincinv(dim, uniforms(1)[0])) * direction(dim)


def direction(dim: int) -> Float[np.ndarray, " dim"]:
    """A unit vector, all directions alike."""
    normals = standard_normals(dim)
    return normals / np.linalg.norm(normals)


def standard_normals(num: int) -> Float[np.ndarray, " num"]:
    """Standard normal numbers, as quantiles of 2^53 shares."""
    return ndtri(uniforms(num))


def uniforms(num: int) -> Float[np.ndarray, " num"]:
    """Numbers between 0 and 1, neither included, from operating-system entropy."""
    words = np.frombuffer(os.urandom(8 * num), dtype=np.uint64) >> np.uint64(11)
    return (words.astype(np.float64) + 0.5) * 2.0**-53
