"""Settings of every test: strict JAX, repeatable hypothesis, data only where there is some."""

import ctypes
import gc
import os
from collections.abc import Iterator
from pathlib import Path

# Small programs that run once: a hasty code generator costs them nothing. What XLA itself does to a
# program (fusion, and the rounding that comes with it) stays as users have it. Set before JAX starts,
# and inherited by processes that a test starts.
_HASTY = (
    "--xla_backend_optimization_level=1",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
)
os.environ["XLA_FLAGS"] = " ".join((*_HASTY, os.environ.get("XLA_FLAGS", "")))

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

# Float32 stays the default: it is what the engine runs in, so it is what the tests measure.
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
# Fits of one kind compile the same programs again and again; all workers, and later runs, share them.
jax.config.update("jax_compilation_cache_dir", str(Path(__file__).parents[1] / ".pytest_cache/jax"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)

hypothesis.settings.register_profile(
    "veilflow",
    deadline=None,  # the first example of a jitted function compiles it
    derandomize=True,  # a red test stays red until it is mended
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("veilflow")


_OPTIMIZED = ("engine", "nn", "privacy", "models/image", "releases/expm")
"""Folders of tests that need programs as users get them: what fusion rounds is what they are about."""
_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Elsewhere the compiler takes most of the time, and most of that makes small programs faster."""
    folder = item.path.relative_to(_HERE).parent.as_posix()
    hasty = not folder.startswith(_OPTIMIZED)
    if hasty != jax.config.read("jax_disable_most_optimizations"):
        jax.clear_caches()  # which do not tell the two kinds of programs apart
    jax.config.update("jax_disable_most_optimizations", hasty)
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = str(hasty)  # for processes that a test starts


_MOST_MAPS = 20_000
"""Memory regions of a process. Linux allows 65,530, and every compiled program takes some."""
_MOST_PAGES = 350_000
"""Resident pages of a worker, 1.4 GB: compiled programs are most of what grows."""


@pytest.fixture(scope="module", autouse=True)
def _few_programs() -> Iterator[None]:
    """Drop compiled programs when they are many: at the limit the compiler ends the process."""
    yield
    process = Path("/proc/self")
    if not process.exists():
        return
    maps = (process / "maps").read_bytes().count(b"\n")
    pages = int((process / "statm").read_text().split()[1])
    if maps > _MOST_MAPS or pages > _MOST_PAGES:
        jax.clear_caches()
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc keeps freed memory otherwise
        if trim is not None:
            trim(0)


@pytest.fixture
def key() -> jax.Array:
    """A typed PRNG key, the same in every run: split it, spend each part once."""
    return jax.random.key(20_250_101)


@pytest.hookimpl(tryfirst=True)  # before tests are left out by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark cases beyond the few of a test as slow; skip tests marked `data` where there is none."""
    _leave_a_few(items)
    folder = os.environ.get("VEILFLOW_DATA")
    if folder and Path(folder).is_dir():
        return
    reason = "VEILFLOW_DATA is not set" if not folder else "VEILFLOW_DATA is not a folder here"
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason=f"needs real data sets: {reason}"))


def _leave_a_few(items: list[pytest.Item]) -> None:
    """Of a test marked `few(n)`, `n` cases spread over all of them stay in `make test`."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    for many in cases.values():
        mark = many[0].get_closest_marker("few")
        assert mark is not None
        (kept,) = mark.args
        chosen = {round(place * (len(many) - 1) / max(kept - 1, 1)) for place in range(kept)}
        for place, item in enumerate(many):
            if place not in chosen:
                item.add_marker("slow")
