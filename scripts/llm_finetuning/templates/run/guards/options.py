"""config.yaml: read, checked against the installed TRL, made into its config, and compared with what came of it."""

import dataclasses
import difflib
import enum
import importlib
import importlib.metadata
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from guards import ending

CONFIGS = {
    "grpo": ("trl", "GRPOConfig"),
    "sft": ("trl", "SFTConfig"),
    "dpo": ("trl", "DPOConfig"),
    "kto": ("trl", "KTOConfig"),
    "orpo": ("trl.experimental.orpo", "ORPOConfig"),
    "simpo": ("trl.experimental.cpo", "CPOConfig"),
}
"""Where each method's config is; SimPO is a loss of the CPO trainer."""

SECTIONS = ("method", "model", "adapter", "quantization", "trainer", "data", "guards", "shape", "versions")

MODEL_VARIABLE = "FINETUNE_MODEL"
SERVER_VARIABLE = "FINETUNE_SERVER_HOST"  # run.slurm knows the serving machine's name once it has started


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What config.yaml says."""

    here: Path
    method: str
    model: Mapping[str, Any]
    adapter: Mapping[str, Any] | None
    quantization: Mapping[str, Any] | None
    trainer: Mapping[str, Any]
    rewards: tuple[Mapping[str, Any], ...]
    data: Mapping[str, str | None]
    guards: Mapping[str, Any]
    shape: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def model_source(self) -> str:
        """Return the hub id or folder of the model; another machine may keep it elsewhere."""
        return os.environ.get(MODEL_VARIABLE) or str(self.model["source"])

    @property
    def file(self) -> Path:
        """Return config.yaml's path, for what is said about it."""
        return self.here / "config.yaml"


def load(here: Path) -> Settings:
    """Read config.yaml and check the installed versions; ends the run for a fault."""
    path = here / "config.yaml"
    try:
        tree = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ending.refuse(f"{path}: cannot be read ({' '.join(str(error).split())}); build the run again") from None
    missing = [name for name in SECTIONS if not isinstance(tree, dict) or name not in tree]
    if missing:
        raise ending.refuse(f"{path}: {', '.join(missing)} missing; build the run again")
    faults = [
        f"{path}: {name}: unknown; {_nearest(name, [*SECTIONS, 'rewards'])}"
        for name in tree
        if name not in (*SECTIONS, "rewards")
    ]
    if tree["method"] not in CONFIGS:
        faults.append(f"{path}: method: {tree['method']!r} is none of {', '.join(CONFIGS)}")
    if faults:
        raise ending.refuse(*faults)
    settings = Settings(here=here, **{**tree, "rewards": tuple(tree.get("rewards") or ())})
    _check_processes(settings)
    _check_versions(settings)
    return settings


def _check_processes(settings: Settings) -> None:
    """Refuse another number of processes than the batch was laid out for: a step would see other prompts."""
    wanted, started = int(settings.shape["processes"]), int(os.environ.get("WORLD_SIZE", "1"))
    if started != wanted:
        raise ending.refuse(
            f"{settings.file}: shape.processes: made for {wanted} and started with {started}; start it with launch.sh, "
            "or name the machine in the brief's `hardware` and build again"
        )


def _check_versions(settings: Settings) -> None:
    """Refuse another TRL, whose options and objective differ; say where another library is of another minor."""
    for name, wanted in settings.versions.items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # what is needed and absent fails where it is imported, by name
        if name == "trl" and installed != wanted:
            raise ending.refuse(
                f"{settings.file}: made for TRL {wanted}, and {installed} is installed, whose options and defaults "
                "differ; install the run's requirements.txt"
            )
        if installed.split(".")[:2] != str(wanted).split(".")[:2]:
            ending.say(f"{name} {installed} is installed; the run was checked with {wanted}")


