"""The labels themselves: each oddity is said, and none loses a label."""

import pytest

from evidence_records import codes, evidence, label, named, of_rewards
from llm_finetuning.findings import readings
from llm_finetuning.types import Label, Verdict

POLICY = of_rewards([[1.0, 0.0, 1.0, 0.0]] * 6)
SEEN = {item.sample.sample_id: "seen" for item in POLICY}


def found(labels: list[Label], *, cut: bool = False) -> list[object]:
    standing = readings.standing_labels(labels, SEEN)
    return list(readings.findings(evidence(POLICY, labels=standing), labels, SEEN, labels_cut=cut))


def at(second: float) -> str:
    return f"2026-01-01T10:{int(second) // 60:02d}:{int(second) % 60:02d}+00:00"


def test_labels_of_samples_that_are_gone_or_changed_are_said_and_kept() -> None:
    """One sample is gone, of another the reader saw something else; both are named."""
    labels = [
        label("0/0", "accept"),
        label("9/9", "accept"),
        label("0/1", "reject", seen_sha256="old"),
    ]
    finding = named(found(labels), "labels-set-aside")

    assert finding.weight == "warns"
    assert "2 labels do not count, and are kept: the samples of 1 are gone, 1 saw another" in finding.text
    assert finding.sample_ids == ["0/1", "9/9"]


def test_the_order_in_the_file_decides_though_the_clock_went_back() -> None:
    """The last line stands, whatever its time says."""
    labels = [label("0/0", "accept", at=at(60)), label("0/0", "reject", at=at(0))]
    findings = found(labels)

    assert [item.verdict for item in readings.standing_labels(labels, SEEN)] == ["reject"]
    assert "went back between labels, 1 time(s)" in named(findings, "clock-back").text
    twice = named(findings, "labels-twice")
    assert (twice.weight, twice.sample_ids) == ("fine", ["0/0"])
    assert "1 samples were labelled more than once by one reader, 1 with another verdict" in twice.text


def test_a_clock_of_another_reader_is_no_clock_that_went_back() -> None:
    """Two machines need not agree on the time."""
    labels = [label("0/0", "accept", at=at(60)), label("0/1", "reject", at=at(0), reader="bob")]

    assert "clock-back" not in codes(found(labels))


@pytest.mark.parametrize(
    ("step", "source", "count", "hasty"),
    [
        (0.5, "page", 20, True),
        (0.5, "terminal", 20, True),
        (1.0, "page", 20, False),
        (0.5, "import", 20, False),  # a file has one time for all
        (0.5, "page", 10, False),  # nine gaps say too little
        (0.5, "page", 11, True),
    ],
)
def test_labels_faster_than_anyone_reads_warn(step: float, source: str, count: int, *, hasty: bool) -> None:
    """The median time between a reader's labels has to allow a look."""
    labels = [
        label(item.sample.sample_id, "accept", at=at(place * step), source=source)
        for place, item in enumerate(POLICY[:count])
    ]

    assert hasty == ("labels-hasty" in codes(found(labels)))


def test_a_break_is_no_reading_time() -> None:
    """An hour at lunch does not make up for labels of no time."""
    times = [place * 0.4 if place < 12 else 3000 for place in range(13)]
    labels = [label(item.sample.sample_id, "accept", at=at(time)) for item, time in zip(POLICY, times, strict=False)]

    assert "of 11: too short" in named(found(labels), "labels-hasty").text


def test_readers_who_differ_leave_a_sample_unresolved() -> None:
    """It is named, blocks, and counts as judged; kappa says how far the two agree."""
    words: list[tuple[Verdict, Verdict]] = (
        [("accept", "accept")] * 9 + [("reject", "reject")] * 9 + [("accept", "reject")] * 2
    )
    labels = []
    for item, (one, other) in zip(POLICY, words, strict=False):
        labels += [label(item.sample.sample_id, one), label(item.sample.sample_id, other, reader="bob")]
    finding = named(found(labels), "readers-disagree")

    assert finding.weight == "blocks"
    assert finding.sample_ids == ["4/2", "4/3"]
    assert "ada and bob agree on 18 of 20, kappa 0.80 (0.55 to 1.00)" in finding.text
    assert finding.next_action is not None
    assert "settle 4/2, 4/3" in finding.next_action


def test_unsure_differs_from_nobody() -> None:
    """Who does not know has not said no."""
    labels = [label("0/0", "unsure"), label("0/0", "accept", reader="bob"), label("0/1", "accept", reader="bob")]

    assert [item.word for item in evidence(POLICY, labels=labels).read] == ["accept", "accept"]
    assert "readers-disagree" not in codes(found(labels))
    assert named(found(labels), "labels").text.startswith("2 of the 50 completions")


def test_a_half_written_last_line_is_said() -> None:
    """A killed writer may have lost one label."""
    assert named(found([], cut=True), "labels-cut").weight == "warns"
    assert "labels-cut" not in codes(found([]))
