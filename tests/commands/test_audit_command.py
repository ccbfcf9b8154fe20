"""`finetune audit` on runs without a model: what it says, what it exits with, and what makes it stale."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact, brief, dataset, lineage
from llm_finetuning.commands import audit
from llm_finetuning.errors import Refusal
from llm_finetuning.stages import audit as stage
from llm_finetuning.types import AuditReport

Finetune = Callable[..., tuple[int, str, str]]

EXACT = "use: exact_answer\n    options: {extract: last_number}"


def run_with(folder: Path, lines: list[dict[str, Any]], reward: str = EXACT, **change: str) -> Path:
    """Write a run with these rows and this reward; `change` replaces parts of the brief."""
    text = runs.BRIEF.replace(EXACT, reward)
    for old, new in change.items():
        text = text.replace(old, new)
    runs.write_run(folder, text=text)
    rows = [{"id": f"q{n}", "prompt": f"What is {n}?", **line} for n, line in enumerate(lines, 1)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def findings(finetune: Finetune, folder: Path, *arguments: str) -> dict[str, tuple[str, list[int], str]]:
    """Return weight, rows and text of every finding that is not fine, by code."""
    code, out, err = finetune("audit", folder, "--json", *arguments)
    assert code in (0, 1), err
    found = {
        one["code"]: (one["weight"], one["data_rows"], one["text"])
        for one in json.loads(out)["findings"]
        if one["weight"] != "fine"
    }
    assert code == any(weight == "blocks" for weight, _, _ in found.values())
    return found


def numbers(count: int = 9) -> list[dict[str, Any]]:
    return [{"answer": str(n)} for n in range(1, count + 1)]


def test_sound_data_set_goes_on_to_sampling(run_dir: Path, finetune: Finetune) -> None:
    """Exit 0, one summary, what was left out and why, and the next command."""
    code, out, _ = finetune("audit", run_dir)

    assert 0 == code
    (line,) = [line for line in out.splitlines() if line.startswith("15 rows: 0 block, ")]
    fine = [one for one in json.loads(finetune("audit", run_dir, "--json")[1])["findings"] if one["weight"] == "fine"]
    assert line.endswith(f" warn, {len(fine)} fine ({', '.join(one['code'] for one in fine)})")
    assert {"gold-empty", "gold-unpaid"} <= {one["code"] for one in fine}
    assert "held-out" not in out
    assert "tokens and template were not looked at" in out  # no transformers here, or no such model
    assert f"next: finetune sample {run_dir}" in out
    assert "audit.json" in out
    assert f"next: finetune sample {run_dir}" in finetune("status", run_dir)[1]


def test_empty_golds_are_said_with_their_rows(tmp_path: Path, finetune: Finetune) -> None:
    """A gold column that is empty is no hard task (B2)."""
    folder = run_with(tmp_path / "run", [{"answer": ""}] * 8)

    code, out, _ = finetune("audit", folder)

    assert 1 == code
    assert "  BLOCKS  8/8 golds empty in column `answer` (rows 1-8)" in out.splitlines()
    assert "next: fill column `answer` or take these rows out" in out
    assert ["blocked", "mend gold-empty, gold-unreadable"] == [
        part.strip() for part in finetune("status", folder)[1].splitlines()[1].split(maxsplit=2)[1:]
    ] or "audit.json      blocked" in finetune("status", folder)[1]


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
TESTS = "assert f(1) == 2"


@pytest.mark.parametrize(
    ("reward", "lines", "rows", "words"),
    [
        (
            "use: math_answer",
            [*numbers(8), {"answer": "\\frac{1}{"}, {"answer": "x = "}],
            [9, 10],
            "`math_answer`: gold_unreadable",
        ),
        (
            "use: json_schema",
            [{"schema": SCHEMA, "answer": '{"a": 1}'}] * 8 + [{"schema": {"type": "objekt"}, "answer": "{}"}],
            [9],
            "`json_schema`: schema_unreadable",
        ),
        (
            "use: unit_tests\n    options: {entry_point_column: name}",
            [{"tests": TESTS, "name": "f", "answer": "1"}] * 8 + [{"tests": "", "name": "f", "answer": "1"}],
            [9],
            "`unit_tests`: tests_unreadable",
        ),
    ],
    ids=["gold", "schema", "tests"],
)
def test_what_the_reward_cannot_read_is_asked_of_the_reward(
    tmp_path: Path, finetune: Finetune, reward: str, lines: list[dict[str, Any]], rows: list[int], words: str
) -> None:
    """Its own abstention and reason name the rows; nothing is guessed from how a gold looks."""
    found = findings(finetune, run_with(tmp_path / "run", lines, reward))

    assert ("blocks", rows) == found["gold-unreadable"][:2]
    assert "gold-unscored" not in found
    assert words in found["gold-unreadable"][2]


MINE = """
def pays_all(completions, answer, **kwargs):
    return [1.0 if not gold.isdigit() else float(gold in text) for gold, text in zip(answer, completions)]

