"""What a guarantee rests on beyond its sums: one frozen class per kind of assumption.

A class says in one `sentence` what is assumed, and by `conditional` whether that makes the guarantee
a conditional one, which a policy may forbid. Only declared facts and the usual idealizations of
arithmetic and of the generator are not conditions. A class that says nothing about it is one. As with
events, a published kind keeps its meaning, here its sentence: files hold both.
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
    """Base of all assumptions; `kind` is the word that stands for the class in JSON."""

    kind: ClassVar[str] = ""
    conditional: ClassVar[bool] = True
    """Whether a guarantee that rests on this is a conditional one."""

    @property
    def sentence(self) -> str:
        """What is assumed, as reports and the command line print it."""
        raise NotImplementedError(f"{type(self).__name__} has no sentence.")

    def __str__(self) -> str:
        return self.sentence

    def to_json(self) -> dict[str, Any]:
        """The assumption as plain JSON values: its kind and fields, and its sentence for readers."""
        fields = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"kind": self.kind, "sentence": self.sentence, **fields}


@dataclass(frozen=True)
class Declared(Assumption):
    """Facts that a person declared and the fit took as public.

    Args:
        what: The facts in the order in which they are named. A fact in the singular starts with
            "the" ("the schema"); a plural has no article ("bounds").
    """

    what: tuple[str, ...]
    kind: ClassVar[str] = "declared"
    conditional: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.what, str):  # which is a sequence of texts, too
            raise TypeError("declared facts must be a tuple of texts, got one text.")
        object.__setattr__(self, "what", tuple(self.what))
        if not 0 < len(self.what) <= _MAX_FACTS:
            raise ValueError(f"declared facts must be 1 to {_MAX_FACTS}, got {len(self.what)}.")
        for fact in self.what:
            check_text(fact, "declared fact")

    @property
    def sentence(self) -> str:
        """For example "bounds and the number of records were declared, not read [...]"."""
        *most, last = self.what
        named = f"{', '.join(most)} and {last}" if most else last
        verb = "was" if not most and last.startswith("the ") else "were"
        return f"{named} {verb} declared, not read from the records"


@dataclass(frozen=True)
class FloatSums(Assumption):
    """Rounding in sums over records is ignored; noise is drawn exactly."""

    kind: ClassVar[str] = "float-sums"
    conditional: ClassVar[bool] = False

    @property
    def sentence(self) -> str:
        return "sums of floating-point numbers count as exact"


@dataclass(frozen=True)
class Generator(Assumption):
    """Batches or noise come from the generator of the device, not from the operating system."""

    kind: ClassVar[str] = "generator"
    conditional: ClassVar[bool] = False

    @property
    def sentence(self) -> str:
        return "numbers from the Threefry generator count as random"


@dataclass(frozen=True)
class Seeded(Assumption):
    """A person chose the seed of the noise: whoever knows it can subtract the noise."""

    kind: ClassVar[str] = "seeded"

    @property
    def sentence(self) -> str:
        return "the seed was chosen by the user, is secret and is used for no other fit"


@dataclass(frozen=True)
class Unproved(Assumption):
    """A release is taken for the mechanism that its event describes, without a proof.

    Args:
        claim: What is taken to hold, as a clause that "which is not proved" can follow.
    """

    claim: str
    kind: ClassVar[str] = "unproved"

    def __post_init__(self) -> None:
        check_text(self.claim, "claim")

    @property
    def sentence(self) -> str:
        return f"CONDITIONAL: {self.claim}, which is not proved"


@dataclass(frozen=True)
class Approximate(Assumption):
    """An accountant's sum estimates epsilon and does not bound it.

    Args:
        method: The name of the approximation.
    """

    method: str
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        check_text(self.method, "method")

    @property
    def sentence(self) -> str:
        return f"{self.method} is an approximation, not a bound"


@dataclass(frozen=True)
class Conditional(Assumption):
    """Any other condition, in words of its own."""

    text: str
    kind: ClassVar[str] = "conditional"

    def __post_init__(self) -> None:
        check_text(self.text, "assumption")

    @property
    def sentence(self) -> str:
        return self.text


_KINDS: dict[str, type[Assumption]] = {
    cls.kind: cls
    for cls in (Declared, FloatSums, Generator, Seeded, Unproved, Approximate, Conditional)
}


def declared(*facts: str, num_records: int | None = None) -> Declared:
    """The declared facts, among them the number of records unless it is None."""
    return Declared(facts if num_records is None else (*facts, "the number of records"))


def of_noise(*, seeded: bool, sums: bool = True, generator: bool = True) -> tuple[Assumption, ...]:
    """What releases with Gaussian noise rest on.

    Args:
        seeded: Whether a person chose the seed of the noise.
        sums: Whether anything but counts was added up.
        generator: Whether batches and noise come from a generator on the device, as in training.
    """
    every = ((sums, FloatSums()), (generator, Generator()), (seeded, Seeded()))
    return tuple(assumption for holds, assumption in every if holds)


def conditions(assumptions: tuple[Assumption, ...]) -> tuple[Assumption, ...]:
    """Those that make a guarantee conditional."""
    return tuple(one for one in assumptions if one.conditional)


def checked(assumptions: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """The assumptions in their order, each once.

    Raises:
        TypeError: One is not an `Assumption`, such as a sentence.
    """
    listed = tuple(assumptions)
    for one in listed:
        check.instance(Assumption, assumption=one)
    return tuple(dict.fromkeys(listed))


def from_json(data: Any) -> Assumption:
    """The assumption written by `Assumption.to_json`; anything else is refused, not guessed at."""
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
        raise ArtifactError(f"assumption {kind!r} says another sentence than its kind does.")
    return assumption


def _plain(value: str | tuple[str, ...]) -> str | list[str]:
    return value if isinstance(value, str) else list(value)


def check_text(value: object, what: str) -> str:
    """The value if it is a text that can be shown: not empty, not endless."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a text, got {type(value).__name__}.")
    if not value.strip() or len(value) > _MAX_TEXT:
        raise ValueError(f"{what} must have 1 to {_MAX_TEXT} characters, got {len(value)}.")
    return value
