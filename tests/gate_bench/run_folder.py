"""A run directory of one reward of the catalogue, with the stored completions as its samples; and its reader."""

import json
import shutil
from pathlib import Path
from typing import Any

from gate_bench.tasks import TASKS

HERE = Path(__file__).parent
READ = 60  # completions that are read
READER = "bench"


def stored(task: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a task's data set rows and its completions."""
    read = [(HERE / "data" / f"{task}{ending}").read_text("utf-8").splitlines() for ending in (".rows.jsonl", ".jsonl")]
    return [json.loads(line) for line in read[0]], [json.loads(line) for line in read[1]]


def brief_of(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the brief of a catalogue entry."""
    task = TASKS[entry["task"]]
    brief: dict[str, Any] = {
        "name": "bench",
        "method": "grpo",
        "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "dataset": {"path": "data.jsonl", **task.columns},
        "rewards": entry["rewards"],
        "sampling": {"num_generations": 8, "prompts": 100, "max_completion_length": task.cap},
    }
    if "success" in entry:
        brief["gate"] = {"success": entry["success"]}
    return brief


def write_run(folder: Path, entry: dict[str, Any]) -> Path:
    """Write brief, reward, data set and samples as the verbs before `score` would, and return the run directory."""
    from llm_finetuning import artifact, brief, lineage

    folder.mkdir(parents=True)
    rows, _ = stored(entry["task"])
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "brief.yaml").write_text(json.dumps(brief_of(entry), indent=1), "utf-8")  # JSON is YAML
    if entry["file"]:
        shutil.copy(HERE / "rewards" / entry["file"], folder)
    loaded = brief.load(folder)
    samples = samples_of(entry["task"])
    path = folder / "samples.jsonl"
    engine = {"engine": "transformers", "model": "HuggingFaceTB/SmolLM2-135M-Instruct"}
    settings = {"expected": len(samples), "engine": engine}
    artifact.write_lines(path, artifact.header_for(path, lineage.of_samples(loaded), settings), samples)
    return folder


def samples_of(task: str) -> list[Any]:
    """Return the stored completions as samples, the policy pass first."""
    from llm_finetuning.sampling.drawing import sample_id
    from llm_finetuning.types import Sample

    rows, said = stored(task)
    columns = TASKS[task].columns
    samples = []
    for item in sorted(said, key=lambda one: one["index"] == "low"):
        row, low = rows[item["row"]], item["index"] == "low"
        prompt_id = str(row[columns["id"]])
        pass_name = "low_temperature" if low else "policy"
        index = 0 if low else item["index"]
        prompt = row[columns["prompt"]]
        samples.append(
            Sample(
                sample_id=sample_id(prompt_id, pass_name, index),
                prompt_id=prompt_id,
                row=item["row"] + 1,
                pass_name=pass_name,
                index=index,
                prompt=prompt,
                columns={key: value for key, value in row.items() if key != columns["prompt"]},
                completion=item["text"]
                if isinstance(prompt, str)
                else [{"role": "assistant", "content": item["text"]}],
                completion_ids=list(range(item["tokens"])),
                tokens=item["tokens"],
                finish_reason="length" if item["cut"] else "stop",
                temperature=0.0 if low else 1.0,
            )
        )
    return samples


def truths(task: str) -> dict[str, str]:
    """Return the truth of every policy sample by its id."""
    from llm_finetuning.sampling.drawing import sample_id

    rows, said = stored(task)
    key = TASKS[task].columns["id"]
    return {
        sample_id(str(rows[item["row"]][key]), "policy", item["index"]): item["truth"]
        for item in said
        if item["index"] != "low"
    }


def read_as_a_person(run_dir: Path, task: str) -> int:
    """Label what the product asks a person to read, truly, and return how many labels were given."""
    from llm_finetuning import brief
    from llm_finetuning.commands.review import add_labels
    from llm_finetuning.labelling import label_for, to_read

    loaded = brief.load(run_dir)
    verdicts = truths(task)

    def make(appender: Any, samples: Any) -> None:
        known = {sample.sample_id: sample for sample in samples}
        for item in to_read(loaded, list(samples), appender.records, READER, READ):
            sample, verdict = known[item.sample_id], verdicts[item.sample_id]
            appender.append([label_for(sample, verdict, reader=READER, source="import", part=item.part)])

    return int(add_labels(run_dir, make)["added"])
