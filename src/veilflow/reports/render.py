"""Documents from values: HTML that needs no network, Markdown and JSON.

On disk a document is complete or not there, and a card and a curator's report never replace each other.
"""

import json
import math
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from veilflow._core import store
from veilflow._core.errors import PrivacyError
from veilflow.reports import words
from veilflow.reports.svg import visible

if TYPE_CHECKING:
    from jinja2 import Environment

    from veilflow.reports.card import ReleaseCard

CARD_MARK = "<!-- veilflow release card -->"
CURATOR_MARK = "<!-- veilflow curator's report: INTERNAL, made from private data -->"
"""How a file says which of the two it is; neither may take the other's place."""
CARD_FILES = ("card.html", "card.md", "card.json")
CURATOR_FILE = "curator.html"
_START = 4096
SECTIONS = ("table", "images", "classes", "posterior", "detector", "ensemble")
"""Sections of the curator's report, by the kind of model; each has a template of its own."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$-])")


def card_html(card: "ReleaseCard") -> str:
    """The card as a page."""
    return _template("card.html.j2").render(**_card(card), mark=CARD_MARK)


def card_markdown(card: "ReleaseCard") -> str:
    """The card as Markdown."""
    return _template("card.md.j2").render(**_card(card), mark=CARD_MARK)


def card_json(card: "ReleaseCard") -> str:
    """The card as JSON."""
    return json.dumps(card.to_json(), indent=1, sort_keys=True, allow_nan=False) + "\n"


def curator_html(values: dict[str, Any]) -> str:
    """The curator's report as a page, with the sections that there are values for."""
    parts = [name for name in SECTIONS if values.get(name)]
    filled = {**dict.fromkeys(SECTIONS), **values, "parts": parts, "mark": CURATOR_MARK}
    return _template("curator.html.j2").render(**filled)


def write_card(card: "ReleaseCard", folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write `card.html`, `card.md` and `card.json` into a folder, which is created if need be."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = dict(
        zip(CARD_FILES, (card_html(card), card_markdown(card), card_json(card)), strict=True)
    )
    for name in texts:
        _check_place(folder / name, other=CURATOR_MARK, what="a release card")
    for name, text in texts.items():
        store.write_atomic(folder / name, text.encode("utf-8"))
    return {name: folder / name for name in texts}


def write_curator(html: str, folder: str | os.PathLike[str]) -> Path:
    """Write `curator.html`, which only its owner may read."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CURATOR_FILE
    _check_place(path, other=CARD_MARK, what="a curator's report")
    store.write_atomic(path, html.encode("utf-8"), mode=0o600)
    return path


def check_publishable(folder: str | os.PathLike[str]) -> None:
    """Raise if a folder that is to be published holds something internal."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and _is(path, CURATOR_MARK):
            raise PrivacyError(
                f"{path} is a curator's report, made from private data. A folder that is published "
                "must not hold it: choose another --out."
            )


def _check_place(path: Path, *, other: str, what: str) -> None:
    """Raise if `path`, or the file it links to, is or is named like the other document."""
    target = Path(os.path.realpath(path))
    if target.name != path.name and target.name in (*CARD_FILES, CURATOR_FILE):
        raise PrivacyError(f"{path} is a link to {target.name}: {what} is not written there.")
    if path.exists() and _is(path, other):
        raise PrivacyError(
            f"{path} holds the other kind of report, the one "
            f"{'from private data' if other == CURATOR_MARK else 'to be published'}: {what} "
            "is not written over it. Choose another folder, or move that file away."
        )


def _is(path: Path, mark: str) -> bool:
    with open(path, "rb") as file:
        return mark.encode() in file.read(_START)


def _card(card: "ReleaseCard") -> dict[str, Any]:
    return {
        "card": card,
        "kind": words.kind(card.model),
        "in_words": words.plain_words(card.guarantee),
        "in_symbols": words.symbols(card.guarantee),
        "unit": words.unit(card.guarantee),
        "adjacency": words.adjacency(card.guarantee),
        "uses": words.uses(card.model),
        "misuses": words.MISUSES,
        "private": math.isfinite(card.guarantee.epsilon),
    }


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("veilflow.reports"),
        # names in a file are text, whoever wrote them; Markdown is escaped by the filter `md`
        autoescape=lambda name: name is None or ".html" in name,
        undefined=StrictUndefined,  # a misspelled field is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "bound": bound,
        "md": markdown,
        "visible": visible,
        "opening": opening,
    }
    return environment


def _template(name: str) -> Any:
    return _environment().get_template(name)


def number(value: float, digits: int = 4) -> str:
    """A number for people."""
    return "∞" if math.isinf(value) else f"{value:.{digits}g}"


def percent(value: float, digits: int = 1) -> str:
    """A share for people; one below the last digit is shown as such, not rounded to 0."""
    least = 10.0**-digits
    if 0 < 100 * value < least:
        return f"< {least:g} %"
    return f"{100 * value:.{digits}f} %"


def bound(value: float) -> str:
    """An upper bound on a share, rounded up."""
    return f"{math.ceil(1000 * value - 1e-9) / 10:.1f} %"


def opening(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


def markdown(text: object) -> str:
    """Text from a file, escaped so that Markdown shows it unchanged."""
    return _SPECIAL.sub(r"\\\1", visible(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")
