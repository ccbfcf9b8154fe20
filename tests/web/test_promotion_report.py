"""promotion-report.html: complete in one file, every number drawn and told, and texts of two models that stay text."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_pages import Page, check_in_a_browser, check_that_nothing_is_loaded
from test_review_page import needs_browser

import evaluations
from llm_finetuning import artifact, brief, drift
from llm_finetuning.promoting import contest
from llm_finetuning.types import Arena, Estimate, Promotion
from llm_finetuning.web import drawing, promotion_report

Finetune = Callable[..., tuple[int, str, str]]

HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>{{ 7 * 7 }}</pre>\u202e\x1b[31m"
BUCKET = "<b>refunds</b>\u202e"


@pytest.fixture
def run(tmp_path: Path, finetune: Finetune) -> Path:
    """A run whose candidate gains on the whole, loses a bucket, drifts, and writes markup; two goldens leaked."""
    run = evaluations.write_run(tmp_path / "run", text=evaluations.BRIEF + "evaluation: {bucket: part}\n")
    held = [json.loads(line) for line in (run / "held.jsonl").read_text().splitlines()]
    for place, row in enumerate(held):
        row["part"] = BUCKET if place % 3 == 0 else "greetings"
    (run / "held.jsonl").write_text("".join(json.dumps(row) + "\n" for row in held))
    with (run / "data.jsonl").open("a") as stream:
        for place in (1, 2):
            row = {"id": f"x{place}", "prompt": held[place]["prompt"], "answer": "0", "level": 0}
            stream.write(json.dumps(row) + "\n")
    evaluations.write_transcripts(run, "base", lambda _, index: index < 2, general=lambda place: place % 3 > 0)
    evaluations.write_transcripts(
        run,
        "tuned",
        lambda i, index: index < (0 if i % 3 == 0 else 4),
        model="some/tuned",
        general=lambda place: place % 3 > 0 and place > len(drift.rows(chat=False)) // 2,
    )
    for name in ("base", "tuned"):
        path = run / "eval" / f"{name}.samples.jsonl"
        path.write_text(path.read_text().replace("it is", f"{json.dumps(HOSTILE)[1:-1]} it is"))
    assert finetune("evaluate", run, "--name", "base")[0] == 0
    assert finetune("evaluate", run, "--name", "tuned", "--model", "some/tuned")[0] == 0
    assert finetune("compare", run, "base", "tuned")[0] == 1
    return run


@pytest.fixture
def page(run: Path) -> Page:
    """Its page."""
    return Page((run / "promotion-report.html").read_text("utf-8"))


def view_of(run: Path, **changed: Any) -> promotion_report.View:
    loaded = brief.load(run)
    held = artifact.read_json(run / "promotion.json", Promotion)
    found = dataclasses.replace(held.records[0], **changed)
    return promotion_report.View(loaded.brief, found, held.header, contest.contest_of(loaded, "base", "tuned"))


def test_what_a_model_wrote_stays_text(page: Page) -> None:
    """Markup, template braces, control characters: shown, never obeyed, in completions and in names of buckets."""
    assert not page.open
    assert not page.names() & {"script", "img", "iframe", "object", "embed", "link", "form", "i"}
    assert not [attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    shown = [text for text in page.texts["pre"] if "<script>alert(1)</script><img src=http://evil" in text]
    assert len(shown) == 2 * (7 + 11)  # seven items lost and eleven won, two completions each
    assert all("{{ 7 * 7 }}</pre><U+202E>\u241b[31m it is" in text for text in shown)
    assert "bucket <b>refunds</b><U+202E>" in page.texts["th"]
    assert "\u202e" not in page.texts["body"][0]


def test_nothing_is_loaded_and_nothing_runs(page: Page) -> None:
    """One file: no address in any attribute, no import in the style, a policy that forbids the rest."""
    check_that_nothing_is_loaded(page)


def test_the_verdict_comes_first_with_its_reason_and_the_one_next_action(run: Path, page: Page) -> None:
    """Then the numbers, every finding, the shifts, the power, the leaks, the items, and what it rests on."""
    found = artifact.read_json(run / "promotion.json", Promotion).records[0]
    assert page.texts["h1"] == ["\u2717 Rejected: tuned"]
    assert page.texts["h2"] == [
        "Findings",
        "What shifted",
        "What these goldens can show",
        "Goldens in the training data (2)",
        "Items lost and won",
        "What this rests on",
    ]
    body = " ".join(page.texts["body"][0].split())
    first = body.index(found.reason[1:80])
    assert body.index("Rejected: tuned") < first < body.index("Findings")
    assert len(page.texts["li"]) == len(found.findings) > 3
    for finding in found.findings:
        assert finding.code in page.texts["code"]
    (header,) = page.texts["header"]
    assert "training: {beta: 0.04}" in header


def test_every_number_stands_in_the_table_and_in_a_picture(run: Path, page: Page) -> None:
    """pass@1 with and without what leaked, the buckets, lengths, general ability by kind; intervals drawn and told."""
    found = artifact.read_json(run / "promotion.json", Promotion).records[0]
    for name in ("pass@1", "pass@1 with leaked goldens", "pass@4", "bucket greetings", "exact_answer", "drift: code"):
        assert name in page.texts["th"]
    gap = found.drift.success.difference  # type: ignore[union-attr]
    assert f"{gap.low:+.3f} to {gap.high:+.3f}" in page.texts["td"]
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    ids = {attributes["id"] for tag, attributes in page.tags if tag in ("title", "desc") and "id" in attributes}
    assert len(pictures) == len(page.texts["figcaption"]) == 2
    for picture in pictures:
        assert picture["role"] == "img"
        assert set(str(picture["aria-labelledby"]).split()) <= ids
    assert any(f"all kinds {gap.value:+.3f}" in text for text in page.texts["desc"])
    assert "h1" in page.texts["th"]
    assert "16" in page.texts["td"]


def test_items_show_a_completion_of_each_that_went_the_item_s_way(page: Page) -> None:
    """Of a lost item one with which the base succeeds and one with which the candidate fails."""
    articles = page.texts["article"]
    assert len(articles) == 18
    lost = articles[0]
    assert "succeeds on 2 of 4; grade 1" in lost
    assert "succeeds on 0 of 4; grade 0" in lost
    assert "it is 201" in lost
    assert "it is 202" in lost
    assert lost.index("it is 201") < lost.index("it is 202")
    won = articles[7]  # the base succeeds on two of its completions; shown is one with which it fails
    assert won.index("succeeds on 2 of 4; grade 0") < won.index("succeeds on 4 of 4; grade 1")


def test_of_many_items_the_first_are_shown_and_the_rest_counted(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file stays one that opens."""
    monkeypatch.setattr(promotion_report, "SHOWN", 3)
    shown = Page(promotion_report.render(view_of(run)))
    assert len(shown.texts["article"]) == 6
    assert "4 more are in eval/." in shown.texts["p"]
    assert "8 more are in eval/." in shown.texts["p"]


