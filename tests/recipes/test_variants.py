"""Variants: exactly what their papers change, only when a brief asks for them, and with what makes them act."""

from pathlib import Path
from typing import Any

import pytest

import runs
from llm_finetuning import artifact, brief, lineage
from llm_finetuning.errors import Refusal
from llm_finetuning.recipes import config_for, layout, variants
from llm_finetuning.recipes.config import Machine, Measured, RunConfig
from llm_finetuning.scoring.scores import completions_per_call

H100 = Machine(name="h100", gpus=1)
BECAUSE = "completions grow and success does not"


def brief_of(folder: Path, use: str | None, training: str = "", rewards: str = "") -> brief.LoadedBrief:
    text = runs.BRIEF.replace("sampling: {num_generations: 4,", "sampling: {num_generations: 8,")
    text = text.replace("rewards:\n", f"rewards:\n{rewards}")
    text += f"variant: {{use: {use}, because: {BECAUSE}}}\n" if use else ""
    return brief.load(runs.write_run(folder, text=text + f"training: {{{training}}}\n"))


def values(config: RunConfig) -> dict[str, Any]:
    return {name: option.value for name, option in config.trainer.items()}


PLAIN = {
    "loss_type": "grpo",
    "importance_sampling_level": "token",
    "epsilon": 0.2,
    "epsilon_high": 0.2,
    "beta": 0.01,
    "scale_rewards": "group",
    "mask_truncated_completions": False,
    "gradient_accumulation_steps": 4,
    "steps_per_generation": 4,
}
CHANGES: dict[str, dict[str, Any]] = {
    "dapo": {
        "loss_type": "dapo",
        "epsilon_high": 0.28,
        "beta": 0.0,
        "mask_truncated_completions": True,
        "gradient_accumulation_steps": 1,
    },
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none", "beta": 0.0},
    "gspo": {
        "importance_sampling_level": "sequence",
        "beta": 0.0,
        "epsilon": 3e-4,
        "epsilon_high": 4e-4,
        "gradient_accumulation_steps": 1,
    },
}


@pytest.mark.parametrize("use", [None, *CHANGES])
def test_a_variant_changes_this_and_nothing_else(tmp_path: Path, use: str | None) -> None:
    """The options of the papers, marked as the variant's; all others are plain GRPO's."""
    plain = config_for(brief_of(tmp_path / "plain", None), H100, 100)
    config = config_for(brief_of(tmp_path / "run", use), H100, 100)
    changed = CHANGES[use] if use else {}

    assert {**PLAIN, **changed} == {name: values(config)[name] for name in PLAIN}
    follow = {*PLAIN, "save_steps"}  # what a variant may change, and what follows the number of steps
    others = [{name: one for name, one in values(run).items() if name not in follow} for run in (plain, config)]
    assert others[0] == others[1]
    by_variant = {name for name, option in config.trainer.items() if option.source == "variant"}
    assert set(changed) <= by_variant
    assert (use is None) == (by_variant == set())


@pytest.mark.parametrize("use", ["dapo", "gspo"])
@pytest.mark.parametrize("training", ["", "gradient_accumulation_steps: 2", "per_device_train_batch_size: 2"])
def test_clipping_variants_are_off_policy(tmp_path: Path, use: str, training: str) -> None:
    """On-policy every ratio is 1, and both would be no-ops: a generation serves four optimizer steps."""
    found = values(config_for(brief_of(tmp_path, use, training), H100, 100))

    assert 4 * found["gradient_accumulation_steps"] == found["steps_per_generation"]


@pytest.mark.parametrize(
    ("training", "refused"),
    [
        ("steps_per_generation: 4, gradient_accumulation_steps: 4", True),
        ("steps_per_generation: 1", True),
        ("steps_per_generation: 4, gradient_accumulation_steps: 4, num_iterations: 2", False),
        ("steps_per_generation: 8, gradient_accumulation_steps: 4", False),
    ],
)
def test_gspo_that_does_nothing_is_refused(tmp_path: Path, training: str, refused: bool) -> None:
    """A brief that asks for GSPO and makes it plain GRPO contradicts itself."""
    if refused:
        with pytest.raises(Refusal, match="so that gspo is plain GRPO; leave it out, or write"):
            brief_of(tmp_path, "gspo", training)
    else:
        assert (
            "sequence"
            == values(config_for(brief_of(tmp_path, "gspo", training), H100, 100))["importance_sampling_level"]
        )


def test_the_brief_has_the_last_word_on_a_variant(tmp_path: Path) -> None:
    """`training` wins over the variant, and says so."""
    config = config_for(brief_of(tmp_path, "dapo", "epsilon_high: 0.3, beta: 0.001"), H100, 100)

    assert [("brief", 0.3), ("brief", 0.001)] == [
        (config.trainer[name].source, config.trainer[name].value) for name in ("epsilon_high", "beta")
    ]
    assert "dapo" == config.trainer["loss_type"].value


