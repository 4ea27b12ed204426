"""The curator's report: marked on every section, offline, escaped, and true to what was measured."""

import re
import sys

import numpy as np
import pandas as pd
import pytest

import veilflow as vf
from tests.models.expm import test_classifier as classifiers
from tests.models.image import small as images
from tests.models.table import small as tables
from tests.reports import kinds
from tests.reports.test_card import Page
from veilflow.evaluation import compare_table_marginals
from veilflow.reports import curator_report, render, svg
from veilflow.reports.labeled import classifier_sections

AUDIT = {
    "method": "membership <b>",
    "bound": "clopper-pearson",
    "lower_bound": 0.42,
    "confidence": 0.95,
    "delta": 1e-5,
    "claimed": 1.0,
    "exceeds_claim": False,
    "counts": {},
    "scores": {},
    "internal": True,
    "sentence": "An attack that found little.",
}


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Detection has its own tests, and its trees wait for every other process of a busy machine."""
    module = sys.modules["veilflow.reports.tables"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "detection_score", lambda *_, **__: 0.6125)
        yield


@pytest.fixture(scope="module")
def of_table() -> str:
    with tables.quick():
        return curator_report(
            tables.fitted(), tables.frame(300), test=tables.frame(300, seed=1), audit=AUDIT
        )


@pytest.fixture(scope="module")
def of_rows() -> str:
    hostile = '<script>"x"&'
    model = kinds.mixture(pd.DataFrame(kinds.ROWS, columns=[hostile, "b"]))
    return curator_report(model, pd.DataFrame(kinds.ROWS, columns=[hostile, "b"]))


def checked(page: str) -> Page:
    """What every report must be."""
    assert page.startswith(f"<!doctype html>\n{render.CURATOR_MARK}")
    found = Page(page)
    assert dict(found.tags)["html"]["lang"] == "en"
    # every section, the title, the band on top and the margins of printed pages say what it is
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert len(headings) >= 2
    assert all('<span class="mark">INTERNAL</span>' in heading for heading in headings)
    assert page.count("<section>") == len(headings)
    assert "<title>INTERNAL" in page
    assert '<div class="band"' in page
    assert page.count('content: "INTERNAL') == 2
    assert not {"script", "link", "iframe", "form", "a"} & {tag for tag, _ in found.tags}
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|url\(|@import", page)
    for tag, attrs in found.tags:
        assert tag != "img" or (attrs["src"].startswith("data:image/png;base64,") and attrs["alt"])
        assert tag != "svg" or attrs["aria-label"]
        assert tag != "th" or "scope" in attrs
    assert "afe to publish" not in page
    return found


def test_a_table_is_compared_with_its_rows(of_table):
    found = checked(of_table)
    titles = (
        "Columns",
        "Pairs that differ most",
        "Rank correlations",
        "Downstream",
        "Detection",
        "Audit",
    )
    assert all(title in of_table for title in titles)
    assert sum(tag == "svg" for tag, _ in found.tags) == len(tables.SCHEMA.names)
    assert "rows held out" in of_table
    assert "area, learned from real rows" in of_table
    assert "An attack that found little." in of_table
    assert "membership &lt;b&gt;" in of_table


def test_no_record_is_shown(of_table):
    assert "atlantis" not in of_table
    assert "987.65" not in of_table


def test_a_density_is_compared_with_its_rows_and_hostile_names_are_text(of_rows):
    checked(of_rows)
    assert "&lt;script&gt;" in of_rows
    assert "No rows were held out" in of_rows
    assert "No audit was handed in" in of_rows


def test_the_numbers_are_those_of_the_measures(of_rows):
    model = kinds.mixture(pd.DataFrame(kinds.ROWS, columns=["a", "b"]))
    schema = vf.Schema(a=vf.Numeric(-4.0, 4.0), b=vf.Numeric(-4.0, 4.0))
    real = pd.DataFrame(kinds.ROWS, columns=["a", "b"])
    synthetic = pd.DataFrame(model.sample(400, seed=0), columns=["a", "b"])
    marginals = compare_table_marginals(real, synthetic, schema, binning="quantiles")
    assert render.percent(marginals.mean_one_way) in of_rows
    assert f"<strong>{render.number(0.6125, 3)}</strong>" in of_rows


def test_images_are_compared_by_their_means():
    page = curator_report(images.drawn(), images.pixels(), labels=images.places())
    checked(page)
    assert page.count('alt="Mean of real images, class') == 3
    assert "Balance of classes" in page
    assert "Values of pixels" in page


def test_classifiers_are_compared_with_their_labels():
    model = classifiers.fitted(seed=1)
    frame = pd.DataFrame({"x1": classifiers.ROWS[:, 0], "y": classifiers.LABELS})
    checked(curator_report(model, frame, label="y"))
    found = classifier_sections(model, frame, "y")["classes"]
    right = np.mean(model.predict(classifiers.ROWS).astype(int) == classifiers.LABELS)
    assert found["accuracy"] == pytest.approx(right)
    assert np.sum(found["counts"]) == classifiers.NUM
    with pytest.raises(ValueError, match="name their column"):
        curator_report(model, frame)


def test_what_is_no_model_has_no_rows_to_compare():
    with pytest.raises(TypeError, match="a ChainedImputer has no rows of its own"):
        curator_report(vf.ChainedImputer(bounds=(-4, 4), budget=kinds.BUDGET), kinds.ROWS)


def test_what_is_no_audit_is_refused():
    with pytest.raises(ValueError, match="veilflow audit --json"):
        curator_report(kinds.fitted("mixture"), kinds.ROWS, audit={"epsilon": 1.0})


def test_an_audit_that_refutes_the_claim_says_so():
    made = render.curator_html(
        {
            "kind": "x",
            "guarantee": vf.Guarantee(epsilon=1.0, delta=1e-5),
            "held_out": False,
            "audits": [{**AUDIT, "lower_bound": None, "exceeds_claim": True}],
        }
    )
    assert "the claim is refuted" in made
    assert "∞" in made


def test_drawings_are_whole():
    from io import BytesIO

    from PIL import Image

    text = svg.heat(np.array([[0.0, 1.0], [0.25, 0.0]]), color=(1, 2, 3), alt='a "b"')
    assert 'alt="a &quot;b&quot;"' in text
    data = re.search(r"base64,([^\"]+)", text).group(1)  # pyright: ignore
    import base64

    pixels = np.asarray(Image.open(BytesIO(base64.b64decode(data))))
    assert pixels[..., 3].tolist() == [[128, 0], [0, 255]]  # the first row is at the bottom
    assert pixels[0, 0, :3].tolist() == [1, 2, 3]
    drawn = svg.histogram(np.array([0.5, 0.5]), np.array([0.0, 1.0]), labels=["<a>", "b"], alt="x")
    assert "&lt;a&gt;" in drawn
    assert drawn.count("<rect") == 2


def test_text_has_enough_contrast_in_light_and_dark():
    for page in (render.curator_html, render.card_html):
        name = "curator.html.j2" if page is render.curator_html else "card.html.j2"
        source = render._environment().loader.get_source(render._environment(), name)[0]  # pyright: ignore
        palettes = re.findall(r":root \{\s*(--page.*?)\}", source, re.DOTALL)
        assert len(palettes) == 3  # light, dark, print
        for palette in palettes:
            colors = dict(re.findall(r"--([\w-]+): (#\w+)", palette))
            for text in ("ink", "quiet", "accent"):
                for ground in ("page", "panel"):
                    assert contrast(colors[text], colors[ground]) >= 4.5, (name, text, ground)
            for text, ground in (("warn", "warn-page"), ("on-band", "band"), ("strong", "panel")):
                if text in colors and ground in colors:
                    assert contrast(colors[text], colors[ground]) >= 4.5


def contrast(one: str, two: str) -> float:
    """As WCAG has it."""

    def luminance(color: str) -> float:
        color = color.lstrip("#")
        color = "".join(c * 2 for c in color) if len(color) == 3 else color
        parts = [int(color[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)
