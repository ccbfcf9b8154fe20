"""Learning from judged completions: DPO, ORPO and SimPO from pairs, KTO from single ones with a label.

Methods: DPO (Rafailov et al., 2023, arXiv:2305.18290), KTO (Ethayarajh et al., 2024, arXiv:2402.01306), ORPO (Hong et
al., 2024, arXiv:2403.07691), SimPO (Meng et al., 2024, arXiv:2405.14734). Values are those of the runs and guides that
each option names, which were read on 30 November 2026; they differ by an order of magnitude between sources, as the DPO
paper's rate of 1e-6 with beta 0.1 and Zephyr's of 5e-7 with beta 0.01 do, so that a sweep is worth more than any.
"""

from collections.abc import Mapping
from typing import Any

from llm_finetuning import dataset
from llm_finetuning.brief import LoadedBrief
from llm_finetuning.recipes import offline, shared
from llm_finetuning.recipes.config import Machine, Option, RunConfig

HANDBOOK = "as Zephyr's recipes (Alignment Handbook)"
KTO_BALANCE = 4 / 3
"""How much more the good rows may weigh in all than the bad ones, at most; alike is the least (TRL's KTO guide)."""


def _of_pairs(full: float, adapter: float, source: str) -> offline.Method:
    rate = offline.Rate(full=full, adapter=adapter, source=source)
    return offline.Method(rate=rate, epochs=1.0, rows_a_step=16, rows_a_device=2)  # a row is two completions


METHODS: Mapping[str, offline.Method] = {
    "dpo": _of_pairs(5e-7, 5e-6, "Zephyr's DPO recipes, full and QLoRA (Alignment Handbook), with beta 0.01"),
    "kto": offline.Method(
        rate=offline.Rate(
            full=1e-6, adapter=5e-6, source="TRL's KTO guide (2026): at most 1e-6 at beta 0.1, and 5e-7 to 5e-6 for any"
        ),
        epochs=1.0,
        rows_a_step=32,  # 16 to 128, and 4 or more on a device, for the sake of the KL estimate (the same guide)
        rows_a_device=4,
        least_a_device=2,  # TRL refuses one
    ),
    "orpo": _of_pairs(8e-6, 8e-5, "TRL's example script, full and LoRA; the authors' own scripts have 5e-6"),
    "simpo": _of_pairs(
        5e-7, 5e-6, "SimPO's repository: a grid of 3e-7 to 1e-6; LoRA: ten times it (LoRA Without Regret, 2025)"
    ),
}

_SHARED = shared.given(
    "recipe",
    lr_scheduler_type=("cosine", HANDBOOK),
    warmup_steps=(0.1, "a tenth of all steps, as there"),
    max_length=(1024, "tokens of prompt and completion; longer ones lose their end"),
    disable_dropout=(True, "log-probabilities are compared, and dropout would shake them"),
    dataset_num_proc=None,
    trust_remote_code=False,
)

_REFERENCE = shared.given(
    "recipe",
    beta=(0.1, "how dear it is to leave the reference, as in DPO's and KTO's papers; higher stays nearer"),
    precompute_ref_log_probs=False,
    precompute_ref_batch_size=None,
    sync_ref_model=(False, "the reference is the model before training"),
    pad_to_multiple_of=None,
    activation_offloading=False,
    router_aux_loss_coef=(None, "a mixture of experts has its own"),
    remove_unused_columns=True,
)

_WITHOUT_REFERENCE = shared.given(
    "recipe",
    max_completion_length=(None, "read for encoder-decoder models alone"),
    is_encoder_decoder=None,
    generate_during_eval=False,
    train_sampling_strategy="random",
    remove_unused_columns=(False, "the trainer's collator makes its own columns"),
)

OPTIONS: Mapping[str, Mapping[str, Option]] = {
    "dpo": {
        **_SHARED,
        **_REFERENCE,
        **shared.given(
            "recipe",
            loss_type=(["sigmoid"], "the DPO paper's loss"),
            loss_weights=None,
            label_smoothing=(0.0, "above 0 for labels that are wrong now and then"),
            truncation_mode="keep_start",
            use_weighting=False,
            ld_alpha=None,
            f_divergence_type="reverse_kl",
            padding_free=False,
            train_sampling_strategy="random",
        ),
    },
    "kto": {
        **_SHARED,
        **_REFERENCE,
        **shared.given(
            "recipe",
            loss_type=("kto", "the KTO paper's loss"),
            desirable_weight=1.0,
            undesirable_weight=1.0,
            train_sampling_strategy=(
                "sequential",
                "its KL term pairs a prompt with the completion of the row before; `build` has mixed the rows",
            ),
        ),
    },
    "orpo": {
        **_SHARED,
        **_WITHOUT_REFERENCE,
        **shared.given(
            "recipe",
            beta=(0.1, "weight of the odds-ratio term beside the likelihood: lambda, 0.1 in the authors' scripts too"),
            padding_value=None,
        ),
    },
    "simpo": {
        **_SHARED,
        **_WITHOUT_REFERENCE,
        **shared.given(
            "recipe",
            beta=(2.0, "SimPO's repository begins at 2.0 to 2.5, much above DPO's"),
            simpo_gamma=(1.0, "target margin: half of beta, where SimPO's repository begins"),
            label_smoothing=0.0,
            alpha=(0.0, "above 0 it is AlphaPO"),
        ),
        **shared.given(
            "fixed",
            loss_type=("simpo", "SimPO is a loss of TRL's CPO trainer"),
            cpo_alpha=(0.0, "TRL has 1.0, which adds a likelihood term: CPO-SimPO"),
        ),
    },
}

