"""Writes the skill's table of methods from the routing table.

python tests/references/method_reference.py
"""

from memory_reference import ROOT, _head, _prose, _row  # it also finds the package

from llm_finetuning.stages.route import OUTCOMES, QUESTIONS, RULES, Rule

PAGE = ROOT / "skills" / "finetuning-method-selection" / "references" / "method-table.md"

HEAD = """
Read this when a person asks why `finetune route` answered as it did, or wants the whole tree at once. It is the tree
(`python tests/references/method_reference.py` writes this page, and a test compares it). To decide, call the command:
it asks only what still matters, and says what would change its answer.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


def page() -> str:
    """Return the page as the table has it now."""
    return "\n".join(
        part.rstrip() + "\n" for part in ("# How a method is chosen", _prose(HEAD), rules(), outcomes(), questions())
    )


def rules() -> str:
    """List the rules in their order."""
    lines = ["## The rules", "", "From the top; the first line that holds decides.", ""]
    lines += _head(["where", "then", "because"])
    lines += [_row([_condition(rule), f"`{rule.outcome}`", rule.because]) for rule in RULES]
    return "\n".join(lines)


def _condition(rule: Rule) -> str:
    return " and ".join(f"{key} is {' or '.join(f'`{one}`' for one in values)}" for key, values in rule.when.items())


def outcomes() -> str:
    """List methods and ways out."""
    lines = ["## Methods and ways out", "", *_head(["answer", "what it is", "know", "then"])]
    for outcome in OUTCOMES.values():
        then = f"`{outcome.next_command}`" if outcome.kind == "method" else outcome.next_action
        lines.append(_row([f"`{outcome.name}`", f"{outcome.kind}: {outcome.title}", outcome.note, then]))
    return "\n".join(lines)


def questions() -> str:
    """List the questions with every answer."""
    lines = ["## The questions", "", *_head(["key", "question", "answers"])]
    for question in QUESTIONS:
        values = [f"`{value}`" + (f" ({words})" if words else "") for value, words in question.values.items()]
        lines.append(_row([f"`{question.key}`", question.asks, "; ".join(values)]))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
