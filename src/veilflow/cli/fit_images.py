"""`veilflow fit images`: spend a budget on a set of images and keep the model."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from veilflow.cli import options
from veilflow.cli.inspect import show_price
from veilflow.cli.output import check_out, guarded, tell
from veilflow.cli.spending import begin
from veilflow.cli.values import given, numbers

# a test keeps these words those of the library
Reconstruction = StrEnum("Reconstruction", ["BCE", "MSE"])
Partition = StrEnum("Partition", ["FLOWS", "MODELS", "NONE"])

Invalid = StrEnum("Invalid", ["ERROR", "SKIP"])


@guarded
def images(
    data: Annotated[
        Path, typer.Argument(help="A folder of image files, or an IDX, NPZ or NPY file.")
    ],
    spec: Annotated[Path, typer.Option(help="TOML file of the declared size and classes.")],
    epsilon: options.Epsilon,
    delta: Annotated[float, typer.Option(help="Well below 1 / number of images.")],
    out: options.Out,
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
    steps: options.Steps = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="The probability that an image enters a batch.")
    ] = None,
    clip_norms: Annotated[
        str | None,
        typer.Option(help="Bounds on one image's gradient: autoencoder,flow or one for both."),
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option(help="Of the optimizer: autoencoder,flow.")
    ] = None,
    weight_decay: options.WeightDecay = None,
    seed: options.Seed = None,
    invalid: Annotated[
        Invalid, typer.Option(help="What to do about images that are not as declared.")
    ] = Invalid.ERROR,
    checkpoint: options.CheckpointFile = None,
    dry_run: options.DryRun = False,
    policy: options.PolicyFile = None,
    data_ledger: options.DataLedger = None,
    dataset: options.Dataset = None,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Fit images of one size with differential privacy (DP-LFlow).

    The specification says what is public of the images; a person writes it. A dry run opens no image.
    """
    check_out(out, force=force, inputs=(data, spec, *((labels,) if labels else ())))
    from veilflow.images import ImageSpec
    from veilflow.models.image.image_flow import ImageFlow

    allowed = begin(epsilon, delta, policy, data_ledger, dataset, conditional=seed is not None)
    settings = given(
        num_records=num_records,
        partition=partition,
        reconstruction=reconstruction,
        temperature=temperature,
        steps=steps,
        sampling_rate=sampling_rate,
        clip_norms=numbers("--clip-norms", clip_norms),
        learning_rates=numbers("--learning-rates", learning_rates),
        weight_decay=weight_decay,
        seed=seed,
    )
    model = ImageFlow(spec=ImageSpec.from_file(spec), budget=allowed.budget, **settings)
    if dry_run:
        show_price(model.ledger(), delta=delta, as_json=as_json, recipe=model.recipe())
        return
    with allowed.reserved(model.ledger, data=data, checkpoint=checkpoint) as spent:
        fitted = model.fit(
            data,
            labels,
            progress=True,
            invalid=str(invalid),
            checkpoint=checkpoint,
            save_as=out,
        )
        spent(fitted.ledger)
    tell({"out": out}, f"wrote {out}", fitted.guarantee, as_json=as_json)
