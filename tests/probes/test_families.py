"""The probes alone tell broken rewards from sound ones: those written beside this test, and the library's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import broken_answers
import broken_documents
import probe_runs
import pytest
import sound_rewards

from llm_finetuning.commands import probe
from llm_finetuning.findings.families import FENCED
from llm_finetuning.probes import trial
from llm_finetuning.sandbox import shared

FILE_OF = {
    name: module.__name__
    for module in (sound_rewards, broken_answers, broken_documents)
    for name, value in vars(module).items()
    if "__" in name and not name.startswith("_") and value.__module__ == module.__name__
}
SOUND = [name for name, file in FILE_OF.items() if file == "sound_rewards"]
BROKEN = [name for name, file in FILE_OF.items() if file != "sound_rewards"]
REPORTS: dict[str, Any] = {}
PROGRAM_LIMIT = 80  # programs are run in processes of their own

LIBRARY = {
    "sums": "- use: exact_answer\n    options: {extract: last_number}",
    "sums overlong": "- use: math_answer\n  - use: soft_overlong\n    options: {soft_punish_cache: 64}",
    "sums length": "- use: math_answer\n    length_penalty: {from_tokens: 20, to_tokens: 120, share: 0.3}",
    "sums repetition": "- use: math_answer\n  - use: repetition_penalty\n    weight: 0.5",
    "boxed": "- use: math_answer\n    options: {extract: boxed}",
    "thinking": "- use: math_answer\n  - use: format_tags\n    weight: 0.3\n"
    "    options: {tags: [think], text_outside: true}",
    "thinking watched": "- use: math_answer\n  - use: exact_answer\n    weight: 0.0",
    "tags": "- use: math_answer\n    options: {extract: answer_tag}\n  - use: format_tags\n    weight: 0.2",
    "choices": "- use: choice_answer",
    "words": "- use: exact_answer\n    options: {extract: final}",
    "documents": "- use: json_schema\n    options: {schema: {type: object, required: [name, age], "
    "properties: {name: {type: string}, age: {type: integer}}}}",
    "calls": "- use: tool_call\n    options: {format: hermes}",
    "programs": "- use: unit_tests\n    options: {partial: true}",
    "solutions": "- use: exact_answer\n    options: {extract: hash_marks}",
    "quantities": "- use: math_answer",
}


@pytest.fixture(autouse=True, scope="module")
def no_pool_is_left() -> Iterator[None]:
    yield
    shared.close_all()


def report_on_file(folder: Path, name: str) -> Any:
    """Return the report on one of these rewards, made once: the fault and its name are asked for by two tests."""
    if name not in REPORTS:
        REPORTS[name] = report_on(folder, name.partition("__")[0], f"- file: {FILE_OF[name]}.py:{name}")
    return REPORTS[name]


def report_on(folder: Path, task: str, rewards: str, *, chat: bool = False) -> Any:
    run_dir = probe_runs.scored_run(folder / "run", task, f"  {rewards}", chat=chat)
    return probe.run(run_dir, limit=PROGRAM_LIMIT if task == "programs" else None)


@pytest.fixture(autouse=True)
def an_endless_call_is_cut_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds would be waited for again and again."""
    monkeypatch.setattr(trial, "CPU_LIMIT_S", 1.0)
    monkeypatch.setattr(trial, "CPU_LIMIT_AGAIN_S", 0.1)


@pytest.mark.parametrize("name", BROKEN)
def test_broken_rewards_are_blocked(name: str, tmp_path: Path) -> None:
    """Each of these faults is found without a label, and something to do about it is said."""
    report = report_on_file(tmp_path, name)
    assert report.verdict == "blocked"
    assert all(finding.next_action for finding in report.findings if finding.weight == "blocks")


@pytest.mark.parametrize("name", SOUND)
def test_sound_rewards_hold(name: str, tmp_path: Path) -> None:
    """Nothing blocks a reward that pays right answers and no others, strict, partial, negative or length-minded."""
    report = report_on_file(tmp_path, name)
    assert report.verdict == "held", [finding.text for finding in report.findings if finding.weight == "blocks"]


