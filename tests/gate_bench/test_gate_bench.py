"""The benchmark itself is sound, and on a part of it the gate does what it is for."""

import ast
from pathlib import Path
from typing import Any

import pytest

from gate_bench import bench
from gate_bench.run_folder import brief_of, samples_of, stored, truths, write_run
from gate_bench.tasks import TASKS
from llm_finetuning import brief, lineage
from llm_finetuning.rewards import composition
from llm_finetuning.stages import score as score_stage

CATALOGUE = bench.catalogue()
SOUND = [entry for entry in CATALOGUE if entry["sound"]]
BROKEN = [entry for entry in CATALOGUE if not entry["sound"]]

QUICK = (  # one a task and a verb: what probes find, what reading finds, what score refuses; and sound ones
    "dies_without_marker",
    "any_number_will_do",
    "empty_is_inside_everything",
    "unquoted_until_it_fits",
    "shorter_is_better",
    "right_or_minus_one",
    "strict_fields",
    "exact_form_and_number",
)


def test_the_catalogue_and_the_folder_name_the_same_rewards() -> None:
    """Every file has one entry and every entry its file, and both kinds are there in number."""
    folder = bench.HERE / "rewards"
    files = {str(path.relative_to(folder)) for path in folder.rglob("*.py")}
    assert files == {entry["file"] for entry in CATALOGUE if entry["file"]}
    assert len({entry["name"] for entry in CATALOGUE}) == len(CATALOGUE)
    assert len(BROKEN) >= 48
    assert len(SOUND) >= 24


@pytest.mark.parametrize("name", TASKS)
def test_the_stored_truth_is_what_the_task_knows(name: str) -> None:
    """The program that knows the task never contradicts a stored truth, and most prompts have right and wrong work."""
    task, problems = TASKS[name], TASKS[name].problems()
    rows, said = stored(name)
    assert rows == [problem.row for problem in problems]
    pairs = [(item, task.truth(problems[item["row"]], item["text"])) for item in said]
    against = [
        item["text"] for item, known in pairs if {item["truth"], known} == {"accept", "reject"} and not item["cut"]
    ]
    assert against == []
    verdicts = list(truths(name).values())
    assert 0.2 < verdicts.count("accept") / len(verdicts) < 0.8
    assert sum(item["cut"] for item in said if item["index"] != "low") / len(verdicts) < 0.2


def _values(entry: dict[str, Any], folder: Path) -> dict[str, float | None]:
    """Return what the composed reward pays for every policy sample."""
    loaded = brief.load(write_run(folder / "run", entry))
    samples = [sample for sample in samples_of(entry["task"]) if sample.pass_name == "policy"]
    parts = composition.compose(loaded, lineage.columns_of(samples))
    scores = score_stage.score(samples, parts, completions_per_call=32, aggregation=score_stage.Aggregation())
    return {score.sample_id: score.reward for score in scores}


@pytest.mark.parametrize("entry", SOUND, ids=[entry["name"] for entry in SOUND])
def test_a_sound_reward_agrees_with_the_truth(entry: dict[str, Any], tmp_path: Path) -> None:
    """At the brief's success threshold a sound reward pays what is right and nothing else."""
    from llm_finetuning.scoring.success import success_of

    paid = _values(entry, tmp_path)
    loaded = brief.load(tmp_path / "run")
    threshold = success_of(loaded, composition.compose(loaded, list(stored(entry["task"])[0][0])))
    wrong = {
        sample_id: verdict
        for sample_id, verdict in truths(entry["task"]).items()
        if verdict != "unsure" and ((paid[sample_id] or 0.0) >= threshold - 1e-6) != (verdict == "accept")
    }
    assert wrong == {}


@pytest.mark.parametrize("entry", BROKEN, ids=[entry["name"] for entry in BROKEN])
def test_a_broken_reward_says_what_is_wrong_with_it(entry: dict[str, Any]) -> None:
    """A broken entry names its report and kind, and its brief is one that the product reads."""
    assert entry["report"].startswith("B")
    assert min(len(entry[key]) for key in ("kind", "why", "seen")) > 2
    brief.parse(str(brief_of(entry)).replace("True", "true"), Path("brief.yaml"))


@pytest.mark.parametrize("name", QUICK)
def test_the_gate_tells_broken_from_sound(name: str) -> None:
    """On this fixed part of the benchmark every broken reward is blocked and every sound one opened."""
    entry = next(item for item in CATALOGUE if item["name"] == name)
    outcome = bench.outcome_of(entry)
    if entry["sound"]:
        assert outcome.codes["gate"] == bench.OPEN, outcome.blocking
    else:
        assert outcome.blocked_by("gate"), outcome.codes


def _outcome(*, sound: bool, codes: dict[str, int], hung: bool = False) -> bench.Outcome:
    return bench.Outcome(name="x", sound=sound, task="sums", report="", codes=codes, hung=hung)


def test_the_rates_count_what_they_say() -> None:
    """A refused reward is blocked, a hung one is not, too little evidence opens nothing; below a target is said."""
    broken = [
        _outcome(sound=False, codes={"score": 2}),
        _outcome(sound=False, codes={"score": 0, "probe": 1, "gate": 1}),
        _outcome(sound=False, codes={"score": 0, "probe": 0, "gate": 1}),
        _outcome(sound=False, codes={"score": 0, "probe": 3, "gate": 3}),
        _outcome(sound=False, codes={"score": 0}, hung=True),
    ]
    sound = [_outcome(sound=True, codes={"score": 0, "probe": 0, "gate": code}) for code in (0, 1, 3)]
    assert bench.rates([*broken, *sound]) == {
        "broken blocked by probes alone": (2, 5),
        "broken blocked by the gate": (3, 5),
        "sound opened": (1, 3),
        "sound not blocked by probes": (3, 3),
        "broken that `score` refused": (1, 5),
        "broken that hung": (1, 5),
    }
    assert set(bench.missed([*broken, *sound])) == set(bench.TARGETS)
    assert bench.missed([broken[0], broken[1], sound[0]]) == []


def test_no_entry_was_made_by_looking_at_the_probes() -> None:
    """Neither the rewards nor the tasks import the probes that they judge."""
    for path in bench.HERE.rglob("*.py"):
        imported = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        assert not [node for node in imported if "llm_finetuning.probes" in (node.module or "")], path
