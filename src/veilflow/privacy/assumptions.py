"""What a guarantee assumes: one frozen class for each kind of assumption.

A class states the assumption in one `sentence`. Its `conditional` flag says whether a guarantee that
rests on it is a conditional one, which a policy may forbid. Declared facts and the usual
idealizations of arithmetic and of the random generator are not conditions; every other kind is one
unless its class says otherwise. Files hold the kind and the sentence, so both keep their meaning once
they are published.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from veilflow._core import check
from veilflow._core.errors import ArtifactError

_MAX_TEXT = 2_000
_MAX_FACTS = 100


@dataclass(frozen=True)
class Assumption:
    """Base of all assumptions; `kind` is the name of the class in JSON."""

    kind: ClassVar[str] = ""
    conditional: ClassVar[bool] = True
    """Whether a guarantee that rests on this assumption is a conditional one."""

    template: ClassVar[str] = ""
    """The sentence, with fields in braces."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_text(value, name)

    @property
    def sentence(self) -> str:
        """The assumption in words, as reports and the command line print it."""
        return self.template.format(**vars(self))

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> dict[str, Any]:
        """The assumption as plain JSON values: its kind, its fields and, for readers, its sentence."""
        fields = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind, "sentence": self.sentence, **fields}


@dataclass(frozen=True)
class Declared(Assumption):
    """Facts that a person declared and that the fit treated as public.

    Args:
        what: The facts, in the order in which the sentence names them. A fact in the singular starts
            with "the" ("the schema"); a plural has no article ("bounds").
    """

    what: tuple[str, ...]
    kind: ClassVar[str] = "declared"
    conditional: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.what, str):  # a string is a sequence of strings, too
            raise TypeError("declared facts must be a tuple of strings, got one string.")
        object.__setattr__(self, "what", tuple(self.what))
        if not 0 < len(self.what) <= _MAX_FACTS:
            raise ValueError(
                f"there must be 1 to {_MAX_FACTS} declared facts, got {len(self.what)}."
            )
        for fact in self.what:
            check_text(fact, "declared fact")

    @property
    def sentence(self) -> str:
        """For example: bounds and the number of records were declared, not read from the records."""
        *most, last = self.what
        facts = f"{', '.join(most)} and {last}" if most else last
        verb = "was" if not most and last.startswith("the ") else "were"
        return f"{facts} {verb} declared, not read from the records"


@dataclass(frozen=True)
class FloatSums(Assumption):
    """Rounding in sums over records is ignored. The noise itself is drawn exactly."""

    kind: ClassVar[str] = "float-sums"
    conditional: ClassVar[bool] = False
    template: ClassVar[str] = (
        "sums over records are treated as exact: floating-point rounding in them is ignored"
    )


@dataclass(frozen=True)
class Generator(Assumption):
    """Batches or noise come from a pseudorandom generator on the device, not from the system."""

    kind: ClassVar[str] = "generator"
    conditional: ClassVar[bool] = False
    template: ClassVar[str] = "numbers from the Threefry generator are treated as truly random"


@dataclass(frozen=True)
class Seeded(Assumption):
    """A person chose the seed of the noise. Anyone who knows the seed can subtract the noise."""

    kind: ClassVar[str] = "seeded"
    template: ClassVar[str] = (
        "the user chose the random seed, keeps it secret and uses it for no other fit"
    )


@dataclass(frozen=True)
class Unproved(Assumption):
    """A release is treated as the mechanism that its event describes, without a proof.

    Args:
        claim: What is assumed, as a clause that ", which is not proved" can follow.
    """

    claim: str
    kind: ClassVar[str] = "unproved"
    template: ClassVar[str] = "CONDITIONAL: {claim}, which is not proved"


@dataclass(frozen=True)
class Approximate(Assumption):
    """An accountant estimates epsilon instead of bounding it.

    Args:
        method: The name of the approximation.
    """

    method: str
    kind: ClassVar[str] = "approximate"
    template: ClassVar[str] = "epsilon is a {method} approximation, not an upper bound"


@dataclass(frozen=True)
class Conditional(Assumption):
    """Any other condition, stated in its own words."""

    text: str
    kind: ClassVar[str] = "conditional"
    template: ClassVar[str] = "{text}"


_KINDS: dict[str, type[Assumption]] = {
    cls.kind: cls
    for cls in (Declared, FloatSums, Generator, Seeded, Unproved, Approximate, Conditional)
}


def declared(*facts: str, num_records: int | None = None) -> Declared:
    """The declared facts; they include the number of records unless that is None."""
    return Declared(facts if num_records is None else (*facts, "the number of records"))


def of_noise(*, seeded: bool, sums: bool = True, generator: bool = True) -> tuple[Assumption, ...]:
    """What releases with Gaussian noise assume.

    Args:
        seeded: Whether a person chose the seed of the noise.
        sums: Whether anything but counts was summed.
        generator: Whether batches and noise come from a generator on the device, as in training.
    """
    applies = {FloatSums(): sums, Generator(): generator, Seeded(): seeded}
    return tuple(assumption for assumption, needed in applies.items() if needed)


def conditions(assumptions: tuple[Assumption, ...]) -> tuple[Assumption, ...]:
    """The assumptions that make a guarantee conditional."""
    return tuple(one for one in assumptions if one.conditional)


def checked(assumptions: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """The assumptions in their order, without repetitions.

    Raises:
        TypeError: One of them is not an `Assumption` but, for example, a sentence.
    """
    unique = tuple(dict.fromkeys(assumptions))
    for one in unique:
        check.instance(Assumption, assumption=one)
    return unique


def from_json(data: Any) -> Assumption:
    """The assumption that `Assumption.to_json` wrote; anything else is refused."""
    fields = cast("dict[str, Any]", data if isinstance(data, dict) else {})
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = repr(kind[:40]) if isinstance(kind, str) else type(cast(object, data)).__name__
        raise ArtifactError(
            f"ledger holds an assumption of unknown kind {shown}; known: {', '.join(_KINDS)}. "
            "It may come from another version of veilflow."
        )
    cls = _KINDS[kind]
    names = {f.name for f in dataclasses.fields(cls)}
    if set(fields) != names | {"kind", "sentence"}:
        raise ArtifactError(f"assumption {kind!r} must have a sentence and {sorted(names)}.")
    if "what" in names and not isinstance(fields["what"], list):
        raise ArtifactError(f"assumption {kind!r} must hold a list of facts.")
    try:
        assumption = cls(**{name: fields[name] for name in names})
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"assumption {kind!r} is malformed: {error}") from error
    if assumption.sentence != fields["sentence"]:
        raise ArtifactError(
            f"assumption {kind!r} has a sentence that is not the one of its kind. "
            "It may come from another version of veilflow."
        )
    return assumption


def _plain(value: str | tuple[str, ...]) -> str | list[str]:
    return value if isinstance(value, str) else list(value)


def check_text(value: object, what: str) -> str:
    """The value, if it is a string of reasonable length."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, got {type(value).__name__}.")
    if not value.strip() or len(value) > _MAX_TEXT:
        raise ValueError(f"{what} must have 1 to {_MAX_TEXT} characters, got {len(value)}.")
    return value
