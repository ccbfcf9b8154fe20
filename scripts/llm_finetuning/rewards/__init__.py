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
}
