"""`finetune probe` as a person calls it: verdict, exit code, artifact, staleness."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import runs
from llm_finetuning import brief, lineage
from llm_finetuning.errors import Refusal
from llm_finetuning.probes import FAMILIES

Finetune = Callable[..., tuple[int, str, str]]

ANYWHERE = """\
def anywhere(completions, answer, **kwargs):
    print("looking")
    return [float(gold in text) for text, gold in zip(completions, answer)]
"""


def scored(run_dir: Path, finetune: Finetune) -> Path:
    runs.write_samples(run_dir)
    assert finetune("score", run_dir)[0] == 0
    return run_dir


def with_reward(folder: Path, code: str, name: str) -> Path:
    text = runs.BRIEF.replace("use: exact_answer\n    options: {extract: last_number}", f"file: mine.py:{name}")
    run_dir = runs.write_run(folder, text=text)
    (run_dir / "mine.py").write_text(code, "utf-8")
    return run_dir


def test_a_sound_reward_holds(run_dir: Path, finetune: Finetune) -> None:
    """Exit 0, the report is an artifact that status and the gate can read, and nothing was counted twice."""
    scored(run_dir, finetune)
    code, out, _ = finetune("probe", run_dir)
    assert code == 0
    assert out.startswith("probe: held")
    report = lineage.current_probe(brief.load(run_dir))
    assert report.verdict == "held"
    assert len({result.probe.probe_id for result in report.results}) == len(report.results)
    assert {result.probe.family for result in report.results} <= {*FAMILIES, "honest"}
    assert "probe.json done held" in " ".join(finetune("status", run_dir)[1].split())


def test_a_broken_reward_is_blocked_with_its_texts(tmp_path: Path, finetune: Finetune) -> None:
    """Exit 1; one line a family that fails, with the text, what it was paid and what to do; prints do no harm."""
    run_dir = scored(with_reward(tmp_path / "run", ANYWHERE, "anywhere"), finetune)
    code, out, _ = finetune("probe", run_dir)
    assert code == 1
    (line,) = [line for line in out.splitlines() if "BLOCKS  spraying" in line]
    assert "is paid 1, where a plain right answer is paid 1 and a wrong one 0" in line
    verbs = " && ".join(f"finetune {verb} {run_dir}" for verb in ("audit", "score", "probe"))
    last = out.splitlines()[-1]
    assert last.startswith("next: stop paying for")
    assert last.endswith(f"; then `{verbs}`")
    weights = [line.split()[0] for line in out.splitlines() if line.startswith(("  BLOCKS", "  warns", "  fine"))]
    assert weights == sorted(weights, key=["BLOCKS", "warns", "fine"].index)
    assert {"BLOCKS", "warns"} <= set(weights)
    code, out, _ = finetune("probe", run_dir, "--json")
    facts = json.loads(out)
    assert (code, facts["verdict"]) == (1, "blocked")
    assert facts["failing"]
    spraying = facts["forms"]["exploit-spraying, blocks"]
    assert all(f"{about} ({count})" in line for about, count in spraying.items())
    assert sum(spraying.values()) == next(
        found["rate"]["hits"] for found in facts["findings"] if found["code"] == "exploit-spraying"
    )


def test_it_is_the_same_every_time(tmp_path: Path, finetune: Finetune) -> None:
    """The probes, what they were paid and the findings depend on the run alone."""
    run_dir = scored(with_reward(tmp_path / "run", ANYWHERE, "anywhere"), finetune)
    made = []
    for _ in range(2):
        finetune("probe", run_dir)
        report = lineage.current_probe(brief.load(run_dir))
        made.append(([(one.probe, one.reward, one.verdict) for one in report.results], report.findings))
    assert made[0] == made[1]


def test_limit_spreads_over_the_families(run_dir: Path, finetune: Finetune) -> None:
    """An expensive reward is asked as often as wished, about every family."""
    scored(run_dir, finetune)
    assert finetune("probe", run_dir, "--limit", 60)[0] == 0
    results = lineage.current_probe(brief.load(run_dir)).results
    assert len(results) == 60
    assert len({result.probe.family for result in results}) >= 15


def test_without_any_right_answer_the_evidence_is_wanting(tmp_path: Path, finetune: Finetune) -> None:
    """Exit 3: a reward that pays nobody, on rows without a gold, can be compared with nothing."""
    code = "def never(completions, **kwargs):\n    return [0.0] * len(completions)\n"
    run_dir = with_reward(tmp_path / "run", code, "never")
    brief_file = run_dir / "brief.yaml"
    brief_file.write_text(brief_file.read_text("utf-8").replace(", answer: answer", ", answer: level"), "utf-8")
    runs.write_samples(run_dir)
    samples_file = run_dir / "samples.jsonl"
    samples_file.write_text(samples_file.read_text("utf-8").replace('"answer":', '"other":'), "utf-8")
    assert finetune("score", run_dir)[0] == 0
    assert finetune("probe", run_dir)[0] == 3


def test_a_changed_reward_makes_it_stale(tmp_path: Path, finetune: Finetune) -> None:
    """What was attacked is not what is there any more: scores first, then the probe."""
    run_dir = scored(with_reward(tmp_path / "run", ANYWHERE, "anywhere"), finetune)
    finetune("probe", run_dir)
    (run_dir / "mine.py").write_text(ANYWHERE + "\n", "utf-8")
    code, _, err = finetune("probe", run_dir)
    assert code == 2
    assert f"run `finetune score {run_dir}`" in err
    finetune("score", run_dir)
    with pytest.raises(Refusal, match="run `finetune probe"):
        lineage.current_probe(brief.load(run_dir))


def test_probe_needs_scores(run_dir: Path, finetune: Finetune) -> None:
    """Bad input is one line that names the verb to run."""
    runs.write_samples(run_dir)
    code, _, err = finetune("probe", run_dir)
    assert code == 2
    assert "finetune score" in err


@pytest.mark.parametrize("paid", ["0.0", "0.5", "1.0"])
def test_a_reward_that_pays_one_value_is_mended_by_the_audits_words(
    tmp_path: Path, finetune: Finetune, paid: str
) -> None:
    """Audit and probe see one cause: both ask for the reward and neither for other rows."""
    code = f"def flat(completions, answer, **kwargs):\n    return [{paid}] * len(completions)\n"
    run_dir = scored(with_reward(tmp_path / "run", code, "flat"), finetune)
    told = json.loads(finetune("audit", run_dir, "--json")[1])["findings"]
    (audited,) = [one["next_action"] for one in told if one["code"] == "gold-unpaid"]
    (last,) = [line for line in finetune("probe", run_dir)[1].splitlines() if line.startswith("next: ")]

    assert audited.startswith("mend the reward, not the rows: ")
    assert last.startswith(f"next: {audited}; then `finetune audit ")
    assert "--fresh" not in last