def test_completions_that_were_not_kept_are_said(run: Path) -> None:
    """The numbers stand without them; so do they where somebody edited the file."""
    path = run / "eval" / "tuned.samples.jsonl"
    path.write_text(path.read_text().replace("it is", "it was"))
    shown = Page(promotion_report.render(view_of(run)))
    assert any("were not kept, or are not those that were graded" in text for text in shown.texts["p"])
    assert not any("it was" in text for text in shown.texts["pre"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"verdict": "promoted"}, "\u2713 Promoted: tuned"),
        ({"verdict": "insufficient", "items_needed": None}, "cannot be had on them"),
        ({"drift": None, "kinds": []}, "not measured"),
        ({"leaked": [], "fresh": None}, "None was found."),
        (
            {"arena": Arena(judge="j-1", won=5, lost=3, tied=2, by_order=1, unanswered=4, p_value=0.7)},
            "judge j-1 prefers tuned on 5 items and base on 3; 2 ties, 4 without an answer",
        ),
        ({"notes": ["read `this` <i>note</i>"]}, "Read this <i>note</i>"),
    ],
    ids=["promoted", "no room", "no drift", "no leaks", "arena", "notes"],
)
def test_each_state_has_a_page(run: Path, changed: dict[str, Any], words: str) -> None:
    """What was not measured or not found is said, not left blank."""
    shown = Page(promotion_report.render(view_of(run, **changed)))
    assert not shown.open
    assert words in " ".join(shown.texts["body"][0].split())


def test_shifts_lie_around_zero_with_the_budget_beside_it() -> None:
    """The whisker's ends are the interval's; 0 and the budget are lines at their places; labels are escaped."""
    gap = Estimate(value=-0.1, low=-0.2, high=0.0, n=9)
    words = {"title": "t<", "about": "a&", "x_label": "x"}
    drawn = drawing.shifts([("<a>", gap, "bad"), ("b" * 60, gap, "plain")], budget=0.1, **words)
    ((low, high), *_) = [
        tuple(map(float, ends)) for ends in re.findall(r'class="whisker \w+" x1="([\d.]+)" x2="([\d.]+)"', drawn)
    ]
    (zero,) = re.findall(r'class="axis" x1="([\d.]+)"', drawn)
    (budget,) = re.findall(r'class="budget" x1="([\d.]+)"', drawn)
    point, _ = re.findall(r'<circle class="\w+" cx="([\d.]+)"', drawn)
    assert high == float(zero)
    assert float(budget) == float(point) == pytest.approx((low + high) / 2, abs=0.1)
    assert "&lt;a&gt;: -0.100 (-0.200 to +0.000)" in drawn
    assert "b" * 31 + "...:" in drawn
    first, second = (
        int(drawing.shifts(rows, **words).split('viewBox="0 0 420 ')[1].split('"')[0])
        for rows in ([("a", gap, "plain")], [("a", gap, "plain")] * 2)
    )
    assert second > first
    assert 'class="budget"' not in drawing.shifts([("a", gap, "plain")], **words)


@needs_browser
def test_it_fits_a_phone_and_follows_the_system(run: Path) -> None:
    """In a real browser nothing is wider than the window, nothing runs, and the colours follow light and dark."""
    path = run / "promotion-report.html"
    check_in_a_browser(path, "tuned: rejected")
