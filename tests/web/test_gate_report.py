"""gate.html: complete in one file, text that stays text, and pictures that say what they show."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_pages import Page, check_that_nothing_is_loaded

import runs
from llm_finetuning.types import Estimate
from llm_finetuning.web import drawing

Finetune = Callable[..., tuple[int, str, str]]

HOSTILE = (
    "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>{{ 7 * 7 }}</pre>\u202e\x1b[31m \ud800"
)

WRONG = """\
def contains(completions, answer, **kwargs):
    return [float(gold in text) for text, gold in zip(completions, answer)]


def polite(completions, **kwargs):
    return [float("please" in text) for text in completions]
"""
BRIEF = runs.BRIEF.replace(
    "- use: exact_answer\n    options: {extract: last_number}",
    "- file: mine.py:contains\n  - file: mine.py:polite\n    weight: 0.2",
)


@pytest.fixture
def page(tmp_path: Path, finetune: Finetune) -> Page:
    """The report of a run with a wrong reward, two readers and a completion full of markup."""
    folder = runs.write_run(tmp_path / "run", text=BRIEF)
    (folder / "mine.py").write_text(WRONG)

    def said(i: int, index: int) -> str:
        text = runs.completion(i, index)
        return f"{HOSTILE} {text}" if (i, index) == (4, 0) else f"please {text}" if index == 3 else text

    samples = runs.write_samples(folder, text_of=said)
    runs.examine(folder, limit=200)

    def accept(sample: Any) -> bool:
        return str(sample.completion).endswith(f" {sample.columns['answer']}.")

    for reader in ("ada", "<b>bob</b>"):
        table = runs.write_labels_csv(folder, samples, accept)
        text = table.read_text("utf-8").replace("q5/0,reject", "q5/0,accept" if reader == "ada" else "q5/0,reject")
        table.write_text(text.replace("q4/0,reject,", "q4/0,reject,<i>no</i>"), "utf-8")
        assert finetune("review", folder, "--import", table, "--reader", reader)[0] == 0
    assert finetune("gate", folder)[0] == 1
    return Page((folder / "gate.html").read_text("utf-8"))


def test_what_a_model_wrote_stays_text(page: Page) -> None:
    """Markup, template braces, control characters, a lone surrogate: shown, never obeyed, from any source."""
    assert not page.open
    assert not page.names() & {"script", "img", "iframe", "object", "embed", "link", "form", "i"}
    assert not [attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    shown = [text for text in page.texts["pre"] if text.startswith("<script>alert(1)</script><img src=http://evil")]
    assert shown
    assert all("{{ 7 * 7 }}</pre><U+202E>\u241b[31m <U+D800>" in text for text in shown)
    assert "<i>no</i>" in page.texts["pre"]  # a reader's note
    assert any("<b>bob</b>" in text for text in page.texts["th"])


def test_nothing_is_loaded_and_nothing_runs(page: Page) -> None:
    """One file: no address in any attribute, no import in the style, a policy that forbids the rest."""
    check_that_nothing_is_loaded(page)


def test_the_verdict_and_its_one_action_come_first(page: Page) -> None:
    """Then the numbers, the pictures, the findings, and every disagreement."""
    (headline,) = page.texts["h1"]
    titles = [title.partition(" (")[0] for title in page.texts["h2"]]

    assert headline == "\u2717 The gate is blocked"
    assert titles[:4] == ["Pictures", "Findings", "Reward against reader", "Disagreements"]
    assert "Readers differ" in titles
    disagreements = [title for title in page.texts["h3"] if title.startswith("Paid, but rejected: ")]
    assert len(disagreements) == 29  # of the 30 that the reward pays wrongly, readers differ on one
    assert any(title.startswith("Attack paid: spraying") for title in page.texts["h3"])


def test_pictures_speak(page: Page) -> None:
    """Each has a title and a description with its numbers, for who cannot see it, and a caption."""
    pictures = [attributes for tag, attributes in page.tags if tag == "svg"]
    ids = {attributes["id"] for tag, attributes in page.tags if tag in ("title", "desc") and "id" in attributes}

    assert len(pictures) == len(page.texts["figcaption"]) == 6
    assert "Component shares of the variance" in page.texts["title"]
    for picture in pictures:
        assert picture["role"] == "img"
        assert set(str(picture["aria-labelledby"]).split()) <= ids
    assert "0: 2 completions" not in page.texts["desc"]
    assert any("completions" in text and re.search(r"\d", text) for text in page.texts["desc"])


def test_it_reads_in_dark_mode_and_on_a_phone(page: Page) -> None:
    """The style follows the reader's system and width; tables scroll within themselves."""
    (style,) = page.texts["style"]
    assert "prefers-color-scheme: dark" in style
    assert "max-width: 30rem" in style
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags


