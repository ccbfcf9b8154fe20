"""`evaluate` of a served model in real processes: killed at every step, and two at once."""

import dataclasses
import hashlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint_stub import Answer, StubServer

import evaluations
from llm_finetuning import artifact, drift, pipeline
from llm_finetuning.types import Evaluation, Sample

Finetune = Callable[..., tuple[int, str, str]]

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
START = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"
WAIT_S = 300.0
FEW = 20  # requests; some rows of four completions

GRADERS = """\
import time
from pathlib import Path

HERE = Path(__file__).parent


def right(completions, answer, **_):
    if (HERE / "slowly").exists():
        (HERE / "scoring").touch()
        time.sleep(600)
    return [float(gold in text) for text, gold in zip(completions, answer)]
"""

GRADED = "evaluation: {graders: [{file: graders.py:right, name: right}]}\n"


@dataclasses.dataclass
class Serving:
    """A server whose answers hang on the model, the prompt and the seed alone, and how many it gives."""

    server: StubServer
    answers: int = sys.maxsize  # who asks for more is kept waiting

    @property
    def url(self) -> str:
        """Its address."""
        return self.server.url

    def stalls(self) -> None:
        """Answer a few more, and then nobody."""
        self.answers = len(self.server.asked) + FEW

    def goes_on(self) -> None:
        """Answer all, also those that were kept waiting."""
        self.answers = sys.maxsize


@pytest.fixture
def serving(stub_server: Callable[..., StubServer]) -> Serving:
    """A server that answers everybody at once."""
    found: list[Serving] = []

    def answer(route: str, body: dict[str, Any], _: int) -> Answer:
        if route == "/models":
            return 200, {}, {"data": [{"id": name} for name in ("served", "tuned")]}
        place = len(found[0].server.asked)
        while place > found[0].answers:
            time.sleep(0.01)
        drawn = hashlib.sha256(json.dumps([body["model"], body["prompt"], body["seed"]]).encode()).hexdigest()
        said = f"{body['model']} says {int(drawn[:4], 16) % 3 + 201}"
        choice = {"index": 0, "finish_reason": "stop", "text": said}
        return 200, {}, {"choices": [choice], "usage": {"completion_tokens": 3, "prompt_tokens": 5}}

    found.append(Serving(stub_server(answer)))
    return found[0]


@pytest.fixture
def run(tmp_path: Path, serving: Serving) -> Path:
    """A run that samples from the server, graded by a file that can be made slow."""
    endpoint = {"url": serving.url, "model": "served", "concurrency": 4}
    also = f"engine: endpoint, endpoint: {json.dumps(endpoint)}, "
    text = evaluations.BRIEF.replace("num_generations: 4", also + "num_generations: 4") + GRADED
    folder = evaluations.write_run(tmp_path / "run", text)
    (folder / "graders.py").write_text(GRADERS)
    return folder


def started(run: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", START, str(SCRIPTS), "evaluate", str(run), *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def awaited(process: subprocess.Popen[str], is_time: Callable[[], bool]) -> None:
    """Wait until it is time; the process may not end before."""
    end = time.monotonic() + WAIT_S
    while not is_time():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.005)


def killed_once(process: subprocess.Popen[str], is_time: Callable[[], bool]) -> None:
    awaited(process, is_time)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def drawn(run: Path, name: str) -> dict[str, Any]:
    """Return each completion by its id; none stands there twice."""
    samples = artifact.read_lines(run / "eval" / f"{name}.samples.jsonl", Sample).records
    found = {sample.sample_id: sample.completion for sample in samples}
    assert len(found) == len(samples)
    return found


def measured(run: Path, name: str) -> dict[str, Any]:
    """Return an evaluation as values, but for its name."""
    found = artifact.read_json(run / "eval" / f"{name}.json", Evaluation).records[0]
    return dataclasses.asdict(dataclasses.replace(found, name=""))


