"""`gate` as a person calls it: what it asks for, what closes it again, a person's override, and its cost."""

import dataclasses
import json
import os
import pty
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

import runs
from llm_finetuning import artifact, brief, lineage
from llm_finetuning.commands import gate as command
from llm_finetuning.errors import Refusal
from llm_finetuning.types import GateReport, Label, Sample

Finetune = Callable[..., tuple[int, str, str]]
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

REWARD = """\
from llm_finetuning.rewards.exact_answer import ExactAnswer

inner = ExactAnswer(extract="last_number")


def mine(completions, answer, **kwargs):
    return inner(completions=completions, answer=answer)
"""


def is_right(sample: Any) -> bool:
    return str(sample.completion).rstrip(".").endswith(f" {sample.columns['answer']}")


def read_by_ada(folder: Path, finetune: Finetune, samples: list[Sample], accept: Any = is_right) -> None:
    table = runs.write_labels_csv(folder, samples, accept)
    assert finetune("review", folder, "--import", table, "--reader", "ada")[0] == 0


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder of which the gate reads the template and the tokenizer alone."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")
    return folder


@pytest.fixture
def opened(tmp_path: Path, model: Path, finetune: Finetune) -> Path:
    """A run whose gate is open, with a reward of a person's own and a model on the disk."""
    text = runs.BRIEF.replace("some/model", str(model))
    text = text.replace("use: exact_answer\n    options: {extract: last_number}", "file: mine.py:mine")
    folder = runs.write_run(tmp_path / "run", text=text)
    (folder / "mine.py").write_text(REWARD)
    samples = runs.write_samples(folder)
    runs.examine(folder)
    read_by_ada(folder, finetune, samples)
    assert finetune("gate", folder)[0] == 0
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(Refusal) as refusal:
        lineage.open_gate(brief.load(folder))
    (line,) = refusal.value.lines
    return line


