"""The brief: what a run is to be, as a person writes it, read strictly and with all of its faults listed at once."""

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from llm_finetuning import artifact
from llm_finetuning.addresses import is_address
from llm_finetuning.errors import Refusal

FILE_NAME = "brief.yaml"

Method = Literal["grpo", "sft", "dpo", "kto", "orpo", "simpo"]
Engine = Literal["transformers", "vllm", "endpoint"]

COLUMNS_BY_METHOD: Mapping[str, tuple[str, ...]] = {
    "grpo": ("prompt",),
    "sft": ("prompt", "completion"),
    "dpo": ("prompt", "chosen", "rejected"),
    "orpo": ("prompt", "chosen", "rejected"),
    "simpo": ("prompt", "chosen", "rejected"),
    "kto": ("prompt", "completion", "label"),
}
"""The columns a method's trainer reads, in TRL's names."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetBrief(_Strict):
    """Where the prompts are, and which of its columns is which."""

    path: str = Field(min_length=1)  # JSONL, CSV or Parquet relative to the brief, or a hub id
    prompt: str = "prompt"
    answer: str | None = None  # the gold column; rewards get it as `answer`
    id: str | None = None  # without one, the row number is the id
    completion: str | None = None
    chosen: str | None = None
    rejected: str | None = None
    label: str | None = None
    config: str | None = None  # hub data sets only
    split: str = "train"
    # Held-out rows, with the same columns. Left out of dumps: naming them makes no samples stale, only the audit.
    evaluation: str | None = Field(default=None, min_length=1, exclude=True)


class LengthPenaltyBrief(_Strict):
    """How much of what a reward pays above a wrong completion's level a long completion loses."""

    from_tokens: int = Field(ge=0)  # nothing is lost up to this length
    to_tokens: int = Field(ge=1)  # all of `share` is lost from this length on
    share: float = Field(gt=0, lt=1, allow_inf_nan=False)  # below 1: right stays above wrong at any length
    wrong: float | None = Field(default=None, allow_inf_nan=False)  # 0 where the range has it below its highest

    @model_validator(mode="after")
    def _rises(self) -> "LengthPenaltyBrief":
        if not self.from_tokens < self.to_tokens:
            raise PydanticCustomError("length_order", "`to_tokens` must be larger than `from_tokens`")
        return self


class RewardBrief(_Strict):
    """One component of the reward: from the library (`use`) or the user's own (`file`)."""

    use: str | None = None
    file: str | None = None  # FILE.py:FUNCTION, relative to the brief
    name: str | None = Field(default=None, pattern=r"^[A-Za-z_][\w.-]*$")  # when two would be called the same
    weight: float = Field(default=1.0, allow_inf_nan=False)  # 0 only watches
    options: dict[str, Any] = {}
    files: list[str] = []  # files that the reward reads; a change of one makes its scores stale
    range: tuple[float, float] | None = None  # lowest and highest value; a library reward declares its own
    length_penalty: LengthPenaltyBrief | None = None  # wraps the reward, whichever it is

    @model_validator(mode="after")
    def _one_source(self) -> "RewardBrief":
        if (self.use is None) == (self.file is None):
            raise PydanticCustomError(
                "one_source", "needs either `use` (a library reward) or `file` (FILE.py:FUNCTION)"
            )
        if self.file is not None and not _names_function(self.file):
            raise PydanticCustomError("file_form", "`file` must read FILE.py:FUNCTION, as in my_rewards.py:polite")
        if self.file is not None and self.options:
            raise PydanticCustomError(
                "file_options", "`options` go to library rewards; give your function defaults instead"
            )
        if self.range is not None and not self.range[0] < self.range[1]:
            raise PydanticCustomError("range_order", "`range` must be [lowest, highest]")
        if self.length_penalty is not None and self.weight < 0:
            raise PydanticCustomError("paid_length", "`length_penalty` under a negative weight would pay for length")
        return self


