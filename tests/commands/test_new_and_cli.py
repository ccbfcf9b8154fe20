"""The command line itself: help, misspelt verbs, briefs that are written."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning import brief, cli
from llm_finetuning.commands.new import METHODS

Finetune = Callable[..., tuple[int, str, str]]
ANEW = re.compile(r"\b(anew|afresh|aside|another test|begin again|start over)\b", re.IGNORECASE)


@pytest.mark.parametrize("method", METHODS)
def test_brief_of_every_method_is_readable_and_commented(tmp_path: Path, finetune: Finetune, method: str) -> None:
    """What `new` writes, the strict reader takes."""
    assert finetune("new", tmp_path / "my run", "--method", method)[0] == 0

    loaded = brief.load(tmp_path / "my run")
    assert (method, "my-run") == (loaded.brief.method, loaded.brief.name)
    assert "#" in (tmp_path / "my run" / "brief.yaml").read_text("utf-8")


def test_new_never_overwrites(tmp_path: Path, finetune: Finetune) -> None:
    """A brief is a person's work."""
    finetune("new", tmp_path / "run")
    code, _, err = finetune("new", tmp_path / "run")

    assert code == 2
    assert "is there already" in err


def test_odd_names_are_quoted(tmp_path: Path, finetune: Finetune) -> None:
    """Paths with quotes, colons and dollars reach the brief as they are."""
    odd = 'a "b": $c #d'
    finetune("new", tmp_path / "run", "--model", odd, "--dataset", odd)

    loaded = brief.load(tmp_path / "run")
    assert (odd, odd) == (loaded.brief.model, loaded.brief.dataset.path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scroe", "x"], "no verb `scroe`; did you mean `score`?"),
        (["xyzzy"], "no verb `xyzzy`; known are route, new, audit"),
        (["score"], "Missing argument 'RUN_DIR'"),
        (["score", "x", "--jsn"], "No such option"),
        (["evaluate", "x", "--no-drift"], "No such option '--no-drift'; did you mean `--suite goldens`?; see"),
        (["evaluate", "x", "--endpoin"], "Did you mean one of: '--checkpoint', '--endpoint'?); see"),
        (["gate", "not-there"], "no such run directory; make one with `finetune new"),
        (["status", "not-there"], "no such run directory"),
    ],
)
def test_wrong_call_is_one_line(finetune: Finetune, arguments: list[str], words: str) -> None:
    """A usage error says what and how, in one line, with exit code 2."""
    code, out, err = finetune(*arguments)

    assert (2, "") == (code, out)
    assert words in err
    assert len(err.strip().splitlines()) == 1


def test_interrupt_is_no_traceback(finetune: Finetune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ctrl-C says that what was written is kept."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("llm_finetuning.commands.new.write", interrupted)
    code, _, err = finetune("new", tmp_path / "run")

    assert code == 130
    assert "interrupted; what was written is kept" in err


@pytest.mark.parametrize("verb", cli.VERBS)
def test_an_option_that_begins_anew_is_known(verb: str) -> None:
    """Ctrl-C and the same line again would lose what was written: such an option names the line that goes on."""
    command = importlib.import_module(cli.VERBS[verb][0]).command
    found = {option.opts[0] for option in command.params if ANEW.search(getattr(option, "help", None) or "")}

    assert found == {"sample": {"--fresh"}, "calibrate": {"--new-test"}, "evaluate": {"--fresh"}}.get(verb, set())


def test_no_arguments_show_the_verbs(finetune: Finetune) -> None:
    """Bare `finetune` is a request for help."""
    code, out, _ = finetune()

    assert code == 0
    assert all(verb in out for verb in cli.VERBS)


def test_status_of_a_broken_brief_names_its_fault(run_dir: Path, finetune: Finetune) -> None:
    """`new` would refuse what is there: the next thing is to mend the file, at its line."""
    (run_dir / "brief.yaml").write_text("{", "utf-8")
    code, out, _ = finetune("status", run_dir)
    assert code == 0
    assert out.splitlines()[-1].startswith(f"next: mend {run_dir / 'brief.yaml'}:")
