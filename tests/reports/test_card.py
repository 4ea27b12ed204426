"""The release card: right numbers, for every kind of model, and nothing that nobody paid for."""

import dataclasses
import json
import math
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import veilflow as vf
from tests.models.table import small
from tests.reports import kinds
from veilflow._core.errors import PrivacyError
from veilflow.models.artifact import Artifact
from veilflow.privacy import events as ev
from veilflow.privacy.assumptions import Conditional
from veilflow.privacy.guarantees import Guarantee
from veilflow.privacy.ledger import Ledger
from veilflow.reports import release_card, render, write_card, write_curator
from veilflow.reports.attacker import attacker_bounds, detected
from veilflow.reports.recompute import script
from veilflow.reports.render import check_publishable

DELTA = 1e-6


def of(ledger: Ledger, delta: float = DELTA, schema=None) -> Artifact:
    return Artifact("DensityFlow", {}, ledger, ledger.guarantee(delta=delta), schema or {}, {})


def ledger(*events: ev.Event) -> Ledger:
    found = Ledger()
    for event in events:
        found = found.spend(event, purpose=f"a {event.kind} release")
    return found


def steps(rate, noise, times):
    return ev.Repeated(times, ev.PoissonSampled(rate, ev.Gaussian(noise)))


def documents(card) -> dict[str, str]:
    return {
        "html": render.card_html(card),
        "md": render.card_markdown(card),
        "json": render.card_json(card),
    }


# every kind of event that a ledger knows, alone or beside others
LEDGERS = {
    "gaussian": (ledger(ev.Gaussian(2.0), ev.Gaussian(3.0)), DELTA),
    "poisson-sampled": (ledger(steps(0.01, 1.1, 3000)), DELTA),
    "laplace": (ledger(ev.Repeated(5, ev.Laplace(4.0))), DELTA),
    "pure": (ledger(ev.Repeated(40, ev.PureDP(0.123))), DELTA),
    "exponential": (ledger(ev.Repeated(40, ev.ExponentialMechanism(0.1234))), DELTA),
    "approximate": (ledger(steps(0.05, 2.0, 10), ev.ApproximateDP(0.1, 1e-9)), DELTA),
    "total-variation": (ledger(steps(0.05, 2.0, 10), ev.TotalVariation(1e-9)), DELTA),
    "zero-concentrated": (ledger(ev.ZeroConcentrated(0.05), steps(0.05, 2.0, 10)), DELTA),
    "sampled pure": (ledger(ev.Repeated(30, ev.PoissonSampled(0.1, ev.Laplace(1.0)))), DELTA),
    "sampled approximate": (ledger(ev.PoissonSampled(0.1, ev.ApproximateDP(0.5, 1e-9))), DELTA),
    "only failures": (ledger(ev.ApproximateDP(0.0, 1e-9), ev.Gaussian(3.0)), DELTA),
    "together": (ledger(ev.Together((ev.Gaussian(3.0), ev.Repeated(2, ev.PureDP(0.1))))), DELTA),
    "delta 0": (
        ledger(ev.PureDP(0.1), ev.Laplace(3.0), ev.PoissonSampled(0.1, ev.PureDP(0.5))),
        0.0,
    ),
    "non-private": (ledger(ev.NonPrivate()), DELTA),
    "nothing": (ledger(), DELTA),
}


def test_all_kinds_of_events_are_tried_here():
    kinds_of = set(
        re.findall(r'"kind": "([\w-]+)"', json.dumps([x.to_json() for x, _ in LEDGERS.values()]))
    )
    known = {
        cls.kind for cls in vars(ev).values() if isinstance(cls, type) and issubclass(cls, ev.Event)
    }
    assert known - {""} <= kinds_of | {"zero-concentrated"}


def printed_script(page: str) -> str:
    """The script as a reader copies it from the page."""
    found = re.search(r'<pre id="recompute"[^>]*><code>(.*?)</code></pre>', page, re.DOTALL)
    assert found is not None
    return unescape(found.group(1))


