"""`veilflow demo`: the whole story in a minute, on generated data."""

from pathlib import Path
from typing import Annotated

import typer

from veilflow.cli import options
from veilflow.cli.output import emit, guarded, note, statement

_NUM_RECORDS = 50_000
_NUM_COMPARED = 5_000  # rows in the curator's report: enough to see, and quick
_LOW, _HIGH = (-1.5, -1.0), (2.5, 1.5)  # around the moons; they follow from the generator


@guarded
def demo(
    out: Annotated[Path, typer.Option(help="Folder for what the demo leaves.")] = Path("demo"),
    epsilon: options.Epsilon = 2.0,
    delta: options.StatedDelta = 1e-6,
    as_json: options.AsJson = False,
) -> None:
    """Fit a private density to generated data; leave synthetic rows, the model, a figure and reports.

    Files of an earlier demo in the same folder are replaced.
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

    from veilflow.cli.figure import draw

    draw(
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
