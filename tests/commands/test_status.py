"""`status` where the brief cannot be read: the fault once, and no word on files that stand on it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import runs

Finetune = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    ("old", "new", "place", "faults"),
    [
        ("grpo\n", "[grpo\n", ":3", ["not valid YAML: expected ',' or ']', but got ':'; mend the line"]),
        ("method:", "metod:", ":1", ["method: missing; add it", "metod: unknown key; did you mean `method`?"]),
        ("name: sums", "name: \x00", "", ["not valid YAML: unacceptable character #x0000"]),
    ],
    ids=["YAML", "keys", "no line"],
)
def test_a_fault_of_the_brief_is_said_once(
    run_dir: Path, finetune: Finetune, old: str, new: str, place: str, faults: list[str]
) -> None:
    """Every fault stands in the brief's row alone; what is there cannot be judged, and one place is next."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    path = run_dir / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    code, out, _ = finetune("status", run_dir)
    facts = json.loads(finetune("status", run_dir, "--json")[1])

    assert code == 0
    assert [out.count(fault) for fault in faults] == [1] * len(faults)
    rows = {row["file"]: (row["state"], row["detail"]) for row in facts["artifacts"]}
    state, detail = rows.pop("brief.yaml")
    assert state == "broken"
    assert [fault in line for fault, line in zip(faults, detail.splitlines(), strict=True)] == [True] * len(faults)
    there = {file for file in rows if (run_dir / file).exists()}
    assert there == {"audit.json", "samples.jsonl", "scores.jsonl", "probe.json"}
    assert {rows[file] for file in there} == {("unknown", "cannot be judged without a valid brief.yaml")}
    assert {rows[file] for file in rows.keys() - there} == {("missing", "")}
    assert facts["next"] == f"mend {path}{place}, then `finetune status {run_dir}`"
    assert out.endswith(f"next: {facts['next']}\n")


def test_further_faults_stand_below_the_first(run_dir: Path, finetune: Finetune) -> None:
    """The table keeps its columns."""
    path = run_dir / "brief.yaml"
    path.write_text(path.read_text("utf-8").replace("method:", "metod:"), "utf-8")
    first, second, third, *_ = finetune("status", run_dir)[1].splitlines()

    assert first == f"brief.yaml      broken      {path}:1: method: missing; add it"
    assert second == f"                            {path}:2: metod: unknown key; did you mean `method`?"
    assert third.startswith("audit.json ")


def test_a_brief_that_is_gone(run_dir: Path, finetune: Finetune) -> None:
    """What was made from it is still there, and nobody can say whether it holds."""
    runs.write_samples(run_dir)
    (run_dir / "brief.yaml").unlink()
    out = finetune("status", run_dir)[1].splitlines()

    assert out[0] == "brief.yaml      missing"
    assert out[2] == "samples.jsonl   unknown     cannot be judged without a valid brief.yaml"
    assert out[-1] == f"next: finetune new {run_dir}"


def test_after_a_changed_reward_each_verb_names_the_next(run_dir: Path, finetune: Finetune) -> None:
    """Samples that stand are not drawn again, and attacks on the reward of before are not taken for this one's."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    brief = run_dir / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace("exact_answer", "math_answer"), "utf-8")

    assert f"next: finetune score {run_dir}\n" in finetune("audit", run_dir)[1]
    assert f"next: finetune probe {run_dir}\n" in finetune("score", run_dir)[1]


def test_scoring_again_makes_nothing_stale(run_dir: Path, finetune: Finetune) -> None:
    """Only the seconds differ; a changed reward is written, and closes what was built on the scores of before."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    before = (run_dir / "scores.jsonl").read_bytes()
    out = finetune("score", run_dir)[1]

    assert (run_dir / "scores.jsonl").read_bytes() == before
    assert f"as before, so that nothing is stale: {run_dir / 'scores.jsonl'}\n" in out
    assert f"next: finetune review {run_dir}\n" in out
    assert json.loads(finetune("score", run_dir, "--json")[1])["wrote"] is None
    brief = run_dir / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace("exact_answer", "math_answer"), "utf-8")
    assert f"wrote: {run_dir / 'scores.jsonl'}\n" in finetune("score", run_dir)[1]


def test_a_reason_that_closes_several_rows_is_said_once(run_dir: Path, finetune: Finetune) -> None:
    """Rows behind it name the file that they wait for."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    brief = run_dir / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace("max_completion_length: 1", "max_completion_length: 2"), "utf-8")
    facts = json.loads(finetune("status", run_dir, "--json")[1])

    rows = {row["file"]: (row["state"], row["detail"]) for row in facts["artifacts"]}
    state, reason = rows["samples.jsonl"]
    assert state == "stale"
    assert "changed since" in reason
    assert sum(reason in detail for _, detail in rows.values()) == 1
    assert rows["scores.jsonl"] == ("stale", "waits for samples.jsonl")


def test_a_cause_is_named_by_its_key_and_once(run_dir: Path, finetune: Finetune) -> None:
    """Of the brief only what was edited is named, without a path; what is stale for the same reason says so."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    brief = run_dir / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace("exact_answer", "math_answer"), "utf-8")
    rows = {row["file"]: row["detail"] for row in json.loads(finetune("status", run_dir, "--json")[1])["artifacts"]}

    assert rows["audit.json"] == "rewards of brief.yaml changed since it was made"
    assert rows["scores.jsonl"] == rows["probe.json"] == "the same as audit.json"