def run_alone(code: str) -> float:
    """What a script prints in a Python that cannot import veilflow."""
    guard = "import sys; sys.modules['veilflow'] = None\n"
    done = subprocess.run([sys.executable, "-c", guard + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LEDGERS)
def test_the_script_in_the_card_recomputes_epsilon_with_another_library(name):
    spent, delta = LEDGERS[name]
    card = release_card(of(spent, delta))
    code = printed_script(render.card_html(card))
    assert code == card.script
    assert "veilflow" not in code
    assert run_alone(code) == pytest.approx(card.guarantee.epsilon, rel=1e-3)
    as_text = [x[4:] for x in render.card_markdown(card).splitlines() if x.startswith("    ")]
    assert "\n".join(as_text).strip() == code.strip()


def test_an_ordinary_training_takes_ten_lines():
    assert len(script(*_claimed(ledger(steps(0.01, 1.1, 3000)))).splitlines()) <= 10


def _claimed(spent: Ledger) -> tuple[Ledger, Guarantee]:
    return spent, spent.guarantee(delta=DELTA)


def test_a_purpose_cannot_become_code():
    spent = Ledger().spend(ev.Gaussian(3.0), purpose="x\nimport os; os.abort()\r\x0b'''")
    code = release_card(of(spent)).script
    assert run_alone(code) == pytest.approx(spent.epsilon(delta=DELTA), rel=1e-3)
    assert not any(line.lstrip().startswith("import os") for line in code.splitlines())


@pytest.mark.few(4)
@pytest.mark.parametrize("kind", kinds.MAKERS)
def test_every_kind_of_model_has_a_card(kind, tmp_path):
    model = kinds.fitted(kind)
    card = release_card(model)
    paths = write_card(card, tmp_path)
    assert sorted(paths) == ["card.html", "card.json", "card.md"]
    found = json.loads(paths["card.json"].read_text())
    assert found["guarantee"] == model.guarantee.to_json()
    assert Ledger.from_json(found["ledger"]) == model.ledger
    assert found["declared"], "every model has declared facts"
    assert sum(step["share"] for step in found["steps"]) == pytest.approx(1)
    page = unescape(paths["card.html"].read_text())
    text = paths["card.md"].read_text()
    for sentence in map(str, model.guarantee.assumptions):
        assert sentence in page
        assert render.markdown(sentence) in text
    assert "does not know" not in page


def test_conditional_sentences_are_at_the_top():
    card = release_card(kinds.fitted("conditional classifier"))
    assert any(sentence.startswith("CONDITIONAL") for sentence in card.conditional)
    for text in (render.card_html(card), render.card_markdown(card)):
        assert text.index("CONDITIONAL: this holds only if") < text.index("What it rests on")
        assert text.index("CONDITIONAL: this holds only if") < text.index("In symbols")
    exact = release_card(kinds.fitted("classifier"))
    assert exact.conditional == ()
    assert "CONDITIONAL" not in render.card_html(exact)


def test_a_claim_below_its_ledger_gets_no_card():
    honest = of(ledger(ev.Gaussian(2.0)))
    low = dataclasses.replace(honest.guarantee, epsilon=honest.guarantee.epsilon * 0.9)
    with pytest.raises(PrivacyError, match="No card is written"):
        release_card(dataclasses.replace(honest, guarantee=low))


def test_without_privacy_the_card_says_so_and_never_that_it_is_safe():
    card = release_card(of(ledger(ev.NonPrivate())))
    for name, text in documents(card).items():
        assert "There is no privacy" in text
        assert "no privacy: ε = ∞" in text or name == "json"
        assert "afe to publish" not in text
        assert name == "json" or "do not publish" in text


def test_what_is_not_fitted_has_nothing_to_write_a_card_about():
    with pytest.raises(TypeError, match="a fitted model or its file, not about ChainedImputer"):
        release_card(vf.ChainedImputer(bounds=(-4, 4), budget=kinds.BUDGET))


# what it means for one person


def test_the_bounds_of_a_gaussian_release_are_near_what_the_best_attacker_reaches():
    spent = ledger(ev.Gaussian(1.5))
    bounds = attacker_bounds(*_claimed(spent))
    mu = 1 / 1.5
    assert bounds.by_curve
    assert bounds.correct == pytest.approx(norm.cdf(mu / 2), rel=1e-6)
    for rate, found in bounds.found.items():
        best = norm.cdf(mu - norm.isf(rate))
        assert best <= found <= 1.35 * best


@given(
    epsilon=st.floats(0, 8),
    delta=st.floats(0, 0.5),
    rate=st.floats(1e-4, 0.5),
)
def test_no_test_between_two_coins_beats_the_bound(epsilon, delta, rate):
    # the worst mechanism of its epsilon and delta, and the best test of each rate of false alarms
    q = (1 - delta) / (1 + math.exp(epsilon))
    outcomes = [(delta, 0.0), ((1 - delta) - q, q), (q, (1 - delta) - q), (0.0, delta)]
    left, power = rate, 0.0
    for p, alarm in outcomes:
        share = 1.0 if alarm <= left or not alarm else left / alarm
        power, left = power + share * p, max(0.0, left - share * alarm)
    assert power <= detected([(epsilon, delta)], rate) + 1e-12
    assert detected([(epsilon, delta), (8.0, 0.9)], rate) <= detected([(8.0, 0.9)], rate)


def test_a_bound_is_rounded_up():
    assert render.bound(0.67001) == "67.1 %"
    assert render.bound(0.67) == "67.0 %"
    assert render.bound(1.0) == "100.0 %"


# hostile files


class Page(HTMLParser):
    """What a browser would make of a page: tags, attributes, where it would ask for something."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "]]></style><h1>x",
    "a|b\n| c | d |",
    "`x` [link](javascript:alert(1)) ![i](http://a.b/c)",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31mred\u202e",
]


def hostile_card(name: str):
    schema = vf.Schema({"x": vf.Categorical("a", "b")}).to_json()
    schema["columns"][0]["name"] = name.strip()
    schema["columns"][0]["values"] = [name, "b"]
    spent = Ledger().spend(ev.Gaussian(3.0), purpose=name).assuming(Conditional(name))
    made = of(
        spent, schema={"columns": [name], "domain": {"kind": "Box", "low": [0.0], "high": [1.0]}}
    )
    return release_card(dataclasses.replace(made, model=name))


def test_bounds_and_norms_are_among_what_was_declared_and_sizes_of_a_flow_are_not():
    named = pd.DataFrame(kinds.ROWS, columns=["east", "north"])
    for fit in (kinds.density, kinds.mixture):
        assert release_card(fit()).facts == (("bounds", "-4 to 4"),)
        assert release_card(fit(named)).facts == (("east", "-4 to 4"), ("north", "-4 to 4"))
    ball = kinds.mixture(bounds=None, row_norm=5.0)
    assert release_card(ball).facts == (("largest norm of a row", "5"),)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_comes_out_as_text(name):
    card = hostile_card(name)
    page = render.card_html(card)
    plain = [tag for tag, _ in Page(render.card_html(hostile_card("plain"))).tags]
    assert [tag for tag, _ in Page(page).tags] == plain  # not one tag more
    assert "<script" not in page
    assert "49" not in page.replace(card.script, "") or "7 * 7" in page
    text = render.card_markdown(card)
    for bad in ("<script", "<img", "](javascript", "](http", "\n| c"):
        assert bad not in text
    assert not any(c for c in page + text if not c.isprintable() and c != "\n")
    assert json.loads(render.card_json(card))["ledger"]["entries"][0]["purpose"] == name


def test_pages_ask_for_nothing_and_can_be_read_by_everyone():
    page = Page(render.card_html(release_card(of(*LEDGERS["together"]))))
    tags = [tag for tag, _ in page.tags]
    assert dict(page.tags)["html"]["lang"] == "en"
    assert tags.count("h1") == 1
    assert not {"script", "link", "iframe", "object", "form", "a"} & set(tags)
    assert all("scope" in attrs for tag, attrs in page.tags if tag == "th")
    assert all(tag != "img" or attrs.get("alt") for tag, attrs in page.tags)
    text = render.card_html(release_card(of(*LEDGERS["together"])))
    assert not re.search(r"https?:|url\(|@import|src=", text)
    assert "default-src 'none'" in text


# two documents that cannot be confused


def test_a_card_is_never_written_over_a_curators_report_nor_the_other_way_round(tmp_path):
    card = release_card(of(ledger(ev.Gaussian(3.0))))
    report = f"<!doctype html>\n{render.CURATOR_MARK}\n<html></html>"
    write_card(card, tmp_path)
    write_curator(report, tmp_path)
    (tmp_path / "card.html").write_text(report)
    with pytest.raises(PrivacyError, match="other kind of report"):
        write_card(card, tmp_path)
    assert (tmp_path / "card.html").read_text() == report
    (tmp_path / "card.html").unlink()
    (tmp_path / "card.html").symlink_to(tmp_path / "curator.html")
    with pytest.raises(PrivacyError, match="is a link to"):
        write_card(card, tmp_path)
    assert (tmp_path / "curator.html").read_text() == report
    (tmp_path / "curator.html").write_text(render.card_html(card))
    with pytest.raises(PrivacyError, match="other kind of report"):
        write_curator(report, tmp_path)


def test_a_curators_report_is_for_its_owner_and_no_folder_with_it_is_published(tmp_path):
    write_card(release_card(of(ledger(ev.Gaussian(3.0)))), tmp_path)
    check_publishable(tmp_path)
    path = write_curator(f"<!doctype html>\n{render.CURATOR_MARK}", tmp_path)
    assert path.stat().st_mode & 0o077 == 0
    path.rename(tmp_path / "renamed.txt")
    with pytest.raises(PrivacyError, match="must not hold it"):
        check_publishable(tmp_path)


# nothing computed from private data without an event


def without_row(rows):
    return rows.iloc[1:].reset_index(drop=True) if hasattr(rows, "iloc") else rows[1:]


EXTREME = np.vstack([[[1e9, -1e9]], kinds.ROWS[1:]])
NEIGHBORS = {
    "density": (lambda rows: kinds.density(rows), EXTREME),
    "density, count paid for": (lambda rows: kinds.density(rows, num_records=None), EXTREME),
    "mixture": (lambda rows: kinds.mixture(rows), EXTREME),
    "mixture, count paid for": (lambda rows: kinds.mixture(rows, num_records=None), EXTREME),
    "imputer": (lambda rows: kinds.imputer(rows), EXTREME),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NEIGHBORS)
def test_cards_of_neighbors_are_equal_to_the_last_byte(name):
    fit, rows = NEIGHBORS[name]
    cards = [documents(release_card(fit(some))) for some in (rows, without_row(rows), kinds.ROWS)]
    assert cards[0] == cards[1] == cards[2]


@pytest.mark.parametrize("name", ["density", "mixture"])
def test_of_the_files_of_neighbors_only_the_released_arrays_differ(name):
    fit, rows = NEIGHBORS[name]
    first, second = (fit(some).to_artifact() for some in (rows, without_row(rows)))
    for made in (first, second):
        # computed from the released grid, as the arrays are, though they stand among the settings
        for derived in ("blend", "components"):
            made.schema.get("assembly", {}).pop(derived, None)
    for part in ("model", "manifest", "ledger", "guarantee", "schema"):
        assert getattr(first, part) == getattr(second, part)
    # how many components the released grid has boxes for is the first axis of some
    shapes = [{k: (v.shape[1:], v.dtype) for k, v in x.arrays.items()} for x in (first, second)]
    assert shapes[0] == shapes[1]


def test_cards_of_neighboring_tables_differ_at_most_by_released_values():
    rows = small.frame()  # the first row has a town and a gain that nobody else has
    with small.quick():
        models = [
            small.estimator(steps=0).fit(x, progress=False) for x in (rows, without_row(rows))
        ]
    first, second = (model.to_artifact() for model in models)
    # the vocabulary is released and paid for; with the same one, all but the arrays is the same
    second = dataclasses.replace(
        second, schema={**second.schema, "vocabularies": first.schema["vocabularies"]}
    )
    assert documents(release_card(first)) == documents(release_card(second))
    assert (first.ledger, first.guarantee) == (second.ledger, second.guarantee)
    assert first.manifest == second.manifest
    for text in documents(release_card(first)).values():
        assert all(str(value) not in text for value in small.CANARY)


def test_a_card_says_neither_how_many_rows_there_were_nor_when():
    rows = np.random.default_rng(1).normal(size=(4321, 2))
    texts = documents(release_card(kinds.mixture(rows, num_records=None)))
    for text in texts.values():
        assert "4321" not in text
        assert not re.search(r"20\d\d-\d\d|\d\d:\d\d", text)
