"""Arguments and flags that more than one command takes."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli.flags import Settings, SettingsOf
from veilflow.cli.output import check_out

AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
File = Annotated[Path, typer.Argument()]
Model = Annotated[Path, typer.Argument(help="A model file, such as m.veil.")]
Table = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file with a header.")]
Data = Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow, NPZ or NPY file of numbers.")]
Epsilon = Annotated[
    float, typer.Option(help="The privacy budget: smaller is more private and less accurate.")
]
StatedDelta = Annotated[float, typer.Option(help="The delta at which epsilon is stated.")]
PolicyFile = Annotated[
    Path | None,
    typer.Option(help="TOML file of what is allowed; else VEILFLOW_POLICY, or policy.toml here."),
]
Encoding = Annotated[
    str | None, typer.Option(help="How text is encoded, such as latin-1; otherwise UTF-8.")
]
Seed = Annotated[int | None, typer.Option(help="Repeat the same random draws.")]

# a test compares these words with those of the library
InvalidCells = StrEnum("InvalidCells", ["ERROR", "REPLACE"])
Invalid = Annotated[
    InvalidCells,
    typer.Option(help="What to do with cells, and lines of text, that are not as declared."),
]


def as_text(data: Path, encoding: str | None) -> Any:
    """A file of data, with its encoding if one is declared."""
    from veilflow.tabular.text import TextFile

    return data if encoding is None else TextFile(data, encoding)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Flags for the file that a command writes, and for how it prints its result.

    Attributes:
        out: The file to write.
    """

    out: Path
    force: Force = False
    as_json: AsJson = False

    def check(self, *inputs: Path | None) -> None:
        """Raise unless the file can be written without losing anything, least of all an input."""
        check_out(self.out, force=self.force, inputs=tuple(path for path in inputs if path))


TrainingFlags = Annotated[
    Settings,
    SettingsOf(
        "veilflow.engine.training.Training",
        # for research, in Python
        leave_out=("clipping", "sparsity", "optimizer", "schedule", "rate_decay", "ema_decay"),
        help={
            "steps": "Number of noisy training steps.",
            "clip_norm": "Bound on one record's gradient; for images also a pair, autoencoder,flow.",
            "learning_rate": "Step size; for images also a pair, autoencoder,flow.",
        },
    ),
]
