"""`veilflow reproduce`: a paper's tables and figures again, in a checkout of the repository."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.output import emit, guarded, note

_PACKAGE = "reproductions"


@guarded
def reproduce(
    system: Annotated[str, typer.Argument()],
    splits: int | None = None,
    table: list[int] | None = None,
    figures: bool = False,
    only: list[str] | None = None,
    paper_accounting: bool = False,
    small: bool = False,
    fid: bool = False,
    check: bool = False,
    page: bool = False,
    draw: bool = False,
    out: Path | None = None,
    as_json: options.AsJson = False,
) -> None:
    """Run a paper's experiments under a sound guarantee; the paper's numbers beside ours.

    Needs a checkout of the repository and, for real data, the folder VEILFLOW_DATA. Finished runs
    are kept and not done again, so an interrupted command goes on where it was.

    Flags:
        system: Which system, such as dp-nf.
        splits: On how many of the splits or seeds; 1 for a look, default all.
        table: Only this table of the paper. Repeatable.
        figures: Draw the figures after the runs they need, and only them without --table.
        only: Only runs of DATA, DATA/EPSILON or DATA/EPSILON/METHOD. Repeatable.
        paper_accounting: Also print what the paper's accountants would claim for our runs.
        small: Only a small table that needs no GPU and no files.
        fid: Fit nothing: measure the FID of finished runs.
        check: Run nothing: print records that miss; exit 1 if any.
        page: Run nothing: write the documentation page again.
        draw: Run nothing: draw the figures of what is there, and write the page again.
        out: Folder for runs, records and figures.
    """
    package = _package()
    reproduction = package.get(system)
    files = import_module(f"{_PACKAGE}.records")
    folder = out or files.FOLDER / system
    if check or page or draw:
        failures, records = [], files.read(folder / "results.json")
        if not records:
            raise FileNotFoundError(f"no results yet: run veilflow reproduce {system} first.")
        if draw:
            reproduction.draw(out=out, say=note)
        if page:
            reproduction.write_page(folder)
        shown = [record for record in records if record.misses] if check else records
    else:
        outcome = reproduction.reproduce(
            splits=splits,
            table=table or (),
            figure=figures,
            only=only or (),
            out=out,
            small=small,
            fid=fid,
            say=note,
        )
        failures, records, shown = outcome.failures, outcome.records, outcome.made
    missing = [record for record in records if record.misses]
    result: dict[str, Any] = {
        "system": system,
        "records": [vars(record) for record in shown],
        "missing": [" / ".join(record.key) for record in missing],
        "failures": failures,
    }
    if as_json:
        emit(result, "", as_json=True)
    else:
        _show(files, system, shown, check=check, paper_accounting=paper_accounting)
    if failures or (check and missing):
        raise typer.Exit(1)


def _show(
    files: Any, system: str, shown: list[Any], *, check: bool, paper_accounting: bool
) -> None:
    if shown:
        files.show(system, shown)
    else:
        typer.echo("no record misses what it must reach" if check else "nothing was measured")
    if not paper_accounting:
        return
    for record in shown:
        for label, epsilon in record.claims.items():
            where = f"table {record.table}, {record.row}, {record.column}"
            typer.echo(f"{where}: epsilon {epsilon:.4g} by {label}")


def _package() -> Any:
    """The package of reproductions beside the sources of this one, or in the current folder."""
    for folder in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (folder / _PACKAGE / "__init__.py").is_file():
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
            return import_module(_PACKAGE)
    raise FileNotFoundError(
        "the reproductions are not part of an installed veilflow. Run this command in a checkout of "
        "its repository, or install that checkout with pip install -e ."
    )
