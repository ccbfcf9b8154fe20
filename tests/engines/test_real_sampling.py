"""The three engines sample the real model: as TRL would, reproducibly, and with refusals instead of tracebacks."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.program import run_program

pytestmark = pytest.mark.model

END = 2  # <|im_end|>
CHAT = [{"role": "user", "content": "What is 12 + 30? Answer with the number only."}]
LONGER = [{"role": "user", "content": "Name three colours, then say in one short sentence why the sky is blue."}]
TEXT = "The capital of France is"


def request(prompt_id: str, prompt: Any, n: int, temperature: float = 1.0) -> dict[str, Any]:
    """Return one request; its seed follows from its prompt's name."""
    row = int(prompt_id[1:])
    passed = "policy" if temperature == 1.0 else "low_temperature"
    own = {"prompt_id": prompt_id, "row": row, "prompt": prompt, "pass_name": passed}
    return {**own, "n": n, "temperature": temperature, "seed": 40 + row}


FIRST = [request("p1", CHAT, 3), request("p2", LONGER, 2)]
TEXTS = [request("p3", TEXT, 2), request("p4", "1 + 1 =", 3)]
LOW = [request("p1", CHAT, 2, 0.2), request("p2", LONGER, 2, 0.2)]
GREEDY = [request("p5", CHAT, 2, 0.0), request("p6", LONGER, 2, 0.0), request("p7", TEXT, 1, 0.0)]


def job(model: str, *batches: list[dict[str, Any]], **sampling: Any) -> dict[str, Any]:
    """Return a job with neutral sampling options except those named."""
    options = {"max_completion_length": 16, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    shared = {"model": model, "endpoint": None, "chat_template_kwargs": {}, "batches": list(batches)}
    return {**shared, "sampling": options | sampling}


def drawn(records: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return the completions of each group, in their order."""
    return [record["completions"] for record in records if record["kind"] == "group"]


def check_group(group: dict[str, Any], longest: int = 16) -> None:
    """Fail unless ids, count and finish reason of every completion fit together."""
    for completion in group["completions"]:
        ids = completion["ids"]
        assert 1 <= completion["tokens"] == len(ids) <= longest
        assert END not in ids[:-1]
        assert completion["finish_reason"] == ("stop" if ids[-1] == END else "length")
        assert "<|im_" not in completion["text"]


def children_of(pid: int) -> list[tuple[int, str]]:
    """Return process id and command line of every living child."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append((int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")))
    return found


@pytest.fixture(scope="module")
def sampled(engine_python: str, model_folder: str) -> list[dict[str, Any]]:
    """One run of the transformers engine over every kind of batch, the first one twice."""
    a_job = job(model_folder, FIRST, TEXTS, LOW, GREEDY, FIRST)
    return list(run_program("transformers_sampler", {**a_job, "dtype": "float32"}, python=engine_python))


def test_transformers_samples_text_and_chat(sampled: list[dict[str, Any]]) -> None:
    """Groups come in the order of the requests, each with as many completions as were asked for."""
    groups = sampled[1:]

    assert ["p1", "p2", "p3", "p4", "p1", "p2", "p5", "p6", "p7", "p1", "p2"] == [each["prompt_id"] for each in groups]
    assert [3, 2, 2, 3, 2, 2, 2, 2, 1, 3, 2] == [len(each["completions"]) for each in groups]
    assert ["policy"] * 4 + ["low_temperature"] * 5 == [each["pass_name"] for each in groups[:9]]
    for group in groups:
        check_group(group)
        assert 0.0 < group["seconds"] < 60.0
    assert groups[0]["seconds"] == groups[1]["seconds"] != groups[2]["seconds"]  # one time a batch
    assert len({completion["text"] for completion in groups[0]["completions"]}) > 1
    assert groups[6]["completions"][0] == groups[6]["completions"][1]
    assert "Paris" in groups[2]["completions"][0]["text"] + groups[2]["completions"][1]["text"]


def test_ready_says_what_later_stages_compare(sampled: list[dict[str, Any]], model_folder: str) -> None:
    """End tokens, template and identity are what the gate needs to foresee a run of cut-off samples."""
    ready = sampled[0]["facts"]

    assert sampled[0]["kind"] == "ready"
    assert ("transformers", "float32") == (ready["engine"], ready["dtype"])
    assert ([END], [END], [END]) == (
        ready["tokenizer_end_ids"],
        ready["generation_config_end_ids"],
        ready["end_ids"],
    )
    assert (END, 8192, None) == (ready["pad_token_id"], ready["context_length"], ready["open_thought"])
    assert ready["model"]["folder"] == model_folder
    assert len(ready["model"]["sha256"]) == len(ready["chat_template_sha256"]) == 64