WORDS = {"title": "t<", "about": "a&", "x_label": 'x"', "y_label": "y"}


def rects(drawn: str) -> list[dict[str, float]]:
    shapes = re.findall(r"<rect ([^>]*)/>", drawn)
    return [
        {name: float(text) for name, text in re.findall(r'(x|y|width|height)="([\d.-]+)"', shape)} for shape in shapes
    ]


def test_columns_stand_on_zero_and_are_as_high_as_their_counts() -> None:
    """Twice the count is twice the height; labels are escaped."""
    drawn = drawing.columns([drawing.Column("<a>", 2), drawing.Column("b", 4, "bad")], **WORDS)
    first, second = rects(drawn)

    assert second["height"] == pytest.approx(2 * first["height"], abs=0.1)
    assert first["y"] + first["height"] == pytest.approx(second["y"] + second["height"], abs=0.1)
    assert "&lt;a&gt;" in drawn
    assert "t&lt;" in drawn
    assert 'class="bad"' in drawn


def test_intervals_reach_from_low_to_high() -> None:
    """The whisker's ends are the interval's, the point is the share; the planned size is marked."""
    share = Estimate(value=0.5, low=0.25, high=1.0, n=8)
    drawn = drawing.intervals([("8", share, True)], **WORDS)
    (whisker,) = re.findall(r'<line class="whisker good" [^>]*y1="([\d.]+)" y2="([\d.]+)"', drawn)
    (point,) = re.findall(r'<circle class="good" [^>]*cy="([\d.]+)"', drawn)
    low, high = map(float, whisker)

    assert (low - float(point)) / (low - high) == pytest.approx(1 / 3, abs=0.01)
    assert "8 (planned)" in drawn


def test_a_share_below_zero_is_drawn_to_the_left() -> None:
    """It works against the sum."""
    against, with_it = rects(drawing.bars([("a", -0.5), ("b", 1.5)], **WORDS))

    assert against["x"] + against["width"] == pytest.approx(with_it["x"], abs=0.1)
    assert with_it["width"] == pytest.approx(3 * against["width"], abs=0.2)


def test_a_map_darkens_with_its_counts() -> None:
    """Nothing is drawn for none; few cells have their counts written in."""
    drawn = drawing.heat([[0, 9], [1, 0]], ["0", "1"], ["reject", "accept"], **WORDS)
    shades = [float(shade) for shade in re.findall(r'fill-opacity="([\d.]+)"', drawn)]

    assert len(shades) == 2
    assert max(shades) == shades[0]
    assert ">9<" in drawn


def test_a_curve_ends_where_its_last_value_is() -> None:
    """Step 0 is at the left end and the last one at the right; a point with an interval has its whisker around it."""
    share = Estimate(value=0.5, low=0.25, high=0.75, n=20)
    curve = drawing.Curve(label="pass@1 <", points=[(0, 0.0), (30, 0.5)], kind="good", shares=[(30, share)])
    drawn = drawing.curves([curve], top=2.0, last=30, **WORDS)
    ((first, bottom), (last, middle)) = [
        tuple(map(float, point.split(",")))
        for point in re.search(r'points="([^"]*)"', drawn)[1].split()  # type: ignore[index]
    ]
    low, high = map(float, re.search(r'class="whisker good" [^>]*y1="([\d.]+)" y2="([\d.]+)"', drawn).groups())  # type: ignore[union-attr]
    zero, half = (float(y) for y in re.findall(r'class="grid" [^>]*y1="([\d.]+)"', drawn)[:2])

    assert (bottom, half) == (zero, pytest.approx(zero - 2 * (zero - middle), abs=0.2))
    assert (low + high) / 2 == pytest.approx(middle, abs=0.1)
    assert low > middle > high
    assert [float(x) for x in re.findall(r'class="tick" x="([\d.]+)"', drawn)][::3] == [first, last]
    assert "pass@1 &lt;" in drawn
