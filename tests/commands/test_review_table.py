"""Labels through a spreadsheet: what is to be read goes out as CSV and comes back filled."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import runs
from llm_finetuning import artifact, brief, label_table, labelling, lineage
from llm_finetuning.types import Label, Sample, Score

Finetune = Callable[..., tuple[int, str, str]]
ADA = ("--reader", "ada")


@pytest.fixture
def sampled(run_dir: Path) -> Path:
    runs.write_samples(run_dir)
    return run_dir


def labels(run: Path) -> list[Label]:
    return artifact.read_lines(run / "labels.jsonl", Label).records


def table(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def save(file: Path, rows: list[dict[str, str]], mark: str = ",") -> Path:
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), delimiter=mark)
        writer.writeheader()
        writer.writerows(rows)
    return file


@pytest.mark.parametrize("mark", [",", ";", "\t"], ids=["commas", "semicolons", "tabs"])
def test_what_is_exported_is_what_the_page_shows_and_comes_back_filled(
    sampled: Path, finetune: Finetune, mark: str
) -> None:
    """The same choice in the same order; each label keeps its part, which no cell says, and empty rows wait."""
    runs.examine(sampled)
    file = sampled / "read.csv"
    code, out, err = finetune("review", sampled, "--export", file, "--count", "20", *ADA)
    assert code == 0, err
    loaded = brief.load(sampled)
    samples = artifact.read_lines(sampled / "samples.jsonl", Sample).records
    chosen = labelling.to_read(loaded, samples, [], "ada", 20)
    rows = table(file)
    assert [row["sample_id"] for row in rows] == [item.sample_id for item in chosen]
    assert len({row["seen"] for row in rows}) == 20  # a mark of its own each, so that nobody reads a part in it
    assert not {"random", "chosen"} & {cell for row in rows for cell in row.values()}
    assert "20 samples to read: 12 drawn at random, 8 chosen" in out
    assert f"`finetune review {sampled} --import {file} --reader ada`" in out
    by_id = {sample.sample_id: sample for sample in samples}
    for row in rows:
        sample = by_id[row["sample_id"]]
        assert (row["prompt"], row["completion"]) == (sample.prompt, sample.completion)
        assert row["gold"] == str(sample.columns["answer"])
        assert row["verdict"] == row["note"] == ""
    assert list(rows[0]) == ["sample_id", "prompt", "gold", "completion", "verdict", "note", "seen"]

    filled = [{**row, "verdict": "accept", "note": f"a{mark}b", "prompt": "cut"} for row in rows[:15]] + rows[15:]
    code, out, err = finetune("review", sampled, "--import", save(file, filled, mark), *ADA)
    assert code == 0, err
    assert "15 labels added (reader ada), 5 rows without a verdict skipped, 15 of 75 samples judged\nwrote: " in out
    assert [(one.sample_id, one.part, one.note) for one in labels(sampled)] == [
        (item.sample_id, item.part, f"a{mark}b") for item in chosen[:15]
    ]
    code, out, err = finetune("review", sampled, "--export", sampled / "rest.csv", "--count", "20", *ADA)
    assert code == 0, err
    again = labelling.to_read(loaded, samples, labels(sampled), "ada", 20)
    assert [row["sample_id"] for row in table(sampled / "rest.csv")] == [item.sample_id for item in again[15:]]
    assert json.loads(finetune("review", sampled, "--export", sampled / "bob.csv", "--json")[1])["exported"] == 60


def test_nothing_that_a_reward_said_is_exported(sampled: Path, finetune: Finetune) -> None:
    """It would sway the reader: neither a value, nor a component's name, nor why a sample was chosen."""
    runs.examine(sampled)
    assert finetune("review", sampled, "--export", sampled / "read.csv", *ADA)[0] == 0
    text = (sampled / "read.csv").read_text("utf-8")
    scores = artifact.read_lines(sampled / "scores.jsonl", Score).records
    for value in scores[0].values:
        assert value.name not in text
    assert "reward" not in text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\n =1", "'\n =1"),
        ("\r=1", "\u240d=1"),
        ("\uff1d1", "'\uff1d1"),
        ("\x1b[2J\u202ex", "\u241b[2J<U+202E>x"),
        ("1=1", "1=1"),
    ],
)
def test_no_cell_is_a_formula(run_dir: Path, finetune: Finetune, said: str, shown: str) -> None:
    """A completion is text to a spreadsheet, whatever it begins with, and hides nothing."""
    runs.write_samples(run_dir, text_of=lambda i, index: said)
    assert finetune("review", run_dir, "--export", run_dir / "read.csv", *ADA)[0] == 0
    assert {row["completion"] for row in table(run_dir / "read.csv")} == {shown}


