"""What `veilflow audit` reads for a model: rows, images, or records with their labels."""

from pathlib import Path
from typing import Any

from veilflow.cli.labeled import feature_names, is_series, read_labels, read_series


def read(model: Any, data: Path, *, label: str | None, labels: Path | None) -> Any:
    """What a file or folder holds, as an audit of the model takes it.

    Args:
        model: The loaded model.
        data: Of `--data` or `--holdout`.
        label: The column of labels, of a classifier.
        labels: The file of labels, of images.

    Raises:
        ValueError: The model is of a kind that is not audited with rows, or a flag is not for it.
    """
    from veilflow.audit.rows import attacked, is_classifier, is_image

    model = attacked(model)
    if labels is not None and not is_image(model):
        raise ValueError("--labels and --holdout-labels are for image models.")
    if label is not None and not is_classifier(model):
        raise ValueError("--label is for classifiers. To guess a column: --column.")
    if is_image(model):
        return _images(model, data, labels)
    return _labeled(model, data, label) if is_classifier(model) else data


def _images(model: Any, data: Path, labels: Path | None) -> Any:
    from veilflow.images import read_images

    if labels is None and model.classes and data.is_file() and data.suffix.lower() != ".npz":
        raise ValueError(
            f"the images of this model have classes, and {data} has no labels with it. Name their "
            "files by --labels and --holdout-labels, or give NPZ files or folders by class."
        )
    return read_images(data, model.spec, labels=labels)


def _labeled(model: Any, data: Path, label: str | None) -> tuple[Any, list[Any]]:
    """Features, and labels as the model names them."""
    features: Any = data
    if is_series(data):
        if label is not None:
            raise ValueError(f"{data} holds series with their labels. Leave --label out.")
        features = read_series(data)
    elif label is None:
        raise ValueError(
            "a classifier is audited by the labels of records. Name their column: --label."
        )
    elif model.columns is None:
        from veilflow.tabular.io import read_rows

        features = read_rows(data, columns=feature_names(data, label)).values
    # in files labels are words, and classes may have been declared as numbers
    named = {str(name): name for name in model.classes}
    return features, [named.get(word, word) for word in read_labels(data, label)]
