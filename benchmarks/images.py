"""Image flows: the private step beside the plain one, whole fits, and the largest model there is.

The step is that of autoencoder and flow together (28 x 28 in gray, the published sizes), at a batch of
500, for one model and for one model of each of ten classes. Whole fits are of generated signs, ten
classes of 6,000, and of generated scenes in color, as many as CIFAR-10 has, on a GPU, and of
scikit-learn's digits on a CPU; each runs once in a process of its own, from its first line to its last,
compiling included.
"""

import json
import os
import subprocess
import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import veilflow as vf
from benchmarks import generated_images, setting
from benchmarks.records import Record, record
from benchmarks.timing import Contestant, clock, compare, in_fresh_process
from veilflow.engine import PerGroup, TrainingPlan
from veilflow.engine.blocks import choose_chunk
from veilflow.engine.parts import PartsStep
from veilflow.images import to_unit
from veilflow.nn.frozen import trainable_part

BATCH, ROUNDS, STEPS = 500, 10, 5
MUST_RATIO, MUST_FIT, MUST_DIGITS = 2.0, 45, 120
BUDGET = vf.Budget(epsilon=10.0, delta=1e-5)
LARGE_BATCH, LARGE_STEPS, LARGE_LIMIT = 1400, 30, 300
"""As published for faces of 256 x 256; steps that are timed; seconds for it all, with compiling."""


def run(*, quick: bool = False) -> list[Record]:
    """Measure, on the device that JAX computes on."""
    on_gpu = jax.default_backend() == "gpu"
    found = _steps(1, quick, must=MUST_RATIO if on_gpu else None)
    if on_gpu:
        found += _steps(10, quick, must=None)
        fit = in_fresh_process("benchmarks.images", "signs", str(600 if quick else 60_000))
        found.append(
            record("60,000 generated signs, ten classes: fit", fit["fit"], "s", must=MUST_FIT)
        )
        fit = in_fresh_process("benchmarks.images", "scenes", str(500 if quick else 50_000))
        found.append(record("50,000 generated scenes, 32x32x3, ten classes: fit", fit["fit"], "s"))
        found += _largest(2 if quick else LARGE_BATCH)
    elif not quick:
        fit = in_fresh_process("benchmarks.images", "digits", "0")
        found.append(record("digits, 8x8, ten classes: fit", fit["fit"], "s", must=MUST_DIGITS))
    return found


def _largest(batch: int) -> list[Record]:
    """A step of the largest model there is; without values where it did not come to one in time."""
    try:
        large = in_fresh_process("benchmarks.images", "large", str(batch), limit=LARGE_LIMIT)
    except subprocess.TimeoutExpired:
        large = {"step": None, "peak": None}
    return [
        record(f"256x256x3, batch {LARGE_BATCH}: step", large["step"], "s"),
        record(f"256x256x3, batch {LARGE_BATCH}: peak", large["peak"], "GB"),
    ]


def _steps(parts: int, quick: bool, *, must: float | None) -> list[Record]:
    """A private step over a plain one, for `parts` models side by side."""
    rounds, steps = (2, 1) if quick else (ROUNDS, STEPS)
    number = 12 * BATCH * parts
    pixels = np.random.default_rng(0).integers(0, 256, (number, 1, 28, 28), np.uint8)
    records = jnp.asarray(pixels), jnp.arange(number, dtype=jnp.int32) % parts
    words = setting.raw_keys(steps, seed=parts)
    calls = {
        name: Contestant(setting.as_call(*make(parts, steps), records, words))
        for name, make in {"private": _private, "plain": _plain}.items()
    }
    seconds = {k: v / steps for k, v in compare(calls, rounds=rounds).items()}
    models = "one model" if parts == 1 else f"{parts} models"
    name = f"private step / plain step, {models}, batch {BATCH}"
    ratio = seconds["private"] / seconds["plain"]
    return [
        record(name, ratio, "ratio", must=must, peer="plain Adam step"),
        record(f"private step, {models}, batch {BATCH}", 1e3 * seconds["private"], "ms"),
        record(f"plain step, {models}, batch {BATCH}", 1e3 * seconds["plain"], "ms"),
    ]


def _model(key: Any) -> Any:
    """Encoder, decoder and flow."""
    return vf.ImageArchitecture(size=(28, 28)).build(key=key)