def test_an_open_gate_lets_the_run_go_on(opened: Path) -> None:
    """Later verbs ask for the report, and get it."""
    assert lineage.open_gate(brief.load(opened)).verdict == "open"


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("mine.py", "last_number", "last_numbes", "mine.py changed"),
        ("data.jsonl", "What is 3 + 2?", "What is 3 + 2 ?", "data.jsonl changed"),
        ("data.jsonl", '"answer": "5"', '"answer": "6"', "data.jsonl changed"),
        ("../model/chat_template.jinja", "content }}", "content}}", "model(template, tokenizer) changed"),
        ("brief.yaml", "num_generations: 4", "num_generations: 5", "sampling of brief.yaml"),
        ("brief.yaml", "max_completion_length: 16", "max_completion_length: 17", "sampling of brief.yaml"),
        ("brief.yaml", "file: mine.py:mine", "file: mine.py:mine\n    weight: 2", "rewards of brief.yaml"),
        ("brief.yaml", "method: grpo", "method: grpo\ntraining: {scale_rewards: none}", "objective and batch options"),
        ("samples.jsonl", "I say 2.", "I say 3.", "samples.jsonl"),
        ("scores.jsonl", '"reason": null', '"reason": "x"', "scores.jsonl changed"),
        ("labels.jsonl", '"accept"', '"reject"', "labels.jsonl changed"),
        ("audit.json", '"rows": 15', '"rows": 16', "audit.json changed"),
        ("probe.json", '"verdict": "held"', '"verdict": "hels"', "probe.json changed"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_one_changed_character_closes_the_gate(opened: Path, file: str, old: str, new: str, words: str) -> None:
    """A reward, a row, the template, a sampling option, anything that was judged: one line says what to run."""
    text = (opened / file).read_text("utf-8")
    assert old in text
    (opened / file).write_text(text.replace(old, new, 1), "utf-8")
    line = refused(opened)

    assert "gate.json" in line
    assert words in line
    assert f"run `finetune gate {opened}`" in line


def test_a_comment_or_another_key_closes_nothing(opened: Path) -> None:
    """What is not judged may change: the learning rate, the hardware, a comment."""
    text = (opened / "brief.yaml").read_text()
    (opened / "brief.yaml").write_text(text + "hardware: h100\ntraining: {learning_rate: 1.0e-5}\n# a comment\n")

    assert lineage.open_gate(brief.load(opened)).verdict == "open"


def test_a_gate_that_is_not_there_or_not_open_says_what_to_do(run_dir: Path, finetune: Finetune) -> None:
    """Never judged, then judged with nobody having read."""
    assert f"not there yet; run `finetune gate {run_dir}`" in refused(run_dir)
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    assert finetune("gate", run_dir)[0] == 3

    assert "the gate is not open (insufficient-evidence): read 50 more completions" in refused(run_dir)


def test_a_verdict_that_was_written_by_hand_is_not_taken(opened: Path) -> None:
    """The fingerprint has to be that of what the header names."""
    body = json.loads((opened / "gate.json").read_text())
    body["fingerprint"] = "0" * 64
    (opened / "gate.json").write_text(json.dumps(body))

    assert "its fingerprint is not that of what it names" in refused(opened)


def test_a_demos_answer_opens_nothing(opened: Path) -> None:
    """A program's labels count in the demo alone, and so does its gate."""
    command.run(opened, program_labels_count=True)

    assert "counts for the demo alone" in refused(opened)


@pytest.mark.parametrize(("file", "verb"), [("audit.json", "audit"), ("probe.json", "probe")])
def test_the_gate_asks_for_audit_and_probe(opened: Path, finetune: Finetune, file: str, verb: str) -> None:
    """Missing or made from something else: one line that names the verb."""
    kept = (opened / file).read_text()
    (opened / file).unlink()
    code, _, err = finetune("gate", opened)
    assert (code, err.strip()) == (2, f"finetune: {opened / file}: not there yet; run `finetune {verb} {opened}`")
    assert finetune("status", opened)[1].splitlines()[-1] == f"next: finetune {verb} {opened}"

    body = json.loads(kept)
    body["header"]["parents"]["rewards of brief.yaml"] = "other"
    (opened / file).write_text(json.dumps(body))
    code, _, err = finetune("gate", opened)
    assert code == 2
    assert f"changed since it was made; run `finetune {verb} {opened}`" in err


def test_what_the_audit_and_the_probes_found_weighs_in_the_gate(opened: Path, finetune: Finetune) -> None:
    """A reward that pays the gold anywhere is blocked by its attacks, before anyone's labels are looked at."""
    code = "def mine(completions, answer, **k):\n    return [float(a in c) for c, a in zip(completions, answer)]\n"
    (opened / "mine.py").write_text(code)
    runs.examine(opened)
    code_of, out, _ = finetune("gate", opened, "--json")
    facts = json.loads(out)
    blocking = [found["code"] for found in facts["findings"] if found["weight"] == "blocks"]

    assert code_of == 1
    assert "probe-exploit-spraying" in blocking
    assert facts["next_action"].startswith("stop paying for")
    assert {"audit", "probe"} <= {found["code"] for found in facts["findings"]}


def test_labels_stand_where_the_reader_would_see_the_same(opened: Path, finetune: Finetune) -> None:
    """A changed gold of one row asks for its four labels again, and for no other."""
    for name in ("data.jsonl", "samples.jsonl"):
        text = (opened / name).read_text("utf-8")
        (opened / name).write_text(text.replace('"answer": "5"', '"answer": "50"'), "utf-8")
    samples = artifact.read_lines(opened / "samples.jsonl", Sample)
    header = artifact.header_for(samples.path, lineage.of_samples(brief.load(opened)), samples.header.settings)
    artifact.write_lines(samples.path, header, samples.records)
    runs.examine(opened)
    _, out, _ = finetune("gate", opened, "--json")
    findings = {found["code"]: found for found in json.loads(out)["findings"]}

    assert findings["labels"]["text"].startswith("56 completions judged")
    assert findings["labels-set-aside"]["sample_ids"] == [f"q2/{index}" for index in range(4)]
    assert len(artifact.read_lines(opened / "labels.jsonl", Label).records) == 60  # all are kept


def test_a_half_written_last_label_is_said(opened: Path, finetune: Finetune) -> None:
    """The rest counts."""
    with (opened / "labels.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"sample_id": "q1/0", "read')
    code, out, _ = finetune("gate", opened, "--json")
    findings = {found["code"]: found for found in json.loads(out)["findings"]}

    assert code == 0
    assert findings["labels-cut"]["weight"] == "warns"
    assert findings["labels"]["text"].startswith("60 completions judged")

    table = opened / "again.csv"
    table.write_text("sample_id,verdict\nq1/0,accept\n")
    _, _, err = finetune("review", opened, "--import", table, "--reader", "ada")
    assert "its last line is half written, as by a killed writer; it is cut off" in err
    assert len(artifact.read_lines(opened / "labels.jsonl", Label).records) == 61
    assert "half written" not in finetune("review", opened, "--import", table, "--reader", "ada")[2]


@pytest.mark.parametrize(
    ("took", "words"), [("0.5", "generation of that batch takes about 16 s"), (None, "was not recorded")]
)
def test_reward_time_stands_beside_the_time_that_sampling_took(
    run_dir: Path, finetune: Finetune, took: str | None, words: str
) -> None:
    """A file of an earlier version, or of a server, says no time: then the seconds of the rewards stand alone."""
    runs.write_samples(run_dir)
    text = (run_dir / "samples.jsonl").read_text("utf-8")
    assert '"seconds": null' in text
    changed = text.replace('"seconds": null', f'"seconds": {took}') if took else text.replace(', "seconds": null', "")
    (run_dir / "samples.jsonl").write_text(changed, "utf-8")
    runs.examine(run_dir)
    _, out, _ = finetune("gate", run_dir, "--json")
    (finding,) = [found for found in json.loads(out)["findings"] if found["code"] == "reward-time"]

    assert words in finding["text"]


def test_the_report_for_people_lies_beside_the_answer(opened: Path, finetune: Finetune) -> None:
    """Its path is printed, and it says the same."""
    _, out, _ = finetune("gate", opened)
    page = (opened / "gate.html").read_text("utf-8")

    assert f"open in a browser: {opened / 'gate.html'}" in out
    assert "The gate is open" in page
    assert artifact.read_json(opened / "gate.json", GateReport).records[0].fingerprint in page


@pytest.fixture
def blocked(run_dir: Path, finetune: Finetune) -> Path:
    """A run that a reader's word blocks."""
    samples = runs.write_samples(run_dir)
    runs.examine(run_dir)
    read_by_ada(run_dir, finetune, samples, lambda sample: is_right(sample) and sample.sample_id != "q3/2")
    assert finetune("gate", run_dir)[0] == 1
    return run_dir


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--override", "I know better", "--by", "ada"], "standard input is no terminal"),
        (["--override", "I know better"], "needs a reason and who gives it"),
        (["--by", "ada"], "needs a reason and who gives it"),
        (["--override", "  ", "--by", "ada"], "needs a reason and who gives it"),
    ],
)
def test_an_agent_overrides_nothing(blocked: Path, finetune: Finetune, options: list[str], words: str) -> None:
    """Without a terminal, a reason or a name nothing is written."""
    before = (blocked / "gate.json").read_bytes()
    code, _, err = finetune("gate", blocked, *options)

    assert (code, before) == (2, (blocked / "gate.json").read_bytes())
    assert words in err


