"""Small runs on disk, made with the product's own writers, for tests that need no model."""

import json
from pathlib import Path
from typing import Any

from llm_finetuning import artifact, brief, lineage
from llm_finetuning.sampling.drawing import sample_id
from llm_finetuning.types import Sample

BRIEF = """\
name: sums
method: grpo
model: some/model
dataset: {path: data.jsonl, prompt: prompt, answer: answer, id: id}
rewards:
  - use: exact_answer
    options: {extract: last_number}
sampling: {num_generations: 4, prompts: 15, max_completion_length: 16}
"""


def write_run(folder: Path, *, rows: int = 15, text: str = BRIEF) -> Path:
    """Write a brief and a data set of sums 1+0, 2+1, ... and return the run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "brief.yaml").write_text(text, "utf-8")
    lines = [
        {"id": f"q{i}", "prompt": f"What is {i + 1} + {i}?", "answer": str(2 * i + 1), "level": i} for i in range(rows)
    ]
    (folder / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return folder


def completion(i: int, index: int) -> str:
    """Return what the pretended model says: the right sum from completion 2 on."""
    right = 2 * i + 1
    return f"The answer is {right}." if index >= 2 else f"{right} is not it, I say {right + 1}."


def write_samples(folder: Path, *, text_of: Any = completion, chat: bool = False, rows: int = 15) -> list[Sample]:
    """Write samples.jsonl as `sample` would, with completions of a pretended model."""
    loaded = brief.load(folder)
    sampling = loaded.brief.sampling
    samples = []
    for pass_name, n in (("policy", sampling.num_generations), ("low_temperature", 1)):
        for i in range(rows):
            for index in range(n):
                text = text_of(i, index if pass_name == "policy" else 3)
                prompt = f"What is {i + 1} + {i}?"
                samples.append(
                    Sample(
                        sample_id=sample_id(f"q{i}", pass_name, index),
                        prompt_id=f"q{i}",
                        row=i + 1,
                        pass_name=pass_name,  # type: ignore[arg-type]
                        index=index,
                        prompt=[{"role": "user", "content": prompt}] if chat else prompt,
                        columns={"id": f"q{i}", "answer": str(2 * i + 1), "level": i},
                        completion=[{"role": "assistant", "content": text}] if chat else text,
                        completion_ids=list(range(len(text.split()))),
                        tokens=len(text.split()),
                        finish_reason="stop",
                        temperature=1.0 if pass_name == "policy" else 0.0,
                    )
                )
    path = folder / "samples.jsonl"
    settings = {"expected": len(samples), "engine": {}}
    artifact.write_lines(path, artifact.header_for(path, lineage.of_samples(loaded), settings), samples)
    return samples


def write_labels_csv(folder: Path, samples: list[Sample], accept: Any) -> Path:
    """Write a CSV of verdicts for the policy samples and return its path."""
    lines = ["sample_id,verdict,note"]
    lines += [
        f"{sample.sample_id},{'accept' if accept(sample) else 'reject'},"
        for sample in samples
        if sample.pass_name == "policy"
    ]
    path = folder / "labels.csv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def examine(folder: Path, *, limit: int = 40) -> None:
    """Audit, score and attack a run with the product's own verbs, as the gate asks for; refuses as they do."""
    from llm_finetuning.commands import audit, probe, score

    audit.run(folder)
    score.run(folder)
    probe.run(folder, limit=limit)
