"""Private digits: declare the images, print the price, fit a flow for each class, sample and score.

Run `python examples/digits_images.py`. It uses the 8 x 8 digits that come with scikit-learn, and takes
about a minute on two cores.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import veilflow as vf

SPEC = vf.ImageSpec(height=8, width=8, high=16, classes=range(10))
# smaller than the planner's choice, so that it takes about a minute on two cores
SIZES = vf.ImageArchitecture(size=(8, 8), channels=(64,), latent=20, blocks=5, hidden=(100, 100))
SHADES = " .:-=+*#%@"


def show(images: np.ndarray) -> None:
    """Print images side by side, one character per pixel."""
    for row in range(images.shape[1]):
        shades = np.int32(images[:, row] * (len(SHADES) - 1) + 0.5)
        print("  " + "  ".join("".join(SHADES[shade] for shade in line) for line in shades))


def main(steps: int | None) -> None:
    digits = load_digits()
    train, test, train_labels, test_labels = train_test_split(
        digits.images, digits.target, test_size=400, random_state=0
    )
    # The number of images is not declared, so the plan pays for a private count. The number of images
    # of each digit is neither declared nor read.
    estimator = vf.ImageFlow(
        spec=SPEC,
        budget=vf.Budget(epsilon=10.0, delta=1e-6),
        flow=SIZES,
        training=vf.Training(steps=steps, sampling_rate=0.5),
    )
    print("before an image is read:")
    print(estimator.plan())

    model = estimator.fit(train, train_labels)
    samples = model.sample(5_000)
    print("\none sample of each digit, sharpened")
    show(model.sample(10, sharpen=2).pixels[:, 0])

    classifier = LogisticRegression(max_iter=5_000)
    for name, pixels, labels in (
        ("real", train / 16, train_labels),
        ("synthetic", samples.pixels, samples.labels),
    ):
        classifier.fit(pixels.reshape(len(pixels), -1), labels)
        accuracy = classifier.score(test.reshape(len(test), -1) / 16, test_labels)
        print(f"accuracy on held-out digits, trained on {name} images: {accuracy:.0%}")
    scores = model.ood_score(test, label=0)
    print(f"detecting digits other than zero: AUROC {roc_auc_score(test_labels != 0, scores):.2f}")

    print("\nledger")
    for purpose, epsilon, share in model.ledger.shares(model.guarantee.delta):
        print(f"  {purpose}: epsilon {epsilon:.3g} alone, {share:.0%}")
    print(f"guarantee\n  {model.guarantee}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, help="noisy steps; by default, planned")
    main(parser.parse_args().steps)