DPO_LOSSES = (
    "sigmoid",
    "hinge",
    "ipo",
    "exo_pair",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
)


def _are_dpo_losses(value: Any) -> bool:
    listed = value if isinstance(value, list) else [value]
    return bool(listed) and all(loss in DPO_LOSSES for loss in listed)


def _is_smoothing(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 0.5  # noqa: PLR2004


def _is_device_batch(value: Any) -> bool:
    return offline.is_whole(value) and value > 1


_POSITIVE = (offline.is_positive, "a number above 0")
_LENGTH = (offline.is_whole, "a whole number of tokens from 1 on; without one TRL takes 512")
_SMOOTHING = (_is_smoothing, "a share of wrong labels from 0 to below 0.5")

CHECKS: Mapping[str, offline.Checks] = {
    "dpo": {
        "beta": _POSITIVE,
        "loss_type": (_are_dpo_losses, f"one of {', '.join(DPO_LOSSES)}, or a list of them"),
        "label_smoothing": _SMOOTHING,
        "truncation_mode": offline.one_of("keep_start"),
    },
    "kto": {
        "beta": _POSITIVE,
        "loss_type": offline.one_of("kto", "apo_zero_unpaired"),
        "desirable_weight": _POSITIVE,
        "undesirable_weight": _POSITIVE,
    },
    "orpo": {"beta": _POSITIVE, "max_length": _LENGTH},
    "simpo": {
        "beta": _POSITIVE,
        "max_length": _LENGTH,
        "loss_type": offline.one_of("simpo"),
        "simpo_gamma": (lambda value: value == 0 or offline.is_positive(value), "a margin from 0 on"),
        "label_smoothing": _SMOOTHING,
    },
}


def recipe(loaded: LoadedBrief, machine: Machine, rows: int) -> RunConfig:
    """Return the config of a run by the brief's preference method; refuses with all faults at once.

    For KTO the labels of the data set decide the weights, where it is a file that is read without the training
    interpreter; elsewhere the weights stay 1 and a note says so.
    """
    method = loaded.brief.method
    own, checks = dict(OPTIONS[method]), dict(CHECKS[method])
    notes: list[str] = []
    if method == "kto":
        weights, notes = _weights_of(loaded)
        own.update(weights)
        checks.update(_kl_checks(loaded.brief.training.get("loss_type", "kto")))
    return offline.config(loaded, machine, rows, method=METHODS[method], own=own, checks=checks, notes=notes)


def _kl_checks(loss: Any) -> offline.Checks:
    """Return what the loss that estimates a KL asks for; TRL refuses both when the trainer is made, after loading."""
    if loss != "kto":
        return {}
    return {
        "train_sampling_strategy": offline.one_of("sequential"),
        "per_device_train_batch_size": (_is_device_batch, "2 or more: with one row a device the KL term is the reward"),
    }


def _weights_of(loaded: LoadedBrief) -> tuple[dict[str, Option], list[str]]:
    """Return KTO's weights for the labels of the data set, and what a person should know of the labels."""
    if dataset.needs_program(loaded):
        return {}, [
            "the labels are not counted before training; weigh them with `desirable_weight` where they are uneven"
        ]
    labels = [_TRUTH.get(str(row.columns.get("label")).strip().lower()) for row in dataset.read(loaded).rows]
    if None in labels:
        return {}, []  # `build` refuses these rows one by one
    return weights_for(labels.count(True), labels.count(False))


_TRUTH = {"true": True, "false": False}  # of JSON's values and of a CSV's cells


def weights_for(desirable: int, undesirable: int) -> tuple[dict[str, Option], list[str]]:
    """Return KTO's weights for so many rows of each label, and what a person should know.

    Within the guide's range both weights stay 1; outside, the rarer side's is raised until both sides weigh alike.
    """
    if not desirable or not undesirable:
        return {}, [f"all rows are labelled {'good' if desirable else 'bad'}: KTO then learns of one side alone"]
    why = f"{desirable} good and {undesirable} bad rows; both sides weigh alike"
    if desirable < undesirable:
        return shared.given("recipe", desirable_weight=(round(undesirable / desirable, 2), why)), []
    if desirable > KTO_BALANCE * undesirable:
        return shared.given("recipe", undesirable_weight=(round(desirable / undesirable, 2), why)), []
    return {}, []