def test_the_reason_and_what_trl_lacks_are_noted(tmp_path: Path) -> None:
    """Dynamic sampling is not in TRL: dead prompts are named where they were measured, the punishment is asked for."""
    measured = Measured(constant_prompts=tuple(f"q{i}" for i in range(14)))
    config = config_for(brief_of(tmp_path, "dapo"), H100, 100, measured=measured)
    notes = "\n".join(config.notes)

    assert f"variant dapo, because: {BECAUSE}" in notes
    assert "TRL has no dynamic sampling" in notes
    assert "q0, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11 and 2 more" in notes
    assert "`- {use: soft_overlong, options: {soft_punish_cache: 3}}`" in notes


def test_a_punishment_that_is_there_is_not_asked_for(tmp_path: Path) -> None:
    """Nothing measured: the note says how to find the prompts."""
    reward = "  - {use: soft_overlong, options: {soft_punish_cache: 3}}\n"
    notes = "\n".join(config_for(brief_of(tmp_path, "dapo", rewards=reward), H100, 100).notes)

    assert "add `- {use: soft_overlong" not in notes
    assert "sample all prompts" in notes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("variant: {use: gspo}\n", "variant.because: missing"),
        ("variant: {use: gspo, because: ' '}\n", "variant.because: "),
        ("variant: {use: drgrpo, because: x}\n", "did you mean `dr_grpo`?"),
        ("variant: {use: gspo, becase: x}\n", "did you mean `because`?"),
        ("variant: gspo\n", "variant: "),
        ("varriant: {}\n", "did you mean `variant`?"),
        ("variant: {use: gspo, because: x}\ntraining: {loss_type: dapo}\n", "write `loss_type: grpo` beside it"),
        ("variant: {use: dr_grpo, because: x}\ntraining: {sync_ref_model: true}\n", "there is no reference model"),
    ],
)
def test_a_variant_needs_a_name_and_a_reason(text: str, words: str) -> None:
    """Each fault of the key leads to the mend, also where `training` contradicts the variant."""
    with pytest.raises(Refusal) as caught:
        brief.parse(runs.BRIEF + text, Path("brief.yaml"))

    assert any(words in line for line in caught.value.lines), caught.value.lines


def test_other_methods_have_no_variant() -> None:
    """A variant of GRPO under another method is refused at its line."""
    text = runs.BRIEF.replace("grpo", "sft").replace("answer: answer", "completion: answer")
    with pytest.raises(Refusal, match=r"brief.yaml:9: variant: is one of GRPO; method sft has none"):
        brief.parse(text + "variant: {use: gspo, because: x}\n", Path("brief.yaml"))


def test_dr_grpo_changes_the_advantages_that_score_computes(tmp_path: Path) -> None:
    """What was judged is what is trained: no division by the group's deviation, unless the brief says so."""
    assert {} == lineage.objective_options(brief_of(tmp_path / "plain", None))
    assert {"scale_rewards": "none"} == lineage.objective_options(brief_of(tmp_path / "a", "dr_grpo"))
    assert {"scale_rewards": "group"} == lineage.objective_options(
        brief_of(tmp_path / "b", "dr_grpo", "scale_rewards: true")
    )
    assert {} == lineage.objective_options(brief_of(tmp_path / "c", "gspo"))


def parents(loaded: brief.LoadedBrief) -> dict[str, dict[str, str]]:
    runs.write_samples(loaded.run_dir)
    return {
        "audit": lineage.of_audit(loaded),
        "samples": lineage.of_samples(loaded),
        "scores": {name: digest for name, digest in lineage.of_scores(loaded).items() if name != "samples.jsonl"},
    }


@pytest.mark.parametrize(
    ("use", "stale"),
    [("dr_grpo", {"scores"}), ("dapo", {"scores", "audit"}), ("gspo", {"scores"})],
)
def test_a_variant_makes_stale_what_it_changes(tmp_path: Path, use: str, stale: set[str]) -> None:
    """Advantages, batches, masked completions: what was judged without the variant is judged again, and no more."""
    before, after = parents(brief_of(tmp_path, None)), parents(brief_of(tmp_path, use))

    assert stale == {name for name in before if before[name] != after[name]}


def test_a_brief_without_a_variant_keeps_its_gate(tmp_path: Path) -> None:
    """The digests of the options are those that gates were written with before there were variants."""
    loaded = brief_of(tmp_path, None, "scale_rewards: batch, per_device_train_batch_size: 4")
    options = {
        "scale_rewards": "batch",
        "multi_objective_aggregation": None,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": None,
        "steps_per_generation": None,
        "generation_batch_size": None,
    }

    found = parents(loaded)["scores"]

    assert artifact.digest_value(options) == found["objective and batch options of brief.yaml"]
    assert variants.training_of(loaded.brief) == loaded.brief.training


@pytest.mark.parametrize(
    ("use", "training", "expected"),
    [
        (None, "", 32),
        ("gspo", "", 32),
        ("gspo", "gradient_accumulation_steps: 4", 128),
        (None, "per_device_train_batch_size: 1, gradient_accumulation_steps: 1", 8),
    ],
)
def test_rewards_are_called_as_the_trainer_will(tmp_path: Path, use: str | None, training: str, expected: int) -> None:
    """One process's share of a generation, or one group where that is more."""
    loaded = brief_of(tmp_path, use, training)

    assert expected == completions_per_call(loaded)
    assert expected >= layout.of_brief(loaded.brief).completions_per_call
