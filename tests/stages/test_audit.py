"""The audit's own judgements: rows in, findings out; and the search for prompts that are alike."""

import dataclasses
import itertools
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_finetuning import overlap
from llm_finetuning.stages import audit as stage
from llm_finetuning.stages import audit_tokens
from llm_finetuning.types import AuditReport, Row

BATCH = stage.Batch(words="one generation batch takes 8 prompts")
FACTS: dict[str, Any] = {
    "has_chat_template": True,
    "opened_thoughts": {},
    "doubled_start_rows": [],
    "rows_without_start": [],
    "tokenizer_adds_start": True,
    "start_token": "<s>",
    "no_pad_token": False,
    "pad_token_id": 0,
    "end_ids": [2],
    "end_tokens": ["</s>"],
    "tokenizer_end_ids": [2],
    "generation_config_end_ids": [2],
    "empty_rows": [],
    "turn_end": None,
    "trl_version": "1.16.0",
}


def row(number: int, prompt: Any, answer: Any, prompt_id: str | None = None) -> Row:
    return Row(row=number, prompt_id=prompt_id or str(number), prompt=prompt, columns={"answer": answer})


def rows(*pairs: tuple[Any, Any]) -> list[Row]:
    return [row(number, prompt, answer) for number, (prompt, answer) in enumerate(pairs, 1)]


def sums(count: int) -> list[Row]:
    return rows(*((f"add {n} to {n}", str(2 * n)) for n in range(count)))


def judge(found: list[Row], **given_facts: Any) -> AuditReport:
    """Audit rows that are sound but for what the test changes."""
    facts: dict[str, Any] = {
        "gold_column": "answer",
        "golds": stage.GoldReading(tried=len(found)),
        "overlap": stage.Overlap(),
        "columns": stage.Columns(needed=("answer",)),
        "batch": None,
        "ready_action": "go on",
    }
    return stage.audit(found, **{**facts, **given_facts})


def faults(report: AuditReport) -> dict[str, tuple[str, list[int]]]:
    return {one.code: (one.weight, one.data_rows) for one in report.findings if one.weight != "fine"}


def test_sound_rows_have_no_fault() -> None:
    """Nothing is found where nothing is wrong, and the road goes on."""
    report = judge(sums(9), batch=BATCH)

    assert ({}, "go on") == (faults(report), report.next_action)
    assert {"gold-empty", "gold-unpaid", "prompt-repeated", "too-few-rows"} == {one.code for one in report.findings}


def test_an_empty_gold_column_is_told_before_anything_is_sampled() -> None:
    """Eight of eight golds empty, with their rows (B2)."""
    report = judge(rows(*((f"p{n}", gold) for n, gold in enumerate(["", " ", None, float("nan"), "", "\n", None, ""]))))

    assert ("blocks", list(range(1, 9))) == faults(report)["gold-empty"]
    assert "8/8 golds empty in column `answer` (rows 1-8)" == report.findings[0].text
    assert "fill column `answer` or take these rows out; then `finetune audit RUN`" == report.next_action


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (rows(("a b", "1"), ("a  b", "2"), ("c", "3")), {"gold-contradicts": ("blocks", [1, 2])}),
        (rows(("a b", "0.5"), ("a b", "1/2"), ("c", "3")), {}),
        (rows(("a b", "1,200"), ("a b", 1200), ("c", "3")), {}),
        (rows(("a b", "so 3 #### 4"), ("a b", "4"), ("c", "3")), {}),
        (rows(("say A", "A"), ("say a", "b"), ("c", "3")), {}),
        (rows(("a", ""), ("a", "2"), ("c", "3")), {"gold-empty": ("blocks", [1])}),
        (
            [row(1, "a", "1", "x"), row(2, "b", "2", "x"), row(3, "c", "3")],
            {"id-contradicts": ("blocks", [1, 2])},
        ),
        ([row(1, "a", "1", "x"), row(2, "b", "1", "x"), row(3, "c", "3")], {"id-repeated": ("blocks", [1, 2])}),
        (rows(("a", "7"), ("b", "7.0"), ("c", " 7 ")), {"gold-constant": ("warns", [])}),
        (rows(("a", "7"), ("b", "7")), {}),
        (
            rows(("1+1? Answer: 2", "2"), ("Is the answer 3 or 4?", "4"), ("x = 5", "5")),
            {"gold-in-prompt": ("warns", [1])},
        ),
        (rows(("It is 12. The answer is 12.", "2"), ("b", "3"), ("c", "#### 4")), {}),
        (rows(("What? #### 9", "So #### 9"), ("b", "3"), ("c", "4")), {"gold-in-prompt": ("warns", [1])}),
        (
            rows(("Q. ANSWER:\n PARIS! ", "Paris"), ("So the result is (3.).", "3."), ("The answer is 4", "14")),
            {"gold-in-prompt": ("warns", [1])},
        ),
        (
            rows(("Wow. The answer is x!", "x!"), ("Answer: 2!!", "2"), ("Answer:", "#### ")),
            {"gold-in-prompt": ("warns", [1])},
        ),
    ],
    ids=[
        "contradict but for space",
        "equal fractions",
        "equal with comma",
        "worked solution",
        "case is another prompt",
        "empty is no contradiction",
        "one id, two golds",
        "one id twice",
        "all the same number",
        "two rows are no proof",
        "told after a marker",
        "ends with a longer number",
        "told as in GSM8K",
        "told in capitals, with space and a mark behind",
        "its own mark, two marks, nothing told",
    ],
)
def test_golds_and_ids(found: list[Row], expected: dict[str, tuple[str, list[int]]]) -> None:
    """What contradicts itself blocks, what only looks like it does not."""
    assert expected == faults(judge(found))