def picky(completions, answer, **kwargs):
    return [float(f"The answer is {gold}." == text) if gold != "5" else 0.0 for gold, text in zip(answer, completions)]

def abstains(completions, answer, **kwargs):
    return [float(gold in text) if gold != "5" else None for gold, text in zip(answer, completions)]

def one_or_none(completions, answer, **kwargs):
    return [1.0 if f" {gold}." in text else None for gold, text in zip(answer, completions)]

def of_text_alone(completions, answer, **kwargs):
    return [float(text.strip() == gold) if isinstance(text, str) else None for gold, text in zip(answer, completions)]

def talks(completions, answer, **kwargs):
    return [float(gold in text if gold != "5" else bool(text)) for gold, text in zip(answer, completions)]

def dies(completions, answer, **kwargs):
    return [float(gold in text and int(gold) >= 0) for gold, text in zip(answer, completions)]

def needs(completions, solution, **kwargs):
    return [0.0 for _ in completions]
"""


@pytest.mark.parametrize(
    ("function", "golds", "code", "rows", "words"),
    [
        ("pays_all", ["$6$", *"123456789"], "gold-unpaid", [1], "paid no more than a wrong answer"),
        ("picky", list("1234567890"), "gold-unpaid", [5], "1/10 golds"),
        ("talks", list("1234567890"), "gold-unpaid", [5], "1/10 golds"),
        ("abstains", list("1234567890"), "gold-unscored", [5], "get no score when they are the answer themselves"),
        (
            "dies",
            ["1", "2", "three", *"456789"],
            "reward-raises",
            [3],
            "ValueError: invalid literal for int() with base 10: 'three' (mine.py:LINE)",
        ),
        ("needs", list("123456789"), "reward-refused", [], "solution"),
    ],
)
def test_golds_are_tried_as_answers(
    tmp_path: Path, finetune: Finetune, function: str, golds: list[str], code: str, rows: list[int], words: str
) -> None:
    """A gold in honest forms is paid more than a wrong answer, or its row is named (B1)."""
    folder = run_with(tmp_path / "run", [{"answer": gold} for gold in golds], f"file: mine.py:{function}")
    (folder / "mine.py").write_text(MINE, "utf-8")

    all_found = findings(finetune, folder)

    assert [code] == [other for other, (weight, _, _) in all_found.items() if weight == "blocks"]
    weight, found, text = all_found[code]
    assert ("blocks", rows) == (weight, found)
    assert words.replace("LINE", str(MINE[: MINE.index("int(gold)")].count("\n") + 1)) in text


HAND = "mend the reward, not the rows: {} of 10 cannot all be wrong; call it by hand on one right answer"


@pytest.mark.parametrize(
    ("function", "chat", "golds", "code", "rows", "action"),
    [
        (
            "one_or_none", False, list("1234567890"), "reward-abstains", list(range(1, 11)),
            "mend the reward: return 0.0 where the completion is at fault; None is for what is not the model's doing",
        ),
        (
            "of_text_alone", True, list("1234567890"), "gold-unscored", list(range(1, 11)),
            HAND.format(10) + "; this run's prompts are chat, so a completion comes as a list of messages: read "
            + "`c[-1]['content']`",
        ),
        (
            "abstains", False, list("1234567890"), "gold-unscored", [5],
            "mend or remove these rows: the reward scores most golds, but not theirs",
        ),
        (
            "abstains", False, ["1", *"5" * 9], "gold-unscored", list(range(2, 11)),
            HAND.format(9),
        ),
        (
            "picky", False, ["1", *"5" * 9], "gold-unpaid", list(range(2, 11)),
            HAND.format(9),
        ),
    ],
)  # fmt: skip
def test_a_fault_of_the_reward_is_not_blamed_on_the_rows(
    tmp_path: Path, finetune: Finetune, function: str, chat: bool, golds: list[str], code: str, rows: list[int],
    action: str,
) -> None:  # fmt: skip
    """Where half of the golds and more fail it is the reward that has to be mended; of a few the rows are named."""
    asked = [
        {"answer": gold, **({"prompt": [{"role": "user", "content": f"What is {n}?"}]} if chat else {})}
        for n, gold in enumerate(golds)
    ]
    folder = run_with(tmp_path / "run", asked, f"file: mine.py:{function}")
    (folder / "mine.py").write_text(MINE, "utf-8")

    _, out, _ = finetune("audit", folder, "--json")
    told = [one for one in json.loads(out)["findings"] if one["weight"] == "blocks" or one["code"] == "gold-unpaid"]

    assert [(code, rows, action)] == [
        (one["code"], one["data_rows"], one["next_action"]) for one in told if one["weight"] != "fine"
    ]


def test_the_rows_that_differ_are_named_and_not_all_the_others(tmp_path: Path) -> None:
    """One answer as an object among text makes `datasets` read all text as objects: that one row is to be mended."""
    lines: list[dict[str, Any]] = [{"answer": json.dumps({"a": n})} for n in range(1, 10)]
    lines[5]["answer"] = {"a": 6}
    lines[7]["answer"] = None
    reading = dataset.read(brief.load(run_with(tmp_path / "run", lines)), python=None)
    odd = audit._odd(reading, ["answer", "prompt"])
    changed = {"answer": ('"{...}" is read as {...}', [1, 2, 3, 4, 5, 7, 9])}
    (found,) = stage._columns(stage.Columns(changed=changed, odd=odd, needed=["answer"]))

    assert odd == {"answer": ("an object where the others hold text", [6])}
    halves = dataset.read(brief.load(run_with(tmp_path / "even", [lines[0], lines[5]])), python=None)
    assert audit._odd(halves, ["answer"]) == {}  # neither half is the odd one
    assert (found.code, found.weight, found.data_rows) == ("column-changed", "blocks", [6])
    assert "in 7 rows, because of 1 row with an object where the others hold text" in found.text
    assert found.next_action == "write column `answer` of row 6 as the other rows have it"


def test_a_column_that_the_reward_asks_for_and_that_is_not_there(tmp_path: Path, finetune: Finetune) -> None:
    """A library reward whose column is missing would end the first step."""
    found = findings(finetune, run_with(tmp_path / "run", numbers(), "use: json_schema"))

    assert "`json_schema`: there is no column `schema`" in found["reward-raises"][2]


def test_rows_that_sampling_refuses_are_findings_beside_the_others(tmp_path: Path, finetune: Finetune) -> None:
    """All faults come at once: ids, prompts, columns and golds."""
    lines = numbers(10)
    lines[1] |= {"id": "q1"}
    lines[2] |= {"prompt": " "}
    lines[3] |= {"id": ""}
    lines[4] |= {"prompt": [{"role": "user", "content": "a"}]}
    lines[5] |= {"log_extra": 1}
    lines[6] |= {"answer": None}
    lines[7] |= {"prompt": "what IS  10?"}
    folder = run_with(tmp_path / "run", lines)

    found = findings(finetune, folder)

    assert {
        "id-contradicts": [1, 2],
        "prompt-unusable": [3],
        "id-empty": [4],
        "prompt-forms": [5],
        "column-reserved": [],
        "gold-empty": [7],
        "prompt-repeated": [8, 10],
    }.items() <= {code: rows for code, (_, rows, _) in found.items()}.items()
    assert 2 == finetune("sample", folder)[0]


def story(rng: random.Random) -> str:
    return " ".join(f"w{rng.randrange(5000)}" for _ in range(40))


def test_held_out_rows_that_stand_in_the_training_data(tmp_path: Path, finetune: Finetune) -> None:
    """Exactly and nearly, by row; naming held-out rows makes no samples stale, changing them the audit."""
    rng = random.Random(1)
    texts = [story(rng) for _ in range(20)]
    lines = [{"prompt": text, "answer": str(n)} for n, text in enumerate(texts)]
    folder = run_with(tmp_path / "run", lines, **{"data.jsonl,": "data.jsonl, evaluation: held.jsonl,"})
    held = [texts[2].upper(), texts[4].replace(texts[4].split()[7], "changed"), *(story(rng) for _ in range(3))]
    held_lines = [{"id": n, "prompt": text, "answer": "1"} for n, text in enumerate(held)]
    (folder / "held.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held_lines), "utf-8")

    found = findings(finetune, folder)

    assert ("blocks", [3]) == found["held-out-leaked"][:2]
    assert "1/5 held-out prompts stand in the training data" in found["held-out-leaked"][2]
    assert ("blocks", [5]) == found["held-out-near"][:2]
    assert "exact Jaccard" in found["held-out-near"][2]
    loaded = brief.load(folder)
    before = lineage.of_samples(loaded)
    assert lineage.current_audit(loaded).rows == 20
    (folder / "brief.yaml").write_text((folder / "brief.yaml").read_text().replace("evaluation: held.jsonl, ", ""))
    assert before == lineage.of_samples(brief.load(folder))
    with pytest.raises(Refusal, match="held-out rows changed since it was made; run `finetune audit"):
        lineage.current_audit(brief.load(folder))


def test_held_out_rows_that_are_apart_are_said(tmp_path: Path, finetune: Finetune) -> None:
    """How many there are, and that training sees none of their prompts."""
    folder = run_with(tmp_path / "run", numbers(), **{"data.jsonl,": "data.jsonl, evaluation: held.jsonl,"})
    held = [{"id": n, "prompt": story(random.Random(n)), "answer": "1"} for n in range(6)]
    (folder / "held.jsonl").write_text("".join(json.dumps(line) + "\n" for line in held), "utf-8")
    _, out, _ = finetune("audit", folder)

    assert "  fine    6 held-out rows, none of whose prompts stands in the training data; " in out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("evaluation: held.jsonl", "evaluation: none.jsonl", "none.jsonl: no such file"),
        ("prompt: prompt", "prompt: question", "no column `question`"),
        ("data.jsonl", "absent.jsonl", "absent.jsonl: no such file"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, finetune: Finetune, old: str, new: str, words: str) -> None:
    """Exit 2 where there is nothing to audit."""
    folder = run_with(tmp_path / "run", numbers(), **{"data.jsonl,": "data.jsonl, evaluation: held.jsonl,"})
    (folder / "held.jsonl").write_text('{"id": 1, "prompt": "a", "answer": "1"}\n', "utf-8")
    (folder / "brief.yaml").write_text((folder / "brief.yaml").read_text().replace(old, new))

    code, _, err = finetune("audit", folder)

    assert (2, True) == (code, words in err), err


def test_an_endpoint_has_the_tokenizer(tmp_path: Path, finetune: Finetune) -> None:
    """No tokenizer is asked, whatever interpreter there is."""
    engine = 'max_completion_length: 16, engine: endpoint, endpoint: {url: "http://127.0.0.1:9/v1"}'
    folder = run_with(tmp_path / "run", numbers(), **{"max_completion_length: 16": engine})

    code, out, _ = finetune("audit", folder)

    assert 0 == code
    assert "note: tokens and template were not looked at: the endpoint's server has the tokenizer" in out


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [
        ("max_completion_length: 16", "max_completion_length: 17", True),
        ("num_generations: 4", "num_generations: 8", True),
        ("prompts: 15", "prompts: 3", False),
        ("{extract: last_number}", "{extract: final}", True),
        ("name: sums", "name: other", False),
    ],
)
def test_what_makes_an_audit_stale(run_dir: Path, finetune: Finetune, old: str, new: str, stale: bool) -> None:
    """What it looked at does, and nothing else."""
    assert 0 == finetune("audit", run_dir)[0]
    path = run_dir / "brief.yaml"
    path.write_text(path.read_text().replace(old, new))

    state = finetune("status", run_dir)[1].splitlines()[1]
    assert stale == ("stale" in state), state


def test_a_batch_that_the_rows_do_not_fill(tmp_path: Path, finetune: Finetune) -> None:
    """The recipe's batch on eight devices, four of which train, takes more prompts than are there."""
    folder = run_with(tmp_path / "run", numbers(), **{"name: sums": "name: sums\nhardware: 8xh100"})

    assert (
        "9 rows are fewer than the 32 prompts of one generation batch" in findings(finetune, folder)["too-few-rows"][2]
    )


def test_the_artifact_holds_what_was_printed(run_dir: Path, finetune: Finetune) -> None:
    """audit.json and `--json` are one report."""
    _, out, _ = finetune("audit", run_dir, "--json")

    stored = artifact.read_json(run_dir / "audit.json", AuditReport).records[0]
    printed = json.loads(out)
    assert [finding.text for finding in stored.findings] == [finding["text"] for finding in printed["findings"]]
    assert str(run_dir / "audit.json") == printed["wrote"]
