"""A model folder that cannot be sampled is refused before anything heavy is loaded."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from llm_finetuning.engines import checkpoint
from llm_finetuning.engines.completions import completion, seed_of_batch, seed_of_completion
from llm_finetuning.engines.prompts import OPEN_THOUGHT
from llm_finetuning.engines.protocol import Failure
from llm_finetuning.engines.vllm_sampler import context_needed, cpu_dtype
from llm_finetuning.errors import Refusal
from llm_finetuning.program import run_program

WHOLE = ("config.json", "model.safetensors", "tokenizer.json")


def lines_for(folder: Path) -> list[str]:
    """Return the faults of a folder."""
    with pytest.raises(Failure) as caught:
        checkpoint.check_folder(str(folder))
    assert caught.value.bad_input
    return caught.value.lines


@pytest.mark.parametrize("engine", ["transformers_sampler", "vllm_sampler"])
def test_a_missing_folder_is_refused_by_either_engine(engine: str) -> None:
    """The interpreter of the tests has no torch, so nothing heavy was asked for."""
    with pytest.raises(Refusal, match="/no/model: no such model folder"):
        list(run_program(engine, {"model": "/no/model"}, python=sys.executable))


def test_every_missing_part_is_told_at_once(tmp_path: Path) -> None:
    """An empty folder lacks three things."""
    assert ["has no config.json", "has no weights", "has no tokenizer"] == [
        line.split(": ")[1].partition(" (")[0].partition(";")[0] for line in lines_for(tmp_path)
    ]


@pytest.mark.parametrize("absent", WHOLE)
def test_one_missing_part_is_one_line(tmp_path: Path, absent: str) -> None:
    """Each part is looked for by itself."""
    for name in WHOLE:
        if name != absent:
            (tmp_path / name).touch()

    assert len(lines_for(tmp_path)) == 1


def test_a_missing_shard_and_a_lone_adapter_are_named(tmp_path: Path) -> None:
    """Half a download and a LoRA folder look like models at first sight."""
    for name in WHOLE:
        (tmp_path / name).touch()
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").touch()

    assert "shard model-2.safetensors is missing" in lines_for(tmp_path)[0]
    assert "LoRA adapter" in lines_for(adapter)[0]


def test_the_identity_of_a_folder_changes_with_its_files(tmp_path: Path) -> None:
    """A changed tokenizer or weights of another size are another model."""
    for name in WHOLE:
        (tmp_path / name).touch()
    seen = {checkpoint.identity(str(tmp_path), None)["sha256"]}
    (tmp_path / "tokenizer.json").write_text("{}", "utf-8")
    seen.add(checkpoint.identity(str(tmp_path), None)["sha256"])
    (tmp_path / "model.safetensors").write_bytes(b"12")
    seen.add(checkpoint.identity(str(tmp_path), None)["sha256"])

    assert len(seen) == 3


class Letters:
    """A tokenizer whose token n is the n-th letter; 0 is a special token."""

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        """Return the letters, without the special token when asked."""
        return "".join("abcdef"[token] for token in ids if token or not skip_special_tokens)


@pytest.mark.parametrize(
    ("ids", "text", "tokens", "finish"),
    [([1, 2, 0, 0, 0], "bc", 3, "stop"), ([1, 2, 3], "bcd", 3, "length"), ([0], "", 1, "stop"), ([], "", 0, "length")],
)
def test_a_completion_ends_behind_its_first_end_token(ids: list[int], text: str, tokens: int, finish: str) -> None:
    """Padding behind the end is cut; the end token is counted but not read."""
    made = completion(ids, Letters(), end_ids=[0, 5])

    assert (text, tokens, finish) == (made["text"], made["tokens"], made["finish_reason"])


def test_neighbouring_seeds_share_no_draws() -> None:
    """Request 5's second completion is not request 6's first."""
    seeds = [seed_of_completion(seed, index) for seed in range(40) for index in range(40)]

    assert len(set(seeds)) == 1600
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert seed_of_batch([1, 2]) != seed_of_batch([2, 1])


@pytest.mark.parametrize(
    "opened", ["<think>\n", "<think>", "<|think|>", "[THINK]", "<thinking> \n", "◁think▷", "<seed:think>"]
)
def test_an_opened_thought_is_known_by_its_tag(opened: str) -> None:
    """The spelling differs by model family."""
    assert OPEN_THOUGHT.search(f"<|assistant|>{opened}")


@pytest.mark.parametrize(
    "closed", ["<think>\n\n</think>\n\n", "use <think> tags.", "</think>", "I think", "a < thinking"]
)
def test_other_ends_open_no_thought(closed: str) -> None:
    """A closed thought, or a word about thinking, opens none."""
    assert OPEN_THOUGHT.search(closed) is None


@pytest.mark.parametrize(
    ("tokens", "context", "room"), [(78, 8192, 2048), (2049, 8192, 4096), (9000, 8192, 8192), (78, None, 2048)]
)
def test_a_continued_job_reserves_the_same_context(tokens: int, context: int | None, room: int) -> None:
    """What is left of a job mostly has another longest prompt."""
    assert room == context_needed(tokens, context)


@pytest.mark.parametrize(
    ("kept", "on_cpu", "sampled", "warns"),
    [
        ("torch.float32", "float32", "bfloat16", True),
        ("torch.float32", "float32", "float16", True),
        ("torch.float32", "float32", "float32", False),
        ("torch.bfloat16", "bfloat16", "bfloat16", False),
        (None, "bfloat16", "bfloat16", False),
    ],
)
def test_weights_in_32_bits_are_not_rounded_without_a_word(
    kept: str | None, on_cpu: str, sampled: str, *, warns: bool
) -> None:
    """A CPU keeps them; where a GPU samples them in 16 bits, that is said: a gentle training may be gone."""
    config = SimpleNamespace(dtype=kept)

    assert cpu_dtype(config) == on_cpu
    assert (checkpoint.rounding_note(config, sampled) is not None) == warns