def trainer_config(settings: Settings) -> Any:
    """Return TRL's config; ends the run, all faults at once, for options it does not have or values it refuses."""
    module, name = CONFIGS[settings.method]
    kind = getattr(importlib.import_module(module), name)
    wanted = _wanted(settings)
    if settings.model.get("init_kwargs") is not None:
        wanted["model_init_kwargs"] = _init_kwargs(settings)
    if settings.rewards:
        wanted["reward_weights"] = [float(reward["weight"]) for reward in settings.rewards]
    known = [field.name for field in dataclasses.fields(kind) if field.init]
    faults = [
        f"{settings.file}: trainer.{option}: {name} has no such option; {_nearest(option, known)}"
        for option in wanted
        if option not in known
    ]
    faults += [
        f"{settings.file}: trainer.{option}: {value!r} is text, which YAML 1.1 makes of a number without a point; "
        f"write {float(value)!r}"
        for option, value in wanted.items()
        if isinstance(value, str) and _is_number(value)
    ]
    if faults:
        raise ending.refuse(*faults)
    if "output_dir" in wanted:
        wanted["output_dir"] = str(settings.here / wanted["output_dir"])
    try:
        return kind(**wanted)
    except (TypeError, ValueError, ZeroDivisionError, ImportError) as error:
        raise ending.refuse(f"{settings.file}: trainer: {name} refuses it: {' '.join(str(error).split())}") from None


def _wanted(settings: Settings) -> dict[str, Any]:
    """Return the trainer's options, with the server's name where the machine that serves was found at the start."""
    wanted = dict(settings.trainer)
    if "vllm_server_host" in wanted and SERVER_VARIABLE in os.environ:
        wanted["vllm_server_host"] = os.environ[SERVER_VARIABLE]
    return wanted


def _init_kwargs(settings: Settings) -> dict[str, Any]:
    given = dict(settings.model["init_kwargs"])
    if settings.model.get("revision") is not None:
        given["revision"] = settings.model["revision"]
    return given


def adapter_config(settings: Settings) -> Any:
    """Return PEFT's LoRA config, or None for full fine-tuning."""
    if settings.adapter is None:
        return None
    from peft import LoraConfig

    given = {"task_type": "CAUSAL_LM", **settings.adapter}
    given.pop("kind", None)
    try:
        return LoraConfig(**given)
    except (TypeError, ValueError) as error:
        raise ending.refuse(f"{settings.file}: adapter: LoraConfig refuses it: {error}") from None


def quantization_config(settings: Settings) -> Any:
    """Return the config of bitsandbytes, or None."""
    if settings.quantization is None:
        return None
    from transformers import BitsAndBytesConfig

    try:
        return BitsAndBytesConfig(**settings.quantization)
    except (TypeError, ValueError, ImportError) as error:
        raise ending.refuse(f"{settings.file}: quantization: BitsAndBytesConfig refuses it: {error}") from None


def check_effective(settings: Settings, trainer: Any) -> None:
    """Write logs/effective.yaml and end the run where the trainer holds other values than config.yaml asks for."""
    wanted = {**_wanted(settings), "output_dir": str(settings.here / str(settings.trainer.get("output_dir", "")))}
    faults = [
        f"{settings.file}: trainer.{option}: {value!r} was asked for and the trainer has {held!r}"
        for option, value in wanted.items()
        if option in settings.trainer and not _same(value, held := getattr(trainer.args, option))
    ]
    if settings.rewards:
        asked = [(str(reward["name"]), round(float(reward["weight"]), 6)) for reward in settings.rewards]
        weights = [round(float(weight), 6) for weight in trainer.reward_weights]  # float32
        if (held := list(zip(trainer.reward_func_names, weights, strict=True))) != asked:
            faults.append(f"{settings.file}: rewards: {asked} were asked for and the trainer has {held}")
    facts = _model_facts(trainer)
    faults += [f"{settings.file}: {words}" for words in _model_faults(settings, trainer, facts)]
    if trainer.accelerator.is_main_process:
        path = settings.here / "logs" / "effective.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        body = {"trainer": _plain(trainer.args.to_dict()), "model": facts, "versions": _installed(settings)}
        path.write_text(yaml.safe_dump(body, sort_keys=True, allow_unicode=True), "utf-8")
    if faults:
        raise ending.refuse(*faults)


