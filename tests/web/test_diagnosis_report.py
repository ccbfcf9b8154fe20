"""diagnosis.html: complete in one file, curves with their ranges marked, and texts of a model that stay text."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_pages import Page, check_in_a_browser, check_that_nothing_is_loaded
from test_review_page import needs_browser

import logged_runs
from llm_finetuning.diagnosis import diagnose, reading
from llm_finetuning.diagnosis.log import Completion, RunLog
from llm_finetuning.diagnosis.record import Diagnosis
from llm_finetuning.web import diagnosis_pictures, drawing
from llm_finetuning.web.diagnosis_report import render

HOSTILE = (
    "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>{{ 7 * 7 }}</pre>\u202e\x1b[31m \ud800"
)
ROWS = logged_runs.ROWS
HACKED = {
    "rewards/correct/mean": np.linspace(0.6, 0.1, ROWS),
    "rewards/polite/mean": np.linspace(0.1, 1.0, ROWS),
    "reward": np.linspace(0.7, 1.1, ROWS),
}


def read(folder: Path, **changed: Any) -> RunLog:
    return reading.read(logged_runs.write(folder, logged_runs.columns(**changed)))


def kept() -> list[Completion]:
    """Return completions of which the late ones are paid for what nobody wants."""
    return [
        Completion(
            step=step,
            prompt=f"What is 2 + {at}? {HOSTILE}",
            completion=f"{step}: the answer is {2 + at}." if step < 40 else f"{step}: {HOSTILE} {at}",
            rewards={"correct": float(step < 40), "polite": 2.0 * (step >= 40)},
            advantage=0.0,
        )
        for step in (5, 20, 80, 100)
        for at in range(3)
    ]


@pytest.fixture
def hacked(tmp_path: Path) -> tuple[RunLog, Diagnosis]:
    """A run whose reward is hacked, with the texts that show it."""
    log = read(tmp_path / "run", **HACKED)
    return log, diagnose(log, completions=kept())


@pytest.fixture
def page(hacked: tuple[RunLog, Diagnosis]) -> Page:
    """Its page."""
    return Page(render(*hacked))


def stretches(drawn: str) -> list[tuple[str, float, float]]:
    """Return the marked stretches of a picture: colour, left and right."""
    found = re.findall(r'<rect class="stretch (\w+)" x="([\d.]+)" y="\d+" width="([\d.]+)"', drawn)
    return [(kind, float(x), float(x) + float(width)) for kind, x, width in found]


def ends(drawn: str) -> tuple[float, float]:
    """Return the left and the right end of a picture's first curve."""
    points = re.search(r'points="([^"]*)"', drawn)[1].split()  # type: ignore[index]
    return float(points[0].split(",")[0]), float(points[-1].split(",")[0])


def test_diagnose_writes_the_page_of_a_run(tmp_path: Path, finetune: Callable[..., tuple[int, str, str]]) -> None:
    """Beside its record, with the same verdict; a log elsewhere gets none."""
    run = logged_runs.write(tmp_path / "run", logged_runs.columns(entropy=logged_runs.spent()))
    code, out, _ = finetune("diagnose", run)
    shown = Page((run / "diagnosis.html").read_text("utf-8"))
    assert code == 1
    assert f"page: {run / 'diagnosis.html'}" in out
    assert shown.texts["h1"] == ["\u2717 Entropy collapse"]
    assert finetune("diagnose", run / "train")[0] == 1
    assert sorted(path.name for path in tmp_path.rglob("*.html")) == ["diagnosis.html"]


def test_what_a_model_wrote_stays_text(page: Page) -> None:
    """Markup, template braces, control characters, a lone surrogate: shown, never obeyed."""
    assert not page.open
    assert not page.names() & {"script", "img", "iframe", "object", "embed", "link", "form", "i"}
    assert not [attributes for _, attributes in page.tags if any(name.startswith("on") for name in attributes)]
    shown = [text for text in page.texts["pre"] if "<script>alert(1)</script><img src=http://evil" in text]
    assert len(shown) == 6  # every prompt, and the two completions after
    assert all("{{ 7 * 7 }}</pre><U+202E>\u241b[31m <U+D800>" in text for text in shown)


