"""`veilflow fit images`: spend a budget on a set of images and keep the model."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from veilflow.cli import fit
from veilflow.cli.output import AsJson, Force, check_out, guarded
from veilflow.cli.spending import DataLedger, Dataset, PolicyFile, begin


class Reconstruction(StrEnum):
    """What an autoencoder may be trained on; a test keeps these words those of the library."""

    BCE = "bce"
    MSE = "mse"


class Partition(StrEnum):
    """What each class may have of its own; a test keeps these words those of the library."""

    FLOWS = "flows"
    MODELS = "models"
    NONE = "none"


class Invalid(StrEnum):
    """What to do about images that are not as declared."""

    ERROR = "error"
    SKIP = "skip"


@guarded
def images(
    data: Annotated[
        Path, typer.Argument(help="A folder of image files, or an IDX, NPZ or NPY file.")
    ],
    spec: Annotated[Path, typer.Option(help="TOML file of the declared size and classes.")],
    epsilon: fit.Epsilon,
    delta: Annotated[float, typer.Option(help="Well below 1 / number of images.")],
    out: fit.Out,
    labels: Annotated[
        Path | None,
        typer.Option(help="IDX or NPY file of labels; of a folder, a CSV with file and label."),
    ] = None,
    num_records: Annotated[
        int | None, typer.Option(help="The number of images, if it is public.")
    ] = None,
    partition: Annotated[
        Partition | None,
        typer.Option(help="What each class has of its own; none: the flow is told the class."),
    ] = None,
    reconstruction: Annotated[
        Reconstruction | None, typer.Option(help="What the autoencoder is trained on.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="The root of the weight of that beside the density.")
    ] = None,
    steps: fit.Steps = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="The probability that an image enters a step.")
    ] = None,
    clip_norms: Annotated[
        str | None,
        typer.Option(help="Bounds on one image's gradient: autoencoder,flow or one for both."),
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option(help="Of the optimizer: autoencoder,flow.")
    ] = None,
    weight_decay: fit.WeightDecay = None,
    seed: fit.Seed = None,
    invalid: Annotated[
        Invalid, typer.Option(help="What to do about images that are not as declared.")
    ] = Invalid.ERROR,
    checkpoint: fit.CheckpointFile = None,
    dry_run: fit.DryRun = False,
    policy: PolicyFile = None,
    data_ledger: DataLedger = None,
    dataset: Dataset = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Fit images of one size with differential privacy (DP-LFlow).

    The specification says what is public of the images; a person writes it. A dry run opens no image.
    """
    check_out(out, force=force, inputs=(data, spec, *((labels,) if labels else ())))
    from veilflow.images import ImageSpec
    from veilflow.models.image.image_flow import ImageFlow
    from veilflow.privacy.budget import Budget

    budget = Budget(epsilon, delta)
    allowed = begin(
        budget,
        policy=policy,
        data_ledger=data_ledger,
        dataset=dataset,
        conditional=seed is not None,
    )
    settings = {
        "num_records": num_records,
        "partition": None if partition is None else partition.value,
        "reconstruction": None if reconstruction is None else reconstruction.value,
        "temperature": temperature,
        "steps": steps,
        "sampling_rate": sampling_rate,
        "clip_norms": _numbers("--clip-norms", clip_norms),
        "learning_rates": _numbers("--learning-rates", learning_rates),
        "weight_decay": weight_decay,
        "seed": seed,
    }
    model = ImageFlow(spec=ImageSpec.from_file(spec), budget=budget, **fit.given(settings))
    if dry_run:
        fit.forecast(model.recipe(), model.ledger(), delta, as_json=as_json)
        return
    with allowed.reserved(model.ledger, data=data, checkpoint=checkpoint) as spent:
        fitted = model.fit(
            data,
            labels,
            progress=True,
            invalid=invalid.value,
            checkpoint=checkpoint,
            save_as=out,
        )
        spent(fitted.ledger)
    fit.report(out, fitted.guarantee, as_json=as_json)


def _numbers(flag: str, text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(cell) for cell in text.split(","))
    except ValueError:
        raise ValueError(
            f"{flag} must be numbers with commas between them, got {text!r}."
        ) from None