def test_a_batch_depends_on_nothing_that_ran_before(
    sampled: list[dict[str, Any]], engine_python: str, model_folder: str
) -> None:
    """The first batch drawn again last, and a job that begins at the second batch, give the same bits."""
    once = drawn(sampled)
    late = {**job(model_folder, TEXTS, LOW), "dtype": "float32"}

    continued = list(run_program("transformers_sampler", late, python=engine_python))

    assert once[:2] == once[-2:]
    assert once[2:6] == drawn(continued)


TRL_SIDE = """
import json, sys, torch
from types import SimpleNamespace
from transformers import AutoModelForCausalLM, AutoProcessor, GenerationConfig
from trl import GRPOTrainer

model, prompts = json.load(sys.stdin)
tokenizer = AutoProcessor.from_pretrained(model, truncation_side="left", padding_side="left")
trainer = SimpleNamespace(
    processing_class=tokenizer, tools=None, chat_template=None, chat_template_kwargs={},
    environment_factories=None, _is_vlm=False,
)
ids = [GRPOTrainer._tokenize_prompts(trainer, [prompt])[0][0] for prompt in prompts]
weights = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
options = GenerationConfig(max_new_tokens=16, do_sample=False, eos_token_id=[2], pad_token_id=2)
greedy = [
    weights.generate(torch.tensor([own]), attention_mask=torch.ones(1, len(own)), generation_config=options)
    for own in ids
]
json.dump([ids, [made[0, len(own):].tolist() for own, made in zip(ids, greedy)]], sys.stdout)
"""


def test_prompts_and_greedy_completions_are_those_of_trl(
    sampled: list[dict[str, Any]], engine_python: str, model_folder: str
) -> None:
    """TRL's own tokenization gives our ids; padding and the shared prefill change no greedy token."""
    question = json.dumps([model_folder, [CHAT, LONGER, TEXT]])
    said = subprocess.run(
        [engine_python, "-c", TRL_SIDE], input=question, capture_output=True, text=True, check=False, cwd="/"
    )
    assert said.returncode == 0, said.stderr[-2000:]
    ids, greedy = json.loads(said.stdout)

    groups = sampled[1:]
    assert ids[0] == sampled[0]["facts"]["first_prompt_ids"]
    assert [len(own) for own in ids] == [group["prompt_tokens"] for group in groups[6:9]]
    assert greedy == [group["completions"][0]["ids"] for group in groups[6:9]]


def test_vllm_samples_reproducibly_in_one_process(vllm_python: str, model_folder: str) -> None:
    """The same batch gives the same bits at every place of a job; no child could outlive a killed parent."""
    whole = []
    with contextlib.closing(
        run_program("vllm_sampler", job(model_folder, FIRST, TEXTS, GREEDY, FIRST), python=vllm_python)
    ) as records:
        whole.append(next(records))
        (engine,) = [pid for pid, line in children_of(os.getpid()) if "vllm_sampler" in line]
        outsiders = [line for pid, line in children_of(engine) if os.getpgid(pid) != engine]
        whole += records
    continued = list(run_program("vllm_sampler", job(model_folder, TEXTS, GREEDY), python=vllm_python))

    assert outsiders == []
    for group in whole[1:]:
        check_group(group)
        assert 0.0 < group["seconds"] < 60.0
    once = drawn(whole)
    assert [3, 2, 2, 3, 2, 2, 1, 3, 2] == [len(group) for group in once]
    assert once[0] != once[1]
    assert once[:2] == once[-2:]
    assert once[2:7] == drawn(continued)
    assert ("vllm", [END]) == (whole[0]["facts"]["engine"], whole[0]["facts"]["end_ids"])


def test_endpoint_samples_a_real_server(vllm_server: str, sampled: list[dict[str, Any]], model_folder: str) -> None:
    """A vLLM server renders the same prompts and its completions fit; a text prompt goes to the other route."""
    endpoint = {"url": vllm_server, "model": "smol", "api_key_env": None}
    endpoint |= {"concurrency": 8, "timeout_s": 60, "retries": 3}
    a_job = {**job(model_folder, FIRST, TEXTS), "endpoint": endpoint}

    records = list(run_program("endpoint_sampler", a_job, python=sys.executable))

    groups = {record["prompt_id"]: record for record in records if record["kind"] == "group"}
    assert {"p1": 3, "p2": 2, "p3": 2, "p4": 3} == {name: len(each["completions"]) for name, each in groups.items()}
    for group in groups.values():
        check_group(group)
        assert "seconds" not in group
    assert groups["p1"]["prompt_ids"] == sampled[0]["facts"]["first_prompt_ids"]
    assert records[0]["facts"]["context_length"] == 2048


