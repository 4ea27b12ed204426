"""A likelihood detector as plain data: its own settings around the artifact of its model."""

from typing import TYPE_CHECKING, Any

from veilflow._core import codec
from veilflow.models import registry
from veilflow.models.artifact import Artifact, check
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger

if TYPE_CHECKING:
    from veilflow.models.detect.likelihood import LikelihoodDetector

_DETECTORS = ("LikelihoodDetector", "EnsembleDetector")
_SETTINGS = ("false_alarm_rate", "threshold", "label")


def to_artifact(detector: "LikelihoodDetector") -> Artifact:
    """The artifact of a detector. Schema and arrays are those of its model."""
    inner = detector.model.to_artifact()
    return Artifact(
        model=detector.kind,
        manifest={
            "plan": codec.plain(detector.plan),
            **{name: getattr(detector, name) for name in _SETTINGS},
            "model": {
                "class": inner.model,
                "settings": inner.manifest,
                "ledger": inner.ledger.to_json(),
                "guarantee": inner.guarantee.to_json(),
            },
        },
        ledger=detector.ledger,
        guarantee=detector.guarantee,
        schema=inner.schema,
        arrays=inner.arrays,
    )


def from_artifact(artifact: Artifact) -> dict[str, Any]:
    """What `to_artifact` described, as arguments of `LikelihoodDetector.executed`.

    Raises:
        ValueError: The parts do not belong together.
    """
    manifest, inner = artifact.manifest, artifact.manifest["model"]
    if inner["class"] in _DETECTORS:
        raise ValueError("the model of a detector cannot be a detector.")
    model_artifact = Artifact(
        model=inner["class"],
        manifest=inner["settings"],
        ledger=Ledger.from_json(inner["ledger"]),
        guarantee=Guarantee.from_json(inner["guarantee"]),
        schema=artifact.schema,
        arrays=artifact.arrays,
    )
    check(model_artifact)
    model = registry.from_artifact(model_artifact)
    plan = codec.restored(type(model.plan), manifest["plan"])
    if plan.ledger != artifact.ledger:
        raise ValueError("the ledger is not the one of the plan.")
    settings = {name: manifest[name] for name in _SETTINGS}
    return {"model": model, "plan": plan, "guarantee": artifact.guarantee, **settings}