class EndpointBrief(_Strict):
    """An OpenAI-compatible server to sample from."""

    url: str  # up to and with /v1
    model: str | None = None  # the name the server knows; the brief's `model` when left out
    api_key_env: str | None = None  # the environment variable that holds the key
    concurrency: int = Field(default=8, ge=1, le=256)
    timeout_s: float = Field(default=120.0, gt=0)
    retries: int = Field(default=5, ge=0, le=20)

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        if is_address(url):
            return url
        raise PydanticCustomError("url", "must be an address as in http://127.0.0.1:8000/v1")


class SamplingBrief(_Strict):
    """How completions are drawn: training's own settings, in TRL's spelling, and how many prompts to inspect."""

    num_generations: int = Field(default=8, ge=2, le=256)
    temperature: float = Field(default=1.0, gt=0, le=5)
    max_completion_length: int = Field(default=256, ge=1)  # tokens
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = Field(default=0, ge=0)  # 0: all tokens
    min_p: float | None = Field(default=None, ge=0, le=1)
    repetition_penalty: float = Field(default=1.0, gt=0)
    chat_template_kwargs: dict[str, Any] = {}
    prompts: int = Field(default=16, ge=1)  # how many prompts of the data set are sampled
    low_temperature: float = Field(default=0.0, ge=0, le=1)  # of the second pass; 0 is greedy
    seed: int = Field(default=0, ge=0, lt=2**31)
    engine: Engine = "transformers"
    endpoint: EndpointBrief | None = None

    @model_validator(mode="after")
    def _endpoint_named(self) -> "SamplingBrief":
        if self.engine == "endpoint" and self.endpoint is None:
            raise PydanticCustomError("endpoint", "`engine: endpoint` needs `endpoint: {url: http://HOST:PORT/v1}`")
        return self


class GateBrief(_Strict):
    """What the gate may not guess."""

    success: float | None = Field(default=None, allow_inf_nan=False)  # weighted reward that counts as a success


class EvaluationBrief(_Strict):
    """How held-out rows are graded, and what a candidate must show to be promoted; no part of the objective."""

    graders: list[RewardBrief] = []  # what counts as success; the `rewards` where none are named
    success: float | None = Field(default=None, allow_inf_nan=False)  # weighted grade; the middle when left out
    bucket: str | None = Field(default=None, min_length=1)  # column of the held-out rows that sorts them into parts
    source: str | None = Field(default=None, min_length=1)  # column that says where a row comes from
    gain: float = Field(default=0.05, gt=0, lt=1)  # in pass@1: what a candidate should be better by
    drift: float = Field(default=0.05, gt=0, le=1)  # largest drop of pass@1 on the drift suite that is accepted


class VariantBrief(_Strict):
    """Another algorithm than plain GRPO, and the symptom that asks for it."""

    use: Literal["dapo", "dr_grpo", "gspo"]
    because: str = Field(min_length=1, pattern=r"\S")  # shown in the run's config and reports