def test_a_component_with_an_odd_name_stays_text(tmp_path: Path) -> None:
    """Names of rewards are a user's; they reach titles, captions and the words of findings."""
    named = {name.replace("polite", "<em>polite</em>\u202e"): values for name, values in HACKED.items()}
    log = read(tmp_path / "run", **named)
    found = Page(render(log, diagnose(log)))
    assert not found.open
    assert "em" not in found.names()
    assert "Component <em>polite</em><U+202E> mean of a batch" in found.texts["h3"]
    assert "<em>polite</em><U+202E> rises" in found.texts["p"][1]
    assert "\u202e" not in found.texts["body"][0]


def test_nothing_is_loaded_and_nothing_runs(page: Page) -> None:
    """One file: no address in any attribute, no import in the style, a policy that forbids the rest."""
    check_that_nothing_is_loaded(page)


def test_the_verdict_comes_first_then_the_one_change(hacked: tuple[RunLog, Diagnosis], page: Page) -> None:
    """Then the evidence, the curves, the texts, what was excluded and what could not be said."""
    _, found = hacked
    assert page.texts["h1"] == ["\u2717 Proxy only"]
    assert page.texts["h2"] == [
        "The one change",
        "Evidence",
        "Curves",
        "What was paid most",
        "Looked for and excluded",
        "What could not be said",
        "What was known of the run",
    ]
    body = page.texts["body"][0]
    first = found.findings[0]
    for words in (first.text, first.confirm, first.refute, first.confidence, *found.missing):
        assert words in body
    for item in found.excluded:
        assert item.text in body
    assert f"steps {first.since:g} to {first.until or found.last_step:g}" in body
    assert [title for title in page.texts["h3"] if "step" in title] == [
        f"Before step {first.since:g}",
        f"After step {first.since:g}",
    ]


def test_options_are_shown_as_a_brief_writes_them(tmp_path: Path) -> None:
    """Exactly those of the advice, with the variant, what carries it and where to go back to."""
    log = read(tmp_path / "run", entropy=logged_runs.spent())
    found = diagnose(log)
    shown = Page(render(log, found))
    assert shown.texts["pre"][0].splitlines() == [
        'loss_type: "dapo"',
        "epsilon: 0.2",
        "epsilon_high: 0.28",
        "beta: 0.0",
        "mask_truncated_completions: true",
        "steps_per_generation: 32",
    ]
    body = shown.texts["body"][0]
    assert "variant: {use: dapo, because: ...}" in body
    assert found.advice.carries in body
    assert found.checkpoint is not None
    assert f"a checkpoint at or before step {found.checkpoint['step']:g}: {found.checkpoint['why']}" in body


def test_power_is_told_where_nothing_is_decided(tmp_path: Path) -> None:
    """Each length of a log with the change that it would show."""
    log = read(tmp_path / "run")
    found = diagnose(log)
    shown = Page(render(log, found))
    assert shown.texts["h1"] == ["? Inconclusive"]
    assert found.power
    for power in found.power:
        assert str(power.rows) in shown.texts["th"]
        assert f"{power.smallest:.3g}" in shown.texts["td"]


def test_a_sound_run_has_no_range_marked(tmp_path: Path) -> None:
    """And is told to change nothing."""
    log = read(tmp_path / "run", reward=logged_runs.rising())
    text = render(log, diagnose(log))
    shown = Page(text)
    assert shown.texts["h1"] == ["\u2713 Healthy"]
    assert "Keep plain GRPO" in shown.texts["body"][0]
    assert stretches(text) == []


def test_an_empty_log_has_a_page(tmp_path: Path) -> None:
    """Too short for anything, and without a curve."""
    log = dataclasses.replace(read(tmp_path / "run"), steps=np.empty(0), series={})
    shown = Page(render(log, diagnose(log)))
    assert shown.texts["h1"] == ["? Too short"]
    assert "The log holds nothing to draw." in shown.texts["p"]


