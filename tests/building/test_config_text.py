"""config.yaml: what its readers get, under either version of YAML, is what the recipe decided."""

import json
import subprocess
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from llm_finetuning.building import config_text
from llm_finetuning.recipes.config import Option, RunConfig, Shape

READ = """
import json, sys, yaml
for line in sys.stdin:
    print(json.dumps(yaml.safe_load(json.loads(line))))
"""

WORDS = [
    "on",
    "No",
    "y",
    "null",
    "~",
    "1:30",
    "5e-07",
    "0x1F",
    "010",
    "1_000",
    "2026-01-01",
    "=",
    "<<",
    "",
    " a",
    "a: b",
]
WORDS += [
    "# no",
    "- a",
    "[x]",
    "a,b",
    "{",
    "'",
    '"',
    "\\",
    "\n",
    "\t",
    "\x7f",
    "\x85",
    "\u2028",
    "\U0001f600",
    "%",
    "@x",
    "!t",
]
NUMBERS = [5e-7, 1e-8, 1e16, 1.0, 0.1, -2.5e-300, 1e300, 0.0, float("inf"), float("-inf")]


LONG_KEYS = {"k" * 1020: 1, "k" * 1021: {"\u2028" * 300: [2]}, "z": 3}


def config(**values: Any) -> RunConfig:
    return RunConfig(
        method="grpo",
        model={"source": "./model", "revision": None, "init_kwargs": {"dtype": "bfloat16"}},
        adapter={"kind": "lora", "r": 16, "lora_dropout": 0.0, "target_modules": ["a", "b"], "bias": "none"},
        quantization=None,
        trainer={name: Option(value, "recipe", "why\nit is so # here") for name, value in values.items()},
        rewards=({"name": "on", "weight": 1.0}, {"name": "b", "weight": 1e-7}),
        data={"train": "data/train.jsonl", "held_out": None},
        guards={"canary": Option(value=True, source="fixed", why=""), "gap": Option(0.1, "brief", "")},
        shape=Shape(kind="server", engine="server", processes=4, trainer_devices=(4, 5), engine_devices=(0, 1)),
        versions={"trl": "1.16.0", "torch": "2.13"},
    )


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.sampled_from(WORDS),
    st.sampled_from(NUMBERS),
)
values = st.recursive(
    scalars, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3))
)


def is_same(found: Any, wanted: Any) -> bool:
    """Compare with kinds: 1 is not 1.0, and not true."""
    if isinstance(wanted, dict):
        return (
            isinstance(found, dict)
            and list(found) == list(wanted)
            and all(is_same(found[k], wanted[k]) for k in wanted)
        )
    if isinstance(wanted, list | tuple):
        return len(found) == len(wanted) and all(is_same(*pair) for pair in zip(found, wanted, strict=True))
    return type(found) is type(wanted) and found == wanted


@given(values)
@example(LONG_KEYS)
def test_any_value_comes_back(value: Any) -> None:
    """A number keeps its kind, and a text is a text, whatever YAML would make of it without quotes."""
    text = config_text.text_of(config(x=value, on=value))
    read = YAML(typ="safe", pure=True).load(text)
    assert is_same(read["trainer"], {"x": value, "on": value})
    assert is_same(read, config_text.plain(config(x=value, on=value)))


def test_the_trainers_reader_gets_the_same(engine_python: str) -> None:
    """PyYAML, which follows YAML 1.1, reads the same: rates as numbers, words as words."""
    cases = [
        config(x=value, on=[value, {"y": value}]) for value in [*WORDS, *NUMBERS[:-2], 2**70, True, None, LONG_KEYS]
    ]
    lines = "".join(json.dumps(config_text.text_of(case)) + "\n" for case in cases)
    done = subprocess.run([engine_python, "-c", READ], input=lines, capture_output=True, text=True, check=True)
    for line, case in zip(done.stdout.splitlines(), cases, strict=True):
        assert is_same(json.loads(line), config_text.plain(case)), line


def test_every_option_stands_with_its_reason() -> None:
    """Who decided and why follow the value; a long reason stands above it; nothing else is on a line."""
    options = {
        "learning_rate": Option(5e-7, "recipe", "of all weights"),
        "beta": Option(0.1, "brief", ""),
        "epsilon": Option(0.2, "variant", "clip higher"),
        "seed": Option(1, "recipe", ""),
        "long": Option("x", "machine", "because " * 20),
    }
    lines = config_text.text_of(config()).splitlines()
    made = config_text.text_of(RunConfig(**{**vars_of(config()), "trainer": options})).splitlines()
    assert "trainer: {}" in lines
    start = made.index("trainer:") + 1
    assert made[start : start + 4] == [
        "  learning_rate: 5.0e-07  # of all weights",
        "  beta: 0.1  # brief",
        "  epsilon: 0.2  # variant: clip higher",
        "  seed: 1",
    ]
    assert made[start + 4].startswith("  # machine: because")
    assert made[start + 6] == "  long: x"
    assert max(map(len, made)) <= config_text.WIDTH


def vars_of(found: RunConfig) -> dict[str, Any]:
    return {name: getattr(found, name) for name in RunConfig.__dataclass_fields__}


@pytest.mark.parametrize("value", [{1, 2}, b"x", object()], ids=lambda value: type(value).__name__)
def test_what_yaml_cannot_say_is_our_defect(value: Any) -> None:
    """It would reach the trainer as another thing."""
    with pytest.raises(TypeError, match="has no place in config"):
        config_text.text_of(config(x=value))


def test_the_file_is_ascii() -> None:
    """It reads the same whatever encoding a machine is set to."""
    assert config_text.text_of(config(x="\U0001f600 \xe9")).isascii()
