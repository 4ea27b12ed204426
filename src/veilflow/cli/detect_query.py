"""`veilflow detect query`: rows in, flags and scores out, a block of rows at a time."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from veilflow.cli import options
from veilflow.cli.output import guarded, note, tell, unprotected
from veilflow.cli.use import is_image, is_table

if TYPE_CHECKING:
    import pyarrow as pa

    from veilflow.models.detect.fitted_ensemble import FittedEnsemble
    from veilflow.models.detect.likelihood import LikelihoodDetector

_CHUNK = 8192


@guarded
def query(
    detector: options.File,
    data: options.File,
    output: options.Output,
    explain: bool = False,
) -> None:
    """Write for every row whether it is an anomaly.

    The detector of a model also writes how odd each row is, at no cost; scores of private rows are
    private too. An ensemble pays for every row, and refuses all of them if its budget is too small.

    Flags:
        detector: A detector, as detect fit wrote it.
        data: Rows to ask about; for image models, images.
        out: The file to write: .csv, .parquet, .arrow; a line for each row.
        explain: Also write which column makes a row odd. For the detector of a model only.
    """
    output.check(detector, data)
    from veilflow.models import registry
    from veilflow.models.detect.fitted_ensemble import FittedEnsemble
    from veilflow.models.detect.likelihood import LikelihoodDetector
    from veilflow.tabular.stream import file_format

    if file_format(output.out) in ("npz", "npy"):
        raise ValueError(
            f"--out {output.out} must be .csv, .parquet or .arrow: flags are no numbers."
        )
    fitted = registry.load(detector)
    if isinstance(fitted, FittedEnsemble):
        if explain:
            raise ValueError("--explain is for the detector of a model: an ensemble says no more.")
        _ask(fitted, data, output)
        return
    if not isinstance(fitted, LikelihoodDetector):
        raise ValueError(f"{detector} is no detector. Make one of it by detect fit {detector}.")
    if fitted.threshold is None:
        raise ValueError(f"{detector} has no threshold. Make one by detect fit.")
    _score(fitted, data, output, explain=explain)


def readable(detector: "LikelihoodDetector", data: Path, *, invalid: str = "error") -> Any:
    """Normal rows that set a threshold, as the detector takes them; for images, those of its class."""
    if not is_image(detector.model):
        return data
    from veilflow.models.detect.scoring import images_of_class, tells_classes

    spec = detector.model.spec
    if spec.classes and tells_classes(data):
        note(f"of {data}, the images of class {detector.label} set the threshold")
    invalid = "skip" if invalid == "replace" else "error"
    return images_of_class(data, spec, detector.label, invalid=invalid)


def _score(
    detector: "LikelihoodDetector", data: Path, output: options.Output, *, explain: bool
) -> None:
    """Write flags and scores, with one block of rows in memory at a time."""
    from veilflow.tabular.stream import write_tables

    if is_image(detector.model):
        if explain:
            raise ValueError("--explain is for rows: an image has no columns.")
        blocks: Iterator[Any] = iter([_images(detector, data)])
    else:
        blocks = _blocks(data, detector.columns, texts=is_table(detector.model))
    tables = _scored(detector, blocks, explain=explain)
    first = next(tables)  # its columns are those of all others
    # as private as the rows they are about
    write_tables(chain([first], tables), output.out, schema=first.schema, mode=0o600)
    warning = unprotected(
        "flags and scores are computed from the rows themselves and are as private as they are",
        whose="detector",
    )
    result = {"out": output.out, **warning, "threshold": detector.threshold}
    text, whose = f"wrote {output.out}", "the detector: "
    tell(result, text, detector.guarantee, as_json=output.as_json, whose=whose)


def _scored(
    detector: "LikelihoodDetector", blocks: Iterator[Any], *, explain: bool
) -> "Iterator[pa.Table]":
    import numpy as np
    import pyarrow as pa

    for rows in blocks:
        scores = detector.score(rows)
        cells: dict[str, Any] = {"odd": detector.is_odd(scores), "score": scores}
        if explain:
            parts = detector.explain(rows)
            names = detector.columns or tuple(f"x{i + 1}" for i in range(parts.shape[1]))
            cells |= {f"explain({name})": part for name, part in zip(names, parts.T, strict=True)}
            worst = parts.argmin(axis=1) if len(parts) else np.zeros(0, int)
            cells["oddest"] = np.array(names, object)[worst]
        yield pa.table({name: pa.array(column) for name, column in cells.items()})


def _ask(ensemble: "FittedEnsemble", data: Path, output: options.Output) -> None:
    """Write answers. Every answer that was paid for is written, however the command ends."""
    from veilflow._core.errors import BudgetError
    from veilflow.models.detect.scoring import is_outside
    from veilflow.tabular.io import read_rows

    def rows() -> Iterator[Any]:
        for block in _blocks(data, ensemble.columns, texts=False):
            yield read_rows(block, columns=ensemble.columns).values

    out, asked, paid = output.out, 0, 0
    for values in rows():  # all of them are read before the first is paid for
        _check_width(values, ensemble.plan.dim)
        asked += len(values)
        paid += int((~is_outside(ensemble.domain, values)).sum())
    left = ensemble.queries_left
    if left is not None and paid > left:
        raise BudgetError(
            f"{data} asks for {paid} answers, and {left} are left of the budget. Nothing was spent. "
            "Ask about fewer rows."
        )
    answers: list[Any] = []
    try:
        for values in rows():
            odd = ensemble.query(values)
            answers.append(odd)
            if len(odd) < len(values):  # sparse vector has found all anomalies it was paid for
                break
    except BudgetError:
        if not answers:
            raise
    except BaseException as error:
        if not answers:
            raise
        _write(answers, out)
        note(f"{out} has the answers to the first {sum(map(len, answers))} rows")
        raise typer.Exit(130 if isinstance(error, KeyboardInterrupt) else 1) from error
    _write(answers, out)
    answered = sum(map(len, answers))
    result: dict[str, Any] = {
        "out": out,
        "asked": asked,
        "answered": answered,
        "odd": int(sum(odd.sum() for odd in answers)),
        "queries_left": ensemble.queries_left,
        "anomalies_left": ensemble.anomalies_left,
    }
    more = f"{ensemble.queries_left} queries"
    if left is None:
        more = f"{ensemble.anomalies_left} anomalies"
    text = f"wrote {answered} answers to {out}; {more} are left"
    tell(result, text, ensemble.guarantee, as_json=output.as_json)
    if answered < asked:
        raise BudgetError(
            f"the budget was spent after {answered} of {asked} rows. Their answers are in {out}; the "
            "others have none."
        )


def _write(answers: list[Any], out: Path) -> None:
    import numpy as np
    import pyarrow as pa

    from veilflow.tabular.stream import write_tables

    table = pa.table({"odd": pa.array(np.concatenate(answers))})
    write_tables([table], out, schema=table.schema)


def _check_width(values: Any, dim: int) -> None:
    if values.shape[1] != dim:
        raise ValueError(f"rows must have {dim} columns, got {values.shape[1]}.")


def _images(detector: "LikelihoodDetector", data: Path) -> Any:
    """All images of a file or folder, of any class; at least one."""
    from dataclasses import replace

    from veilflow.images import read_images
    from veilflow.models.detect.scoring import tells_classes

    spec = detector.model.spec
    labeled = bool(spec.classes) and data.is_dir() and tells_classes(data)
    images = read_images(data, spec if labeled else replace(spec, classes=()))
    if not len(images):
        raise ValueError(f"{data} has no images.")
    return images


def _blocks(data: Path, columns: tuple[str, ...] | None, *, texts: bool) -> "Iterator[Any]":
    """The rows of a file, some thousands at a time; at least one block.

    Args:
        data: The file; a file of arrays is read in one block.
        columns: The columns of the detector, if they have names.
        texts: Whether the detector reads texts by a schema. Otherwise all cells must be numbers.
    """
    import pyarrow as pa

    from veilflow.tabular.frames import open_table
    from veilflow.tabular.io import read_rows
    from veilflow.tabular.stream import file_format
    from veilflow.tabular.text import open_csv

    kind, some = file_format(data), False
    if kind in ("npz", "npy"):
        yield read_rows(data, columns=columns)
        return
    if kind == "csv" and not texts:
        if not data.is_file():
            raise FileNotFoundError(f"there is no file {data}.")
        _, named, tables = open_csv(data, chunk=_CHUNK)
        for table in tables:
            some = True
            # without a header columns go by their order
            yield table if named else read_rows(table).values
    else:
        opened = open_table(data, chunk=_CHUNK)
        wanted = [i for i, name in enumerate(opened.names) if name in (columns or opened.names)]
        for block in opened.blocks:
            some = True
            yield pa.table([block(i) for i in wanted], [opened.names[i] for i in wanted])
    if not some:
        raise ValueError(f"{data} has no rows.")