def _loss(model: Any, image: Any, key: Any) -> Any:
    encoder, decoder, flow = model
    pixels = to_unit(image)
    code = encoder(pixels)
    errors = optax.sigmoid_binary_cross_entropy(decoder(code), pixels)
    return 1e5 * jnp.mean(errors) - flow.log_prob(code)


def _stacked(parts: int) -> Any:
    return eqx.filter_vmap(_model)(jax.random.split(jax.random.key(0), parts))


def _private(parts: int, steps: int) -> tuple[Any, Any]:
    one = _model(jax.random.key(0))
    plan = TrainingPlan(
        clipping=PerGroup.of(one, lambda m: (m[:2], m[2]), (0.07, 0.07)),
        noise_multiplier=1.0,
        sampling_rate=1 / 12,
        expected_batch_size=BATCH,
        steps=1000,
    )
    trainable, fixed = trainable_part(_stacked(parts))
    size = choose_chunk(one, plan)
    step = PartsStep(plan, _loss, None, fixed, size, num_parts=parts, at_once=parts)

    def go(state: Any, records: Any, words: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda i, s: step(s, records, words[i]), state)

    return step.init(jax.tree.map(jnp.array, trainable)), go


def _plain(parts: int, steps: int) -> tuple[Any, Any]:
    """The same without privacy: a uniform batch, the gradient of its mean loss, Adam."""
    trainable, fixed = trainable_part(_stacked(parts))
    adam = optax.adam(1e-3)

    def mean(trainable: Any, fixed: Any, images: Any) -> Any:
        model = eqx.combine(trainable, fixed)
        return jnp.mean(jax.vmap(lambda x: _loss(model, x, None))(images))

    def go(state: Any, records: Any, words: Any) -> Any:
        def one(i: Any, state: Any) -> Any:
            trainable, moments = state
            key = jax.random.wrap_key_data(words[i, 0])
            chosen = records[0][jax.random.randint(key, (parts, BATCH), 0, len(records[0]))]
            slope = eqx.filter_vmap(jax.grad(mean))(trainable, fixed, chosen)
            updates, moments = adam.update(slope, moments)
            return optax.apply_updates(trainable, updates), moments

        return jax.lax.fori_loop(0, steps, one, state)

    first = jax.tree.map(jnp.array, trainable)
    return (first, adam.init(first)), go


def measure(what: str, number: int) -> dict[str, Any]:
    """One whole fit, or steps of the largest model.

    Args:
        what: "signs", "scenes", "digits" or "large".
        number: Number of images; for the largest model, the expected batch size.
    """
    jax.config.update("jax_threefry_gpu_kernel_lowering", True)  # as the command line does
    if what == "large":  # trying out kernels for its many shapes takes minutes
        os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
    jnp.zeros(1).block_until_ready()  # the GPU's own start is no part of a fit
    if what == "large":
        spec = vf.ImageSpec(height=256, width=256, channels=3)
        rng = np.random.default_rng(0)
        images = rng.integers(0, 256, (10 * number, *spec.shape), np.uint8)
        seconds = {}
        for steps in (2, 2 + LARGE_STEPS):  # both compile; the second has some steps more
            training = vf.Training(steps=steps, sampling_rate=0.1)
            estimator = vf.ImageFlow(
                spec=spec, budget=BUDGET, num_records=len(images), training=training
            )
            seconds[steps] = clock(lambda e=estimator: e.fit(images, progress=False))
        stats = jax.devices()[0].memory_stats() or {}
        peak = stats.get("peak_bytes_in_use", 0) / 2**30
        step = (seconds[2 + LARGE_STEPS] - seconds[2]) / LARGE_STEPS
        return {"step": step, "first": seconds[2], "peak": peak}
    if what == "digits":
        from sklearn.datasets import load_digits

        found: Any = load_digits()
        spec = vf.ImageSpec(height=8, width=8, high=16, classes=range(10))
        images, labels = found.images, found.target
    elif what == "scenes":
        spec = vf.ImageSpec(height=32, width=32, channels=3, classes=range(10))
        images, labels = generated_images.scenes(number, seed=1)
    else:
        spec = vf.ImageSpec(height=28, width=28, classes=range(10))
        images, labels = generated_images.strokes(number, seed=1)
    estimator = vf.ImageFlow(spec=spec, budget=BUDGET, num_records=len(images))
    return {"fit": clock(lambda: estimator.fit(images, labels, progress=False))}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
