"""The reward library: one readable table, name -> where it is and what it pays for."""

from collections.abc import Mapping

LIBRARY: Mapping[str, tuple[str, str, str]] = {
    "exact_answer": (
        "llm_finetuning.rewards.exact_answer",
        "ExactAnswer",
        "the one final answer equals the gold, as an exact number or as text",
    ),
    "choice_answer": (
        "llm_finetuning.rewards.choice_answer",
        "ChoiceAnswer",
        "the one option that is named is the gold's, by letter or by its text",
    ),
    "math_answer": (
        "llm_finetuning.rewards.math_answer",
        "MathAnswer",
        "the one final answer equals the gold as mathematics: numbers, expressions, sets, intervals, matrices, units",
    ),
    "json_schema": (
        "llm_finetuning.rewards.json_schema",
        "JsonSchema",
        "the final text is one strict JSON document that the row's or the brief's JSON Schema accepts",
    ),
    "tool_call": (
        "llm_finetuning.rewards.tool_call",
        "ToolCall",
        "the calls of tools are the gold's, all and no other, in a wire format that a server parses",
    ),
    "unit_tests": (
        "llm_finetuning.rewards.unit_tests",
        "UnitTests",
        "the program in the completion passes the row's tests, run in the sandbox",
    ),
    "rubric_judge": (
        "llm_finetuning.rewards.rubric_judge",
        "RubricJudge",
        "another model, measured against people's labels, says that the completion meets a rubric",
    ),
    "format_tags": (
        "llm_finetuning.rewards.format_tags",
        "FormatTags",
        "the wanted elements stand once each, in order, closed, with content, and nothing else does",
    ),
    "format_pattern": (
        "llm_finetuning.rewards.format_pattern",
        "FormatPattern",
        "the whole final text matches a regular expression, in linear time",
    ),
    "soft_overlong": (
        "llm_finetuning.rewards.soft_overlong",
        "SoftOverlong",
        "takes up to 1 from completions that come near the length limit, as in DAPO",
    ),
    "repetition_penalty": (
        "llm_finetuning.rewards.repetition_penalty",
        "RepetitionPenalty",
        "takes for the share of token n-grams that repeat an earlier one",
    ),
}
