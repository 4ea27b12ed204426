"""One full private step (sample, clip, noise, Adam) against one full plain Adam step.

Masked autoregressive flow of 10 features, 5 blocks, 2x256 hidden units, float32, 24,000 records. Each
call takes several steps inside one compiled loop, as training does; the two take turns.
"""

import jax

from benchmarks import setting
from benchmarks.records import Record, record
from benchmarks.timing import Contestant, compare

MUST = {"cpu": {512: 1.5, 2048: 1.25}, "gpu": {2048: 1.3}}
ROUNDS, STEPS = 20, 10
CHUNK = 256
"""Part of the batch that fits the cache of a processor."""


def run(*, quick: bool = False) -> list[Record]:
    """Measure, on the device that JAX computes on."""
    rounds, steps = (3, 2) if quick else (ROUNDS, STEPS)
    backend = jax.default_backend()
    model, rows = setting.flow(), setting.records()
    found = []
    for batch, must in MUST[backend].items():
        words = setting.raw_keys(steps, seed=batch)
        sides = {
            "private": setting.private_steps(model, batch, steps),
            "plain": setting.plain_steps(model, batch, steps),
            "float noise": setting.private_steps(model, batch, steps, kind=setting.FloatNoise),
        }
        # two plain steps that may be faster: a reader should see the best there is
        sides["unrolled"] = setting.plain_steps(setting.unrolled(model), batch, steps)
        if backend == "cpu":
            sides["in parts"] = setting.plain_steps(model, batch, steps, chunk=CHUNK)
        calls = {
            name: Contestant(setting.as_call(state, go, rows, words))
            for name, (state, go) in sides.items()
        }
        seconds = {k: v / steps for k, v in compare(calls, rounds=rounds).items()}
        found += [
            record(
                f"private step / plain step, batch {batch}",
                seconds["private"] / seconds["plain"],
                "ratio",
                must=must,
                peer="plain Adam step",
            ),
            record(
                f"private step / the same with float32 normals, batch {batch}",
                seconds["private"] / seconds["float noise"],
                "ratio",
                must=1.10,
                peer="noise by jax.random.normal, which is not safe",
            ),
            record(f"private step, batch {batch}", 1e3 * seconds["private"], "ms"),
            record(f"plain step, batch {batch}", 1e3 * seconds["plain"], "ms"),
        ]
        found.append(
            record(
                f"private step / plain step with unrolled blocks, batch {batch}",
                seconds["private"] / seconds["unrolled"],
                "ratio",
                peer="plain Adam step, blocks unrolled",
            )
        )
        if "in parts" in seconds:
            name = f"private step / plain step in parts of {CHUNK}, batch {batch}"
            ratio = seconds["private"] / seconds["in parts"]
            found.append(record(name, ratio, "ratio", peer="plain Adam step, gradient in parts"))
    return found