@pytest.mark.parametrize("chat", [False, True], ids=["text", "chat"])
@pytest.mark.parametrize("name", LIBRARY)
def test_library_rewards_hold(name: str, tmp_path: Path, chat: bool) -> None:
    """The library holds under its own attacks, alone and composed, in both of TRL's forms."""
    report = report_on(tmp_path, name.partition(" ")[0], LIBRARY[name], chat=chat)
    assert report.verdict == "held", [finding.text for finding in report.findings if finding.weight == "blocks"]


CODES = {
    "sums__extra_value": "reward-unstable",
    "sums__raises_without_number": "reward-raises",
    "sums__remembers": "reward-unstable",
    "sums__nan": "reward-nan",
    "sums__silence_beats_failure": "exploit-do-nothing",
    "sums__commas_refused": "variant-notation",
    "sums__evaluates": "exploit-evaluation",
    "sums__score_in_text": "exploit-injection",
    "boxed__falls_back_to_earlier": "exploit-truncation",
    "boxed__unparseable_pays": "gold-unpaid",
    "tags__no_newlines": "variant-spacing",
    "tags__format_only": "format-only",
    "thinking__reads_inside": "exploit-reasoning-only",
    "choices__article": "exploit-choice-words",
    "words__case": "variant-notation",
    "documents__string": "exploit-json-shapes",
    "documents__fence_refused": "variant-json-layout",
    "documents__lists_as_sets": "exploit-json-values",
    "calls__any_call": "exploit-tool-calls",
    "programs__in_process": "reward-raises",
    "quantities__unit_ignored": "exploit-near-miss",
    "sums__length": "exploit-padding",
    "sums__one_or_none": "reward-abstains",
    "documents__silence": "reward-abstains",
}


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_the_finding_names_the_fault(name: str, code: str, tmp_path: Path) -> None:
    """The fault is blocked by the family that is about it, not by chance."""
    report = report_on_file(tmp_path, name)
    assert code in {finding.code for finding in report.findings if finding.weight == "blocks"}


def test_a_silence_is_refused_like_a_zero(tmp_path: Path) -> None:
    """None where the document does not parse is told as 0 is: the same forms refused, and the silence besides."""
    zero, none = (report_on_file(tmp_path / name, f"documents__{name}") for name in ("fence_refused", "silence"))
    refused = [
        {one.code: one.rate for one in report.findings if one.code.startswith("variant-") and one.weight != "fine"}
        for report in (zero, none)
    ]

    assert refused[0] == refused[1]
    assert "variant-json-layout" in refused[0]
    assert "reward-abstains" not in {one.code for one in zero.findings}


def test_a_reward_of_one_or_none_blames_no_row(tmp_path: Path) -> None:
    """It scores every gold; what it lacks is a 0, and nothing is said of rows to mend."""
    report = report_on_file(tmp_path, "sums__one_or_none")
    found = {one.code: one for one in report.findings if one.weight != "fine"}

    assert set(found) == {"reward-abstains"}
    assert "a wrong answer in the form that is paid" in found["reward-abstains"].text
    assert "nothing at all" in found["reward-abstains"].text


@pytest.mark.parametrize(
    ("task", "verdict", "says"),
    [
        ("documents", "blocked", "; or ask in the prompt for bare JSON and nothing else: then a fence only warns"),
        ("bare documents", "held", ""),
    ],
)
def test_a_refused_fence_is_counted_once_and_the_prompt_may_forbid_it(
    task: str, verdict: str, says: str, tmp_path: Path
) -> None:
    """One family holds it against the reward, and what its action says of the prompt is true."""
    report = report_on(tmp_path, task, f"- file: {FILE_OF['documents__fence_refused']}.py:documents__fence_refused")
    fenced = [one.probe for one in report.results if str(one.probe.completion).startswith("```json\n{")]
    refused = {one.code for one in report.findings if set(one.sample_ids) & {probe.probe_id for probe in fenced}}
    found = next(one for one in report.findings if one.code == "variant-json-layout" and one.weight != "fine")

    assert refused == {"variant-json-layout"}
    assert {probe.about for probe in fenced if probe.kind == "variant"} == {FENCED}
    assert report.verdict == verdict
    assert f"{FENCED} (8)" in str(found.next_action)
    assert str(found.next_action).endswith(says)
    assert ("ask in the prompt" in str(found.next_action)) == bool(says)
