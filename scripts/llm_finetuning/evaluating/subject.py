"""The model that is measured, and where it is sampled."""

from dataclasses import dataclass
from typing import Any

from llm_finetuning import artifact, checkpoints, console
from llm_finetuning.addresses import is_address
from llm_finetuning.brief import EndpointBrief, LoadedBrief
from llm_finetuning.checkpoints import Candidate
from llm_finetuning.errors import Refusal
from llm_finetuning.evaluating import calls, spots


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One model under a brief."""

    loaded: LoadedBrief  # as it is written: what is graded, and how
    sampled: LoadedBrief  # the same with the server of `--endpoint` as its engine
    candidate: Candidate
    digest: str  # which model it is
    python: str | None  # the training interpreter, where the caller names one

    @property
    def facts(self) -> dict[str, Any]:
        """What a header keeps of the model beside its digest: spots of its folders, and the server of `--endpoint`."""
        if self.sampled.brief.sampling.engine != "endpoint":
            return {spots.KEY: spots.of(self.loaded.run_dir, self.candidate)}
        return self.server

    @property
    def server(self) -> dict[str, Any]:
        """The record of the server that `--endpoint` names; empty where it names none."""
        server = self.sampled.brief.sampling.endpoint
        if self.sampled is self.loaded or server is None:
            return {}
        return {calls.SERVER: {"url": server.url, "api_key_env": server.api_key_env}}


def subject_of(
    loaded: LoadedBrief,
    *,
    model: str | None,
    checkpoint: str | None,
    endpoint: str | None,
    api_key_env: str | None,
) -> tuple[LoadedBrief, Candidate]:
    """Return the brief that is sampled by and the model that is asked for; refuses what contradicts itself."""
    if model is not None and checkpoint is not None:
        raise Refusal("--model and --checkpoint: name one of them")
    if checkpoint is not None and endpoint is not None:
        raise Refusal("--checkpoint and --endpoint: serve the checkpoint there and name it as the server does: --model")
    sampled = _served(loaded, endpoint, api_key_env)
    if checkpoint is not None:
        return sampled, checkpoints.checkpoint(sampled, checkpoint)
    return sampled, checkpoints.base_model(sampled) if model is None else checkpoints.named(sampled, model)


def check_base(loaded: LoadedBrief, candidate: Candidate, name: str) -> None:
    """Refuse another model under the baseline's name: every later comparison would stand on it."""
    base = checkpoints.base_model(loaded)
    if name == checkpoints.BASE and (candidate.model, candidate.adapter) != (base.model, base.adapter):
        raise Refusal(
            f"--name {checkpoints.BASE}: is the name of the brief's own model, {base.shown}, and this is "
            f"{candidate.shown}; give it another --name"
        )


def _served(loaded: LoadedBrief, endpoint: str | None, api_key_env: str | None) -> LoadedBrief:
    """Return the brief with a server in its engine's place; the rest of how it is asked is the brief's."""
    known = loaded.brief.sampling.endpoint
    if endpoint is None:
        if api_key_env is None:
            return loaded
        if loaded.brief.sampling.engine != "endpoint" or known is None:
            raise Refusal("--api-key-env: the brief samples from no server; name one: --endpoint URL")
        endpoint = known.url
    if not is_address(endpoint):
        raise Refusal(f"--endpoint: {endpoint!r} is not an address; write it up to and with /v1: http://HOST:PORT/v1")
    changed: dict[str, Any] = {"url": endpoint, **({"api_key_env": api_key_env} if api_key_env is not None else {})}
    asked = (known or EndpointBrief(url=endpoint)).model_copy(update=changed)
    if asked.api_key_env and api_key_env is None and (known is None or known.url != endpoint):
        console.note(f"the key in {asked.api_key_env}, which the brief names, is sent to {endpoint}")
    sampling = loaded.brief.sampling.model_copy(update={"engine": "endpoint", "endpoint": asked})
    return LoadedBrief(loaded.brief.model_copy(update={"sampling": sampling}), loaded.run_dir, loaded.frozen)


def check_same_model(subject: Subject, *paths: Any) -> None:
    """Refuse to put a suite beside those of another model under one name; `paths` are evaluations that are there."""
    from llm_finetuning.types import Evaluation

    for path in paths:
        if not path.exists():
            continue
        found = artifact.read_json(path, Evaluation)
        if found.header.parents.get("model") != subject.digest:
            raise Refusal(
                f"{path}: is of another model ({found.records[0].model}) than {subject.candidate.shown}, or of other "
                "weights; give this one another --name, or set that one aside with --fresh"
            )