def test_a_kill_at_any_step_loses_nothing_and_doubles_nothing(run: Path, serving: Serving, finetune: Finetune) -> None:
    """While goldens are drawn, while they are scored, while the drift suite is drawn: then as if never interrupted."""
    folder = run / "eval"
    serving.stalls()
    killed_once(started(run), lambda: lines(folder / "base.samples.jsonl") > 9)
    assert 0 < len(drawn(run, "base")) < evaluations.ROWS * 4
    assert not (folder / "base.json").exists()

    (run / "slowly").touch()
    serving.goes_on()
    killed_once(started(run), (run / "scoring").exists)
    assert len(drawn(run, "base")) == evaluations.ROWS * 4
    assert not (folder / "base.json").exists()
    (run / "slowly").unlink()

    serving.stalls()
    killed_once(started(run), lambda: lines(folder / "base.drift.samples.jsonl") > 9)
    assert 0 < len(drawn(run, "base.drift")) < len(drift.rows(chat=False))
    assert (folder / "base.json").exists()
    assert not (folder / "base.drift.json").exists()
    assert "base.drift unfinished" in finetune("status", run)[1]

    serving.goes_on()
    code, _, err = finetune("evaluate", run)
    assert code == 0, err
    asked = len(serving.server.asked)
    assert finetune("evaluate", run, "--name", "whole")[0] == 0
    for suite in ("", ".drift"):
        assert drawn(run, f"base{suite}") == drawn(run, f"whole{suite}")
        assert measured(run, f"base{suite}") == measured(run, f"whole{suite}")
    whole = evaluations.ROWS * 4 + len(drift.rows(chat=False))
    assert len(drawn(run, "whole")) + len(drawn(run, "whole.drift")) == whole
    # Of what was killed, at most what was under way is asked for again.
    assert asked < 2 * whole
    assert {path.name for path in folder.iterdir() if path.suffix not in (".json", ".jsonl")} == set()


def test_a_half_written_row_is_completed_in_its_place(run: Path, finetune: Finetune) -> None:
    """A server answers in any order, so the rest of it may come after other rows: no score goes to a neighbour."""
    assert finetune("evaluate", run, "--suite", "goldens")[0] == 0
    path = run / "eval" / "base.samples.jsonl"
    (run / "eval" / "base.json").rename(run / "whole.json")
    header, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([header, *rest[:2], *rest[4:], rest[3], rest[2]]))
    code, _, err = finetune("evaluate", run, "--suite", "goldens")
    assert code == 0, err
    (run / "whole.json").rename(run / "eval" / "whole.json")
    assert measured(run, "base") == measured(run, "whole")
    first, other = (measured(run, name)["items"] for name in ("base", "whole"))
    assert first == other


def test_a_second_one_of_a_name_waits_for_nobody(run: Path, serving: Serving) -> None:
    """It is refused before a model is loaded, while completions are drawn and while they are scored."""
    serving.stalls()
    first = started(run)
    try:
        awaited(first, lambda: lines(run / "eval" / "base.samples.jsonl") > 1)
        _is_refused(started(run))
        (run / "slowly").touch()
        serving.goes_on()
        awaited(first, (run / "scoring").exists)
        _is_refused(started(run))
    finally:
        first.kill()
        first.communicate()
    (run / "slowly").unlink()
    last = started(run)  # a kill let the name go
    last.communicate()
    assert last.returncode == 0
    assert len(drawn(run, "base")) == evaluations.ROWS * 4


def _is_refused(process: subprocess.Popen[str]) -> None:
    said = process.communicate(timeout=WAIT_S)[1]
    assert process.returncode == 2
    assert "another `evaluate` is making it; wait for it, or give this one another --name" in said
    assert "starting the" not in said


def test_of_many_that_begin_together_one_measures(run: Path, serving: Serving) -> None:
    """Whichever comes first; the others are refused, or find it done."""
    several = [started(run) for _ in range(4)]
    said = [process.communicate()[1] for process in several]
    codes = sorted(process.returncode for process in several)
    assert codes[0] == 0
    assert set(codes) <= {0, 2}
    assert all(
        "another `evaluate` is" in words for words, process in zip(said, several, strict=True) if process.returncode
    )
    assert len(drawn(run, "base")) == evaluations.ROWS * 4
    assert len(serving.server.asked) < 2 * (evaluations.ROWS * 4 + len(drift.rows(chat=False)))