@pytest.mark.parametrize("back", [str, lambda cell: cell.removeprefix("'")], ids=["kept", "taken away"])
def test_an_id_that_looks_like_a_date_survives(run_dir: Path, finetune: Finetune, back: Callable[[str], str]) -> None:
    """Without `dataset.id` a sample is called 3/1, which a spreadsheet turns into a day of March."""
    text = (run_dir / "brief.yaml").read_text()
    (run_dir / "brief.yaml").write_text(text.replace(", id: id", ""))
    runs.write_samples(run_dir)
    path = run_dir / "samples.jsonl"
    path.write_text(
        path.read_text().replace('"sample_id":"q', '"sample_id":"').replace('"sample_id": "q', '"sample_id": "')
    )
    file = run_dir / "read.csv"
    assert finetune("review", run_dir, "--export", file, *ADA)[0] == 0
    rows = table(file)
    assert all(row["sample_id"].startswith("'") and row["sample_id"][1].isdigit() for row in rows)
    save(file, [{**row, "sample_id": back(row["sample_id"]), "verdict": "reject"} for row in rows])
    assert finetune("review", run_dir, "--import", file, *ADA)[0] == 0
    assert [one.sample_id for one in labels(run_dir)] == [row["sample_id"].removeprefix("'") for row in rows]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--export", "there.csv"), "is there already and is not overwritten"),
        (("--export", "labels.jsonl"), "let the name end in .csv"),
        (("--export", "new.csv", "--terminal"), "--export and --terminal: name one of them"),
        (("--export", "new.csv", "--import", "there.csv"), "--export and --import: name one of them"),
    ],
)
def test_an_export_replaces_nothing(
    sampled: Path, finetune: Finetune, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    """A file that is there stays; what cannot be is one line."""
    monkeypatch.chdir(sampled)
    Path("there.csv").write_text("mine")
    code, _, err = finetune("review", sampled, *arguments, *ADA)
    assert code == 2
    assert words in err
    assert Path("there.csv").read_text() == "mine"
    assert not Path("labels.jsonl").exists()
    assert not Path("new.csv").exists()


def test_a_reader_with_nothing_left_is_told(sampled: Path, finetune: Finetune) -> None:
    """No empty file is written."""
    file = sampled / "read.csv"
    finetune("review", sampled, "--export", file, "--count", "2", *ADA)
    finetune("review", sampled, "--import", save(file, [{**row, "verdict": "unsure"} for row in table(file)]), *ADA)
    code, _, err = finetune("review", sampled, "--export", sampled / "more.csv", "--count", "2", *ADA)
    assert code == 2
    assert "ada has read all 2 samples already; ask for more with `--count`" in err
    assert not (sampled / "more.csv").exists()


def test_texts_drawn_anew_are_not_labelled_by_an_old_export(sampled: Path, finetune: Finetune) -> None:
    """The ids are the same, what was read is not."""
    file = sampled / "read.csv"
    finetune("review", sampled, "--export", file, *ADA)
    runs.write_samples(sampled, text_of=lambda i, index: f"another text {i} {index}")
    code, _, err = finetune("review", sampled, "--import", save(file, [{**table(file)[0], "verdict": "accept"}]), *ADA)
    assert code == 2
    assert "is another text now than when this was exported; export it again" in err
    assert labels(sampled) == []


@pytest.mark.parametrize("part", ["random", "chosen"])
def test_an_export_of_an_earlier_version_is_read(sampled: Path, finetune: Finetune, part: str) -> None:
    """It named the part in a column of its own, beside a mark of the text alone; a text that changed is still told."""
    sample = artifact.read_lines(sampled / "samples.jsonl", Sample).records[0]
    row = f"{sample.sample_id},accept,{part},sha256:{lineage.seen_digest(sample)[:16]}\n"
    code, _, err = imported(sampled, finetune, "sample_id,verdict,part,seen\n" + row)
    assert code == 0, err
    assert [(one.sample_id, one.part) for one in labels(sampled)] == [(sample.sample_id, part)]
    code, _, err = imported(sampled, finetune, f"sample_id,verdict,part,seen\nq3/0,accept,{part},sha256:{'0' * 16}\n")
    assert (code, "is another text now" in err) == (2, True)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [("R", "reject"), ("r", "reject"), ("A", "accept"), ("u", "unsure"), ("Reject", "reject"), (" UNSURE ", "unsure")],
)
def test_the_keys_of_the_page_are_verdicts_of_a_table(
    sampled: Path, finetune: Finetune, said: str, verdict: str
) -> None:
    """One letter or the whole word, in any case."""
    code, _, err = imported(sampled, finetune, f"sample_id,verdict\nq1/0,{said}\n")
    assert code == 0, err
    assert [one.verdict for one in labels(sampled)] == [verdict]