def test_a_model_the_server_does_not_serve_is_refused(vllm_server: str, model_folder: str) -> None:
    """The names that are served are in the line."""
    endpoint = {"url": vllm_server, "model": "large", "api_key_env": None}
    endpoint |= {"concurrency": 8, "timeout_s": 60, "retries": 3}

    with pytest.raises(Refusal, match="one of: smol"):
        list(run_program("endpoint_sampler", {**job(model_folder, FIRST), "endpoint": endpoint}, python=sys.executable))


def test_a_hub_that_is_away_is_told_at_once(
    engine_python: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hub's own client would go on trying for half a minute a file."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    begun = time.monotonic()

    with pytest.raises(Refusal, match="nobody/nothing: the config cannot be had from the hub"):
        list(run_program("transformers_sampler", job("nobody/nothing", FIRST), python=engine_python))

    assert time.monotonic() - begun < 20


@pytest.fixture
def copied_model(model_folder: str, tmp_path: Path) -> Path:
    """A copy of the model's folder that a test may break; the weights are a link."""
    folder = tmp_path / "model"
    folder.mkdir()
    for path in Path(model_folder).iterdir():
        if path.suffix == ".safetensors":
            (folder / path.name).symlink_to(path)
        else:
            shutil.copy(path, folder / path.name)
    return folder


def test_bad_prompts_are_all_listed_before_the_weights_are_read(engine_python: str, copied_model: Path) -> None:
    """Rows that the template refuses or that do not fit the context are told together."""
    template = "{% if messages[0].role != 'user' %}{{ raise_exception('start with user') }}{% endif %}hi"
    (copied_model / "chat_template.jinja").write_text(template, "utf-8")
    batch = [
        request("p1", CHAT, 1),
        request("p2", [{"role": "system", "content": "x"}], 1),
        request("p3", "word " * 9000, 1),
        request("p4", "", 1),
    ]

    with pytest.raises(Refusal) as caught:
        list(run_program("transformers_sampler", job(str(copied_model), batch), python=engine_python))

    first, second, third = caught.value.lines
    assert first.startswith("row 2: the chat template refuses the messages (start with user)")
    assert second.startswith("row 3: 9001 prompt tokens and max_completion_length 16 exceed the model's 8192")
    assert third.startswith("row 4: the prompt is empty")


def test_chat_prompts_need_a_chat_template(engine_python: str, copied_model: Path) -> None:
    """A base model's tokenizer has none; one line for the whole dataset, not one a row."""
    (copied_model / "chat_template.jinja").unlink()

    with pytest.raises(Refusal) as caught:
        list(run_program("transformers_sampler", job(str(copied_model), FIRST), python=engine_python))

    assert len(caught.value.lines) == 1
    assert "has no chat template" in str(caught.value)


def test_an_opened_thought_is_seen(engine_python: str, copied_model: Path) -> None:
    """Completions of such a model never hold the opening tag, so a format reward would pay nobody (B17)."""
    with (copied_model / "chat_template.jinja").open("a") as file:
        file.write("{% if add_generation_prompt %}{{ '<think>\n' }}{% endif %}")
    short = job(str(copied_model), [request("p1", CHAT, 1)], max_completion_length=2)

    ready = next(run_program("transformers_sampler", short, python=engine_python))

    assert ready["facts"]["open_thought"] == "<think>"


def test_weights_that_are_cut_off_are_refused(engine_python: str, copied_model: Path) -> None:
    """A download that broke off."""
    weights = copied_model / "model.safetensors"
    with weights.open("rb") as file:
        start = file.read(100_000)
    weights.unlink()
    weights.write_bytes(start)

    with pytest.raises(Refusal, match="the model cannot be loaded"):
        list(run_program("transformers_sampler", job(str(copied_model), FIRST), python=engine_python))


def test_every_end_token_of_the_model_ends_a_completion(engine_python: str, copied_model: Path) -> None:
    """A second end token in the generation config counts as the end, not as cut off (B55)."""
    comma = 28
    config = json.loads((copied_model / "generation_config.json").read_text("utf-8"))
    config["eos_token_id"] = [END, comma]
    config["top_k"] = 1  # must not slip into the sampling
    (copied_model / "generation_config.json").write_text(json.dumps(config), "utf-8")
    batch = [request("p1", "red, green, blue, white, black", 8)]

    ready, group = run_program("transformers_sampler", job(str(copied_model), batch), python=engine_python)

    assert ([END], [END, comma]) == (ready["facts"]["tokenizer_end_ids"], ready["facts"]["end_ids"])
    stopped = [each for each in group["completions"] if each["ids"][-1] == comma]
    assert stopped
    assert {"stop"} == {each["finish_reason"] for each in stopped}
    assert len({each["text"] for each in group["completions"]}) > 1
