"""A model with the interface of DensityFlow that learns nothing and costs no time."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from veilflow.models import artifact as artifacts
from veilflow.models.domain import Box
from veilflow.privacy.assumptions import Conditional
from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
from veilflow.privacy.ledger import Ledger
from veilflow.tabular import Rows, read_rows, write_rows

calls: list[dict[str, Any]] = []
LEDGER = (
    Ledger()
    .spend(Repeated(20, PoissonSampled(0.01, Gaussian(4.0))), purpose="training")
    .assuming(Conditional("a test"))
)


class DensityFlow:
    def __init__(self, **settings: Any):
        self.settings = settings

    def plan(self, dim: int) -> Any:
        return SimpleNamespace(ledger=LEDGER, takes=lambda: None)

    def fit(
        self,
        rows: Any,
        *,
        progress: bool = True,
        invalid: str = "error",
        checkpoint: Any = None,
        save_as: Any = None,
    ):
        how = {"progress": progress, "invalid": invalid, "checkpoint": checkpoint}
        calls.append({**self.settings, **how})
        rows = read_rows(rows)
        delta = self.settings["budget"].delta
        fitted = FittedDensityFlow(LEDGER, rows.columns, delta, np.zeros(2))
        if save_as is not None:
            fitted.save(save_as)
        return fitted


@dataclass(frozen=True)
class FittedDensityFlow:
    ledger: Ledger
    columns: tuple[str, ...] | None
    delta: float
    mean: np.ndarray
    kind = "DensityFlow"
    dim = 2
    domain = Box((-9.0,), (9.0,))

    @property
    def guarantee(self):
        return self.ledger.guarantee(delta=self.delta)

    def sample(self, n: int, *, seed: int | None = None) -> np.ndarray:
        return np.random.default_rng(seed).standard_normal((n, 2))

    def sample_to(self, path: Any, n: int, *, seed: int | None = None, monitor: Any = None) -> None:
        write_rows(Rows(self.sample(n, seed=seed), self.columns), path)
        monitor(n)

    def log_prob(self, rows: Any) -> np.ndarray:
        values = read_rows(rows).values
        return -0.5 * (values**2).sum(axis=1) - np.log(2 * np.pi)

    def to_artifact(self) -> artifacts.Artifact:
        return artifacts.Artifact(
            model="DensityFlow",
            manifest={"delta": self.delta},
            ledger=self.ledger,
            guarantee=self.guarantee,
            schema={"columns": None if self.columns is None else list(self.columns)},
            arrays={"mean": self.mean},
        )

    @classmethod
    def from_artifact(cls, artifact: artifacts.Artifact) -> "FittedDensityFlow":
        columns = artifact.schema["columns"]
        return cls(
            artifact.ledger,
            None if columns is None else tuple(columns),
            artifact.manifest["delta"],
            artifact.arrays["mean"],
        )

    def save(self, path: Any) -> None:
        artifacts.save(self.to_artifact(), path)