@pytest.mark.parametrize(
    ("golds", "expected"),
    [
        (stage.GoldReading(tried=8), {}),
        (
            stage.GoldReading(tried=7, unreadable={"`math_answer`: gold_unreadable": [3]}),
            {"gold-unreadable": ("blocks", [3])},
        ),
        (stage.GoldReading(tried=9, unscored=[4]), {"gold-unscored": ("blocks", [4])}),
        (stage.GoldReading(tried=9, unpaid=[5], forms_known=False), {"gold-unpaid": ("blocks", [5])}),
        (stage.GoldReading(tried=2, unpaid=[1, 2], forms_known=False), {"gold-unpaid": ("warns", [1, 2])}),
        (stage.GoldReading(tried=2, unpaid=[1, 2]), {"gold-unpaid": ("blocks", [1, 2])}),
        (stage.GoldReading(tried=0, raised={"`mine`: KeyError: x": [1]}), {"reward-raises": ("blocks", [1])}),
    ],
    ids=["all paid", "unreadable", "unscored", "one unpaid", "form unknown", "all unpaid", "raises"],
)
def test_what_rewards_made_of_golds(golds: Any, expected: dict[str, tuple[str, list[int]]]) -> None:
    """A gold that earns nothing blocks; where no gold is paid, a reward of one's own may want another form."""
    assert expected == faults(judge(sums(9), golds=golds))


def test_a_batch_that_trl_refuses_blocks_with_its_mend() -> None:
    """Batch and rows that do not fit are told apart, and the mend is the next action."""
    for code in ("batch-options", "too-few-rows"):
        report = judge(sums(9), batch=dataclasses.replace(BATCH, refused=(code, "9 rows are too few", "add rows")))

        assert {code: ("blocks", [])} == faults(report)
        assert ("9 rows are too few", "add rows; then `finetune audit RUN`") == (
            report.findings[0].text,
            report.next_action,
        )


@pytest.mark.parametrize(
    ("columns", "code", "weight"),
    [
        (stage.Columns(faults=[("column", None, "d: column `log_extra`: x; rename it")]), "column-reserved", "blocks"),
        (stage.Columns(faults=[("prompt", 2, "d:2: an empty prompt; fill it")]), "prompt-unusable", "blocks"),
        (stage.Columns(pictures=["image"]), "column-pictures", "blocks"),
        (stage.Columns(dropped=True, needed=["answer"]), "columns-dropped", "blocks"),
        (stage.Columns(dropped=True), None, None),
        (stage.Columns(changed={"day": ("x", [1])}), "column-changed", "warns"),
        (stage.Columns(changed={"day": ("x", [1])}, needed=["day"]), "column-changed", "blocks"),
        (stage.Columns(changed={"prompt": ("x", [1])}), "column-changed", "blocks"),
        (stage.Columns(typed={"n": "x"}), "column-typed", "warns"),
        (stage.Columns(padded={"schema": ["a"]}), "column-padded", "warns"),
        (stage.Columns(padded={"schema": ["a"]}, needed=["schema"]), "column-padded", "blocks"),
        (stage.Columns(left_out={"picture": "bytes"}), "column-left-out", "warns"),
    ],
)
def test_columns(columns: Any, code: str | None, weight: str | None) -> None:
    """What a reward reads and does not get blocks; what nobody reads is told."""
    found = faults(judge(sums(9), columns=columns))

    assert ({} if code is None else {code: weight}) == {name: one[0] for name, one in found.items()}


