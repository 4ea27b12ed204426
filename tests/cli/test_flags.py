"""Flags are made from settings and docstrings: the same names, the same types, a word on each."""

import dataclasses
import importlib
import inspect
from typing import Annotated, Any, get_args, get_type_hints

import pytest
import typer

from veilflow.cli import fit, flags, options
from veilflow.cli.flags import SettingsOf, expanded

CLASSES = [
    "veilflow.models.density.DensityFlow",
    "veilflow.models.mixture.MixtureDensity",
    "veilflow.models.table.table_flow.TableFlow",
    "veilflow.models.table.architecture.CodeArchitecture",
    "veilflow.models.image.image_flow.ImageFlow",
    "veilflow.models.image.architecture.ImageArchitecture",
    "veilflow.models.expm.classifier.ExpMechClassifier",
    "veilflow.models.detect.ensemble.EnsembleDetector",
    "veilflow.engine.training.Training",
]


def test_no_description_speaks_of_the_source():
    for one in inspect.signature(fit.density).parameters.values():
        assert "`" not in one.annotation.__metadata__[0].help
    assert "Flags:" not in (fit.density.__doc__ or "")


@pytest.mark.parametrize("path", CLASSES)
def test_what_is_read_from_the_source_is_what_the_class_has(path):
    module, _, name = path.rpartition(".")
    settings = getattr(importlib.import_module(module), name)
    kinds, texts = flags._read_class(path)
    assert set(kinds) == {field.name for field in dataclasses.fields(settings)}
    assert set(texts) == set(kinds)
    hints = get_type_hints(settings)
    for parameter in SettingsOf(path).parameters():
        hint = hints[parameter.name]
        parts = [part for part in get_args(hint) if part is not type(None)] or [hint]
        kind = parts[0] if parts[0] in (bool, int, float, str) and len(parts) == 1 else str
        assert parameter.annotation.__origin__ == kind | None


def test_settings_that_were_given_are_parsed_and_the_others_left_out():
    training = SettingsOf("veilflow.engine.training.Training", flags={"steps": "rounds"})
    values = dict.fromkeys(one.name for one in training.parameters())
    assert "rounds" in values
    assert "steps" not in values
    assert training.collect(values) == {}
    given = {**values, "rounds": 3, "clip_norm": "0.5", "learning_rate": "1, 2"}
    assert training.collect(given) == {"steps": 3, "clip_norm": 0.5, "learning_rate": (1.0, 2.0)}
    with pytest.raises(ValueError, match="--clip-norm must be numbers with commas"):
        training.collect({**values, "clip_norm": "a"})


def test_a_description_names_other_settings_by_their_flags():
    training = SettingsOf("veilflow.engine.training.Training", flags={"batch_size": "batch"})
    (rate,) = (one for one in training.parameters() if one.name == "sampling_rate")
    assert "--batch." in rate.annotation.__metadata__[0].help


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Some flags.

    Attributes:
        size: How large.
    """

    size: int
    fast: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Larger(Group):
    """The same flags and one more.

    Attributes:
        size: How very large.
        fast: Whether to hurry. It may
            fail.
    """

    name: Annotated[str | None, typer.Option("--name", "-n", help="Its own words.")] = None


def test_a_group_becomes_flags_and_comes_back_as_one_object():
    calls: list[Any] = []

    @expanded
    def command(data: options.File, group: Larger, last: float = 1.0) -> None:
        """Do something.

        Flags:
            data: What to do it to.
            last: The last.
        """
        calls.append((data, group, last))

    command(data="d", size=3, fast=True, name=None, last=2.0)
    assert calls == [("d", Larger(size=3, fast=True), 2.0)]
    assert command.__doc__ == "Do something."
    parameters = inspect.signature(command).parameters
    texts = {name: one.annotation.__metadata__[0].help for name, one in parameters.items()}
    assert texts == {
        "data": "What to do it to.",
        "size": "How very large.",
        "fast": "Whether to hurry. It may fail.",
        "name": "Its own words.",
        "last": "The last.",
    }
    assert parameters["size"].default is inspect.Parameter.empty
    assert parameters["fast"].default is False
