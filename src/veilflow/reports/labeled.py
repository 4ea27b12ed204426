"""Sections of the curator's report for images and for classifiers; as private as the records."""

from typing import Any

import numpy as np

from veilflow.reports import svg

_MOST_IMAGES = 2_000
_MOST_CLASSES = 20
_BINS = 32
_CHUNK = 65_536


def image_sections(model: Any, data: Any, labels: Any, *, seed: int) -> dict[str, Any]:
    """Mean images of each class and histograms of pixels: no single image is shown."""
    from veilflow.images.image_set import Images
    from veilflow.images.read import read_images

    real = data if isinstance(data, Images) else read_images(data, model.spec, labels=labels)
    drawn = model.sample(min(len(real.pixels), _MOST_IMAGES), seed=seed)
    kept = np.random.default_rng(seed).permutation(len(real.pixels))[:_MOST_IMAGES]
    pixels, marks = _unit(real.pixels[kept]), None if real.labels is None else real.labels[kept]
    synthetic = _unit(drawn.pixels)
    classes = list(model.spec.classes)[:_MOST_CLASSES] or [None]
    rows = []
    for place, name in enumerate(classes):
        title = "all images" if name is None else f"class {name}"
        panels = []
        for what, found, codes in (
            ("Mean of real images", pixels, marks),
            ("Mean of synthetic images", synthetic, drawn.labels),
        ):
            mine = found if name is None or codes is None else found[codes == place]
            alt = f"{what}, {title}."
            panels.append(svg.gray(_mean(mine), alt=alt) if len(mine) else "<p>none</p>")
        rows.append({"name": title, "panels": panels})
    return {
        "images": {
            "rows": rows,
            "count": len(real.pixels),
            "histogram": svg.histogram(
                _histogram(pixels),
                _histogram(synthetic),
                labels=["dark", "bright"],
                alt="Values of pixels: real images as bars, synthetic ones as a line.",
            ),
        }
    }


def classifier_sections(model: Any, data: Any, label: str | None) -> dict[str, Any]:
    """How a classifier does on the records: counts of each class and a table of confusions."""
    from veilflow.tabular.frames import open_table
    from veilflow.tabular.io import read_rows

    table = open_table(data, chunk=_CHUNK)
    if label is None or label not in table.names:
        raise ValueError("a classifier is compared with labels: name their column.")
    place = table.names.index(label)
    truth = np.array([_word(cell) for block in table.blocks for cell in block(place).to_pylist()])
    names = [name for name in table.names if name != label]
    rows = read_rows(data, columns=names if model.columns is None else model.columns)
    classes = [str(name) for name in model.classes]
    # by the place of the class, for labels may be numbers here and words there
    guessed = np.array(classes)[model.predict_proba(rows).argmax(axis=1)]
    counts = np.array(
        [[int(np.sum((truth == t) & (guessed == g))) for g in classes] for t in classes]
    )
    total = counts.sum(axis=1)
    return {
        "classes": {
            "names": classes,
            "counts": counts.tolist(),
            "recall": [float(counts[i, i] / n) if n else None for i, n in enumerate(total)],
            "accuracy": float(np.trace(counts) / max(total.sum(), 1)),
            "blind": float(total.max() / max(total.sum(), 1)),
        }
    }


def _word(cell: Any) -> str:
    """A label as a person would write it: 1, not 1.0."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return str(cell).strip()


def _unit(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / (255 if pixels.dtype == np.uint8 else 1)


def _mean(pixels: np.ndarray) -> np.ndarray:
    mean = pixels.mean(axis=0)
    return mean[0] if len(mean) == 1 else np.moveaxis(mean, 0, -1)


def _histogram(pixels: np.ndarray) -> np.ndarray:
    counts = np.histogram(pixels, bins=_BINS, range=(0, 1))[0]
    return counts / max(counts.sum(), 1)
