"""Our models beside the paper's: the one place where they are built.

No hyper-parameter is set here but what a row of the paper's tables says it is about: a base, how many
normals, and for one row the settings of the authors' code. What the library's planner picks follows
from public facts (number of rows and columns, epsilon, delta); its rules were fitted on generated data,
never on these splits.
"""

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import veilflow as vf
from reproductions.dp_nf import accounting, paper
from reproductions.dp_nf.data import Facts


def build(method: str, facts: Facts, *, epsilon: float, num_records: int) -> Any:
    """An estimator with a budget, ready to fit.

    Args:
        method: `flow` as it comes, `flow-counted` without a declared number of records; `start` for
            all that is released before the training, at the whole budget, and `start-rehearsed` for
            what a rehearsal makes of it; `flow-normal` for a flow trained from a spherical normal, and
            `flow-mixture-5` for the shape of five normals by private EM, trained even where a grid
            would do; `open-5` for the shape of five normals that are fitted without privacy;
            `mixture-8` for eight normals alone; `paper` for a flow with the settings of the
            authors' code, on Poisson batches.
        facts: What is public about the data.
        epsilon: The budget, at the data set's delta; infinite for a reference without privacy.
        num_records: The number of training rows, declared public.
    """
    kind, _, detail = method.partition("-")
    public: dict[str, Any] = {
        "budget": vf.Budget(epsilon=epsilon, delta=facts.delta),
        "num_records": num_records,
        **facts.domain,
    }
    if kind == "mixture":
        return vf.MixtureDensity(num_components=int(detail), **public)
    if kind == "open":
        return OverOpenMixture(int(detail), public)
    if kind == "start":
        rehearse = detail == "rehearsed"
        return vf.DensityFlow(training=vf.Training(steps=0), rehearse=rehearse, **public)
    if kind == "paper":
        settings = _of_paper(epsilon, facts.delta, num_records)
        start = {"base": "normal", "start": "whitening"}
        return vf.DensityFlow(flow=paper.FLOW, training=settings, **start, **public)
    if kind != "flow":
        raise ValueError(
            f"a method starts with flow, start, mixture, open or paper, got {method!r}."
        )
    if detail == "counted":
        return vf.DensityFlow(**{**public, "num_records": None})
    base, _, components = detail.partition("-")
    if base:
        public |= {"base": base, "start": "columns"}
    if components:
        public["num_components"] = int(components)
    return vf.DensityFlow(**public)


@dataclass(frozen=True)
class OverOpenMixture:
    """A shape over a mixture that reads rows without privacy: for comparison, no guarantee holds."""

    num_components: int
    public: dict[str, Any]

    def fit(self, rows: np.ndarray, *, progress: bool) -> vf.FittedDensityFlow:
        """The mixture, then the private training over it."""
        budget = replace(self.public["budget"], epsilon=math.inf)
        settings = {**self.public, "budget": budget, "num_components": self.num_components}
        base = vf.MixtureDensity(**settings).fit(rows, progress=progress)
        return vf.DensityFlow(base=base, **self.public).fit(rows, progress=progress)


def _of_paper(epsilon: float, delta: float, num_records: int) -> vf.Training:
    rate = paper.BATCH / num_records
    return vf.Training(
        steps=accounting.sound_steps(epsilon, rate=rate, delta=delta),
        batch_size=paper.BATCH,
        clip_norm=paper.CLIP_NORM,
        optimizer="adam",
        learning_rate=paper.RATE,
        schedule="constant",
        weight_decay=0.0,
        ema_decay=None,
    )


def fit(estimator: Any, rows: np.ndarray) -> Any:
    """The fitted model; a reference without privacy is what was asked for, and labeled as such."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vf.NotPrivateWarning)
        return estimator.fit(rows, progress=False)
