"""The requests that must and must not choose a skill, and the descriptions that stand beside ours in a list."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

PLUGIN = "llm-finetuning"
SKILLS = (
    "finetuning-method-selection",
    "grpo-rlvr-training",
    "preference-optimization",
    "lora-qlora-recipes",
    "eval-harness-first",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user might type, and which of our skills it is for."""

    say: str
    language: str
    skill: str | None  # None: for no skill of ours
    near: str | None = None  # the skill that it must not choose though it sounds like it
    round: int = (
        1  # 2: in rougher words: pasted logs, half sentences, names the list does not hold; 3: by who had not read it
    )


def requests() -> list[Request]:
    """Return the whole table."""
    return [Request(**json.loads(line)) for line in (HERE / "cases.jsonl").read_text("utf-8").splitlines()]


def own_descriptions() -> dict[str, str]:
    """Return the descriptions of our skills, by name, as their files have them."""
    yaml = YAML(typ="safe", pure=True)
    texts = {name: (ROOT / "skills" / name / "SKILL.md").read_text("utf-8") for name in SKILLS}
    return {name: str(yaml.load(text.split("---\n")[1])["description"]) for name, text in texts.items()}


def listing() -> dict[str, str]:
    """Return all descriptions by full name, ours first, as a client lists them to its model."""
    ours = {f"{PLUGIN}:{name}": text for name, text in own_descriptions().items()}
    return {**ours, **json.loads((HERE / "others.json").read_text("utf-8"))}


def phrases(description: str) -> list[str]:
    """Return the parts of a description that stand for themselves: what is between its marks."""
    parts = re.split(r'[.;:,?"]+\s*|\bUse for\b', description)
    return [part.strip() for part in parts if len(part.strip()) > 2]
