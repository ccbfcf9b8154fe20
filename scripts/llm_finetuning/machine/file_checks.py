"""Checks of files and addresses: disk, folders, ports, the model and the rows."""

from llm_finetuning.machine.facts import Facts, Folder
from llm_finetuning.machine.needs import Needs
from llm_finetuning.machine.outcome import Outcome, failed, here, passed, skipped, warning

SPARE = 1.2  # room for a checkpoint as a multiple of it, as the guard of a run asks for (templates/run/guards/disk.py)
CHECKPOINTS = "checkpoints"
CACHE = "the hub's cache"

_MENDS = {
    CHECKPOINTS: "make the run directory writable",
    CACHE: "export HF_HOME to a folder that can be written to",
    "compiled kernels": "export TRITON_CACHE_DIR to a folder that can be written to",
    "temporary files": "export TMPDIR to a folder that can be written to",
}


def config(facts: Facts, needs: Needs) -> Outcome:
    """The brief makes a config for its machine: engine and trainer have devices of their own, options agree."""
    del facts
    if needs.faults:
        return failed("; ".join(needs.faults), f"mend {needs.faults[0]}")
    where = f"{needs.machine.gpus} GPU(s)" if needs.machine.gpus else "the CPU"
    return passed(f"{needs.engine} rollouts, {needs.processes} process(es) on {where}")


@here
def disk(facts: Facts, needs: Needs) -> Outcome:
    """The disk has room for the checkpoints that are kept, one being written, and the model at the end."""
    place = next((folder for folder in facts.folders if folder.role == CHECKPOINTS), None)
    if place is None or place.free_gib is None:
        return skipped("the disk does not say how much is free")
    if needs.checkpoint_gib is None:
        return skipped(f"{place.free_gib:.1f} GiB free; sizes are not known: {needs.size_fault}")
    return _room(place.path, place.free_gib, needs.checkpoint_gib, needs)


def _room(path: str, free: float, each: float, needs: Needs) -> Outcome:
    kept = needs.kept if needs.kept is not None else 1
    first, every = SPARE * each, each * (kept + 1) + needs.final_gib
    words = f"{free:.1f} GiB free; a checkpoint takes {each:.2f}"
    if free < first:
        return failed(words, f"free {first - free:.1f} GiB at {path}")
    words += f", {kept} kept, one being written and the model at the end {every:.2f}"
    if free < every:
        return warning(words, f"free {every - free:.1f} GiB at {path}")
    if needs.kept is None:
        return warning(f"{words}; every checkpoint is kept", "write `training: {save_total_limit: 3}`")
    return passed(words)


def folders(facts: Facts, needs: Needs) -> Outcome:
    """Run directory, caches and temporary files can be written to."""
    closed = [folder for folder in facts.folders if not folder.writable and _is_used(folder, facts, needs)]
    if closed:
        words = "; ".join(f"{folder.role}: {folder.path} cannot be written to" for folder in closed)
        return failed(words, _MENDS[closed[0].role])
    return passed(", ".join(folder.role for folder in facts.folders if folder.writable))


@here
def ports(facts: Facts, needs: Needs) -> Outcome:
    """The ports on which a vLLM server and the group of processes meet are free."""
    if not needs.ports:
        return skipped("one process without a server listens on no port")
    busy = [port for port in needs.ports if port in facts.taken_ports]
    if busy:
        words = f"taken: {', '.join(map(str, busy))}"
        if needs.serving and busy[0] in needs.ports[:2]:
            option = ("vllm_server_port", "vllm_group_port")[needs.ports.index(busy[0])]
            return failed(words, f"end what listens there, or write `training: {{{option}: N}}`")
        return failed(words, f"end what listens on {busy[0]}, perhaps another run")
    return passed(f"free: {', '.join(map(str, needs.ports))}")


def model(facts: Facts, needs: Needs) -> Outcome:
    """The model's config, index and weights are there and whole."""
    found = facts.model
    if found is None:
        return skipped("no model was looked at")
    broken = (*found.faults, *(() if found.hub else found.missing))
    if broken:
        return failed("; ".join(broken), f"mend {broken[0]}")
    if found.folder is None or found.missing:
        what = "; ".join(found.missing) or f"{found.source} is not in the hub's cache"
        if facts.offline:
            return failed(f"{what}, and HF_HUB_OFFLINE is set", "unset HF_HUB_OFFLINE, or name a model folder")
        fix = f"fetch it before: `finetune sample {needs.run}`"
        return warning(f"{what}; the run fetches it from the hub when it starts", fix)
    return passed(f"{found.folder}: {found.weights_gib:.2f} GiB of weights, headers and lengths agree")


def tokenizer(facts: Facts, needs: Needs) -> Outcome:
    """The tokenizer's files are beside the model; the engines load it."""
    del needs
    found = facts.model
    if found is None or found.folder is None or found.faults:
        return skipped("the model is not here as a whole")
    if not found.tokenizer:
        if found.hub and not facts.offline:
            return skipped("not in the hub's cache; fetched with the model")
        return failed(f"{found.folder}: has no tokenizer", "copy the tokenizer's files there (tokenizer.json)")
    return passed("its files are there")


def data(facts: Facts, needs: Needs) -> Outcome:
    """The files of rows that the brief names can be read."""
    del needs
    if faults := [found.fault for found in facts.data if found.fault is not None]:
        return failed("; ".join(faults), f"mend `dataset` in brief.yaml or the file: {faults[0]}")
    away = [found.name for found in facts.data if found.hub and not found.cached]
    if away and facts.offline:
        words = f"{away[0]} is not in the hub's cache, and HF_HUB_OFFLINE is set"
        return failed(words, "unset HF_HUB_OFFLINE, or name a file")
    said = [f"{found.name} (hub{'' if found.cached else ', not fetched yet'})" if found.hub else found.name
            for found in facts.data]  # fmt: skip
    return passed(", ".join(said))


def _is_used(folder: Folder, facts: Facts, needs: Needs) -> bool:
    """Tell whether the run writes there: kernels are compiled for GPUs, and the cache is for what is not here yet."""
    if folder.role == "compiled kernels":
        return needs.on_gpu
    if folder.role == CACHE:
        found = facts.model
        return found is not None and found.hub and (found.folder is None or bool(found.missing))
    return True
