"""`veilflow fit images`: spend a budget on a set of images and keep the model."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from veilflow.cli import options
from veilflow.cli.inspect import show_plan
from veilflow.cli.output import check_out, guarded, tell
from veilflow.cli.spending import begin
from veilflow.cli.values import given, one_or_more

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
        typer.Option(help="What each class has of its own; none: a condition of one flow."),
    ] = None,
    reconstruction: Annotated[
        Reconstruction | None, typer.Option(help="What the autoencoder is trained on.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Its square is the weight of the reconstruction.")
    ] = None,
    steps: options.Steps = None,
    batch_size: options.BatchSize = None,
    sampling_rate: Annotated[
        float | None, typer.Option(help="Instead: the probability that an image enters a batch.")
    ] = None,
    clip_norm: Annotated[
        str | None,
        typer.Option(help="Bounds on one image's gradient: autoencoder,flow or one for both."),
    ] = None,
    learning_rate: Annotated[
        str | None, typer.Option(help="Of the optimizer: autoencoder,flow or one for both.")
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
    from veilflow.engine.training import Training
    from veilflow.images import ImageSpec
    from veilflow.models.image.image_flow import ImageFlow

    allowed = begin(epsilon, delta, policy, data_ledger, dataset, conditional=seed is not None)
    training = given(
        steps=steps,
        batch_size=batch_size,
        sampling_rate=sampling_rate,
        clip_norm=one_or_more("--clip-norm", clip_norm),
        learning_rate=one_or_more("--learning-rate", learning_rate),
        weight_decay=weight_decay,
    )
    settings = given(
        num_records=num_records,
        partition=partition,
        reconstruction=reconstruction,
        temperature=temperature,
        training=Training(**training),
        seed=seed,
    )
    model = ImageFlow(spec=ImageSpec.from_file(spec), budget=allowed.budget, **settings)
    plan = model.plan()
    if dry_run:
        show_plan(plan, as_json=as_json)
        return
    with allowed.reserved(lambda: plan.ledger, data=data, checkpoint=checkpoint) as spent:
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