def test_ranges_are_marked_where_they_lie(hacked: tuple[RunLog, Diagnosis]) -> None:
    """The verdict's in its own metric in its colour and in all others pale; another finding's in its own alone."""
    log, found = hacked
    first = found.findings[0]
    assert first.since is not None
    by_title = {picture.title: str(picture.drawn) for picture in diagnosis_pictures.pictures(log, found)}
    ((kind, left, right),) = stretches(by_title["Component correct"])
    begin, end = ends(by_title["Component correct"])
    assert kind == "bad"
    assert right == pytest.approx(end, abs=0.2)
    assert left == pytest.approx(begin + (end - begin) * (first.since - 1) / (ROWS - 1), abs=0.2)
    assert [kind for kind, *_ in stretches(by_title["Entropy"])] == ["weak"]
    assert "marked: steps" in by_title["Component correct"]


def test_a_consequence_is_marked_in_its_own_metric(tmp_path: Path) -> None:
    """Entropy that collapsed, and much later a length that grew."""
    grown = np.where(np.arange(ROWS) < 60, 100.0, np.linspace(0, 220, ROWS))
    log = read(tmp_path / "run", entropy=logged_runs.spent(), **{"completions/mean_length": grown})
    found = diagnose(log)
    assert [finding.code for finding in found.findings[:2]] == ["entropy_collapse", "length_growth"]
    by_title = {picture.title: str(picture.drawn) for picture in diagnosis_pictures.pictures(log, found)}
    assert [kind for kind, *_ in stretches(by_title["Length of completions"])] == ["weak", "warn"]
    assert [kind for kind, *_ in stretches(by_title["Entropy"])] == ["bad"]


def test_every_metric_that_is_there_is_drawn_and_no_other(tmp_path: Path) -> None:
    """Evaluations lie over the training metric of their name, and alone where there is none."""
    log = read(
        tmp_path / "run",
        **HACKED,
        **{"sampling/sampling_logp_difference/mean": np.full(ROWS, 0.02)},
        eval_reward=[0.5 if at % 20 == 19 else np.nan for at in range(ROWS)],
    )
    titles = [picture.title for picture in diagnosis_pictures.pictures(log, diagnose(log))]
    assert titles == [
        "Reward",
        "Component correct",
        "Component polite",
        "Entropy",
        "KL from the reference",
        "Length of completions",
        "Completions cut at the cap",
        "Groups without a signal",
        "Sampler against trainer",
        "Gradient norm",
    ]


def test_evaluations_are_drawn_over_their_metric(tmp_path: Path) -> None:
    """In their own colour with a dot each; a measure that training has not gets a picture of its own."""
    rewards = [0.1 + at / 200 for at in range(60)]
    rows = [{"step": at + 1, "reward": paid, "rewards/a/mean": paid} for at, paid in enumerate(rewards)]
    rows += [{"step": at, "eval_reward": 0.3, "eval_accuracy": 0.2 + at / 100} for at in (20, 40, 60)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    log = reading.read(path)
    by_title = {picture.title: picture for picture in diagnosis_pictures.pictures(log, diagnose(log))}
    assert list(by_title) == ["Reward", "Held-out accuracy"]
    assert str(by_title["Reward"].drawn).count('<circle class="good"') == 3
    assert "training 0.135 -> 0.36; held-out 0.3 -> 0.3" in by_title["Reward"].caption
    assert 'class="curve plain"' in by_title["Reward"].drawn
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[:10]), "utf-8")
    short = reading.read(path)
    (picture,) = diagnosis_pictures.pictures(short, diagnose(short))  # of one component, which is the reward, none
    assert 'class="curve plain"' not in picture.drawn  # the running median of so few would be the curve itself


def test_a_long_log_keeps_its_spikes(tmp_path: Path) -> None:
    """Of 20,000 rows few points are drawn, and the one gradient that stands out is among them."""
    rows = 20_000
    norms = np.full(rows, 1.0)
    norms[12_345] = 50.0
    log = read(tmp_path / "run", **{name: np.resize(values, rows) for name, values in logged_runs.columns().items()})
    curve = [(float(step), float(value)) for step, value in zip(log.steps, norms, strict=True)]
    thin = diagnosis_pictures._thinned(curve)
    assert len(thin) <= diagnosis_pictures.POINTS
    assert (12_346.0, 50.0) in thin
    assert thin == sorted(thin)
    assert len(render(log, diagnose(log))) < 250_000


