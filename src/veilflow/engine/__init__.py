"""Private training of any pytree: plans, sampling, clipping, steps and the loop."""

from veilflow._core.keys import Secret as Secret
from veilflow.engine.checkpoint import Checkpoint as Checkpoint
from veilflow.engine.clipping import AdaptiveQuantile as AdaptiveQuantile
from veilflow.engine.clipping import Automatic as Automatic
from veilflow.engine.clipping import Flat as Flat
from veilflow.engine.clipping import PerGroup as PerGroup
from veilflow.engine.clipping import PerLayer as PerLayer
from veilflow.engine.clipping import PerUnit as PerUnit
from veilflow.engine.clipping import Sparsified as Sparsified
from veilflow.engine.loop import train as train
from veilflow.engine.optimizer import Optimizer as Optimizer
from veilflow.engine.optimizer import ScaledOptimizer as ScaledOptimizer
from veilflow.engine.parts import train_parts as train_parts
from veilflow.engine.plan import TrainingPlan as TrainingPlan
from veilflow.engine.progress import counting_bar as counting_bar
from veilflow.engine.progress import progress_bar as progress_bar

__all__ = [
    "AdaptiveQuantile",
    "Automatic",
    "Checkpoint",
    "Flat",
    "Optimizer",
    "PerGroup",
    "PerLayer",
    "PerUnit",
    "ScaledOptimizer",
    "Secret",
    "Sparsified",
    "TrainingPlan",
    "counting_bar",
    "progress_bar",
    "train",
    "train_parts",
]