def test_texts_too_long_for_a_cell_are_named(run_dir: Path, finetune: Finetune) -> None:
    """A spreadsheet cuts them, so that they are read elsewhere; one letter less is a cell."""
    sizes = {(1, 0): label_table.CELL + 1, (2, 0): label_table.CELL}
    runs.write_samples(run_dir, text_of=lambda i, index: "x" * sizes.get((i, index), 5))
    out = finetune("review", run_dir, "--export", run_dir / "read.csv", "--count", "75", *ADA)[1]
    assert "note: too long for a spreadsheet's cell, read it on the page: q1/0\n" in out


def imported(run: Path, finetune: Finetune, text: str, *more: str) -> tuple[int, str, str]:
    file = run / "labels.csv"
    file.write_text(text, "utf-8")
    return finetune("review", run, "--import", file, *(more or ADA))


def test_what_is_known_already_is_counted_and_not_added(sampled: Path, finetune: Finetune) -> None:
    """The same verdict and note by the same reader; another of either, or another reader, is a label."""
    for text, added, unchanged in (
        ("sample_id,verdict,note\nq1/0,accept,fine\nq2/0,reject,\n", 2, 0),
        ("sample_id,verdict,note\nq1/0,accept,fine\nq2/0,reject,\n", 0, 2),
        ("sample_id,verdict\nq1/0,accept\nq2/0,accept\n", 1, 1),
        ("sample_id,verdict,note\nq1/0,accept,better\nq2/0,accept,\n", 1, 1),
        ("sample_id,verdict,reader\nq1/0,accept,bob\nq1/0,accept,ada\n", 1, 1),
        ("sample_id,verdict\nq3/0,accept\nq3/0,accept\nq3/0,reject\n", 2, 1),
        ("sample_id,verdict\nq3/0,accept\n", 1, 0),  # back to what was said before the last
    ):
        before = len(labels(sampled)) if (sampled / "labels.jsonl").exists() else 0
        code, out, err = imported(sampled, finetune, text)
        assert code == 0, err
        by = "readers ada, bob" if "bob" in text else "reader ada"
        assert f"{added} labels added ({by}){f', {unchanged} unchanged' if unchanged else ''}, " in out, text
        assert len(labels(sampled)) == before + added
        assert ("wrote: " in out) == bool(added)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id;verdict\nq1/0;accept\n", ":1: no column sample_id; the first line names the columns, and has id, verdict"),
        ("id\tlabel\n1\t2\n", ":1: no column sample_id, verdict; the first line names the columns, and has id, label"),
        ("", ":1: no column sample_id, verdict; the first line names the columns, and has nothing"),
        (
            "sample_id;verdict\nq1/0;yes\n",
            ":2: sample 'q1/0': verdict 'yes' is not one of accept, reject, unsure, or its first letter",
        ),
        ("sample_id,verdict,note\nq1/0,accept,one, two\n", ":2: more cells than the first line names"),
        ("sample_id,verdict,part\nq1/0,accept,half\n", ":2: sample 'q1/0': part 'half' is neither random nor chosen"),
        ("sample_id,verdict\nq1/0,\n,,\n", "no row has a verdict"),
        ('sample_id,verdict\nq1/0,"accept\n', "not valid CSV"),
    ],
    ids=["semicolon", "tab", "empty", "verdict", "note with commas", "part", "not filled", "quote"],
)
def test_a_table_that_cannot_be_read_says_why(sampled: Path, finetune: Finetune, text: str, words: str) -> None:
    """What, where, how to mend it; nothing is taken."""
    code, _, err = imported(sampled, finetune, text)
    assert code == 2
    assert words in err
    assert labels(sampled) == []


def test_what_a_spreadsheet_adds_is_nothing(sampled: Path, finetune: Finetune) -> None:
    """Capitals, spaces in the heading, blank rows and blank cells at the end; and a row that nobody filled."""
    text = " Sample_ID ;Verdict;Note;;\r\nq1/0;Accept ;x, y;;\r\n;;;;\r\nq2/0;;;;\r\n;;;;\r\n"
    code, out, err = imported(sampled, finetune, text)
    assert code == 0, err
    assert "1 labels added (reader ada), 1 rows without a verdict skipped, " in out
    assert [(one.sample_id, one.verdict, one.note) for one in labels(sampled)] == [("q1/0", "accept", "x, y")]


