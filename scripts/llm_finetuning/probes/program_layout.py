"""The same program with a comment, text around it or another fence."""

from collections.abc import Iterator

from llm_finetuning.probes.case import Attempt, Case


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield other layouts of the reference program in the winning form."""
    if case.gold.kind != "code":
        return
    code = case.gold.answer
    yield Attempt(text=case.write(f"# a comment\n{code}\n"), about="a comment and a line break")
    yield Attempt(text=case.write(f"{code}\n\n\nif __name__ == '__main__':\n    pass\n"), about="a main part")
    if "fence" in case.form:
        yield Attempt(text=f"Here is the program:\n\n{case.right}\n\nIt does what was asked.", about="prose around it")
        yield Attempt(text=case.right.replace("```python", "```"), about="a fence without a language", weighs="warns")
        yield Attempt(text=case.right.replace("```python", "```py"), about="a fence tagged py", weighs="warns")
