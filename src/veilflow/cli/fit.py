"""`veilflow fit`: spend a privacy budget on a data file and keep the model."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from veilflow.cli import options
from veilflow.cli.classifier import classifier
from veilflow.cli.fitting import FitFlags
from veilflow.cli.flags import Settings, SettingsOf, given, whole_numbers
from veilflow.cli.output import guarded
from veilflow.cli.records import Bounded
from veilflow.cli.table import table

app = typer.Typer(help="Fit a private model to a data file.", no_args_is_help=True)

# a test compares these words with those of the library
Flow = StrEnum("Flow", ["MAF", "NSF", "REALNVP"])
Base = StrEnum("Base", ["NORMAL", "LOGISTIC", "STUDENT", "MIXTURE"])
Start = StrEnum("Start", ["GRID", "COLUMNS", "WHITENING", "ACTNORM", "NONE"])
Reconstruction = StrEnum("Reconstruction", ["BCE", "MSE"])
Partition = StrEnum("Partition", ["FLOWS", "MODELS", "NONE"])
ScalarMap = StrEnum("ScalarMap", ["AFFINE", "SPLINE"])
InvalidImages = StrEnum("InvalidImages", ["ERROR", "SKIP"])


@dataclass(frozen=True, kw_only=True)
class Network:
    """Flags that describe the flow of a density.

    Attributes:
        flow: Kind of flow to train.
        blocks: Number of blocks of the flow.
        hidden: Hidden layers: their sizes, with commas.
    """

    flow: Flow | None = None
    blocks: int | None = None
    hidden: str | None = None

    @property
    def architecture(self) -> Any:
        """The flow, or None where no flag describes one."""
        from veilflow.models import architecture

        if self == Network():
            return None
        hidden = None if self.hidden is None else whole_numbers("--hidden", self.hidden)
        make = getattr(architecture, str(self.flow or Flow.MAF))
        return make(**given(blocks=self.blocks, hidden=hidden))


@app.command("density")
@guarded
def density(
    data: options.Data,
    flags: FitFlags,
    bounded: Bounded,
    network: Network,
    settings: Annotated[
        Settings,
        SettingsOf(
            "veilflow.models.density.DensityFlow",
            words={"base": Base, "start": Start},
            flags={"num_components": "components"},
        ),
    ],
    training: options.TrainingFlags,
) -> None:
    """Learn the distribution of rows of numbers, by a normalizing flow (DP-NF).

    Settings that are left out are chosen from public facts: the number of columns, the bounds, the
    number of rows if it is public, and the budget.

    Flags:
        base: The distribution that the flow starts from.
        components: Number of normals in a base that private EM makes.
        start: What is released, and paid for, before training.
    """
    fitting = flags.begin(data, bounded.bounds)
    from veilflow.engine.training import Training
    from veilflow.models.density import DensityFlow

    rows, bounds = bounded.read(data)
    settings |= given(row_norm=bounded.row_norm, flow=network.architecture)
    trained = Training(**training)
    model = DensityFlow(bounds=bounds, training=trained, **fitting.settings, **settings)
    _fit_rows(fitting, model, rows, bounded, data=data)


@app.command("mixture")
@guarded
def mixture(
    data: options.Data,
    flags: FitFlags,
    bounded: Bounded,
    settings: Annotated[
        Settings,
        SettingsOf(
            "veilflow.models.mixture.MixtureDensity", flags={"num_components": "components"}
        ),
    ],
) -> None:
    """Learn the distribution of rows of numbers, by a mixture of normals (DP-MoG)."""
    fitting = flags.begin(data, bounded.bounds)
    from veilflow.models.mixture import MixtureDensity

    rows, bounds = bounded.read(data)
    settings |= given(row_norm=bounded.row_norm)
    model = MixtureDensity(bounds=bounds, **fitting.settings, **settings)
    _fit_rows(fitting, model, rows, bounded, data=data)


def _fit_rows(fitting: Any, model: Any, rows: Any, bounded: Bounded, *, data: Path) -> None:
    def fit(**how: Any) -> Any:
        return model.fit(rows, invalid=str(bounded.invalid), **how)

    # the plan uses nothing of the rows except how many columns there are
    fitting.finish(model.plan(rows.values.shape[1]), fit, data=data)


app.command("table")(table)


@app.command("images")
@guarded
def images(
    data: options.File,
    spec: Path,
    flags: FitFlags,
    settings: Annotated[
        Settings,
        SettingsOf(
            "veilflow.models.image.image_flow.ImageFlow",
            words={"partition": Partition, "reconstruction": Reconstruction},
        ),
    ],
    flow: Annotated[
        Settings,
        SettingsOf(
            "veilflow.models.image.architecture.ImageArchitecture",
            leave_out=("size", "colors"),
            words={"scalar_map": ScalarMap},
        ),
    ],
    training: options.TrainingFlags,
    labels: Path | None = None,
    invalid: InvalidImages = InvalidImages.ERROR,
) -> None:
    """Learn images of one size (DP-LFlow).

    The specification says what is public about the images; a person writes it. A dry run opens no
    image.

    Flags:
        data: A folder of image files, or an IDX, NPZ or NPY file.
        spec: TOML file of the declared size and classes.
        delta: Well below 1 / number of images.
        partition: What each class has of its own; none: one flow that is told the class.
        reconstruction: The error that the autoencoder is trained on.
        channels: Channels after each convolution of the encoder, with commas; by default those of the
            nearest published size.
        hidden: Sizes of the hidden layers in each block of the flow, with commas.
        labels: IDX or NPY file of labels; for a folder, a CSV with columns file and label.
        invalid: What to do with images that are not as declared.
    """
    fitting = flags.begin(data, spec, labels)
    from veilflow.engine.training import Training
    from veilflow.images import ImageSpec
    from veilflow.models.image.architecture import architecture_for
    from veilflow.models.image.image_flow import ImageFlow

    form = ImageSpec.from_file(spec)
    if flow:
        flow = {"flow": replace(architecture_for((form.height, form.width), form.channels), **flow)}
    model = ImageFlow(
        spec=form,
        **flow,
        training=Training(**training),
        **fitting.settings,
        **settings,
    )

    def fit(**how: Any) -> Any:
        return model.fit(data, labels, invalid=str(invalid), **how)

    fitting.finish(model.plan(), fit, data=data)


app.command("classifier")(classifier)
