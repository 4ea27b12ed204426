"""What each part brings: the budget, the size of the networks, the settings, other measures."""

import math

from reproductions.blocks import Block, Row, across, over
from reproductions.dp_lflow.estimators import TEMPERATURES, TOLD
from reproductions.dp_lflow.measures import (
    CNN,
    DISTANCE,
    FIT,
    LR,
    MLP,
    OOD,
    PRECISION,
    RECALL,
    SIZE,
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
    columns=across("mnist", SIZE, DISTANCE, CNN),
    rows=over(BUDGETS, WIDTHS, part=RAW),
    words="The paper shows the FID of a variational autoencoder by its size; here the latent flow "
    "itself is made narrower and wider, all else as it comes.",
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
    title="Errors of pixels, and what the decoder is told",
    columns=(*across("mnist", CNN, DISTANCE), *across("fashion", CNN, DISTANCE)),
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
)
FACES = Block(
    table="faces",
    title="Faces in color",
    columns=_FACES,
    rows=(
        Row(name="real images", method=REAL, part=RAW, epsilon=math.inf),
        *over((math.inf, 10.0, 1.0), {OURS: "flows"}, part=RAW),
    ),
    words="20,000 generated faces of two kinds ([code](../../benchmarks/generated_faces.py)), in the "
    "place of CelebA, which is not here. Nothing of them is comparable with the paper's numbers. The "
    "CNN sees five epochs; the paper's sees 100 on faces.",
)

ABLATIONS = (SETTINGS, RECONSTRUCTION, EPSILON, FIGURE_1, FIDELITY, FACES)
"""The tables of ablations."""
