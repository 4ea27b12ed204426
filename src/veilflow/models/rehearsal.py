"""Rehearsal: a whole private fit on rows that anybody may see, to learn what to expect of it.

Rows are twins of a released model (`models/twins.py`) or given. The start is released anew from them,
with the noise of the plan, and the flow is trained over it with the planned rate, steps, clip and
noise (`models/rehearsed_training.py`). What comes out is scored on rows that were held out. All of it
is post-processing of what was released before and costs no budget.

Settings that do worse on one twin do not go on to the next (successive halving).
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from veilflow._core import check
from veilflow._core.keys import Secret
from veilflow.flows import AbstractBase
from veilflow.models.density import DensityFlow
from veilflow.models.density_parts import openly_behind_maps
from veilflow.models.estimator import Fit
from veilflow.models.fitted_density import FittedDensityFlow
from veilflow.models.mixture import FittedMixtureDensity
from veilflow.models.rehearsed_training import Program, Rehearsed, rehearsed
from veilflow.models.rows import RowEstimator
from veilflow.models.twins import KINDS, Start
from veilflow.releases.release import Release, Tools
from veilflow.releases.training import PrivateTraining, Task, arrays_of

Rows = Float[np.ndarray, "rows dim"]


@dataclass(frozen=True)
class Rehearsal:
    """What was rehearsed, and what came out.

    Attributes:
        kinds: The kinds of rows, in the order in which they were tried.
        scores: For each settings by name: the mean log-density of held-out rows of each kind, in the
            units of the data. Settings that were dropped have fewer scores.
    """

    kinds: tuple[str, ...]
    scores: dict[str, tuple[float, ...]]

    @property
    def best(self) -> str:
        """The name of the settings with the highest mean score, among those that were not dropped."""
        last = {n: s for n, s in self.scores.items() if len(s) == len(self.kinds)}
        return max(last, key=lambda name: sum(last[name]))

    def expected(self, name: str) -> float:
        """The mean score of settings over the kinds of rows on which they were tried."""
        return float(np.mean(self.scores[name]))

    def __str__(self) -> str:
        width = max(map(len, self.scores))
        head = f"{'':{width}}  " + "  ".join(f"{kind:>8}" for kind in self.kinds)
        lines = [
            f"{name:{width}}  " + "  ".join(f"{score:8.3f}" for score in scores)
            for name, scores in self.scores.items()
        ]
        return "\n".join([head, *lines, f"best: {self.best}"])


def rehearse(
    settings: Mapping[str, DensityFlow],
    *,
    on: FittedDensityFlow | FittedMixtureDensity | Rows,
    kinds: Sequence[str] = KINDS,
    held_out: int = 1000,
    halve: bool = True,
    seed: int = 0,
) -> Rehearsal:
    """Fit each of `settings` to public rows and score it on held-out ones. Costs no budget.

    Args:
        settings: Estimators by name, of which the first is never dropped. Those that differ in
            learning rate, clip norm or weight decay alone share one program.
        on: A released model whose twins are used, as many rows as its records; or public rows, the
            last of which are held out.
        kinds: The kinds of twins, of "flow", "bent" and "sheet".
        held_out: The number of held-out rows.
        halve: Drop the worse half of the settings after each kind.
        seed: Public. It decides twins, noise and batches, which are the same for all settings. No
            fit has its keys, not even one with this seed.

    Raises:
        ValueError: Settings cannot be rehearsed, or there are none.

    Example:
        >>> import veilflow as vf
        >>> plain = vf.DensityFlow(budget=vf.Budget(epsilon=1.0, delta=1e-6), bounds=(0, 1))
        >>> model = vf.load("model.veil")  # doctest: +SKIP
        >>> print(vf.rehearse({"plain": plain}, on=model))  # doctest: +SKIP
    """
    if not settings:
        raise ValueError("there are no settings to rehearse. Give at least one estimator by name.")
    check.count(held_out=held_out)
    if isinstance(on, FittedDensityFlow | FittedMixtureDensity):
        start, size = Start.of(on), on.facts["num_records"] + held_out
        given = {kind: start.twin(kind, size, seed=seed) for kind in kinds}
    else:
        given = {"rows": np.asarray(on, np.float64)}
    first, left = next(iter(settings)), list(settings)
    scores: dict[str, tuple[float, ...]] = dict.fromkeys(settings, ())
    for rows in given.values():
        if len(rows) <= held_out:
            raise ValueError(f"{held_out} of {len(rows)} rows are to be held out. Give more rows.")
        stage = _Stage(rows[:-held_out], rows[-held_out:], seed)
        for name, score in stage.scores({n: settings[n] for n in left}).items():
            scores[name] = (*scores[name], score)
        if halve:
            ranked = sorted(left, key=lambda name: sum(scores[name]), reverse=True)
            kept = {first, *ranked[: math.ceil(len(left) / 2)]}
            left = [name for name in left if name in kept]
    return Rehearsal(tuple(given), scores)


def release_openly(estimator: RowEstimator[Any], release: Release, fit: Fit) -> None:
    """Run a release of a fit to public rows, outside of a run: nothing is paid."""
    query = estimator.query(release, fit)
    value = release.run(query.records, Tools(fit.secret), **query.known)
    value = value if release.event is None else value.value
    fit.released[release.purpose] = release.result(value)


@dataclass(frozen=True)
class _Stage:
    """Public rows to be fitted, and others to be scored."""

    rows: Rows
    held_out: Rows
    seed: int
    _starts: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def scores(self, settings: Mapping[str, DensityFlow]) -> dict[str, float]:
        """The score of each settings; trainings of the same program run together."""
        fits = {name: self._started(estimator) for name, estimator in settings.items()}
        groups: dict[Program, list[str]] = {}
        for name, fit in fits.items():
            training = fit.plan.release(PrivateTraining)
            if training is not None:
                groups.setdefault(Program.of(training, fit.plan.flow), []).append(name)
        for program, names in groups.items():
            self._train(program, {n: (settings[n], fits[n]) for n in names})
        return {name: self._score(settings[name], fit) for name, fit in fits.items()}

    def _started(self, estimator: DensityFlow) -> Fit:
        """The fit before its training. Settings whose starts are the same have the same start."""
        plan = estimator.plan(self.rows.shape[1])
        before = tuple(r for r in plan.releases if not isinstance(r, PrivateTraining))
        fit = Fit(plan, estimator.read(self.rows), Secret.from_seed(self.seed).child("rehearse"))
        before_training = (before, plan.flow)  # a shape is prepared for its architecture
        if before_training in self._starts:
            fit.released.update(self._starts[before_training])
            return fit
        for release in before:
            release_openly(estimator, release, fit)
        self._starts[before_training] = dict(fit.released)
        return fit

    def _train(self, program: Program, fits: dict[str, tuple[DensityFlow, Fit]]) -> None:
        """Run the trainings of a program, and write down what they give."""
        jobs: list[Rehearsed] = []
        for estimator, fit in fits.values():
            training = fit.plan.release(PrivateTraining)
            task: Task = estimator.query(training, fit).known["task"]
            jobs.append(Rehearsed(task, openly_behind_maps(self.rows, fit)))
        key = jax.random.key(self.seed)
        for (_, fit), model in zip(fits.values(), rehearsed(program, jobs, key), strict=True):
            fit.released[PrivateTraining.purpose] = [np.asarray(x) for x in arrays_of(model)]

    def _score(self, estimator: DensityFlow, fit: Fit) -> float:
        """The mean log-density of the held-out rows; minus infinity if the training diverged."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it diverged is what the score will say
            model = estimator.assemble(replace(fit))
        rows = jnp.asarray(model.domain.encode(self.held_out), jnp.float32)
        score = float(_mean_log_prob(model.density, rows)) - model.domain.log_scale(model.dim)
        return score if math.isfinite(score) else -math.inf


@eqx.filter_jit
def _mean_log_prob(density: AbstractBase, rows: Float[Array, "rows dim"]) -> Float[Array, ""]:
    return jnp.mean(jax.vmap(density.log_prob)(rows))
