"""One default for images at every epsilon, looked for on generated garments, which are nobody's.

`python -m reproductions.dp_lflow.search` fits each choice at epsilon 1, 10 and without privacy to
60,000 garments of ten classes, several fits at a time, the most promising first: 35 fits, of which no
one starts after `--minutes`. A choice is judged by classifiers that learn from its samples, as they are
drawn and with post-processing, and are tested on 10,000 other garments. Finished fits are kept in
`reproductions/dp-lflow/search.json` and not done again. `--table` fits nothing and prints what is
there: the best default has the highest mean accuracy over epsilons.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.generated_images import SIZE, garments
from benchmarks.provenance import commit, machine, today

import veilflow as vf
from reproductions.cache import MEASURED
from reproductions.dp_lflow import estimators, measuring
from reproductions.dp_lflow.batch import share_the_device
from reproductions.dp_lflow.data import Data
from reproductions.dp_lflow.sharpening import versions
from veilflow.images import read_images

FILE = Path(__file__).parents[1] / "dp-lflow" / "search.json"
TRAINED, TESTED, SAMPLED = 60_000, 10_000, 20_000
DELTA, SHARPENED_AS = 1e-5, "fashion"
EPSILONS = (10.0, 1.0, math.inf)
_CLASSES = 10

Choice = Callable[[vf.ImageFlow], vf.ImageFlow]
"""From the estimator as planned to what is tried instead."""


def _networks(**changes: Any) -> Choice:
    return lambda usual: replace(usual, flow=replace(usual.plan().flow, **changes))


def _trained(then: Choice | None = None, **changes: Any) -> Choice:
    def changed(usual: vf.ImageFlow) -> vf.ImageFlow:
        usual = usual if then is None else then(usual)
        return replace(usual, training=vf.Training(**changes))

    return changed


_TOLD = _networks(decoder_sees_class=True)
_SMALL_BATCHES: dict[str, Any] = {"steps": 4000, "sampling_rate": 0.02}
EVERYWHERE: dict[str, Choice] = {
    "as planned": lambda usual: usual,
    "told decoder": _TOLD,
    "whole models": lambda usual: replace(usual, partition="models"),
    "told decoder, latent 32": _networks(decoder_sees_class=True, latent=32),
    "told decoder, spline": _networks(decoder_sees_class=True, scalar_map="spline"),
    "latent 32": _networks(latent=32),
    "spline": _networks(scalar_map="spline"),
    "told decoder, average": _trained(_TOLD, ema_decay=0.99),
    "told decoder, 1,600 steps": _trained(_TOLD, steps=1600),
    "told decoder, twice the images in a step": _trained(_TOLD, sampling_rate=0.2),
}
"""Choices for every epsilon; the last ones take twice as long."""
OPEN: dict[str, Choice] = {
    "small batches": _trained(**_SMALL_BATCHES),
    "small batches, half the rate": _trained(**_SMALL_BATCHES, learning_rate=(5e-4, 5e-4)),
    "small batches, thrice the rate": _trained(**_SMALL_BATCHES, learning_rate=(3e-3, 3e-3)),
    "thrice the rate": _trained(learning_rate=(3e-3, 3e-3)),
    "told decoder, small batches": _trained(_TOLD, **_SMALL_BATCHES),
}
"""Further ones without privacy."""


def tasks(seeds: int) -> Iterator[tuple[str, float, int]]:
    """Choice, epsilon and seed of every fit, the most promising first."""
    for seed in range(1, seeds + 1):
        for name in EVERYWHERE:
            yield from ((name, epsilon, seed) for epsilon in EPSILONS)
            if name == "told decoder":
                yield from ((other, math.inf, seed) for other in OPEN)


@lru_cache(maxsize=1)
def load() -> Data:
    """Garments to fit and to test on."""
    spec = vf.ImageSpec(height=SIZE, width=SIZE, classes=range(_CLASSES))
    drawn = (garments(number, seed=seed) for seed, number in enumerate((TRAINED, TESTED), start=1))
    return Data(*(read_images(pixels, spec, labels=labels) for pixels, labels in drawn))


def measure(name: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit, and what classifiers learn from its samples; plain JSON."""
    found = load()
    usual = vf.ImageFlow(
        spec=found.train.spec,
        budget=vf.Budget(epsilon=epsilon, delta=DELTA),
        num_records=len(found.train),
        seed=seed,
    )
    start = time.perf_counter()
    model = estimators.fit((EVERYWHERE | OPEN)[name](usual), found.train)
    seconds = time.perf_counter() - start
    made = model.sample(SAMPLED, seed=1000 + seed)
    parts = {
        part: measuring.measure(images, made.labels, found, seed=seed)
        for part, images in versions(SHARPENED_AS, made.pixels).items()
    }
    return {
        "choice": name,
        "epsilon": "inf" if epsilon == math.inf else epsilon,
        "seed": seed,
        **{
            part: {
                **{which: round(x["mean"], 2) for which, x in one["accuracies"].items()},
                "distance": round(one["fidelity"]["distance"], 4),
            }
            for part, one in parts.items()
        },
        "ood": round(measuring.outliers(model, found)["mean"], 4),
        "seconds": round(seconds, 1),
        "device": machine(),
        "commit": commit(*MEASURED),
        "date": today(),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """All finished fits."""
    return json.loads(path.read_text()) if path.exists() else []


def run(path: Path, *, seeds: int, workers: int, minutes: float, epsilons: Sequence[float]) -> None:
    """Make the fits that are not done; none starts after so many minutes."""
    done = read(path)
    known = {(one["choice"], float(one["epsilon"]), one["seed"]) for one in done}
    wanted = [task for task in tasks(seeds) if task not in known and task[1] in epsilons]
    until = time.time() + 60 * minutes
    with futures.ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for finished in futures.as_completed(
            [pool.submit(_in_time, until, *task) for task in wanted]
        ):
            if error := finished.exception():  # the others go on
                print(f"{type(error).__name__}: {error}", flush=True)
            elif found := finished.result():
                done.append(found)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("[\n" + ",\n".join(map(json.dumps, done)) + "\n]\n")
                print(json.dumps(found), flush=True)


def _in_time(until: float, *task: Any) -> dict[str, Any] | None:
    return None if time.time() > until else measure(*task)


def table(done: list[dict[str, Any]]) -> str:
    """A line for each choice and epsilon: mean accuracies and distances, best choices first."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for one in done:
        groups.setdefault((one["choice"], float(one["epsilon"])), []).append(one)

    def mean(found: list[dict[str, Any]], part: str, which: str) -> float:
        return statistics.fmean(one[part][which] for one in found)

    def line(name: str, epsilon: float, found: list[dict[str, Any]]) -> str:
        numbers = "  ".join(
            f"{part}: " + " ".join(f"{mean(found, part, which):6.2f}" for which in found[0][part])
            for part in ("raw", "sharpened")
        )
        return f"{epsilon:4g}  {name:40} {numbers}  OOD {statistics.fmean(x['ood'] for x in found):.4f}"

    def rank(item: tuple[tuple[str, float], list[dict[str, Any]]]) -> tuple[float, float]:
        (_, epsilon), found = item
        return epsilon, -statistics.fmean(mean(found, "raw", x) for x in ("CNN", "MLP", "LR"))

    head = "after raw and sharpened: LR, MLP and CNN in percent, distance of small features"
    return "\n".join(
        [head, *(line(*key, found) for key, found in sorted(groups.items(), key=rank))]
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        share_the_device(given.workers, given.file.parent / "compiled")
        run(
            given.file,
            seeds=given.seeds,
            workers=given.workers,
            minutes=given.minutes,
            epsilons=given.epsilon or EPSILONS,
        )
    print(table(read(given.file)))


if __name__ == "__main__":
    main()
