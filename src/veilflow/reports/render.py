"""Documents from values: HTML that needs no network, Markdown, JSON."""

import json
import math
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from veilflow.reports import words

if TYPE_CHECKING:
    from jinja2 import Environment

    from veilflow.reports.card import ReleaseCard

CARD_MARK = "<!-- veilflow release card -->"
CURATOR_MARK = "<!-- veilflow curator's report: INTERNAL, made from private data -->"
"""How a file says which of the two it is; neither may take the other's place."""
SECTIONS = ("table", "images", "classes", "posterior", "detector", "ensemble")
"""Of the curator's report, by what a model is; each has a template of its own."""
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
    """The curator's report as a page, with those of its sections that there are values for."""
    parts = [name for name in SECTIONS if values.get(name)]
    filled = {**dict.fromkeys(SECTIONS), **values, "parts": parts, "mark": CURATOR_MARK}
    return _template("curator.html.j2").render(**filled)


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

    made = Environment(
        loader=PackageLoader("veilflow.reports"),
        # what a file says of its columns is text, whoever wrote it; Markdown escapes by `md`
        autoescape=lambda name: name is None or ".html" in name,
        undefined=StrictUndefined,  # a field that is misspelt is an error, not an empty place
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "number": number,
        "percent": percent,
        "bound": bound,
        "md": markdown,
        "visible": visible,
        "opening": opening,
    }
    return made


def _template(name: str) -> Any:
    return _environment().get_template(name)


def number(value: float, digits: int = 4) -> str:
    """A number for people."""
    return "∞" if math.isinf(value) else f"{value:.{digits}g}"


def percent(value: float, digits: int = 1) -> str:
    """A share for people; what is below the last digit is said to be so, not rounded to 0."""
    least = 10.0**-digits
    if 0 < 100 * value < least:
        return f"< {least:g} %"
    return f"{100 * value:.{digits}f} %"


def bound(value: float) -> str:
    """A share that something stays under, rounded up."""
    return f"{math.ceil(1000 * value - 1e-9) / 10:.1f} %"


def opening(text: str) -> str:
    """With a capital at the start, the rest as it is."""
    return text[:1].upper() + text[1:]


def visible(text: object) -> str:
    """Text from a file without control characters."""
    return "".join(c if c.isprintable() else "?" for c in str(text))


def markdown(text: object) -> str:
    """Text from a file as Markdown that shows it as it is."""
    return _SPECIAL.sub(r"\\\1", visible(text)).replace("\\<", "&lt;").replace("\\>", "&gt;")
