"""`veilflow account` and `veilflow calibrate`: privacy arithmetic, without any data."""

import enum
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.output import emit, guarded, statement

if TYPE_CHECKING:
    from veilflow.privacy.guarantees import Guarantee
    from veilflow.privacy.ledger import Ledger


class Accountant(enum.StrEnum):
    """Accountants, by the names that the library has for them."""

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


@dataclass(frozen=True, kw_only=True)
class Run:
    """Flags that describe a training run: Poisson batches, each with Gaussian noise.

    Attributes:
        sampling_rate: Probability that a record enters a batch.
        noise_multiplier: Standard deviation of the noise over the sensitivity.
        steps: Number of noisy releases.
    """

    sampling_rate: float | None = None
    noise_multiplier: float | None = None
    steps: int | None = None

    @property
    def ledger(self) -> "Ledger":
        """What the run spends."""
        from veilflow.privacy.events import Gaussian, PoissonSampled, Repeated
        from veilflow.privacy.ledger import Ledger

        rate, noise, steps = self.sampling_rate, self.noise_multiplier, self.steps
        if rate is None or noise is None or steps is None:
            raise ValueError("give --sampling-rate, --noise-multiplier and --steps, or --ledger.")
        step = PoissonSampled(rate, Gaussian(noise))
        return Ledger().spend(Repeated(steps, step), purpose="training")


_LEDGER_LIMIT = 64 * 2**20


@guarded
def account(
    run: Run,
    delta: float | None = None,
    accountant: AccountantFlag = Accountant.PLD,
    ledger: Path | None = None,
    as_json: options.AsJson = False,
) -> None:
    """Print epsilon of a training run (Poisson batches, Gaussian noise), or of a whole ledger.

    Flags:
        delta: The delta to state epsilon at; a model file has its own.
        ledger: Add up this ledger instead: a model file or ledger.json.
    """
    if ledger is None:
        spent = run.ledger
    elif run != Run():
        raise ValueError("--ledger has its own events: leave out the settings of a run.")
    else:
        spent, own_delta = _read_ledger(ledger)
        delta = own_delta if delta is None else delta
    if delta is None:
        raise ValueError("give --delta, such as 1e-5; it should be well below 1 / number of rows.")
    guarantee = spent.guarantee(delta=delta, accountant=accountant.value)
    result = {"epsilon": guarantee.epsilon, "delta": delta, "accountant": accountant.value}
    emit(result | _assumptions(guarantee), statement(guarantee), as_json=as_json)


@guarded
def calibrate(
    epsilon: float,
    delta: options.StatedDelta,
    run: Run,
    accountant: AccountantFlag = Accountant.PLD,
    as_json: options.AsJson = False,
) -> None:
    """Print the third of sampling rate, noise multiplier and steps, given the other two and a budget.

    Flags:
        epsilon: The epsilon to reach, not to exceed.
    """
    from veilflow.privacy import calibration
    from veilflow.privacy.budget import Budget

    budget, settings = Budget(epsilon, delta), asdict(run)
    missing = [name for name, value in settings.items() if value is None]
    if len(missing) != 1:
        raise ValueError(
            "give exactly two of --sampling-rate, --noise-multiplier and --steps; the third is "
            "calibrated."
        )
    name = missing[0]
    del settings[name]
    value = getattr(calibration, name)(budget, accountant=accountant.value, **settings)
    run = replace(run, **{name: value})
    guarantee = run.ledger.guarantee(delta=delta, accountant=accountant.value)
    result = {
        **asdict(run),
        "epsilon": guarantee.epsilon,
        "target_epsilon": epsilon,
        "delta": delta,
        "accountant": accountant.value,
    }
    text = f"{name} = {value!r}\n{statement(guarantee)}"
    emit(result | _assumptions(guarantee), text, as_json=as_json)


def _assumptions(guarantee: "Guarantee") -> dict[str, Any]:
    if not guarantee.assumptions:
        return {}
    return {"assumptions": [one.to_json() for one in guarantee.assumptions]}


def _read_ledger(path: Path) -> "tuple[Ledger, float | None]":
    """The ledger in a model file, with the delta stated there, or in a JSON file, without."""
    from veilflow._core import store
    from veilflow.models import artifact
    from veilflow.privacy.ledger import Ledger

    with open(path, "rb") as file:
        start = file.read(4)
        data = start + file.read(_LEDGER_LIMIT)
    if start == b"PK\x03\x04":
        content = artifact.read(path)
        return content.ledger, content.guarantee.delta
    return Ledger.from_json(store.parse_json(data, what=path.name)), None
