"""Examples run as they stand, and end by saying what was spent."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SMALL = {
    "anomalies.py": [],
    "classify_exactly.py": ["--candidates", "64"],
    "density.py": [],
    "digits_images.py": ["--steps", "20"],
    "planner.py": ["--steps", "20"],
    "posterior_numpyro.py": [],
    "rehearsal.py": ["--steps", "20"],
    "table.py": ["--steps", "20"],
}
"""Settings under which each example takes seconds."""
PAID = {
    "anomalies.py": "answers",
    "classify_exactly.py": "parameters",
    "density.py": "grid",
    "digits_images.py": "training",
    "planner.py": "training",
    "posterior_numpyro.py": "gradients and curvatures",
    "rehearsal.py": "mixture",
    "table.py": "training",
}
"""What each example spends most on."""
PURE = {"classify_exactly.py"}
"""Examples without a delta."""


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SMALL)


SLOW = {"planner.py", "rehearsal.py"}
"""Left to `make test-all`: their fits are those of other tests with other settings."""


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=[pytest.mark.slow] if x in SLOW else []) for x in SMALL]
)
def test_an_example_runs_and_ends_with_its_ledger_and_guarantee(name: str):
    if "numpyro" in name:
        pytest.importorskip("numpyro", reason="needs NumPyro, in the extra [posterior]")
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *SMALL[name]]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    _, after = run.stdout.split("\nledger\n")
    assert f"{PAID[name]}: epsilon" in after
    *_, title, guarantee = after.splitlines()
    assert title == "guarantee"
    delta = "0" if name in PURE else "1e-06"
    assert f", {delta})-differential privacy, add-remove one " in guarantee
