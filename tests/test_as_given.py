"""A run directory is named in what is said as the person named it, and nothing else is."""

from pathlib import Path

import pytest

from llm_finetuning import artifact, as_given
from llm_finetuning.errors import Refusal, Stop


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that a person stands beside, with a link to it."""
    (tmp_path / "my-run" / "train").mkdir(parents=True)
    (tmp_path / "link").symlink_to("my-run")
    (tmp_path / "a run").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path / "my-run"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{run}/gate.json: run `finetune gate {run}`", "my-run/gate.json: run `finetune gate my-run`"),
        ("in {run}.", "in my-run."),
        ("({run}): {run}, {run}", "(my-run): my-run, my-run"),
        ("{run}.1/train and {run}-2 and {run}2 and x{run}", "{run}.1/train and {run}-2 and {run}2 and x{run}"),
        ("{run}/../my-run", "my-run/../my-run"),
        ("/other{run} is another", "/other{run} is another"),
    ],
    ids=["file and command", "end of a sentence", "punctuation", "others of a like name", "dots", "deeper"],
)
def test_its_own_path_alone_is_said_anew(run: Path, text: str, wanted: str) -> None:
    """Whatever stands before and after it; folders with a like name keep theirs."""
    assert as_given.said(text.format(run=run), Path("my-run")) == wanted.format(run=run)


def test_every_spelling_counts(run: Path) -> None:
    """A dot, a link, the absolute path itself, a name that a shell wants in quotes."""
    assert as_given.said(f"{run}/train", Path("link")) == "link/train"
    assert as_given.said(f"{run}/train", run) == f"{run}/train"
    spaced = run.parent / "a run"
    said = as_given.said(artifact.shell_line("gate", spaced), Path("a run"))
    assert said == artifact.shell_line("gate", Path("a run")) == "finetune gate 'a run'"


def test_a_root_is_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path begins with it."""
    monkeypatch.chdir("/")
    assert as_given.said("/etc/x", Path()) == "/etc/x"


@pytest.mark.parametrize("kind", [Refusal, artifact.Stale])
def test_refusals_keep_their_kind_and_exit_code(run: Path, kind: type[Stop]) -> None:
    """All lines and the text of the exception; another fault passes through as it is."""
    made = Refusal(f"{run}/a", f"{run}/b") if kind is Refusal else artifact.Stale(run / "a", "x", f"see {run}/b")
    with pytest.raises(kind) as caught, as_given.refusals(Path("my-run")):
        raise made
    assert caught.value is made
    assert str(caught.value) == "\n".join(caught.value.lines)
    assert str(run) not in str(caught.value)
    assert "my-run/b" in str(caught.value)
    with pytest.raises(ValueError, match=str(run)), as_given.refusals(Path("my-run")):
        raise ValueError(str(run))
