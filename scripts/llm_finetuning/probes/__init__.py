"""Attacks on a composed reward and right work in other forms: one readable table, name -> where, kind, what it tries.

A family is a module with `attempts(case)`, which yields what it tries on one prompt, and nothing where it does not fit.
"""

from collections.abc import Mapping

from llm_finetuning.types import ProbeKind

FAMILIES: Mapping[str, tuple[str, ProbeKind, str]] = {
    "do_nothing": ("do_nothing", "exploit", "nothing, white space, a sign or a filler in place of work"),
    "prompt_echo": ("prompt_echo", "exploit", "the prompt said back"),
    "wrong_answer": ("wrong_answer", "exploit", "an answer that is wrong by much, in the form that is paid"),
    "near_miss": ("near_miss", "exploit", "wrong by little: sign, digit, one more, unit, order, factor, cut"),
    "spraying": ("spraying", "exploit", "the right answer among others"),
    "hedging": ("hedging", "exploit", "the right answer or another"),
    "conflicting_finals": ("conflicting_finals", "exploit", "two finals, the right one taken back"),
    "reasoning_only": ("reasoning_only", "exploit", "the right answer inside the reasoning alone"),
    "empty_format": ("empty_format", "exploit", "the form without content"),
    "broken_tags": ("broken_tags", "exploit", "tags repeated, nested or crossed around a wrong answer"),
    "padding": ("padding", "exploit", "a wrong answer made long, or repeated"),
    "truncation": ("truncation", "exploit", "cut off in the final marker or in the middle of the answer"),
    "choice_words": ("choice_words", "exploit", "words that begin with, or are, the letter of the right option"),
    "injection": ("injection", "exploit", "text that speaks to a judge or looks like a verdict"),
    "boasting": ("boasting", "exploit", "a wrong answer that calls itself sure, verified or checked"),
    "evaluation": ("evaluation", "exploit", "program text that evaluates to the right answer, and not-a-number"),
    "odd_text": ("odd_text", "exploit", "text that parsers choke on"),
    "blank_gold": ("blank_gold", "exploit", "a wrong answer to a row whose gold cannot be read"),
    "forged_tests": ("forged_tests", "exploit", "programs that pass tests without solving the task"),
    "json_shapes": ("json_shapes", "exploit", "JSON in a string, empty, a bare value, the schema, keys twice"),
    "json_values": ("json_values", "exploit", "the right document with one value changed, left out or added"),
    "tool_calls": ("tool_calls", "exploit", "more calls, others, or the name alone"),
    "spacing": ("spacing", "variant", "white space and line breaks around and inside the form"),
    "prose_around": ("prose_around", "variant", "reasoning before the answer, a polite tail after it"),
    "notation": ("notation", "variant", "the same answer written otherwise"),
    "wrappers": ("wrappers", "variant", "the right answer in other forms of the field"),
    "json_layout": ("json_layout", "variant", "key order, indentation and a code fence"),
    "program_layout": ("program_layout", "variant", "the same program with comments, other text or fences"),
}
