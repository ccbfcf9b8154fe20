"""Artifacts: nothing is lost, nothing stale or foreign is read."""

import json
import multiprocessing
from pathlib import Path

import pytest

from llm_finetuning import artifact
from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.types import Label

LABEL = Label(
    sample_id="q1/0",
    reader="ada",
    reader_kind="person",
    verdict="accept",
    note="",
    at="2026-01-01T00:00:00+00:00",
    seen_sha256="0" * 64,
    source="terminal",
)


def labels_file(folder: Path) -> Path:
    path = folder / "labels.jsonl"
    artifact.write_lines(path, artifact.header_for(path, {"a": "1"}), [LABEL, LABEL])
    return path


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """Header, parents and records survive the way through the file."""
    found = artifact.read_lines(labels_file(tmp_path), Label)

    assert [LABEL, LABEL] == found.records
    assert {"a": "1"} == found.header.parents
    assert found.header.schema == "llm-finetuning/labels/1"


def test_lone_surrogates_and_other_scripts_survive(tmp_path: Path) -> None:
    """A data set may hold half a surrogate pair; it is escaped, not lost and not a crash."""
    import dataclasses

    path = tmp_path / "labels.jsonl"
    odd = dataclasses.replace(LABEL, note="\ud83d 答え \u2028 \x1b[2J")
    artifact.write_lines(path, artifact.header_for(path, {}), [odd])

    assert [odd] == artifact.read_lines(path, Label).records


def test_half_written_last_line_does_not_count(tmp_path: Path) -> None:
    """A writer killed in the middle of a line leaves the lines before it readable."""
    path = labels_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])

    assert [LABEL] == artifact.read_lines(path, Label).records


def test_appending_cuts_the_half_line_and_goes_on(tmp_path: Path) -> None:
    """The next writer removes what the killed one left, then appends."""
    path = labels_file(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with artifact.appending(path, artifact.header_for(path, {}), Label) as appender:
        appender.append([LABEL])

    assert [LABEL, LABEL] == artifact.read_lines(path, Label).records


def test_header_cut_by_a_kill_is_written_anew(tmp_path: Path) -> None:
    """A file that holds less than its first line is as good as none."""
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b'{"header": {"sch')
    with artifact.appending(path, artifact.header_for(path, {}), Label) as appender:
        appender.append([LABEL])

    assert [LABEL] == artifact.read_lines(path, Label).records


def test_damaged_line_is_named(tmp_path: Path) -> None:
    """A line in the middle that does not parse is refused with file and line, never skipped."""
    path = labels_file(tmp_path)
    lines = path.read_text("utf-8").splitlines()
    lines[1] = lines[1].replace('"accept"', '"perhaps"')
    path.write_text("\n".join(lines) + "\n", "utf-8")

    with pytest.raises(Refusal, match=r"labels\.jsonl:2: .*verdict"):
        artifact.read_lines(path, Label)


@pytest.mark.parametrize("text", ["", "not json\n", "[1]\n", '{"header": {"schema": "x"}}\n'])
def test_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    """A file without our header is not read as one of ours."""
    path = tmp_path / "labels.jsonl"
    path.write_text(text, "utf-8")

    with pytest.raises(Refusal, match=r"labels\.jsonl"):
        artifact.read_lines(path, Label)


def test_other_schema_is_refused(tmp_path: Path) -> None:
    """A file of a later version is refused, not half understood."""
    path = labels_file(tmp_path)
    path.write_text(path.read_text("utf-8").replace("labels/1", "labels/9"), "utf-8")

    with pytest.raises(Refusal, match=r"schema llm-finetuning/labels/9"):
        artifact.read_lines(path, Label)


def test_changed_parent_names_the_verb(tmp_path: Path) -> None:
    """A stale artifact says which verb makes it anew."""
    found = artifact.read_lines(labels_file(tmp_path), Label)

    with pytest.raises(Refusal, match=r"a changed since it was made; run `finetune review"):
        artifact.check_parents(found.path, found.header, {"a": "2"})
    artifact.check_parents(found.path, found.header, {"a": "1"})


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is machinery that failed; the file that was there stays whole and no temporary file is left."""
    path = labels_file(tmp_path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(MachineryFailure, match="no space left on device"):
        artifact.write_lines(path, artifact.header_for(path, {}), [])

    assert before == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_not_a_number_never_enters_a_file(tmp_path: Path) -> None:
    """NaN is not JSON; a record that holds it is a defect of the stage."""
    path = tmp_path / "labels.jsonl"

    with pytest.raises(ValueError, match="JSON compliant"):
        artifact.write_lines(path, artifact.Header(schema="s", maker="m", parents={}, settings={"x": float("nan")}), [])


def _hold(path: Path, ready: "multiprocessing.synchronize.Event", done: "multiprocessing.synchronize.Event") -> None:
    with artifact.appending(path, artifact.header_for(path, {}), Label):
        ready.set()
        done.wait(30)


def test_two_writers_are_refused_until_one_ends(tmp_path: Path) -> None:
    """Two writers of one file would mix their lines; the second is told, and a dead one leaves no lock behind."""
    path = labels_file(tmp_path)
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(path, ready, done))
    holder.start()
    try:
        assert ready.wait(30)
        with (
            pytest.raises(Refusal, match="another `review` is writing it"),
            artifact.appending(path, artifact.header_for(path, {}), Label),
        ):
            pass
    finally:
        holder.kill()
        holder.join()
    with artifact.appending(path, artifact.header_for(path, {}), Label) as appender:
        appender.append([LABEL])
    assert len(artifact.read_lines(path, Label).records) == 3


def test_every_line_is_one_json_object(tmp_path: Path) -> None:
    """The format is plain JSON lines, so that other tools read it."""
    lines = labels_file(tmp_path).read_text("utf-8").splitlines()

    assert {"header"} == set(json.loads(lines[0]))
    assert json.loads(lines[1])["sample_id"] == "q1/0"
