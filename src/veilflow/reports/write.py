"""Reports on disk: whole or not there, and never one in the place of the other."""

import os
from pathlib import Path

from veilflow._core import store
from veilflow._core.errors import PrivacyError
from veilflow.reports import render
from veilflow.reports.card import ReleaseCard

CARD_FILES = ("card.html", "card.md", "card.json")
CURATOR_FILE = "curator.html"
_START = 4096


def write_card(card: ReleaseCard, folder: str | os.PathLike[str]) -> dict[str, Path]:
    """Write `card.html`, `card.md` and `card.json` into a folder, which is made if need be."""
    folder = _made(folder)
    texts = dict(
        zip(
            CARD_FILES,
            (render.card_html(card), render.card_markdown(card), render.card_json(card)),
            strict=True,
        )
    )
    for name in texts:
        _check_place(folder / name, other=render.CURATOR_MARK, what="a release card")
    for name, text in texts.items():
        store.write_atomic(folder / name, text.encode("utf-8"))
    return {name: folder / name for name in texts}


def write_curator(html: str, folder: str | os.PathLike[str]) -> Path:
    """Write `curator.html`, which only its owner may read."""
    folder = _made(folder)
    path = folder / CURATOR_FILE
    _check_place(path, other=render.CARD_MARK, what="a curator's report")
    store.write_atomic(path, html.encode("utf-8"), mode=0o600)
    return path


def check_publishable(folder: str | os.PathLike[str]) -> None:
    """Raise if a folder that is to be published holds something internal."""
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file() and _is(path, render.CURATOR_MARK):
            raise PrivacyError(
                f"{path} is a curator's report, made from private data. A folder that is published "
                "must not hold it: choose another --out."
            )


def _made(folder: str | os.PathLike[str]) -> Path:
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    return folder


def _check_place(path: Path, *, other: str, what: str) -> None:
    """Raise if `path`, or what it links to, is or is named as the other document."""
    target = Path(os.path.realpath(path))
    if target.name != path.name and target.name in (*CARD_FILES, CURATOR_FILE):
        raise PrivacyError(f"{path} is a link to {target.name}: {what} is not written there.")
    if path.exists() and _is(path, other):
        raise PrivacyError(
            f"{path} holds the other kind of report, the one "
            f"{'from private data' if other == render.CURATOR_MARK else 'to be published'}: {what} "
            "is not written over it. Choose another folder, or move that file away."
        )


def _is(path: Path, mark: str) -> bool:
    with open(path, "rb") as file:
        return mark.encode() in file.read(_START)
