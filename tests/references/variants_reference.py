"""Writes the skill's reference on GRPO's variants: from the rules' answers to made logs, and from the recipes.

python tests/references/variants_reference.py
"""

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests"), str(ROOT / "tests" / "diagnosis")]

import numpy as np  # noqa: E402  found through the path above
from training_logs import Columns, log, noise, ramp, sound  # noqa: E402  likewise

from llm_finetuning import brief  # noqa: E402  likewise
from llm_finetuning.diagnosis import diagnose, rules  # noqa: E402  likewise
from llm_finetuning.diagnosis.record import Advice, Diagnosis  # noqa: E402  likewise
from llm_finetuning.recipes import variants  # noqa: E402  likewise

PAGE = ROOT / "skills" / "grpo-rlvr-training" / "references" / "variants.md"

ROWS = 100
ON_POLICY = {
    "num_iterations": 1,
    "steps_per_generation": 8,
    "gradient_accumulation_steps": 8,
    "learning_rate": 1e-6,
    "loss_type": "grpo",
    "max_completion_length": 1024,
}

HEAD = """
Read this when `finetune diagnose RUN` names a failure, or a person asks for DAPO, Dr. GRPO or GSPO by name. Plain GRPO
is the recipe; a variant answers a failure that a log has shown, once the simpler causes are excluded. Each row is what
the rules answer to a made log of 100 rows that shows one fault (`python tests/references/variants_reference.py` writes
this page, and a test compares it). `finetune new NEXT --from RUN --apply` writes the brief with the one change.
"""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A made log, and what to look at before its advice is followed."""

    changed: Columns
    suspects: str
    held: Mapping[str, Any] | None = None  # options of the run, instead of those on-policy
    moe: bool | None = None


def _noisy(course: Any, size: float, seed: int = 0) -> Any:
    return course + noise(np.random.default_rng(seed), ROWS, size=size)


def _level(size: float = 0.03) -> Any:
    return _noisy(np.full(ROWS, 0.4), size)


def _fall(share: float) -> Any:
    return _noisy(np.where(np.arange(ROWS) < 60, 0.6, 0.6 * (1 - share)), 0.02)


_LENGTH = "completions/mean_length"
_GAP = "sampling/sampling_logp_difference/mean"
_RATIO = "sampling/importance_sampling_ratio"
_AT = np.arange(ROWS)

FAULTS: Mapping[str, Fault] = {
    "nan": Fault(
        changed={"reward": np.where(_AT < 90, _level(), np.nan)},
        suspects="the reward on the completions of that step; an empty completion; bf16 in the reward's own model",
    ),
    "kl_blowup": Fault(
        changed={"reward": _level(), "kl": _noisy(ramp(0, 4) ** 1.2, 0.02)},
        suspects="learning rate; the reference's weights, template and quantisation",
    ),
    "sampler_mismatch": Fault(
        changed={"reward": _level(), _GAP: _noisy(np.full(ROWS, 0.2), 0.01)},
        suspects="weight synchronisation; dtype, quantisation and chat template of the sampler",
    ),
    "truncated_sampling_bias": Fault(
        changed={
            "reward": _level(),
            _GAP: _noisy(np.full(ROWS, 0.02), 0.002),
            f"{_RATIO}/mean": _noisy(np.full(ROWS, 0.5), 0.05),
            f"{_RATIO}/max": _noisy(np.full(ROWS, 0.7), 0.1),
        },
        suspects="`top_p` below 1, `top_k` or `min_p` above 0 under `sampling`",
    ),
    "sampler_drift": Fault(
        changed={"reward": _level(), _GAP: _noisy(ramp(0.002, 0.15), 0.002)},
        suspects="how many steps a generation serves; weights that do not reach the sampler; a mixture of experts",
    ),
    "proxy_only": Fault(
        changed={
            "rewards/correct/mean": _noisy(ramp(0.5, 0.1), 0.03),
            "rewards/polite/mean": np.clip(ramp(0, 1.6), 0, 1),
            "reward": _noisy(ramp(0.5, 0.1), 0.03) + np.clip(ramp(0, 1.6), 0, 1),
        },
        suspects="completions that were paid most after that step; weights; a component that pays without the answer",
    ),
    "policy_collapse": Fault(
        changed={"reward": _fall(0.95)},
        suspects="learning rate; steps a generation serves; `max_grad_norm`; what comes later follows from it",
    ),
    "truncation": Fault(
        changed={"reward": _level(), "completions/clipped_ratio": np.clip(_noisy(np.full(ROWS, 0.7), 0.05), 0, 1)},
        suspects="the last words of cut completions: an answer under way, or a loop; end token and template",
    ),
    "zero_signal": Fault(
        changed={"reward": _level(), "frac_reward_zero_std": np.clip(_noisy(np.full(ROWS, 0.95), 0.03), 0, 1)},
        suspects="difficulty of the prompts; a reward that pays all or nothing alike; group size; temperature",
    ),
    "entropy_explosion": Fault(
        changed={"reward": _noisy(ramp(0.5, 0.35), 0.04), "entropy": _noisy(ramp(0.6, 4), 0.05)},
        suspects="`entropy_coef`; a wide upper clip; the gap between sampler and trainer; learning rate",
    ),
    "entropy_collapse": Fault(
        changed={"reward": _level(), "entropy": np.clip(_noisy(0.9 * np.exp(-_AT / 20), 0.005), 0.03, None)},
        suspects="groups without a signal; temperature; learning rate; a model that was narrow from the first row",
    ),
    "length_growth": Fault(
        changed={"reward": _level(), _LENGTH: _noisy(ramp(200, 900), 20)},
        suspects="a reward that pays for length; the cap; completions that never end",
    ),
    "reward_decline": Fault(
        changed={"reward": _noisy(ramp(0.6, 0.45), 0.04)},
        suspects="the data's order: harder prompts later; learning rate",
    ),
    "grad_spikes": Fault(
        changed={"reward": _level(), "grad_norm": np.where(np.isin(_AT, (31, 47, 60, 78)), 30.0, 0.5 + 0.001 * _AT)},
        suspects="`max_grad_norm`; single very long completions; steps of silent groups, which have no gradient",
    ),
    "no_movement": Fault(
        changed={"reward": _level(), "kl": ramp(0, 2e-5)},
        suspects="learning rate (LoRA takes ten times that of all weights); warm-up; frozen weights",
    ),
}
"""By the verdict that names it; every failure of `rules.ORDER` has one."""

NO_FAILURES = ("format_first_phase", "too_short", "inconclusive", "healthy")

OTHERS: Mapping[str, Fault] = {
    "GSPO, off-policy": Fault(
        changed={**FAULTS["sampler_drift"].changed, "clip_ratio/region_mean": np.full(ROWS, 0.02)},
        suspects="",
        moe=True,
    ),
    "GSPO, on-policy": Fault(changed=FAULTS["sampler_drift"].changed, suspects="", moe=True),
    "DAPO, accumulation not known": Fault(changed=FAULTS["entropy_collapse"].changed, suspects="", held={}),
    "DAPO, off-policy": Fault(
        changed={**FAULTS["entropy_collapse"].changed, "clip_ratio/region_mean": np.full(ROWS, 0.02)}, suspects=""
    ),
    "Dr. GRPO after `loss_type: dapo`": Fault(
        changed=FAULTS["length_growth"].changed, suspects="", held={**ON_POLICY, "loss_type": "dapo"}
    ),
}
"""Runs whose advice shows what makes a variant act."""

ALIKE: Sequence[tuple[str, Columns, str, Columns, str]] = (  # fault, its log, what looks like it, that log, the sign
    (
        "entropy spent, reward still",
        FAULTS["entropy_collapse"].changed,
        "entropy exchanged for reward",
        {**FAULTS["entropy_collapse"].changed, "reward": _noisy(ramp(0.3, 0.8), 0.03)},
        "the reward rises meanwhile",
    ),
    (
        "entropy spent",
        FAULTS["entropy_collapse"].changed,
        "narrow from the first row",
        {"reward": _level(), "entropy": np.clip(0.05 * np.exp(-_AT / 20), 0.004, None)},
        "the first rows: supervised fine-tuning left it so",
    ),
    (
        "length drifts",
        FAULTS["length_growth"].changed,
        "longer and better",
        {_LENGTH: _noisy(ramp(200, 900), 20)},
        "the reward rises with the length; the log alone cannot say which causes which",
    ),
    (
        "groups silent, nothing learned",
        FAULTS["zero_signal"].changed,
        "solved",
        {
            "reward": np.clip(1.2 - np.exp(-_AT / 15), 0, 1),
            "frac_reward_zero_std": np.clip(_noisy(np.clip(1.2 - np.exp(-_AT / 15), 0, 1) ** 4, 0.02), 0, 1),
        },
        "groups agree at the highest reward of the log",
    ),
    (
        "cut at the cap",
        FAULTS["truncation"].changed,
        "cut because the policy was lost",
        {
            "reward": np.where(_AT < 20, 0.6, 0.02) + 0.0 * _AT,
            "completions/clipped_ratio": np.where(_AT < 30, 0.05, 0.95),
        },
        "the reward went first; a higher cap would only cost more",
    ),
    (
        "reward hacked",
        FAULTS["proxy_only"].changed,
        "both components rise",
        {
            "rewards/correct/mean": _noisy(ramp(0.2, 0.7), 0.03),
            "rewards/format/mean": 1 - np.exp(-_AT / 4.0),
            "reward": _noisy(ramp(0.2, 0.7), 0.03) + 1 - np.exp(-_AT / 4.0),
        },
        "what is wanted rises too; format before correctness is the usual order",
    ),
    (
        "sampler and trainer differ from the start",
        FAULTS["sampler_mismatch"].changed,
        "they drift apart",
        FAULTS["sampler_drift"].changed,
        "the first rows: a gap from the start is the set-up, one that grows is staleness or routing of experts",
    ),
    (
        "gradients spike",
        FAULTS["grad_spikes"].changed,
        "gradients of silent groups",
        {
            "reward": _level(),
            "grad_norm": np.where(_AT % 3, 1e-9, 0.5),
            "frac_reward_zero_std": np.where(_AT % 3, 1.0, 0.2),
        },
        "steps without a signal have a norm of about 0, next to which a usual one looks like a spike",
    ),
)

NAMES = {"dapo": "DAPO", "dr_grpo": "Dr. GRPO", "gspo": "GSPO"}


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """Return the page as rules and recipes have it now."""
    parts = [
        "# Variants of GRPO, and the failures that ask for them",
        _prose(HEAD),
        failures(),
        options(),
        acts(),
        alike(),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def failures() -> str:
    """Say for each failure what the log shows, what to suspect first, and the one change."""
    assert set(rules.ORDER) == {*FAULTS, *NO_FAILURES}, "a verdict came or went: give it a made log and its suspects"
    lines = [
        "## The failure table",
        "",
        _prose(
            """In the order of cause before symptom: where two begin together, the higher one is named. The change is
            the advice to an on-policy run; where it is no variant, none would mend the cause. A star marks what rests
            on literature alone."""
        ),
        "",
        *_head(["verdict", "what the log shows, for example", "suspect first", "the one change"]),
    ]
    for code, fault in FAULTS.items():
        found = answer(fault)
        assert found.verdict == code, (code, found.verdict)
        advice = found.advice
        words = f"{advice.change}{_variant(advice)}{'' if advice.variant else _settings(advice.options)}"
        mark = "" if found.findings[0].confidence == "measured" else " *"
        lines.append(_row([f"`{code}`{mark}", found.text, fault.suspects, words]))
    rest = ", ".join(f"`{code}`" for code in NO_FAILURES)
    return "\n".join([*lines, "", _prose(f"{rest} are no failures: keep plain GRPO.")])


def options() -> str:
    """List what each variant sets, and what TRL lacks of it."""
    lines = ["## What each variant sets", ""]
    for use, variant in variants.VARIANTS.items():
        lines += [f"### {NAMES[use]}: `variant: {{use: {use}, because: ...}}`", ""]
        lines += _head(["option of TRL 1.16", "value", "why"])
        lines += [_row([f"`{name}`", f"`{_value(value)}`", why]) for name, (value, why) in variant.options.items()]
        if variant.off_policy > 1:
            times = f"{variant.off_policy} times `gradient_accumulation_steps`"
            lines.append(_row(["`steps_per_generation`", times, variants.ACTS]))
        lines += ["", *(_prose(f"- {note}", "  ") for note in _notes(use)), *([""] if _notes(use) else [])]
    lines.append(_prose("Options under `training` in the brief have the last word, also over those of a variant."))
    return "\n".join(lines)


def acts() -> str:
    """Say what an advice carries so that it is no no-op."""
    lines = [
        "## What makes a variant act",
        "",
        _prose(
            """On-policy a generation serves one optimizer step, every ratio is 1, and neither a clip nor the level of
            ratios changes a weight. `clip_ratio/region_mean` above 0 shows that the clip acts; 0 alone is no symptom.
            So an advice carries what makes the run off-policy, or says that it is."""
        ),
        "",
        *_head(["run", "options beside the variant's", "what the advice says"]),
    ]
    shown = {"DAPO, on-policy": FAULTS["entropy_collapse"], "Dr. GRPO": FAULTS["length_growth"], **OTHERS}
    for name, fault in shown.items():
        advice = answer(fault).advice
        assert advice.variant is not None, name
        own = variants.VARIANTS[advice.variant].options
        beside = {option: value for option, value in advice.options.items() if option not in own}
        lines.append(
            _row([name, _settings(beside).strip(" ()") or "none", advice.carries or "it acts on-policy as well"])
        )
    return "\n".join(lines)


def alike() -> str:
    """Set each fault beside what looks like it."""
    lines = [
        "## Symptoms that look alike",
        "",
        *_head(["looks like", "verdict", "or is", "verdict", "what tells them apart"]),
    ]
    for fault, changed, other, looks, sign in ALIKE:
        verdicts = [f"`{answer(Fault(changed=columns, suspects='')).verdict}`" for columns in (changed, looks)]
        assert verdicts[0] != verdicts[1], (fault, verdicts)
        lines.append(_row([fault, verdicts[0], other, verdicts[1], sign]))
    return "\n".join(lines)


def answer(fault: Fault) -> Diagnosis:
    """Return what the rules say of a made log: a sound run in which something is changed."""
    known = ON_POLICY if fault.held is None else fault.held
    return diagnose(log({**sound(0), **fault.changed}, **known), moe=fault.moe)


def _variant(advice: Advice) -> str:
    return f": {NAMES[advice.variant]}, below" if advice.variant is not None else ""


def _notes(use: str) -> list[str]:
    text = (
        f"name: n\nmethod: grpo\nmodel: m\ndataset: {{path: d.jsonl}}\nrewards: [{{use: exact_answer}}]\n"
        f"variant: {{use: {use}, because: b}}\n"
    )
    return variants.notes(brief.parse(text, Path("brief.yaml")))[1:]  # the first repeats the reason


def _settings(held: Mapping[str, Any]) -> str:
    return f" ({', '.join(f'`{name}: {_value(value)}`' for name, value in held.items())})" if held else ""


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _prose(words: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(words.split()), 120, break_on_hyphens=False, subsequent_indent=indent)


def _head(cells: Sequence[str]) -> list[str]:
    return [_row(cells), "|" + "---|" * len(cells)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', 'or') for cell in cells)} |"


if __name__ == "__main__":
    main()