class Brief(_Strict):
    """One run: what to train, on what, with which rewards."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$")]
    method: Method
    model: str = Field(min_length=1)
    dataset: DatasetBrief
    rewards: list[RewardBrief] = []
    sampling: SamplingBrief = SamplingBrief()
    training: dict[str, Any] = {}
    variant: VariantBrief | None = None
    gate: GateBrief = GateBrief()
    evaluation: EvaluationBrief = EvaluationBrief()
    hardware: str = "auto"
    environment: str | None = None  # the training interpreter, as `--python`

    @field_validator("hardware")
    @classmethod
    def _names_machine(cls, hardware: str) -> str:
        from llm_finetuning.recipes import shapes

        if hardware.strip().lower() != "auto":  # what this machine is, is asked for when a run is built
            try:
                shapes.machine_of(hardware)
            except Refusal as refusal:
                words = refusal.lines[0].partition("hardware: ")[2]
                known = ("auto", "cpu", shapes.SPARK) if "names no machine" in words else ()
                close = difflib.get_close_matches(hardware.lower(), known, n=1)
                hint = f"; did you mean `{close[0]}`?" if close else ""
                raise PydanticCustomError("hardware", "{words}", {"words": words + hint}) from None
        return hardware

    @model_validator(mode="after")
    def _has_rewards(self) -> "Brief":
        if self.method == "grpo" and not self.rewards:
            raise PydanticCustomError("no_rewards", "method grpo needs at least one entry under `rewards`")
        return self


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedBrief:
    """A brief and the folder that its relative paths start from."""

    brief: Brief
    run_dir: Path
    # Where a frozen run keeps what the brief names: path as the brief writes it -> place, relative to the folder.
    frozen: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def resolve(self, relative: str) -> Path:
        """Return a path of the brief as an absolute one."""
        try:
            return (self.run_dir / Path(self.frozen.get(relative, relative)).expanduser()).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise Refusal(f"{self.run_dir / FILE_NAME}: {relative!r} is not a path ({error}); correct it") from None

    def model_source(self) -> str:
        """Return the model as an absolute folder, or unchanged where it is a hub id."""
        looks_local = self.brief.model.startswith((".", "/", "~")) or self.resolve(self.brief.model).exists()
        return str(self.resolve(self.brief.model)) if looks_local else self.brief.model

    def part_digest(self, *keys: str) -> str:
        """Return the SHA-256 of some top-level keys, defaults filled in: what a comment changes is nothing."""
        return artifact.digest_value({key: self.brief.model_dump(mode="json")[key] for key in keys})


def load(run_dir: Path) -> LoadedBrief:
    """Read `brief.yaml` of a run directory; refuses with one line for each fault."""
    path = run_dir / FILE_NAME
    if not run_dir.is_dir():
        raise Refusal(f"{run_dir}: no such run directory; make one with `finetune new {run_dir}`")
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise Refusal(f"{path}: not there yet; make one with `finetune new {run_dir}`") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{path}: cannot be read ({error}); save it as UTF-8 text") from None
    return LoadedBrief(parse(text, path), run_dir.resolve())


def parse(text: str, path: Path) -> Brief:
    """Return the brief in a YAML text; `path` is for the refusals alone."""
    tree = _yaml_tree(text, path)
    if not isinstance(tree, dict):
        raise Refusal(f"{path}:1: a brief is a mapping of keys such as `name:` and `model:`; `finetune new` writes one")
    faults: list[tuple[int, str]] = []
    brief = None
    try:
        brief = Brief.model_validate(_plain(tree))
    except ValidationError as error:
        faults = [_fault(detail, tree) for detail in error.errors()]
    faults.extend(_training_faults(tree))
    if brief is not None:
        faults.extend([*_column_faults(brief, tree), *_variant_faults(brief, tree)])
    if faults or brief is None:
        raise Refusal(*(f"{path}:{line}: {words}" for line, words in sorted(set(faults))))
    return brief


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the mending half of a refusal for a misspelt word: the nearest right one, or all of them."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean `{close[0]}`?"
    return f"known are {', '.join(known)}" if len(known) <= 24 else "see the documentation for the names"  # noqa: PLR2004


def _names_function(text: str) -> bool:
    file, _, function = text.rpartition(":")
    return file.endswith(".py") and function.isidentifier()


def _yaml_tree(text: str, path: Path) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        # Round-trip mode keeps line numbers; YAML 1.2 reads 5e-7 as a number, which YAML 1.1 does not.
        return YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise Refusal(f"{path}:{line}: not valid YAML: {error.problem or error.context}; mend the line") from None
    except (YAMLError, ValueError) as error:
        raise Refusal(f"{path}: not valid YAML: {str(error).splitlines()[0]}") from None
    except RecursionError:
        raise Refusal(f"{path}: nested too deeply to be a brief; `finetune new` writes one") from None


def _plain(node: Any) -> Any:
    """Return ruamel's marked containers and scalars as ordinary ones."""
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return node if node is None else str(node)  # a date, a tagged value: as it is written