def test_two_names_at_once_do_not_mix(run: Path) -> None:
    """Each file holds the words of its own model alone, and all of them."""
    both = [started(run), started(run, "--model", "tuned")]
    for process in both:
        process.communicate()
        assert process.returncode == 0
    for name, model in (("base", "served"), ("tuned", "tuned")):
        for suite in ("", ".drift"):
            texts = drawn(run, name + suite).values()
            assert texts
            assert all(str(text).startswith(f"{model} says") for text in texts)
        assert len(drawn(run, name)) == evaluations.ROWS * 4
        assert measured(run, name)["model"] == model


def test_any_server_is_measured_whatever_engine_the_brief_has(
    run: Path, serving: Serving, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the name it serves, with the key that is named; no training interpreter is asked for."""
    (run / "brief.yaml").write_text(evaluations.BRIEF + GRADED)
    monkeypatch.setenv("SERVER_KEY", "secret")
    options = ("--endpoint", serving.url, "--model", "tuned", "--python", "/no/such/python")
    code, out, err = finetune("evaluate", run, *options, "--api-key-env", "SERVER_KEY", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["name"], facts["model"], facts["drift"]["model"]) == ("tuned", "tuned", "tuned")
    assert {headers.get("Authorization") for headers in serving.server.headers} == {"Bearer secret"}
    header = artifact.read_lines(run / "eval" / "tuned.samples.jsonl", Sample).header
    assert header.settings["engine"]["url"] == serving.url
    assert "secret" not in "".join(path.read_text() for path in (run / "eval").iterdir())
    # Another server's model of that name is another model, as far as anybody can tell.
    code, _, err = finetune("evaluate", run, "--endpoint", "http://127.0.0.1:1/v1", "--model", "tuned")
    assert code == 2
    assert "differs in model, and is never overwritten" in err


def test_the_brief_says_how_a_server_is_asked(
    run: Path, serving: Serving, finetune: Finetune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key goes where `--endpoint` says, and that is said; the base is the model that the brief names there."""
    endpoint = {"url": "http://127.0.0.1:1/v1", "model": "served", "api_key_env": "BRIEF_KEY"}
    text = evaluations.BRIEF.replace("num_generations", f"endpoint: {json.dumps(endpoint)}, num_generations") + GRADED
    (run / "brief.yaml").write_text(text)
    monkeypatch.setenv("BRIEF_KEY", "mine")
    code, _, err = finetune("evaluate", run, "--endpoint", serving.url, "--suite", "goldens")
    assert code == 0, err
    assert f"the key in BRIEF_KEY, which the brief names, is sent to {serving.url}" in err
    assert {headers.get("Authorization") for headers in serving.server.headers} == {"Bearer mine"}
    assert measured(run, "base")["model"] == "served"
    assert pipeline.evaluation_file("base", "goldens") == "eval/base.json"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--endpoint", "127.0.0.1:8000"),
            "--endpoint: '127.0.0.1:8000' is not an address; write it up to and with /v1",
        ),
        (("--endpoint", "http://h/v1", "--checkpoint", "last"), "serve the checkpoint there and name it as the server"),
        (("--api-key-env", "KEY"), "--api-key-env: the brief samples from no server; name one: --endpoint URL"),
        (("--endpoint", "{url}", "--api-key-env", "UNSET_KEY"), "environment variable UNSET_KEY: is not set"),
    ],
    ids=["address", "checkpoint", "no server", "no key"],
)
def test_a_bad_choice_of_a_server_is_one_line(
    run: Path, serving: Serving, finetune: Finetune, options: tuple[str, ...], words: str
) -> None:
    """What, where, how to mend it."""
    (run / "brief.yaml").write_text(evaluations.BRIEF + GRADED)
    code, _, err = finetune("evaluate", run, *(option.format(url=serving.url) for option in options))
    assert code == 2
    assert words in err.splitlines()[-1]