def test_leaked_rows_block_and_repeated_ones_warn() -> None:
    """Training rows that stand in the evaluation are named; pairs are counted by held-out row."""
    alike = stage.Overlap(
        same=[[1, 4]], near=[[2, 3]], leaked=[(5, 1), (6, 1)], nearly_leaked=[(7, 2)], held_out=3, complete=False
    )

    report = judge(sums(9), overlap=alike)

    assert {
        "held-out-leaked": ("blocks", [5, 6]),
        "held-out-near": ("blocks", [7]),
        "prompt-repeated": ("warns", [1, 4]),
        "prompt-near": ("warns", [2, 3]),
        "overlap-incomplete": ("warns", []),
    } == faults(report)
    assert report.findings[0].text.startswith("1/3 held-out prompts stand in the training data")


def token_faults(**change: Any) -> dict[str, str]:
    facts = {**FACTS, **{key: value for key, value in change.items() if key in FACTS}}
    own = {key: value for key, value in change.items() if key not in FACTS}
    plain: dict[str, Any] = {"counts": {1: 5, 2: 12}, "refused": {}, "chat": True, "cap": 4, "window": 16}
    found = audit_tokens.findings(audit_tokens.Tokens(facts=facts, **{**plain, **own}))
    return {one.code: one.weight for one in found if one.weight != "fine"}


SECOND = {"end_ids": [2, 3], "end_tokens": ["</s>", "<end>"], "generation_config_end_ids": [2, 3]}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, {}),
        ({"counts": {1: 13}}, {"prompt-too-long": "blocks"}),
        ({"window": None}, {"prompt-too-long": "warns"}),
        ({"refused": {3: "no"}}, {"template-refuses": "blocks"}),
        ({"empty_rows": [1]}, {"prompt-without-tokens": "blocks"}),
        ({"ends_with_assistant": [1]}, {"ends-with-assistant": "warns"}),
        ({"opened_thoughts": {"<think>": [1, 2]}}, {}),
        ({"opened_thoughts": {"<think>": [1]}}, {"thought-opened": "warns"}),
        ({"opened_thoughts": {"<think>": [1]}, "wants_open": ["r"]}, {"thought-opened": "blocks"}),
        ({"promised_open": ["r"]}, {"thought-not-opened": "blocks"}),
        ({"opened_thoughts": {"<think>": [1, 2]}, "promised_open": ["r"]}, {}),
        ({"rows_without_start": [1]}, {"start-missing": "warns"}),
        ({"rows_without_start": [1], "tokenizer_adds_start": False}, {}),
        (SECOND, {}),
        ({**SECOND, "trl_version": None}, {}),
        ({**SECOND, "trl_version": "1.9.0"}, {"end-second": "warns"}),
        ({**SECOND, "trl_version": "0.30.0.dev0", "masks_truncated": True}, {"end-second": "blocks"}),
        ({"end_ids": []}, {"end-unknown": "blocks"}),
        ({"turn_end": {"token": "x", "ends": False}}, {"turn-end-unknown": "warns"}),
        ({"turn_end": {"token": "x", "ends": True}}, {}),
    ],
)
def test_tokens(change: dict[str, Any], expected: dict[str, str]) -> None:
    """Each thing that template and tokenizer do, alone."""
    assert expected == token_faults(**change)


def test_spread_is_of_counts_that_are_there() -> None:
    """The 95th percentile is the smallest count that 95 of 100 do not exceed."""
    assert {"min": 1, "median": 50, "p95": 95, "max": 100} == audit_tokens.spread(list(range(100, 0, -1)))
    assert audit_tokens.spread([]) is None


def test_rows_in_words_are_short() -> None:
    """Runs are joined and a long list is counted."""
    assert "rows 1-3, 7" == stage.rows_in_words([7, 1, 3, 2, 2])
    assert "row 5" == stage.rows_in_words([5])
    assert "rows 2, 4, 6, 8, 10, 12, 14, 16 and 2 more" == stage.rows_in_words(list(range(2, 21, 2)))


def test_every_finding_is_explained() -> None:
    """The codes in the reference are those in the code."""
    root = Path(__file__).resolve().parents[2]
    text = (root / "skills/grpo-rlvr-training/references/audit-findings.md").read_text("utf-8")
    sources = [Path(stage.__file__), Path(audit_tokens.__file__), root / "scripts/llm_finetuning/commands/audit.py"]
    source = "\n".join(path.read_text("utf-8") for path in sources)
    codes = set(re.findall(r'(?:code=|_found\(\s*|\(\s*)"([a-z]+(?:-[a-z]+)+)"', source))
    codes |= {"prompt-unusable", "id-empty", "prompt-forms", "column-reserved", "batch-options"}
    assert codes == set(re.findall(r"^\| `([a-z-]+)`", text, re.MULTILINE))