def _line_of(tree: Any, location: Sequence[str | int]) -> int:
    """Return the line of the deepest key of `location` that is written down."""
    line = 1
    for part in location:
        try:
            line = (tree.lc.key(part) if isinstance(part, str) else tree.lc.item(part))[0] + 1
            tree = tree[part]
        except (KeyError, IndexError, AttributeError, TypeError):
            break
    return line


def _key_text(location: Sequence[str | int]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _fault(detail: ErrorDetails, tree: Any) -> tuple[int, str]:
    location = detail["loc"]
    key = _key_text(location)
    line = _line_of(tree, location)
    kind = detail["type"]
    if kind == "missing":
        return line, f"{key}: missing; add it"
    if kind == "extra_forbidden":
        return line, f"{key}: unknown key; {nearest(str(location[-1]), _keys_at(location[:-1]))}"
    if kind == "literal_error":
        allowed = [word.strip("'") for word in detail["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        return (
            line,
            f"{key}: {detail['input']!r} is not one of {', '.join(allowed)}; {nearest(str(detail['input']), allowed)}",
        )
    words = detail["msg"][0].lower() + detail["msg"][1:]
    given = "" if isinstance(detail["input"], dict | BaseModel) else f" (found {detail['input']!r})"
    return line, f"{key + ': ' if key else ''}{words}{given}"


def _keys_at(location: Sequence[str | int]) -> list[str]:
    """Return the keys that are allowed at a place of the brief."""
    model: type[BaseModel] = Brief
    nested: dict[str, type[BaseModel]] = {
        "dataset": DatasetBrief,
        "rewards": RewardBrief,
        "sampling": SamplingBrief,
        "gate": GateBrief,
        "evaluation": EvaluationBrief,
        "graders": RewardBrief,
        "variant": VariantBrief,
        "endpoint": EndpointBrief,
        "length_penalty": LengthPenaltyBrief,
    }
    for part in location:
        if isinstance(part, str):
            model = nested.get(part, model)
    return list(model.model_fields)


def _training_faults(tree: Any) -> list[tuple[int, str]]:
    from llm_finetuning.recipes import options

    training, method, variant = _plain(tree.get("training")), tree.get("method"), tree.get("variant")
    if not isinstance(training, dict):
        return []  # the type check has said so
    if method not in COLUMNS_BY_METHOD:
        method = "grpo"  # the method's own fault is listed; its options are still worth a look
    use = str(variant.get("use")) if isinstance(variant, dict) else None
    found = options.faults(training, str(method), use, SamplingBrief.model_fields)
    return [(_line_of(tree, ["training", option]), f"training.{option}: {words}") for option, words in found]


def _variant_faults(brief: Brief, tree: Any) -> list[tuple[int, str]]:
    if brief.variant is None or brief.method == "grpo":
        return []
    return [(_line_of(tree, ["variant"]), f"variant: is one of GRPO; method {brief.method} has none, leave it out")]


def placed(loaded: LoadedBrief, line: str) -> str:
    """Return a refusal that begins with a key of the brief, as in `training.beta: ...`, with its file and line."""
    key, path = line.partition(":")[0], loaded.run_dir / FILE_NAME
    if key.partition(".")[0] not in Brief.model_fields:
        return line
    try:
        tree = _yaml_tree(path.read_text("utf-8-sig"), path)
    except OSError:
        return f"{path}: {line}"
    return f"{path}:{_line_of(tree, key.split('.'))}: {line}"


def _column_faults(brief: Brief, tree: Any) -> list[tuple[int, str]]:
    needed = [name for name in COLUMNS_BY_METHOD[brief.method] if getattr(brief.dataset, name) is None]
    return [
        (_line_of(tree, ["dataset"]), f"dataset.{name}: missing; method {brief.method} reads it: `{name}: COLUMN`")
        for name in needed
    ]