ANYWHERE = "def mine(completions, answer, **k):\n    return [float(a in c) for c, a in zip(completions, answer)]\n"


def test_nobody_is_asked_to_read_for_a_reward_that_is_blocked(run_dir: Path, finetune: Finetune) -> None:
    """The attacks' own action is next, then the gate's; each verb and `status` say the same."""
    path = run_dir / "brief.yaml"
    library = "  - use: exact_answer\n    options: {extract: last_number}\n"
    path.write_text(path.read_text("utf-8").replace(library, "  - file: mine.py:mine\n"), "utf-8")
    (run_dir / "mine.py").write_text(ANYWHERE, "utf-8")
    runs.write_samples(run_dir)
    runs.examine(run_dir)

    for verb in ("probe", "gate"):
        code, out, _ = finetune(verb, run_dir)
        facts = json.loads(finetune("status", run_dir, "--json")[1])
        assert code == 1
        assert out.splitlines()[-1] == f"next: {facts['next']}"
        assert facts["next"].startswith("stop paying for")
        state = {row["file"]: row["state"] for row in facts["artifacts"]}
        assert (state[f"{verb}.json"], state["labels.jsonl"]) == ("blocked", "missing")


def test_a_gate_that_lacks_labels_alone_asks_for_them(run_dir: Path, finetune: Finetune) -> None:
    """The command to read with, which every verb before it names too."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    read = f"next: finetune review {run_dir}"

    assert [finetune(verb, run_dir)[1].splitlines()[-1] for verb in ("audit", "score", "probe")] == [read] * 3
    assert finetune("gate", run_dir)[0] == 3
    assert finetune("status", run_dir)[1].splitlines()[-1] == read


def test_an_audit_that_blocks_holds_reading_back_and_is_said_before_sampling(run_dir: Path, finetune: Finetune) -> None:
    """Its action is next; sampling goes on, since a person may override the gate, and names the first finding."""
    data = run_dir / "data.jsonl"
    rows = [{**json.loads(line), "answer": ""} for line in data.read_text("utf-8").splitlines()]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    code, out, _ = finetune("audit", run_dir)
    asked = out.splitlines()[-1]

    mend = "fill column `answer` or take these rows out"
    assert (code, asked) == (1, f"next: {mend}; then `finetune audit {run_dir}`")
    assert finetune("status", run_dir)[1].splitlines()[-1] == asked
    err = finetune("sample", run_dir, "--python", "/no/such/python")[2]
    assert "the audit BLOCKS, so the gate will too" in err
    assert "15/15 golds empty in column `answer`" in err
    assert f"{mend}, then `finetune audit {run_dir}`" in err


def test_what_an_audit_asks_of_a_misspelt_reward_is_a_whole_instruction(run_dir: Path, finetune: Finetune) -> None:
    """A place and what is wrong there, not the end of a sentence."""
    brief = run_dir / "brief.yaml"
    brief.write_text(brief.read_text("utf-8").replace("exact_answer", "exact_answr"), "utf-8")
    last = finetune("audit", run_dir)[1].splitlines()[-1]

    assert last.startswith("next: mend ")
    mend = "no reward `exact_answr` in the library; did you mean `exact_answer`?"
    assert last.endswith(f"{mend}; then `finetune audit {run_dir}`")


def test_a_model_that_never_succeeds_is_taught_by_the_same_command(run_dir: Path, finetune: Finetune) -> None:
    """What the gate prints, `status` prints: a command with this run's name, before any reading."""
    runs.write_samples(run_dir, text_of=lambda i, index: f"The answer is {1000 + 7 * i + index}.")
    runs.examine(run_dir)
    code, out, _ = finetune("gate", run_dir)

    last = out.splitlines()[-1]
    assert code == 1
    assert f"`finetune new {run_dir}-sft --from {run_dir} --method sft --dataset DEMOS.jsonl`" in last
    assert finetune("status", run_dir)[1].splitlines()[-1] == last


def test_a_state_is_not_said_twice(run_dir: Path, finetune: Finetune) -> None:
    """A gate that is blocked says so in one word; `--json` keeps its keys."""
    runs.write_samples(run_dir, text_of=lambda i, index: f"The answer is {1000 + 7 * i + index}.")
    runs.examine(run_dir)
    finetune("gate", run_dir)
    lines = finetune("status", run_dir)[1].splitlines()
    assert "gate.json       blocked" in lines
    rows = json.loads(finetune("status", run_dir, "--json")[1])["artifacts"]
    assert [row["detail"] for row in rows if row["file"] == "gate.json"] == ["blocked"]
    assert "scores.jsonl    done        75 scores" in lines
