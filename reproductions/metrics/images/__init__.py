"""Measures for images: what classifiers learn from them, how near they are to real ones, odd ones out.

Every number computed on private images is as private as they are: none is on a ledger.
"""

from reproductions.metrics.images.classifiers import (
    IMAGE_CLASSIFIERS,
    IMAGE_EPOCHS,
    ImageClassifierScores,
    compare_image_classifiers,
)
from reproductions.metrics.images.fidelity import IMAGE_MEASURES, ImageFidelity, compare_images
from reproductions.metrics.images.frechet import frechet_distance
from reproductions.metrics.images.inception import inception_features
from reproductions.metrics.images.neighbors import PrecisionRecall, precision_recall
from reproductions.metrics.images.ood import OodAuroc, ood_auroc
from reproductions.metrics.images.random_features import small_features

__all__ = [
    "IMAGE_CLASSIFIERS",
    "IMAGE_EPOCHS",
    "IMAGE_MEASURES",
    "ImageClassifierScores",
    "ImageFidelity",
    "OodAuroc",
    "PrecisionRecall",
    "compare_image_classifiers",
    "compare_images",
    "frechet_distance",
    "inception_features",
    "ood_auroc",
    "precision_recall",
    "small_features",
]