def at_terminal(folder: Path, *options: str, types: str) -> tuple[int, str]:
    """Call `finetune gate` on a terminal of its own and type a line into it; return the code and what it showed."""
    start = "import sys; sys.path[0] = sys.argv.pop(1); from llm_finetuning.cli import main; sys.exit(main())"
    ours, theirs = pty.openpty()
    arguments = [sys.executable, "-c", start, str(SCRIPTS), "gate", str(folder), *options]
    with subprocess.Popen(arguments, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        os.write(ours, f"{types}\n".encode())
        with closing(_output(ours)) as blocks:
            shown = b"".join(blocks)
        code = process.wait(timeout=60)
    os.close(ours)
    return code, shown.decode()


def _output(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            block = os.read(descriptor, 65536)
        except OSError:  # the other end is closed
            return
        if not block:
            return
        yield block


def test_a_person_overrides_with_a_reason_that_stays(blocked: Path, finetune: Finetune) -> None:
    """The verdict stays; the run may go on; a later gate of the same state keeps it, one of another state says so."""
    code, shown = at_terminal(blocked, "--override", "q3/2 is a slip", "--by", "ada", types="sums")
    report = lineage.open_gate(brief.load(blocked))

    assert (code, report.verdict) == (1, "blocked")
    assert "ada, type the run's name (sums)" in shown
    assert [(made.by, made.reason) for made in report.overrides] == [("ada", "q3/2 is a slip")]
    assert "Overridden by ada" in (blocked / "gate.html").read_text()

    _, out, _ = finetune("gate", blocked)
    assert "gate: blocked (overridden)" in out
    assert "gate.json       done        blocked; overridden" in finetune("status", blocked)[1]
    assert lineage.open_gate(brief.load(blocked)).overrides == report.overrides

    table = blocked / "again.csv"
    table.write_text("sample_id,verdict\nq4/0,unsure\n")
    finetune("review", blocked, "--import", table, "--reader", "ada")
    _, out, _ = finetune("gate", blocked)
    assert "gate: blocked\n" in out
    assert "it counts no more" in out
    assert "the gate is not open (blocked)" in refused(blocked)


def test_a_wrong_name_overrides_nothing(blocked: Path) -> None:
    """A key pressed by habit is no decision."""
    before = (blocked / "gate.json").read_bytes()
    code, shown = at_terminal(blocked, "--override", "q3/2 is a slip", "--by", "ada", types="y")

    assert (code, before) == (2, (blocked / "gate.json").read_bytes())
    assert "'y' is not the run's name; nothing was written" in shown


def test_an_open_gate_is_not_overridden(opened: Path) -> None:
    """There is nothing to go against."""
    code, shown = at_terminal(opened, "--override", "to be sure", "--by", "ada", types="sums")

    assert code == 2
    assert "the gate is open, there is nothing to override" in shown


@pytest.mark.timeout(300)
def test_gating_a_hundred_prompts_is_quick(tmp_path: Path, finetune: Finetune) -> None:
    """1,600 completions of 200 tokens under 5 s of CPU time, everything read and both files written."""
    text = runs.BRIEF.replace("num_generations: 4, prompts: 15", "num_generations: 16, prompts: 100")
    folder = runs.write_run(tmp_path / "run", rows=100, text=text)
    samples = runs.write_samples(folder, rows=100, text_of=lambda i, index: "so " * 200 + runs.completion(i, index % 4))
    runs.examine(folder)
    read_by_ada(folder, finetune, samples)
    begun = time.process_time()
    code, _, _ = finetune("gate", folder)
    seconds = time.process_time() - begun

    assert code == 0
    assert seconds < 5.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000  # kB


def test_a_disputed_sample_is_shown_with_its_question(run_dir: Path, finetune: Finetune) -> None:
    """Prompt and completion on a line each; of a long one the beginning and the end, where the question stands."""
    long = "Think first. " * 40

    def said(i: int, index: int) -> str:
        return f"{long}\n{runs.completion(i, index)}" if i == 0 else runs.completion(i, index)

    samples = runs.write_samples(run_dir, text_of=said)
    prompts = [{"role": "system", "content": f"Begin.\n{long}"}, {"role": "user", "content": "How many?\nCount."}]
    edited = [dataclasses.replace(one, prompt=prompts) if one.prompt_id == "q0" else one for one in samples]
    path = run_dir / "samples.jsonl"
    header = artifact.header_for(path, lineage.of_samples(brief.load(run_dir)), {"expected": 75, "engine": {}})
    artifact.write_lines(path, header, edited)
    runs.examine(run_dir)
    read_by_ada(run_dir, finetune, edited, lambda one: is_right(one) and one.sample_id not in ("q0/2", "q3/2"))
    lines = [line.strip() for line in finetune("gate", run_dir)[1].splitlines()]
    heads = ("q0/2: paid, but rejected (reward 1, gold 1)", "q3/2: paid, but rejected (reward 1, gold 7)")
    long_one, short_one = map(lines.index, heads)

    assert lines[short_one + 1 : short_one + 3] == ["prompt: What is 4 + 3?", "completion: The answer is 7."]
    prompt, completion = lines[long_one + 1 : long_one + 3]
    assert prompt.startswith("prompt: [system] Begin. Think first. ")
    assert prompt.endswith(" [user] How many? Count.")
    assert completion.startswith("completion: Think first. ")
    assert completion.endswith(" The answer is 1.")
    assert {len(prompt.removeprefix("prompt: ")), len(completion.removeprefix("completion: "))} <= {158, 159, 160}


SILENT = """\
from llm_finetuning.rewards.exact_answer import ExactAnswer

inner = ExactAnswer(extract="last_number")


def mine(completions, answer, **kwargs):
    paid = inner(completions=completions, answer=answer)
    return [None if text.startswith(SPOILT) else value for text, value in zip(completions, paid)]
"""


@pytest.mark.parametrize(
    ("spoilt", "silent", "weight"),
    [(("3 is not",), 1, "warns"), (("3 is not", "7 is not"), 4, "blocks")],
    ids=["one", "four"],
)
def test_what_the_reader_judged_and_the_reward_left_out_is_not_lost(
    run_dir: Path, finetune: Finetune, spoilt: tuple[str, ...], silent: int, weight: str
) -> None:
    """A row of its own in the table, whose cells sum to what was read; a finding; and its texts, on the page too."""
    path = run_dir / "brief.yaml"
    library = "use: exact_answer\n    options: {extract: last_number}"
    path.write_text(path.read_text("utf-8").replace(library, "file: mine.py:mine"), "utf-8")
    (run_dir / "mine.py").write_text(SILENT.replace("SPOILT", repr(spoilt)), "utf-8")

    def said(i: int, index: int) -> str:  # of the prompt whose answer is 3, only the first is spoilt
        return "I say 4." if (i, index) == (1, 1) and silent == 1 else runs.completion(i, index)

    samples = runs.write_samples(run_dir, text_of=said)
    runs.examine(run_dir)
    read_by_ada(run_dir, finetune, samples)
    _, out, _ = finetune("gate", run_dir)
    facts = json.loads(finetune("gate", run_dir, "--json")[1])
    (finding,) = [found for found in facts["findings"] if found["code"] == "judged-unscored"]
    (row,) = [line.split() for line in out.splitlines() if line.startswith("  says")]

    assert finding["weight"] == weight
    assert row[:4] == ["says", "nothing", "0", str(silent)]
    assert sum(facts["agreement"].values()) == 60
    assert f": the reward abstains, though rejected (reward None, gold {spoilt[0][0]})" in out
    page = (run_dir / "gate.html").read_text("utf-8")
    assert f"The reward abstains: {finding['sample_ids'][0]}" in page
    assert page.count('says nothing</th><td class="differ">0</td>') == 1
    if weight == "blocks":
        assert facts["next_action"].startswith("mend the reward: return 0.0 where the completion is at fault")


def test_what_is_fine_is_one_line_and_whole_elsewhere(opened: Path, finetune: Finetune) -> None:
    """Nobody reads fifteen lines that ask for nothing before the table; page and JSON hold each of them."""
    _, out, _ = finetune("gate", opened)
    facts = json.loads(finetune("gate", opened, "--json")[1])
    fine = [found for found in facts["findings"] if found["weight"] == "fine"]
    (line,) = [line for line in out.splitlines() if line.startswith("  fine")]
    page = (opened / "gate.html").read_text("utf-8")

    named = [found["code"] for found in fine if found["code"] != "probe"]  # of which a finding warns here
    assert line == f"  fine    {len(named)} checks, all in gate.html: {', '.join(named)}"
    assert len(fine) > 8
    assert all(escape(found["text"]) in page for found in fine)
    assert fine[0]["text"] not in out


def test_no_check_is_called_fine_that_stands_above_or_saw_nothing(run_dir: Path, finetune: Finetune) -> None:
    """Before anything was read there are no false passes to count, and probes that warn are not fine as a whole."""
    runs.write_samples(run_dir)
    runs.examine(run_dir)
    _, out, _ = finetune("gate", run_dir)
    told = json.loads(finetune("gate", run_dir, "--json")[1])["findings"]
    acting = {found["code"] for found in told if found["weight"] != "fine"}
    (fine,) = [line for line in out.splitlines() if line.startswith("  fine")]
    named = set(fine.partition(": ")[2].split(", "))

    assert any(code.startswith("probe-") for code in acting)
    assert not {"probe", "false-pass", "false-fail"} & named
    assert {"audit", "truncated"} <= named
    assert "  not known yet, nothing to look at: false-pass, false-fail" in out.splitlines()


@pytest.mark.parametrize(
    ("beyond", "words"), [(0, None), (1, "1 more disagreement is"), (2, "2 more disagreements are")]
)
def test_the_disputed_texts_that_are_not_shown_are_counted(
    run_dir: Path, finetune: Finetune, beyond: int, words: str | None
) -> None:
    """One of them is one."""
    samples = runs.write_samples(run_dir)
    runs.examine(run_dir)
    wrong = {f"q{place}/2" for place in range(command.SHOWN_DISAGREEMENTS + beyond)}
    read_by_ada(run_dir, finetune, samples, lambda sample: is_right(sample) and sample.sample_id not in wrong)
    _, out, _ = finetune("gate", run_dir)

    assert [line.strip() for line in out.splitlines() if " more disagreement" in line] == (
        [f"{words} shown in gate.html"] if words else []
    )


@pytest.mark.parametrize(("reader", "code"), [("ada", 0), ("bob", 1)])
def test_a_slip_is_given_again_by_a_table_of_one_row(
    blocked: Path, finetune: Finetune, tmp_path: Path, reader: str, code: int
) -> None:
    """Under the same name its last label stands and the gate alone is asked; another name is a reader who differs."""
    (tmp_path / "labels.csv").write_text("sample_id,verdict\nq3/2,accept\n", "utf-8")
    assert finetune("review", blocked, "--import", tmp_path / "labels.csv", "--reader", reader)[0] == 0
    found, out, _ = finetune("gate", blocked)

    assert found == code
    assert ("next: let the readers settle q3/2: each labels it again" in out) == bool(code)


def test_the_next_action_ends_with_the_verbs_to_run(blocked: Path, finetune: Finetune) -> None:
    """Ready to paste, with this run's name; gate.json names no folder, since a run may be moved."""
    last = finetune("gate", blocked)[1].splitlines()[-1]
    verbs = " && ".join(f"finetune {verb} {blocked}" for verb in ("audit", "score", "probe", "gate"))

    assert last.startswith(f"next: fix the reward: read q3/2; then `{verbs}`. Was the label a slip, give it again: ")
    assert last.endswith(
        f"`finetune review {blocked} --import labels.csv --reader NAME`; then `finetune gate {blocked}` is enough"
    )
    assert f"next: {json.loads(finetune('gate', blocked, '--json')[1])['next_action']}" == last
    assert "finetune gate RUN`" in (blocked / "gate.json").read_text("utf-8")
    assert str(blocked) not in (blocked / "gate.json").read_text("utf-8")
    assert finetune("status", blocked)[1].splitlines()[-1] == last