def test_numbers_that_are_none_are_counted(tmp_path: Path) -> None:
    """The curve leaves them out, the caption says so, and what rests on them is marked there."""
    reward = logged_runs.rising()
    reward[-8:] = np.nan
    log = read(tmp_path / "run", reward=reward)
    found = diagnosis_pictures.pictures(log, diagnose(log))
    shown = found[0]
    assert "no number in 8 rows" in shown.caption
    assert shown.marks == ("bad",)
    assert {one.marks for one in found[1:]} == {("weak",)}


def test_pictures_speak(page: Page) -> None:
    """Each has a title and a description with its numbers, for who cannot see it, and a caption."""
    drawn = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    ids = {attributes["id"] for tag, attributes in page.tags if tag in ("title", "desc") and "id" in attributes}
    assert len(drawn) == len(page.texts["figcaption"]) > 5
    for picture in drawn:
        assert set(str(picture["aria-labelledby"]).split()) <= ids
    assert any("marked: steps" in text and "proxy only" in text for text in page.texts["desc"])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.2, 0.9], (0.0, 0.9)),
        ([0.62, 0.71], (0.62, 0.71)),
        ([-0.4, 0.4], (-0.4, 0.4)),
        ([-2.0, -1.9], (-2.0, -1.9)),
        ([5.0, 5.0], (0.0, 5.0)),
        ([0.0, 0.0], (0.0, 1.0)),
        ([], (0.0, 1.0)),
        ([12.0, 10833.0], (0.0, 11000.0)),
    ],
)
def test_an_axis_has_round_ends_around_its_values(values: list[float], expected: tuple[float, float]) -> None:
    """From 0 where that costs little of the picture."""
    assert drawing.bounds(values) == pytest.approx(expected)


def test_a_range_of_one_step_can_be_seen() -> None:
    """It is drawn at least two units wide, within the picture."""
    curve = drawing.Curve(label="", points=[(0, 0.0), (100, 1.0)])
    words = {"title": "t", "about": "a", "x_label": "", "y_label": ""}
    marks = [drawing.Stretch(first=step, last=last) for step, last in ((100, 100), (-5, 50), (50, 50))]
    drawn = drawing.curves([curve], top=1.0, last=100, stretches=marks, **words)
    (_, left, right), (_, low, high), (_, at, after) = stretches(drawn)
    begin, end = ends(drawn)
    middle = pytest.approx((begin + end) / 2, abs=0.1)
    assert (left, right) == (end - 2, end)
    assert (low, high) == (begin, middle)
    assert (at, after - at) == (middle, 2)


def test_a_picture_begins_at_its_first_step_and_lowest_value() -> None:
    """A log that goes on from step 500 leaves no room empty."""
    curve = drawing.Curve(label="", points=[(500, -1.0), (600, 1.0)])
    words = {"title": "t", "about": "a", "x_label": "", "y_label": ""}
    drawn = drawing.curves([curve], top=1.0, bottom=-1.0, first=500, last=600, **words)
    points = re.search(r'points="([^"]*)"', drawn)[1].split()  # type: ignore[index]
    frame = re.search(r'<path class="axis" d="M(\d+) (\d+)V(\d+)H(\d+)"/>', drawn)
    assert frame is not None
    left, top, bottom, right = map(float, frame.groups())
    assert [tuple(map(float, point.split(","))) for point in points] == [(left, bottom), (right, top)]
    assert re.findall(r'class="tick" x="[\d.]+" y="[\d.]+">([\d.-]+)<', drawn) == ["500", "533", "567", "600"]
    assert re.findall(r'class="tick end" x="[\d.]+" y="[\d.]+">([\d.-]+)<', drawn) == ["-1", "0", "1"]


@needs_browser
def test_it_fits_a_phone_and_follows_the_system(hacked: tuple[RunLog, Diagnosis], tmp_path: Path) -> None:
    """In a real browser nothing is wider than the window, nothing runs, and the colours follow light and dark."""
    path = tmp_path / "diagnosis.html"
    path.write_text(render(*hacked), "utf-8", errors="replace")
    check_in_a_browser(path, "Diagnosis: proxy only")
