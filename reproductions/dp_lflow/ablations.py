"""What each part brings: the budget, the size of the networks, the settings, other measures."""

import math

from reproductions.blocks import Block, Row, across, over
from reproductions.dp_lflow.estimators import TEMPERATURES, TOLD
from reproductions.dp_lflow.measures import (
    CNN,
    DISTANCE,
    FID,
    FIT,
    LR,
    MLP,
    OOD,
    PRECISION,
    RECALL,
    SIZE,
    SIZE_IN_ALL,
)
from reproductions.dp_lflow.paper import OURS, OURS_RAW
from reproductions.dp_lflow.runs import REAL
from reproductions.dp_lflow.sharpening import RAW, SHARPENED

EPSILONS = (0.5, 1.0, 3.0, 10.0)
BUDGETS = (math.inf, 10.0, 1.0)
"""Of Figure 1, which has a line without privacy."""
WIDTHS = {
    "a quarter of the width": "flows-quarter",
    "half of the width": "flows-half",
    "as it comes": "flows",
    "twice the width": "flows-double",
}
"""All of `SIZES`, and the default among them."""
PUBLISHED = "published settings made sound"
WHOLE = "a whole model for each class"

FIGURE_1 = Block(
    table="figure 1",
    title="Figure 1: the size of the networks, MNIST",
    columns=across("mnist", SIZE, FID, CNN),
    rows=over(BUDGETS, WIDTHS, part=RAW),
    words="The paper shows the FID of a variational autoencoder by its size; here the latent flow "
    "itself is made narrower and wider, all else as it comes.",
)
FIGURE_1_NEAR = Block(
    table="figure 1",
    title="Figure 1 by the features of a small network",
    columns=across("mnist", DISTANCE),
    rows=over(BUDGETS, WIDTHS, part=RAW),
    words="The same runs.",
)

LABELS = Block(
    table="labels",
    title="Section 4.5.2: where one model is told the class, MNIST",
    columns=across("mnist", FID, LR, MLP, CNN),
    rows=over(
        (10.0, 1.0),
        {
            "in every coupling": "conditional",
            "in the first coupling": "conditional-first",
            "in the last coupling": "conditional-last",
            "in the first and the last": "conditional-ends",
            "beside the code alone": "conditional-code",
        },
        part=RAW,
    ),
    words="The paper tried these and tells no numbers: none kept the labels. The first coupling is the "
    "one next to the code. Beside the code alone: the flow knows no class, and the decoder is told it.",
)

FIGURE_6 = Block(
    table="figure 6",
    title="Figure 6: a flow over pixels, or over codes",
    columns=across("faces32", SIZE_IN_ALL, DISTANCE, PRECISION, RECALL, FIT),
    rows=over(
        (math.inf, 10.0),
        {
            "RealNVP over pixels": "pixels-realnvp",
            "a flow after Glow over pixels": "pixels-glow",
            OURS_RAW: "flows",
        },
        part=RAW,
    ),
    words="The paper shows samples of a RealNVP of about 150 MB on CelebA, and says that a Glow under "
    "privacy drew nothing; it has no numbers. Here the images are generated faces "
    "([code](../../benchmarks/generated_faces.py)); nothing is normalized by a batch, with privacy or "
    "without. Flows over pixels know no classes ([code](../../reproductions/dp_lflow/pixel_flows.py)).",
)

EPSILON = Block(
    table="epsilon",
    title="Over epsilon",
    columns=(*across("mnist", CNN, OOD), *across("fashion", CNN, OOD)),
    rows=over(EPSILONS, {OURS: "flows"}, part=SHARPENED),
)

_MEASURED = (LR, MLP, CNN, OOD)
SETTINGS = Block(
    table="settings",
    title="The authors' settings, and ours",
    columns=(*across("mnist", *_MEASURED), *across("fashion", *_MEASURED)),
    rows=over(
        (10.0, 1.0), {OURS: "flows", WHOLE: "models", PUBLISHED: "published"}, part=SHARPENED
    ),
    words="Published: a whole model for each class, sampling rate 0.1, 300 steps, learning rates 0.01 "
    "and 0.005, cross-entropy times 1e5, and a bound of 0.1 for both gradients "
    "together; noise as the budget asks.",
)

_NEAR = (DISTANCE, PRECISION, RECALL)
FIDELITY = Block(
    table="fidelity",
    title="Nearness to test images, by a small network",
    columns=(*across("mnist", *_NEAR), *across("fashion", *_NEAR)),
    rows=(
        Row(name="real images", method=REAL, part=RAW, epsilon=math.inf),
        *(
            Row(name=name, method="flows", part=part, epsilon=epsilon)
            for epsilon in (10.0, 1.0)
            for name, part in ((OURS, SHARPENED), (OURS_RAW, RAW))
        ),
    ),
    words="On at most 10,000 images of each kind. A fixed random network, the same for everybody, "
    "needs nothing but the images. These numbers have nothing to do with an FID.",
)

RECONSTRUCTION = Block(
    table="reconstruction",
    title="Errors of pixels, and what the decoder is told, MNIST",
    columns=across("mnist", CNN, DISTANCE),
    rows=over(
        (10.0, 1.0),
        {
            OURS_RAW: "flows",
            "a decoder that is told the class": f"flows-{TOLD}",
            **{f"squared errors, temperature {t}": f"mse-{t}" for t in TEMPERATURES},
        },
        part=RAW,
    ),
    words="The paper writes squared errors times the square of a temperature; its code, and the "
    "default here, has cross-entropies times 1e5.",
)

_FACES = (
    *across("faces32", CNN, LR, OOD, DISTANCE, FIT),
    *across("faces64", CNN, LR, OOD, DISTANCE, FIT),
    *across("faces128", CNN, LR, OOD, DISTANCE, FIT),
)
FACES = Block(
    table="faces",
    title="Faces in color",
    columns=_FACES,
    rows=(
        Row(name="real images", method=REAL, part=RAW, epsilon=math.inf),
        *over((math.inf, 10.0, 1.0), {OURS: "flows"}, part=RAW),
    ),
    words="20,000 generated faces of two kinds ([code](../../benchmarks/generated_faces.py)), 8,000 of "
    "the largest, in the place of CelebA, which is not here. Nothing of them is comparable with the "
    "paper's numbers. The CNN sees five epochs; the paper's sees 100 on faces.",
)

_SCENES = across("scenes", CNN, MLP, LR, OOD, DISTANCE, FIT)
SCENES = Block(
    table="scenes",
    title="Color and ten classes",
    columns=_SCENES,
    rows=(
        Row(name="real images", method=REAL, part=RAW, epsilon=math.inf),
        *over((math.inf, 10.0, 1.0), {OURS: "flows"}, part=RAW),
    ),
    words="50,000 generated scenes ([code](../../benchmarks/generated_images.py)) of the size of "
    "CIFAR-10, which the paper does not have.",
)

ABLATIONS = (
    SETTINGS,
    LABELS,
    RECONSTRUCTION,
    EPSILON,
    FIGURE_1,
    FIGURE_1_NEAR,
    FIGURE_6,
    FIDELITY,
    FACES,
    SCENES,
)
"""The tables of ablations."""
