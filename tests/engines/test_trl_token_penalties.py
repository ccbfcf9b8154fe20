"""Our penalties on tokens against TRL's own functions, and how TRL sees a reward that is wrapped."""

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llm_finetuning.rewards.repetition_penalty import RepetitionPenalty
from llm_finetuning.rewards.soft_overlong import SoftOverlong

PROGRAM = """\
import json, sys
from trl.rewards import get_repetition_penalty_reward, get_soft_overlong_punishment
job = json.load(sys.stdin)
makers = {"soft": get_soft_overlong_punishment, "repetition": get_repetition_penalty_reward}
print(json.dumps([makers[kind](**options)(completion_ids=job["ids"]) for kind, options in job["settings"]]))
"""

SEEN = """\
import json
from llm_finetuning.rewards.length_penalty import wrap
from llm_finetuning.rewards.soft_overlong import SoftOverlong
from trl.trainer.utils import get_callable_name, is_async_callable

async def slow(**kwargs): ...

inner = SoftOverlong(max_completion_len=100, soft_punish_cache=20)
settings = {"low": -1, "high": 0, "from_tokens": 1, "to_tokens": 2, "share": 0.5}
wrapped = [wrap(inner, name="soft_overlong", **settings), wrap(slow, name="slow", **settings)]
print(json.dumps([[get_callable_name(reward), is_async_callable(reward)] for reward in (inner, *wrapped)]))
"""

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

SOFT = [
    {"max_completion_len": limit, "soft_punish_cache": cache}
    for limit in (1, 2, 3, 7, 20, 33, 64, 100)
    for cache in sorted({0, 1, 2, 3, limit // 3, limit // 2, limit - 1, limit})
    if cache <= limit
]
REPETITION = [
    {"ngram_size": size, "max_penalty": penalty} for size in (1, 2, 3, 4, 7, 40) for penalty in (-1.0, -0.3, -2.5)
]


def token_ids() -> list[list[int]]:
    """Return every length up to 130, and runs of few and of many different tokens."""
    chance = random.Random(20261129)
    lists = [[7] * n for n in range(131)]
    for _ in range(400):
        vocabulary = chance.choice([1, 2, 3, 10, 50_000])
        lists.append([chance.randrange(vocabulary) for _ in range(chance.randrange(120))])
    return lists


@pytest.fixture(scope="module")
def said_by_trl(engine_python: str) -> list[list[float]]:
    """TRL's values for every setting, in the order of SOFT and REPETITION."""
    settings = [("soft", options) for options in SOFT] + [("repetition", options) for options in REPETITION]
    job = json.dumps({"ids": token_ids(), "settings": settings})
    command = [engine_python, "-c", PROGRAM]
    done = subprocess.run(command, input=job, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    values: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return values


def test_values_are_those_of_trl(said_by_trl: list[list[float]]) -> None:
    """Every setting and every completion: the same number, to the last bit."""
    ids = token_ids()
    rewards: list[Any] = [SoftOverlong(**options) for options in SOFT]
    rewards += [RepetitionPenalty(**options) for options in REPETITION]

    assert [reward(completion_ids=ids) for reward in rewards] == said_by_trl
    # The comparison means little if nothing was punished.
    assert sum(value < 0 for values in said_by_trl for value in values) > 10_000


def test_trl_names_and_awaits_a_wrapped_reward_as_the_bare_one(engine_python: str) -> None:
    """The metric keeps the reward's name, and an async reward is still run beside the others."""
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    command = [engine_python, "-c", SEEN]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]

    assert json.loads(done.stdout.splitlines()[-1]) == [
        ["soft_overlong", False],
        ["soft_overlong", False],
        ["slow", True],
    ]
