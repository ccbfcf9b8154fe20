"""Prompts are tokenized as TRL does it, and what a template does to them reaches the audit."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import brief, dataset
from llm_finetuning.commands import audit
from llm_finetuning.errors import Refusal
from llm_finetuning.program import run_program
from llm_finetuning.stages import audit_tokens

Finetune = Callable[..., tuple[int, str, str]]

# TRL's own method on a trainer that has no more than it reads.
TRL = """
import json, sys
from types import SimpleNamespace
from transformers import AutoTokenizer
from trl import GRPOTrainer
model, prompts = json.loads(sys.argv[1])
trainer = SimpleNamespace(
    processing_class=AutoTokenizer.from_pretrained(model, truncation_side="left", padding_side="left"), tools=None,
    _is_vlm=False, environment_factories=None, chat_template=None, chat_template_kwargs={},
)
print(json.dumps([len(ids) for ids in GRPOTrainer._tokenize_prompts(trainer, prompts)[0]]))
"""

WORDS = ["<unk>", "<s>", "</s>", "<end>", "<think>", "<pad>", "user", "assistant", "say", "one", "two", "red"]
PLAIN = "{% for m in messages %}{{ m.role }} {{ m.content }} </s>{% endfor %}"
ASKS = "{% if add_generation_prompt %}assistant {% endif %}"


def tokenizer_files(folder: Path, template: str | None, *, adds_start: bool = False, end_ids: Any = 2) -> str:
    """Write a tokenizer of a dozen words, the configs of a model with 16 tokens of context, and return the folder."""
    folder.mkdir()
    special = [word for word in WORDS if word.startswith("<")]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    processor = {
        "type": "TemplateProcessing",
        "single": [start, first],
        "pair": [start, first, second],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": WORDS.index(word), "content": word, **flags} for word in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": processor if adds_start else None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: WORDS.index(word) for word in WORDS}, "unk_token": "<unk>"},
    }
    own = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    config = {"model_type": "llama", "max_position_embeddings": 16, "vocab_size": len(WORDS), "eos_token_id": 2}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({**own, "chat_template": template}), "utf-8")
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end_ids}), "utf-8")
    return str(folder)


def read(model: str, prompts: list[Any], python: str) -> tuple[dict[int, int], dict[int, str], dict[str, Any]]:
    """Return the token counts and the refusals by row, and the facts."""
    job = {"model": model, "prompts": [{"row": n, "prompt": prompt} for n, prompt in enumerate(prompts, 1)]}
    counts: dict[int, int] = {}
    refused: dict[int, str] = {}
    *records, last = run_program("prompt_reader", job, python=python)
    for record in records:
        if record["kind"] == "tokens":
            counts.update(zip(record["rows"], record["counts"], strict=True))
        else:
            refused.update(zip(record["rows"], record["words"], strict=True))
    return counts, refused, last["facts"]


def write_run(folder: Path, model: str, prompts: list[Any], brief_text: str) -> None:
    """Write a run of these prompts with this model, whose 16 tokens of context leave 12 for a prompt."""
    text = brief_text.replace("some/model", model).replace("max_completion_length: 16", "max_completion_length: 4")
    runs.write_run(folder, text=text)
    lines = [{"id": f"q{n}", "prompt": prompt, "answer": str(n)} for n, prompt in enumerate(prompts)]
    (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def audited(
    finetune: Finetune, python: str, folder: Path, model: str, prompts: list[Any], brief_text: str
) -> dict[str, dict[str, Any]]:
    """Audit a run of these prompts with this model and return its findings by code."""
    write_run(folder, model, prompts, brief_text)
    code, out, err = finetune("audit", folder, "--python", python, "--json")
    assert code in (0, 1), err
    report = json.loads(out)
    assert not [note for note in report["notes"] if "not looked at" in note], report["notes"]
    return {finding["code"]: finding for finding in report["findings"]}


def chats(*texts: str) -> list[Any]:
    return [[{"role": "user", "content": text}] for text in texts]


TEN = [f"say {word}" for word in ["one", "two", "red", "one", "two", "red", "one", "two", "red", "one"]]


@pytest.mark.model
@pytest.mark.parametrize("chat", [True, False], ids=["chat", "text"])
def test_counts_are_those_of_trl(engine_python: str, model_folder: str, chat: bool) -> None:
    """On the real tokenizer each prompt has as many tokens as in TRL's own method, across a chunk's end."""
    texts = [f"What is {n} plus {n * n}? Say it in {'one word, ' * (n % 5)}please." for n in range(503)]
    prompts = chats(*texts) if chat else texts
    command = [engine_python, "-c", TRL, json.dumps([model_folder, prompts])]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    counts, refused, facts = read(model_folder, prompts, engine_python)

    assert json.loads(said.splitlines()[-1]) == [counts[row] for row in range(1, 504)]
    assert not refused
    assert (["<|im_end|>"], 8192, {}) == (facts["end_tokens"], facts["context_length"], facts["opened_thoughts"])
    assert facts["turn_end"] == {"token": "<|im_end|>", "ends": True}
    assert facts["tail"].endswith("<|im_start|>assistant\n" if chat else "please.")


def test_a_prompt_that_the_template_refuses_is_one_row(tmp_path: Path, engine_python: str) -> None:
    """The others of its batch are still read."""
    strict = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + PLAIN + ASKS
    model = tokenizer_files(tmp_path / "m", strict)
    system = [{"role": "system", "content": "say"}, {"role": "user", "content": "one"}]

    counts, refused, _ = read(model, [*chats("say one"), system, *chats("say one two")], engine_python)

    assert ({1: 5, 3: 6}, {2: "no system role"}) == (counts, refused)


def test_a_model_that_is_not_there_is_told(tmp_path: Path, engine_python: str) -> None:
    """One line with the folder."""
    with pytest.raises(Refusal, match="no such model folder"):
        read(str(tmp_path / "none"), ["a"], engine_python)


@pytest.mark.parametrize(
    ("template", "options", "prompts", "expected"),
    [
        (PLAIN + ASKS, {}, chats(*TEN), {"prompt-too-long": "fine", "end-second": "fine", "pad-is-end": "fine"}),
        ("<s><s>" + PLAIN + ASKS, {}, chats(*TEN), {"start-doubled": "blocks"}),
        ("<s>" + PLAIN + ASKS, {"adds_start": True}, chats(*TEN), {"end-second": "fine"}),
        (PLAIN + ASKS, {"adds_start": True}, chats(*TEN), {"start-missing": "warns"}),
        (None, {"adds_start": True}, [f"<s> {text}" for text in TEN], {"start-doubled": "blocks"}),
        (PLAIN + ASKS, {"end_ids": [2, 3]}, chats(*TEN), {"end-second": "fine"}),
        (PLAIN.replace("</s>", "<end>") + ASKS, {}, chats(*TEN), {"turn-end-unknown": "warns"}),
        (None, {}, chats(*TEN), {"no-chat-template": "blocks"}),
        (PLAIN + ASKS, {}, TEN, {"template-unused": "warns"}),
        (PLAIN + ASKS, {}, chats("say " * 9, "say " * 10, *TEN), {"prompt-too-long": "blocks"}),
    ],
    ids=[
        "sound",
        "template writes it twice",
        "template writes it once",
        "template leaves it out",
        "text has it already",
        "second end token",
        "turn ends with no end token",
        "chats without template",
        "text beside a template",
        "too long by one",
    ],
)
def test_what_template_and_tokens_do_is_found(
    tmp_path: Path,
    engine_python: str,
    template: str | None,
    options: dict[str, Any],
    prompts: list[Any],
    expected: dict[str, str],
) -> None:
    """Each fault is found, and those of the others are not (B55, B56)."""
    model = tokenizer_files(tmp_path / "m", template, **options)

    write_run(tmp_path / "run", model, prompts, runs.BRIEF)
    loaded = brief.load(tmp_path / "run")

    tokens = audit._read_tokens(loaded, dataset.read_rows(loaded), engine_python)

    found = {finding.code: finding for finding in audit_tokens.findings(tokens)}
    of_tokens = {"start-doubled", "start-missing", "turn-end-unknown", "no-chat-template", "template-unused"}
    faulty = {code: found[code].weight for code in of_tokens & set(found)}
    assert {code: weight for code, weight in expected.items() if code in of_tokens} == faulty
    assert expected.items() <= {code: finding.weight for code, finding in found.items()}.items()
    if "say " * 10 == prompts[1] or [{"role": "user", "content": "say " * 10}] == prompts[1]:
        assert found["prompt-too-long"].data_rows == [2]
        assert "context 16 less max_completion_length 4 leaves 12 tokens" in found["prompt-too-long"].text
    if options.get("end_ids"):
        assert "`</s>`, `<end>`; TRL 1.16.0 counts each as an end" in found["end-second"].text


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("use: format_tags", ("thought-opened", "blocks")),
        ("use: format_tags\n    options: {opened_by_template: think}", ("thought-opened", "fine")),
        ("use: exact_answer", ("thought-opened", "fine")),
        ("file: mine.py:strict", ("thought-opened", "blocks")),
    ],
    ids=["wants the tag", "knows", "does not care", "one's own"],
)
def test_a_thought_that_the_template_opens(
    tmp_path: Path, finetune: Finetune, engine_python: str, reward: str, expected: tuple[str, str]
) -> None:
    """A reward that wants the opening tag in the completion is never paid: it is tried, not guessed (B17)."""
    model = tokenizer_files(tmp_path / "m", PLAIN + ASKS.replace("assistant ", "assistant <think>"))
    head = runs.BRIEF.replace("use: exact_answer\n    options: {extract: last_number}", reward)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.py").write_text(
        "import re\n"
        "def strict(completions, **kwargs):\n"
        "    texts = [text[-1]['content'] for text in completions]\n"
        "    return [float(re.match('<think>.*</think>', text, re.DOTALL) is not None) for text in texts]\n"
    )

    found = audited(finetune, engine_python, tmp_path / "run", model, chats(*TEN), head)

    code, weight = expected
    assert (weight, list(range(1, 11))) == (found[code]["weight"], found[code]["data_rows"])
    assert "10/10 prompts end with `<think>`" in found[code]["text"]


def test_a_thought_that_is_promised_and_not_opened(tmp_path: Path, finetune: Finetune, engine_python: str) -> None:
    """`opened_by_template` on a template that opens nothing would judge every completion from inside a thought."""
    model = tokenizer_files(tmp_path / "m", PLAIN + ASKS)
    reward = "use: format_tags\n    options: {opened_by_template: think}"
    head = runs.BRIEF.replace("use: exact_answer\n    options: {extract: last_number}", reward)

    found = audited(finetune, engine_python, tmp_path / "run", model, chats(*TEN), head)

    assert "blocks" == found["thought-not-opened"]["weight"]


DATES = '{{"id": "{0}", "prompt": "p{0}", "answer": "2020-01-0{1}", "n": {2}, "level": "{0}"}}\n'


def test_columns_that_are_others_in_training(tmp_path: Path, finetune: Finetune, engine_python: str) -> None:
    """`datasets` reads dates as times and a column of 1 and 2.5 as fractions; what a reward reads blocks (B24)."""
    folder = runs.write_run(tmp_path / "run", text=runs.BRIEF.replace("some/model", str(tmp_path)))
    (folder / "data.jsonl").write_text("".join(DATES.format(n, n, 3.5 if n == 3 else n) for n in range(1, 9)), "utf-8")

    _, out, _ = finetune("audit", folder, "--python", engine_python, "--json")

    found = [finding for finding in json.loads(out)["findings"] if finding["code"] == "column-changed"]
    assert [("blocks", list(range(1, 9)))] == [
        (one["weight"], one["data_rows"]) for one in found if "`answer`" in one["text"]
    ]
    assert '"2020-01-01" is read as "2020-01-01T00:00:00"' in found[0]["text"]
    assert {"`answer`": "blocks", "`n`": "warns"} == {one["text"].split()[1]: one["weight"] for one in found}


def test_csv_cells_that_are_others_in_training(tmp_path: Path, finetune: Finetune, engine_python: str) -> None:
    """A gold of 007 becomes the number 7, and NA becomes nothing."""
    text = runs.BRIEF.replace("data.jsonl", "data.csv").replace("some/model", str(tmp_path))
    folder = runs.write_run(tmp_path / "run", text=text)
    golds = ["1", "2", "007", "4", "NA", "6", "7", "8"]
    rows = [f"q{n},p{n},{gold}\n" for n, gold in enumerate(golds)]
    (folder / "data.csv").write_text("id,prompt,answer\n" + "".join(rows), "utf-8")

    _, out, _ = finetune("audit", folder, "--python", engine_python, "--json")

    by_code = {finding["code"]: finding for finding in json.loads(out)["findings"]}
    assert (
        "no config.json" in by_code["tokenizer-unread"]["text"]
        or "config cannot be" in by_code["tokenizer-unread"]["text"]
    )
    found = by_code["column-changed"]
    assert ("blocks", {4, 6} <= set(found["data_rows"])) == (found["weight"], True)
