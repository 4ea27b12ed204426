"""A fitted model as plain data, which `save` writes to a `*.veil` file and `read` reads."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from veilflow._core import store
from veilflow._core.errors import ArtifactError
from veilflow.privacy.events import NonPrivate, flat
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger


@dataclass(frozen=True)
class Artifact:
    """A fitted model as values that can be read without running code.

    Attributes:
        model: The name of the model's class, which the registry must know.
        manifest: The plan and the released facts of the model; plain JSON.
        ledger: Every release that went into the model.
        guarantee: The guarantee, with its assumptions.
        schema: The public fields of the model; plain JSON.
        arrays: Released arrays by name.
    """

    model: str
    manifest: dict[str, Any]
    ledger: Ledger
    guarantee: Guarantee
    schema: dict[str, Any]
    arrays: dict[str, np.ndarray]


def save(artifact: Artifact, path: str | os.PathLike[str]) -> None:
    """Write an artifact to one `*.veil` file, all or nothing.

    An existing file is replaced, and stays intact until then. The same artifact gives the same
    bytes: neither the time nor the user nor the machine is written.

    Args:
        artifact: The model.
        path: The file. By convention its name ends in `.veil`.

    Raises:
        ArtifactError: A setting is not plain JSON, or the guarantee contradicts the ledger.
    """
    check(artifact)
    manifest = {
        "model": artifact.model,
        "guarantee": artifact.guarantee.to_json(),
        "settings": artifact.manifest,
    }
    contents = store.Contents(
        manifest=manifest,
        ledger=artifact.ledger.to_json(),
        schema=artifact.schema,
        arrays=artifact.arrays,
    )
    store.write_veil(path, contents)


def read(path: str | os.PathLike[str]) -> Artifact:
    """Read an artifact without running anything from the file.

    The epsilon in the file is the writer's claim. It is checked against the ledger in everything
    that is cheap to check (adjacency, unit, assumptions, non-private events). To compose the ledger
    again, use `artifact.ledger.epsilon(delta=...)` or `veilflow inspect --recompute`.

    Args:
        path: A `*.veil` file.

    Raises:
        ArtifactError: The file is damaged, foreign or newer than this library, or its guarantee
            contradicts its ledger.
        OSError: There is no such file, or it may not be read.
    """
    contents = store.read_veil(path)
    manifest = contents.manifest
    if set(manifest) != {"model", "guarantee", "settings"}:
        raise ArtifactError(
            "manifest.json must hold model, guarantee and settings: not written by this veilflow."
        )
    if not isinstance(manifest["model"], str) or not isinstance(manifest["settings"], dict):
        raise ArtifactError("manifest.json is malformed: model must be a name, settings an object.")
    artifact = Artifact(
        model=manifest["model"],
        manifest=manifest["settings"],
        ledger=_parsed("ledger.json", Ledger.from_json, contents.ledger),
        guarantee=_parsed("the guarantee", Guarantee.from_json, manifest["guarantee"]),
        schema=dict(contents.schema),
        arrays=dict(contents.arrays),
    )
    check(artifact)
    return artifact


def check(artifact: Artifact) -> None:
    """Raise unless the guarantee agrees with the ledger, as far as that is cheap to check."""
    ledger, guarantee = artifact.ledger, artifact.guarantee
    for name in ("adjacency", "unit"):
        ours, theirs = getattr(guarantee, name), getattr(ledger, name)
        if ours is not theirs:
            raise ArtifactError(
                f"the guarantee is for {name} {ours.value!r} but the ledger for {theirs.value!r}. "
                "Do not rely on this file."
            )
    left_out = [one for one in ledger.assumptions if one not in guarantee.assumptions]
    if left_out:
        raise ArtifactError(
            f"the guarantee leaves out an assumption of its ledger: {left_out[0].sentence!r}. Do "
            "not rely on this file."
        )
    if NonPrivate() in flat(ledger.event) and guarantee.epsilon != np.inf:
        raise ArtifactError(
            "the ledger records a use of the data without privacy, but the guarantee claims a "
            f"finite epsilon of {guarantee.epsilon:.4g}. Do not rely on this file."
        )


def _parsed(what: str, parse: Any, data: Any) -> Any:
    try:
        return parse(data)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ArtifactError(
            f"{what} in the model file is malformed ({type(error).__name__}). Copy the file again "
            "from its source, or fit and save the model again."
        ) from error