def _model_facts(trainer: Any) -> dict[str, Any]:
    """Return what the trainer made of the model; dtypes without PyTorch's prefix."""
    model = trainer.model
    reference = getattr(trainer, "ref_model", None)
    adapters = getattr(model, "peft_config", None) or {}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return {
        "dtype": str(model.dtype).removeprefix("torch."),
        "reference_dtype": None if reference is None else str(reference.dtype).removeprefix("torch."),
        "adapter": next(({"r": config.r, "lora_alpha": config.lora_alpha} for config in adapters.values()), None),
        "loaded_in_4bit": bool(getattr(model, "is_loaded_in_4bit", False)),
        "parameters": sum(_numel(parameter) for parameter in model.parameters()),
        "trained_parameters": sum(_numel(parameter) for parameter in trained),
        "end_tokens": sorted(getattr(trainer, "eos_token_ids", [])),
    }


def _numel(parameter: Any) -> int:
    return int(getattr(parameter, "ds_numel", parameter.numel()))  # ZeRO-3 leaves an empty tensor behind


def _model_faults(settings: Settings, trainer: Any, facts: Mapping[str, Any]) -> list[str]:
    faults = []
    dtype = (settings.model.get("init_kwargs") or {}).get("dtype")
    if dtype not in (None, "auto") and not facts["loaded_in_4bit"] and facts["dtype"] != dtype:
        faults.append(f"model.init_kwargs.dtype: {dtype} was asked for and the model is in {facts['dtype']}")
    if (settings.adapter is None) != (facts["adapter"] is None):
        faults.append(f"adapter: {settings.adapter!r} was asked for and the model has {facts['adapter']!r}")
    if settings.adapter is not None and facts["adapter"] is not None:
        faults.extend(
            f"adapter.{name}: {settings.adapter[name]!r} was asked for and the model has {value!r}"
            for name, value in facts["adapter"].items()
            if name in settings.adapter and settings.adapter[name] != value
        )
    if facts["trained_parameters"] == 0:
        faults.append("adapter: nothing of the model is trained; name target modules that it has")
    if (settings.quantization is not None) != facts["loaded_in_4bit"]:
        faults.append(f"quantization: {settings.quantization!r} was asked for; in 4 bits: {facts['loaded_in_4bit']}")
    if settings.method == "grpo":
        faults += _reference_faults(settings, trainer, facts)
    return faults


def _reference_faults(settings: Settings, trainer: Any, facts: Mapping[str, Any]) -> list[str]:
    """With an adapter the reference is the model without it; else a second model, in the policy's precision."""
    needed = float(trainer.beta) != 0.0 and settings.adapter is None
    if needed != (facts["reference_dtype"] is not None):
        words = "needs a reference model" if needed else "needs no reference model"
        return [f"trainer.beta: {trainer.beta} {words}, and there is {facts['reference_dtype'] or 'none'}"]
    if needed and facts["reference_dtype"] != facts["dtype"]:
        return [f"model: the policy is in {facts['dtype']} and the reference in {facts['reference_dtype']}"]
    return []


def _installed(settings: Settings) -> dict[str, str]:
    versions = {}
    for name in settings.versions:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions


def _same(wanted: Any, held: Any) -> bool:
    """Compare a value of config.yaml with what the config object made of it."""
    held = _plain(held)
    if isinstance(wanted, bool) or isinstance(held, bool):
        return wanted is held or (wanted, held) in ((True, "group"), (False, "none"))  # scale_rewards takes both
    if isinstance(wanted, int | float) and isinstance(held, int | float):
        return math.isclose(wanted, held, rel_tol=1e-12)
    if isinstance(held, list) and not isinstance(wanted, list):
        return bool(held == ([] if wanted in (None, "none") else [wanted]))  # report_to, loss_type
    if isinstance(wanted, Mapping) and isinstance(held, Mapping):
        return all(name in held and _same(value, held[name]) for name, value in wanted.items())
    return bool(_plain(wanted) == held)


def _plain(value: Any) -> Any:
    """Return a value as YAML can hold it."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.lower() not in ("nan", "inf", "infinity")


def _nearest(word: str, known: list[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else "take it out"