# --- whose word a table is that names nobody -----------------------------------------------------------------------


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The login name of whoever calls."""
    monkeypatch.setenv("LOGNAME", "root")


@pytest.mark.usefixtures("root")
def test_a_correction_without_a_reader_is_not_taken_for_a_second_reader(sampled: Path, finetune: Finetune) -> None:
    """One line, before anything is written; each of the two lines that it names does what it says of it."""
    first = "sample_id,verdict\nq1/0,accept\nq2/0,accept\n"
    correction = "sample_id,verdict\nq1/0,reject\n"
    imported(sampled, finetune, first, "--reader", "ann lee")
    before = (sampled / "labels.jsonl").read_bytes()
    file = sampled / "mine.csv"
    file.write_text(correction, "utf-8")
    code, out, err = finetune("review", sampled, "--import", file)
    assert (code, out) == (2, "")
    assert err == (
        "finetune: whose labels are these? q1/0 was judged by ann lee, and without `--reader` they are taken as the "
        "word of root: `--reader 'ann lee'` corrects ann lee's, `--reader root` sets a second reader beside it\n"
    )
    assert (sampled / "labels.jsonl").read_bytes() == before

    code, out, err = imported(sampled, finetune, correction, "--reader", "ann lee")
    assert (code, err) == (0, "")
    assert out.startswith("1 labels added (reader ann lee), 2 of 75 samples judged\n")
    code, out, err = imported(sampled, finetune, correction, "--reader", "root")
    assert (code, err) == (0, "")
    assert out.startswith("1 labels added (reader root), 2 of 75 samples judged\n")
    assert [(one.reader, one.verdict) for one in labels(sampled)[2:]] == [("ann lee", "reject"), ("root", "reject")]


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("text", "notes", "readers"),
    [
        ("sample_id,verdict\nq2/0,accept\n", "; the labels so far are of ann, `--reader NAME` adds to theirs", "root"),
        ("sample_id,verdict,reader\nq1/0,reject,ann\n", None, "ann"),
        ("sample_id,verdict,reader\nq1/0,reject,bob\nq2/0,reject,ann\n", None, "s ann, bob"),
    ],
    ids=["another sample", "the row says it", "two in the rows"],
)
def test_whose_word_was_taken_is_said(
    sampled: Path, finetune: Finetune, text: str, notes: str | None, readers: str
) -> None:
    """A note where nobody said it, and the readers beside the count in any case."""
    imported(sampled, finetune, "sample_id,verdict\nq1/0,accept\n", "--reader", "ann")
    file = sampled / "more.csv"
    file.write_text(text, "utf-8")
    code, out, err = finetune("review", sampled, "--import", file)
    assert code == 0
    assert err == ("" if notes is None else f"{file}: taken as the word of root{notes}\n")
    assert f" labels added (reader{'' if readers.startswith('s ') else ' '}{readers}), " in out


@pytest.mark.usefixtures("root")
def test_ones_own_labels_are_corrected_under_the_login_name(sampled: Path, finetune: Finetune) -> None:
    """Also where another person read the same sample, and beside labels by a program, which are nobody's."""
    sample = artifact.read_lines(sampled / "samples.jsonl", Sample).records[0]
    rest = {"reader": "oracle", "reader_kind": "program", "source": "demo", "part": "random"}
    path = sampled / "labels.jsonl"
    artifact.write_lines(path, artifact.header_for(path, {}), [labelling.label_for(sample, "reject", **rest)])
    file = sampled / "mine.csv"
    file.write_text(f"sample_id,verdict\n{sample.sample_id},accept\n", "utf-8")
    code, _, err = finetune("review", sampled, "--import", file)
    assert (code, err) == (0, f"{file}: taken as the word of root\n")
    imported(sampled, finetune, f"sample_id,verdict\n{sample.sample_id},accept\n", "--reader", "ann")
    file.write_text(f"sample_id,verdict\n{sample.sample_id},reject\n", "utf-8")
    assert finetune("review", sampled, "--import", file)[0] == 0
    assert [(one.reader, one.verdict) for one in labels(sampled)[1:]] == [
        ("root", "accept"),
        ("ann", "accept"),
        ("root", "reject"),
    ]
