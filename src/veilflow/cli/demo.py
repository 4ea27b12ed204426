"""`veilflow demo`: the whole story in a minute, on generated data."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from veilflow.cli import options
from veilflow.cli.output import emit, guarded, note, statement

if TYPE_CHECKING:
    import numpy as np

_NUM_RECORDS = 50_000
_NUM_COMPARED = 5_000  # rows in the curator's report: enough to see, and quick
_POINTS = 4000  # in a panel of the figure; more only hide each other
_GRID = 160
_LOW, _HIGH = (-1.5, -1.0), (2.5, 1.5)  # around the moons; they follow from the generator


@guarded
def demo(
    out: Path = Path("demo"),
    epsilon: options.Epsilon = 2.0,
    delta: options.StatedDelta = 1e-6,
    as_json: options.AsJson = False,
) -> None:
    """Fit a private density to generated data; leave synthetic rows, the model, a figure and reports.

    Files of an earlier demo in the same folder are replaced.

    Flags:
        out: The folder to write into.
    """
    from veilflow.datasets import moons
    from veilflow.models.density import DensityFlow
    from veilflow.privacy.budget import Budget
    from veilflow.tabular.io import Rows, write_rows

    out.mkdir(parents=True, exist_ok=True)
    model = DensityFlow(
        budget=Budget(epsilon, delta),
        bounds=(list(_LOW), list(_HIGH)),
        num_records=_NUM_RECORDS,  # public here: we made the records
    )
    note(f"generating {_NUM_RECORDS} rows of two moons, then fitting a density with privacy")
    rows = Rows(moons(_NUM_RECORDS), ("x", "y"))
    fitted = model.fit(rows, progress=True)
    synthetic = fitted.sample(_NUM_RECORDS)
    paths = {
        "model": out / "model.veil",
        "synthetic": out / "synthetic.csv",
        "figure": out / "figure.png",
    }
    fitted.save(paths["model"])
    write_rows(Rows(synthetic, rows.columns), paths["synthetic"])

    _draw(
        paths["figure"],
        data=rows.values,
        synthetic=synthetic,
        log_prob=fitted.log_prob,
        low=_LOW,
        high=_HIGH,
        claim=f"epsilon {fitted.guarantee.epsilon:.3g}, delta {fitted.guarantee.delta:.3g}",
    )
    from veilflow.reports import curator_report, release_card, write_card, write_curator

    paths["card"] = write_card(release_card(fitted), out / "card")["card.html"]
    report = curator_report(fitted, rows.values, max_rows=_NUM_COMPARED)
    paths["curator"] = write_curator(report, out / "internal")
    from veilflow.cli.inspect import describe_ledger, ledger_table

    ledger = describe_ledger(fitted.ledger, delta=delta)
    result = {**paths, "guarantee": fitted.guarantee.to_json(), "ledger": ledger}
    lines = [f"wrote {path}" for path in paths.values()]
    emit(result, statement(fitted.guarantee), ledger_table(ledger), *lines, as_json=as_json)


def _draw(
    path: Path,
    *,
    data: "np.ndarray",
    synthetic: "np.ndarray",
    log_prob: "Callable[[np.ndarray], np.ndarray]",
    low: tuple[float, float],
    high: tuple[float, float],
    claim: str,
) -> None:
    """Draw three panels with the same axes. Shows rows of `data`: for generated data only."""
    import numpy as np

    # Without pyplot: no global figure, no display, nothing to close.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from veilflow._core.store import atomic_path

    figure = Figure(figsize=(10.5, 2.7), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    # Blue and vermilion of the Okabe-Ito palette, and cividis: told apart by every kind of eye.
    for axis, points, color, name in (
        (axes[0], data, "#0072B2", "data"),
        (axes[1], synthetic, "#D55E00", f"synthetic, {claim}"),
    ):
        axis.scatter(*points[:_POINTS].T, s=1.5, color=color, alpha=0.5, linewidths=0)
        axis.set_title(name, fontsize=10)
    x, y = (np.linspace(a, b, _GRID) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(x, y), axis=-1)
    density = np.exp(np.asarray(log_prob(grid.reshape(-1, 2)), dtype=np.float64))
    axes[2].pcolormesh(x, y, density.reshape(_GRID, _GRID), cmap="cividis", rasterized=True)
    axes[2].set_title("density", fontsize=10)
    for axis in axes:
        axis.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
        axis.tick_params(length=2, labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=160, metadata={"Software": None})
