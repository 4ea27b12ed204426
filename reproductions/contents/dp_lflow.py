"""DP-LFlow (Jiang and Sun, 2023): one algorithm, five tables, seven figures."""

from reproductions.contents.entry import Entry, Number, Paper, Terms
from reproductions.dp_lflow.paper import TRUE_EPSILONS

_FACES = (
    "CelebA may not be redistributed and is not at hand; with the files in place `read_images` reads "
    "them ([guide](../guides/images.md#faces)). "
)
_HQ = "CelebA-HQ may not be redistributed and is not at hand. "
_GENERATED = "In its place: samples for generated faces, "
_FACES_TABLE = (("faces in color", "dp-lflow.md#faces-in-color"),)
_FID = "FID (Inception)"
_DRAWN = "reproductions/dp_lflow/figures.py"

ENTRIES = (
    Entry(
        kind="Algorithm",
        number=1,
        what="gradients clipped and noised, for the autoencoder and the flow",
        where=("veilflow.engine.train_parts", "vf.ImageFlow"),
        call='vf.ImageFlow(spec=spec, budget=budget, partition="models", training=vf.Training('
        "steps=300, sampling_rate=0.1, clip_norm=(0.07, 0.07), learning_rate=(0.01, 0.005))"
        ").fit(images)",
        numbers=(
            Number(
                ours=("settings", "published settings made sound", "MNIST, 10", "CNN %"),
                paper=("1", "ImageFlow", "MNIST, 10", "CNN %"),
            ),
        ),
        blocks=("settings",),
        note="The authors bound both networks by C each and add noise for C; here one bound holds "
        "for both together.",
    ),
    Entry(
        kind="Table",
        number=1,
        what="FID and accuracy of classifiers at epsilon 10",
        where=("vf.ImageFlow", "reproductions/dp_lflow/fid.py"),
        call="veilflow reproduce dp-lflow --table 1",
        numbers=(Number(ours=("1", "ImageFlow", "MNIST, 10", "CNN %")),),
    ),
    Entry(
        kind="Table",
        number=2,
        what="FID and accuracy at epsilon 1",
        where=("vf.ImageFlow", "reproductions/dp_lflow/fid.py"),
        call="veilflow reproduce dp-lflow --table 2",
        numbers=(Number(ours=("2", "ImageFlow", "Fashion-MNIST, 1", "CNN %")),),
        note=f"Without CelebA. {_FACES}",
    ),
    Entry(
        kind="Table",
        number=3,
        what="AUROC of images of other classes, by the density of their codes",
        where=("vf.ImageFlow",),
        call="veilflow reproduce dp-lflow --table 3",
        numbers=(Number(ours=("3", "ImageFlow", "MNIST, 10", "OOD AUROC")),),
        links=(
            ("Anomaly detection", "anomaly.md#table-3-of-dp-lflow-images-of-other-classes"),
            ("scores", "../guides/images.md#scores"),
        ),
    ),
    Entry(
        kind="Table",
        number=4,
        what="a model for each class, or one that is told the class",
        where=("vf.ImageFlow",),
        call="veilflow reproduce dp-lflow --table 4",
        numbers=(Number(ours=("4", "with partitioning", "MNIST, 1", "CNN %")),),
        blocks=("labels",),
        note='From Python `partition="models"` or `"none"`; the library\'s default is a third way. '
        "Where one model is told the class, as in Section 4.5.2, is `told_blocks` of the architecture.",
    ),
    Entry(
        kind="Table",
        number=5,
        what="sizes of the networks",
        where=("vf.ImageArchitecture",),
        call="vf.ImageFlow(spec=spec, budget=budget, flow=vf.ImageArchitecture(size=(28, 28), "
        "channels=(32, 64), latent=20, blocks=9, hidden=(200, 200))).fit(images)",
        links=(("settings", "../guides/images.md#fitting"),),
        note="Settings, not a result: the nearest of these sizes is the default.",
    ),
    Entry(
        kind="Figure",
        number=1,
        what="FID by the size of a variational autoencoder",
        where=("vf.ImageArchitecture", "reproductions/dp_lflow/estimators.py"),
        call="veilflow reproduce dp-lflow --figures",
        numbers=(
            Number(
                ours=("section 3", "ImageFlow without post-processing", "MNIST, inf", _FID),
            ),
        ),
        blocks=("section 3",),
        note="A variational autoencoder is not part of the library: ours asks the same of the "
        "latent flow. The number is that which the paper's text gives for a latent flow without "
        "privacy.",
    ),
    Entry(
        kind="Figure",
        number=2,
        what="samples at epsilon 10",
        where=("vf.ImageFlow", _DRAWN),
        call="veilflow reproduce dp-lflow --figures",
        numbers=(Number(ours=("1", "ImageFlow", "MNIST, 10", _FID)),),
        note="Samples of the paper's peers are not shown.",
    ),
    Entry(
        kind="Figure",
        number=3,
        what="samples at epsilon 1",
        where=("vf.ImageFlow", _DRAWN),
        call="veilflow reproduce dp-lflow --figures",
        numbers=(Number(ours=("2", "ImageFlow", "MNIST, 1", _FID)),),
        note="Samples of the paper's peers are not shown.",
    ),
    Entry(
        kind="Figure",
        number=4,
        what="samples of CelebA at epsilon 1",
        where=("vf.ImageFlow", _DRAWN, "benchmarks/generated_faces.py"),
        call="veilflow reproduce dp-lflow --only faces32",
        numbers=(Number(paper=("2", "DP-LFlow, paper", "CelebA, 1", _FID)),),
        links=_FACES_TABLE,
        note=f"{_FACES}{_GENERATED}32 and 64 pixels a side.",
    ),
    Entry(
        kind="Figure",
        number=5,
        what="samples of CelebA-HQ at epsilon 10",
        where=("vf.ImageFlow", _DRAWN, "benchmarks/generated_faces.py"),
        call="veilflow reproduce dp-lflow --only faces128",
        links=_FACES_TABLE,
        note=f"{_HQ}{_GENERATED}128 pixels a side; the paper's FID stands in a caption only.",
    ),
    Entry(
        kind="Figure",
        number=6,
        what="samples of a flow over pixels, trained on CelebA with and without privacy",
        where=("reproductions/dp_lflow/pixel_flows.py", "reproductions/dp_lflow/pixels.py"),
        call="veilflow reproduce dp-lflow --only faces32/10/pixels-realnvp",
        note=f"{_FACES}{_GENERATED}32 pixels a side, of a RealNVP and of a flow after Glow. The first "
        "panel, with batch normalization, is not made: an image would depend on others.",
    ),
    Entry(
        kind="Figure",
        number=7,
        what="the framework: an autoencoder and a flow over its codes, for each class",
        where=("vf.ImageFlow",),
        call="vf.ImageFlow(spec=spec, budget=budget).fit(images)",
        links=(("how it is fitted", "../guides/images.md#fitting"),),
        note="A sketch.",
    ),
)

DP_LFLOW = Paper(
    system="dp-lflow",
    title="DP-LFlow",
    citation='Jiang and Sun, "DP-LFlow: Differentially private latent flow for scalable sensitive '
    'image generation" (2023)',
    terms=Terms(
        budget=(
            "claimed epsilons of 10 and 1, for settings that spend "
            f"{TRUE_EPSILONS[10.0]:g} and {TRUE_EPSILONS[1.0]:g} by privacy loss distributions, had "
            "the batches been Poisson samples",
            "epsilons of 10 and 1 by privacy loss distributions for Poisson batches; delta 1e-5 on "
            "both sides",
        ),
        rows=(
            "5,000 training images of each class, 60,000 samples, mean of five runs",
            "all training images, 60,000 samples; fits as the tables tell",
        ),
        tuning=(
            "on images held out of the training sets, and sharpening by the FID; not charged",
            "started from the authors' choices, further ones by generated signs",
        ),
    ),
    counts=(1, 5, 7),
    entries=ENTRIES,
)
