"""Flags and arguments that more than one command takes, each said once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

# of commands of all kinds
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
Model = Annotated[Path, typer.Argument(help="A model file, such as m.veil.")]
Table = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file with a header.")]
TableOut = Annotated[Path, typer.Option(help="The file to write: .csv, .parquet, .arrow.")]

# what a fit may spend, and who keeps count
Epsilon = Annotated[float, typer.Option(help="The most that may be spent.")]
Delta = Annotated[float, typer.Option(help="Well below 1 / number of rows.")]
StatedDelta = Annotated[float, typer.Option(help="The delta it is stated at.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy", help="TOML file of what is allowed; else VEILFLOW_POLICY, or policy.toml here."
    ),
]
DataLedger = Annotated[
    Path | None,
    typer.Option("--data-ledger", help="File that adds up what all models of a data set cost."),
]
Dataset = Annotated[
    str | None, typer.Option("--dataset", help="Your name for the data set, in --data-ledger.")
]

# what is public of the records of a fit
Data = Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow, NPZ or NPY file of numbers.")]
Low = Annotated[
    str | None,
    typer.Option(help="Public lower bounds: one number, or one per column, with commas."),
]
High = Annotated[str | None, typer.Option(help="Public upper bounds, like --low.")]
BoundsFile = Annotated[
    Path | None, typer.Option(help="TOML file of public bounds: column = low and high.")
]
RowNorm = Annotated[
    float | None, typer.Option(help="Public bound on the L2 norm of a row, instead of bounds.")
]
# a test keeps these words those of the library
InvalidCells = StrEnum("InvalidCells", ["ERROR", "REPLACE"])
Invalid = Annotated[
    InvalidCells,
    typer.Option(help="What to do about cells, and lines of text, that are not as declared."),
]
Columns = Annotated[str | None, typer.Option(help="Use only these columns: names, with commas.")]
NumRecords = Annotated[int | None, typer.Option(help="The number of rows, if it is public.")]

# how it is fitted
Out = Annotated[Path, typer.Option(help="The model file to write, such as m.veil.")]
Seed = Annotated[
    int | None, typer.Option(help="For research only: weakens the guarantee, and says so.")
]
Steps = Annotated[int | None, typer.Option(help="Number of noisy steps.")]
BatchSize = Annotated[int | None, typer.Option(help="Expected size of a batch.")]
SamplingRate = Annotated[
    float | None, typer.Option(help="Instead: the probability that a row enters a batch.")
]
ClipNorm = Annotated[float | None, typer.Option(help="L2 bound on one row's gradient.")]
LearningRate = Annotated[float | None, typer.Option(help="Of the optimizer.")]
WeightDecay = Annotated[float | None, typer.Option(help="Pull of weights to zero.")]
Hidden = Annotated[str | None, typer.Option(help="Hidden layers: sizes, with commas.")]
CheckpointFile = Annotated[
    Path | None,
    typer.Option(help="Secret file to go on from after a crash, without new spending."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done and spent, and do neither.")
]
