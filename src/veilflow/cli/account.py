"""`veilflow account` and `veilflow calibrate`: privacy arithmetic, without any data."""

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veilflow.cli import options
from veilflow.cli.output import emit, guarded, statement

if TYPE_CHECKING:
    from veilflow.privacy.ledger import Ledger


class Accountant(enum.StrEnum):
    """Whose sums count; the library is asked by the same words."""

    PLD = "pld"
    RDP = "rdp"
    ZCDP = "zcdp"
    GDP = "gdp"
    PURE = "pure"
    BASIC = "basic"
    DP_ACCOUNTING = "dp-accounting"


AccountantFlag = Annotated[
    Accountant,
    typer.Option(
        help="pld is tight; dp-accounting is another library's pld, slow; rdp and zcdp are looser "
        "bounds; gdp is an approximation."
    ),
]
SamplingRate = Annotated[
    float | None, typer.Option(help="Probability that a record enters a batch.")
]
NoiseMultiplier = Annotated[
    float | None, typer.Option(help="Noise standard deviation over sensitivity.")
]
Steps = Annotated[int | None, typer.Option(help="Number of noisy releases.")]

_LEDGER_LIMIT = 64 * 2**20


@guarded
def account(
    sampling_rate: SamplingRate = None,
    noise_multiplier: NoiseMultiplier = None,
    steps: Steps = None,
    delta: Annotated[
        float | None, typer.Option(help="The delta to state epsilon at; a model file has its own.")
    ] = None,
    accountant: AccountantFlag = Accountant.PLD,
    ledger: Annotated[
        Path | None, typer.Option(help="Add up this ledger instead: a model file or ledger.json.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Epsilon of a training run (Poisson batches, Gaussian noise), or of a whole ledger."""
    settings = (sampling_rate, noise_multiplier, steps)
    if ledger is not None:
        if any(value is not None for value in settings):
            raise ValueError("--ledger has its own events: leave the settings of a run away.")
        spent, own_delta = _read_ledger(ledger)
        delta = own_delta if delta is None else delta
    elif sampling_rate is None or noise_multiplier is None or steps is None:
        raise ValueError("give --sampling-rate, --noise-multiplier and --steps, or --ledger.")
    else:
        spent = _training(sampling_rate, noise_multiplier, steps)
    if delta is None:
        raise ValueError("give --delta, such as 1e-5; it should be well below 1 / number of rows.")
    guarantee = spent.guarantee(delta=delta, accountant=accountant.value)
    result = {"epsilon": guarantee.epsilon, "delta": delta, "accountant": accountant.value}
    if guarantee.assumptions:
        result["assumptions"] = [one.to_json() for one in guarantee.assumptions]
    emit(result, statement(guarantee), as_json=as_json)


@guarded
def calibrate(
    epsilon: Annotated[float, typer.Option(help="The epsilon to reach, not to exceed.")],
    delta: options.StatedDelta,
    sampling_rate: SamplingRate = None,
    noise_multiplier: NoiseMultiplier = None,
    steps: Steps = None,
    accountant: AccountantFlag = Accountant.PLD,
    as_json: options.AsJson = False,
) -> None:
    """The third of sampling rate, noise multiplier and steps, given the two others and a budget."""
    from veilflow.privacy import calibration
    from veilflow.privacy.budget import Budget

    budget = Budget(epsilon, delta)
    who = accountant.value
    if sampling_rate is not None and steps is not None and noise_multiplier is None:
        noise_multiplier = calibration.noise_multiplier(
            budget, sampling_rate=sampling_rate, steps=steps, accountant=who
        )
        found = f"noise_multiplier = {noise_multiplier!r}"
    elif sampling_rate is not None and noise_multiplier is not None and steps is None:
        steps = calibration.steps(
            budget, sampling_rate=sampling_rate, noise_multiplier=noise_multiplier, accountant=who
        )
        found = f"steps = {steps!r}"
    elif steps is not None and noise_multiplier is not None and sampling_rate is None:
        sampling_rate = calibration.sampling_rate(
            budget, steps=steps, noise_multiplier=noise_multiplier, accountant=who
        )
        found = f"sampling_rate = {sampling_rate!r}"
    else:
        raise ValueError(
            "give exactly two of --sampling-rate, --noise-multiplier and --steps; the third is "
            "calibrated."
        )
    spent = _training(sampling_rate, noise_multiplier, steps)
    guarantee = spent.guarantee(delta=delta, accountant=who)
    result = {
        "sampling_rate": sampling_rate,
        "noise_multiplier": noise_multiplier,
        "steps": steps,
        "epsilon": guarantee.epsilon,
        "target_epsilon": epsilon,
        "delta": delta,
        "accountant": who,
    }
    if guarantee.assumptions:
        result["assumptions"] = [one.to_json() for one in guarantee.assumptions]
    emit(result, f"{found}\n{statement(guarantee)}", as_json=as_json)


def _training(sampling_rate: float, noise_multiplier: float, steps: int) -> "Ledger":
    from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
    from veilflow.privacy.ledger import Ledger

    step = PoissonSampled(sampling_rate, Gaussian(noise_multiplier))
    return Ledger().spend(Repeated(steps, step), purpose="training")


def _read_ledger(path: Path) -> "tuple[Ledger, float | None]":
    """The ledger in a model file, with the delta stated there, or in a JSON file, without."""
    from veilflow._core import store
    from veilflow.models import artifact
    from veilflow.privacy.ledger import Ledger

    with open(path, "rb") as file:
        start = file.read(4)
        data = start + file.read(_LEDGER_LIMIT)
    if start == b"PK\x03\x04":
        found = artifact.read(path)
        return found.ledger, found.guarantee.delta
    return Ledger.from_json(store.parse_json(data, what=path.name)), None