def brute_near(texts: list[str]) -> set[tuple[int, int]]:
    """Return the near pairs of texts without a template by comparing all, from the definition alone."""
    sets = []
    for text in texts:
        words = text.split()
        sets.append({tuple(words[place : place + 3]) for place in range(len(words) - 2)})
    often = {shingle: sum(shingle in own for own in sets) for own in sets for shingle in own}
    most = max(3, 0.05 * len(texts))
    sets = [{shingle for shingle in own if often[shingle] <= most} for own in sets]
    return {
        (one, other)
        for one, other in itertools.combinations(range(len(sets)), 2)
        if sets[one] & sets[other] and len(sets[one] & sets[other]) * 5 >= len(sets[one] | sets[other]) * 4
    }


@settings(deadline=None)  # the first call loads numpy
@given(st.integers(0, 10**6))
def test_near_duplicates_are_those_of_a_full_comparison(seed: int) -> None:
    """No pair is missed and none is made up, in either search."""
    rng = random.Random(seed)
    base = [[rng.choice("abcdefgh") * rng.randrange(1, 4) for _ in range(rng.randrange(3, 40))] for _ in range(12)]
    for words in list(base):
        copy = list(words)
        for _ in range(rng.randrange(1, 3)):
            copy[rng.randrange(len(copy))] = "other"
        base.append(copy)
    texts = list(dict.fromkeys(" ".join(words) for words in base))
    pairs = brute_near(texts)
    joined = {frozenset(group) for group in overlap.near(texts).groups}
    merged = [{one} for one in range(len(texts))]
    for one, other in pairs:
        both = next(group for group in merged if one in group) | next(group for group in merged if other in group)
        merged = [group for group in merged if not group & both] + [both]

    assert {frozenset(group) for group in merged if len(group) > 1} == joined
    across, complete = overlap.near_across(texts[:10], texts[10:])
    expected = {one for one, other in pairs if one < 10 <= other}
    assert (expected, True) == ({one for one, _ in across}, complete)
    assert all((one, other + 10) in pairs for one, other in across)


def test_a_shared_template_makes_no_near_duplicates() -> None:
    """Sums in one long instruction are different prompts; a reworded copy is not."""
    head = "you are a careful assistant who thinks step by step and then writes the result into a box the problem is"
    story = "a farmer has {} hens and {} ducks on the hill by the river and sells three of them at the market today"
    texts = [f"{head} add {n} to {n * n} and say the result" for n in range(40)]
    texts += [f"{head} {story.format(5, 6)} how many are left", f"{head} {story.format(5, 6)} how many does he keep"]

    assert [[40, 41]] == overlap.near(texts).groups


def test_signs_tell_questions_apart_and_case_and_space_do_not() -> None:
    """Sum and product of the same numbers are two questions."""
    assert overlap.folded("What  IS\n2?") == overlap.folded("what is 2?")
    assert overlap.folded("what\u200b is\ufeff \uff12?") == overlap.folded("what is 2?")
    one, other = (f"compute the value of 12 {sign} 34 {sign} 56 {sign} 78 for me" for sign in "+*")
    assert [] == overlap.near([one, other]).groups
    assert [[0, 2]] == overlap.same(["a", "b", "a"])


def test_four_shingles_of_five_are_enough() -> None:
    """The bound itself is near, whichever of the two is the longer; three of four are not."""
    four, five, three = "a b c d e f", "a b c d e f g", "a b c d e"
    assert [[0, 1]] == overlap.near([four, five]).groups
    assert ([(0, 0)], [(0, 0)]) == (overlap.near_across([four], [five])[0], overlap.near_across([five], [four])[0])
    assert [] == overlap.near([three, four]).groups


def test_too_many_candidates_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost has an end, and the report says that not all was compared."""
    texts = [f"{' '.join(f'w{n}' for n in range(30))} {last}" for last in ("one", "two", "three")]
    assert [[0, 1, 2]] == overlap.near(texts).groups
    monkeypatch.setattr(overlap, "MAX_CANDIDATES", 1)

    assert not overlap.near(texts).complete
    assert not overlap.near_across([texts[0], texts[1]], [texts[2]])[1]
