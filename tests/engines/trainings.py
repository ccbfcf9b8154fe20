"""Run the train.py of several built runs in one process, since loading torch takes longest.

A program for the training interpreter: `python trainings.py JOBS.json`, where a job is `{"run": FOLDER, "plant": NAME}`
and a plant of `PLANTS` breaks the libraries for that run alone. Prints a JSON list: exit code, what was said, and the
tables of completions.
"""

import contextlib
import copy
import functools
import json
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # more threads spin against one another on busy cores


def main() -> None:
    """Run every job."""
    jobs = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    print("\n" + json.dumps([run(Path(job["run"]), job.get("plant")) for job in jobs]))  # noqa: T201  the answer


def run(folder: Path, plant: str | None) -> dict[str, Any]:
    """Run one train.py as a program, with modules of its own, and return how it left."""
    for name in list(sys.modules):
        if name.partition(".")[0] in ("guards", "llm_finetuning", "my_rewards"):
            del sys.modules[name]
    path = list(sys.path)
    sys.path.insert(0, str(folder))
    code: Any = None
    with (  # files, since vLLM asks for their numbers
        tempfile.TemporaryFile("w+", encoding="utf-8") as said,
        tempfile.TemporaryFile("w+", encoding="utf-8") as complained,
    ):
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained), PLANTS[plant]():
                runpy.run_path(str(folder / "train.py"), run_name="__main__")
        except SystemExit as left:
            code = left.code
        finally:
            sys.path[:] = path
        texts = [file.seek(0) or file.read() for file in (said, complained)]
    said_so = {"code": code, "said": texts[0], "complained": texts[1]}
    return {**said_so, "tables": {path.stem: table(path) for path in sorted((folder / "completions").glob("*"))}}


def table(path: Path) -> dict[str, Any]:
    """Return a table of completions as columns."""
    import pandas as pd

    columns = pd.read_parquet(path).to_dict("list")
    return json.loads(json.dumps(columns, default=lambda value: value.tolist()))  # type: ignore[no-any-return]


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put something in a class's or module's place for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def stale_engine(*, adapter_alone: bool = False, after: int = 0) -> Iterator[None]:
    """Generate from a copy of the model, which is brought up to date no more after so many generations.

    With `adapter_alone` the copy follows all but the adapter: what is pushed was never merged.
    """
    from trl import GRPOTrainer

    real = GRPOTrainer._generate_single_turn

    def generate(self: Any, *arguments: Any, **keywords: Any) -> Any:
        count = self.__dict__.setdefault("generations", [0])
        count[0] += 1
        if "engine" not in self.__dict__ or count[0] <= after:
            self.engine = copy.deepcopy(self.model)
            for module in self.engine.modules():
                module.__dict__.pop("forward", None)  # TRL's own, which calls the model that was copied
        model, wrapped = self.model, self.model_wrapped
        if adapter_alone:
            kept = {name: value for name, value in model.state_dict().items() if "lora" not in name}
            self.engine.load_state_dict(kept, strict=False)
        self.model = self.model_wrapped = self.engine
        try:
            return real(self, *arguments, **keywords)
        finally:
            self.model, self.model_wrapped = model, wrapped

    with replaced(GRPOTrainer, "_generate_single_turn", generate):
        yield


@contextlib.contextmanager
def other_option() -> Iterator[None]:
    """Let the trainer change an option behind the config's back."""
    from trl import GRPOTrainer

    real = GRPOTrainer.__init__

    def made(self: Any, *arguments: Any, **keywords: Any) -> None:
        keywords["args"].learning_rate = 0.5
        real(self, *arguments, **keywords)

    with replaced(GRPOTrainer, "__init__", made):
        yield


@contextlib.contextmanager
def other_dtype() -> Iterator[None]:
    """Let the model be loaded in float32 whatever is asked for."""
    from trl.trainer import grpo_trainer

    real = grpo_trainer.create_model_from_path

    def loaded(*arguments: Any, **keywords: Any) -> Any:
        return real(*arguments, **{**keywords, "dtype": "float32"})

    with replaced(grpo_trainer, "create_model_from_path", loaded):
        yield


@contextlib.contextmanager
def recorded_numbers() -> Iterator[None]:
    """Print the weights' digest, the random numbers' and the engine's tag around every look of the canary."""
    import hashlib

    import torch

    from guards import rollouts  # type: ignore[import-not-found,unused-ignore]

    real = rollouts.undisturbed

    def digest(trainer: Any) -> str:
        seen = hashlib.sha256()
        for value in (*trainer.model.state_dict().values(), torch.get_rng_state()):
            seen.update(value.detach().contiguous().view(torch.uint8).numpy().tobytes())
        for held in trainer.optimizer.state.values():
            for value in held.values():
                seen.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return f"{seen.hexdigest()} {trainer.model.training} {trainer.generation_config.do_sample}"

    @contextlib.contextmanager
    def undisturbed(trainer: Any) -> Iterator[None]:
        before = digest(trainer)
        with real(trainer):
            yield
        print(f"undisturbed {before == digest(trainer)}")  # noqa: T201  for the test

    with replaced(rollouts, "undisturbed", undisturbed):
        yield


@contextlib.contextmanager
def vllm_on_cpu() -> Iterator[None]:
    """Let vLLM's weights be pushed on the CPU: they stay as they were loaded instead of in a packed layout.

    It starts sooner without compiling its model.
    """
    import vllm._custom_ops
    import vllm.model_executor.layers.utils
    from trl.generation import vllm_generation

    with (
        replaced(vllm_generation, "LLM", functools.partial(vllm_generation.LLM, enforce_eager=True)),
        replaced(vllm._custom_ops, "_supports_onednn", value=False),
        replaced(vllm.model_executor.layers.utils, "check_cpu_sgl_kernel", lambda *_, **__: False),
    ):
        yield


@contextlib.contextmanager
def nothing_synced() -> Iterator[None]:
    """Let vLLM keep the weights that it loaded."""
    from trl.generation.vllm_generation import VLLMGeneration

    with vllm_on_cpu(), replaced(VLLMGeneration, "sync_weights", lambda self: None):
        yield


@contextlib.contextmanager
def nothing_merged() -> Iterator[None]:
    """Let the adapter stay out of what is pushed to vLLM."""
    from peft import PeftModel
    from peft.tuners.tuners_utils import BaseTuner

    with vllm_on_cpu(), replaced(BaseTuner, "merge_adapter", lambda self, *_, **__: None):
        assert not hasattr(PeftModel, "merge_adapter")  # it hands the call on to the tuner
        yield


PLANTS: dict[str | None, Any] = {
    None: contextlib.nullcontext,
    "stale": stale_engine,
    "adapter not merged": lambda: stale_engine(adapter_alone=True),
    "stale after step 1": lambda: stale_engine(after=4),
    "other option": other_option,
    "other dtype": other_dtype,
    "recorded": recorded_numbers,
    "vllm": vllm_on_cpu,
    "vllm, nothing synced": nothing_synced,
    "vllm, nothing merged": nothing_merged,
}


if __name__ == "__main__":
    main()
