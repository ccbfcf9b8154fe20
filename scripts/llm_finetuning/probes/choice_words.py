"""Words that begin with, or are, the letter of the right option: `a good pick`, `Because ...`."""

from collections.abc import Iterator

from llm_finetuning.probes import golds
from llm_finetuning.probes.case import Attempt, Case

_BEGINNINGS = {
    "A": "All things considered",
    "B": "Because of the question",
    "C": "Clearly",
    "D": "Doubtless",
    "E": "Evidently",
    "F": "Finally",
    "G": "Given all this",
    "H": "Hence",
    "I": "In short",
    "J": "Just as asked",
}


def attempts(case: Case) -> Iterator[Attempt]:
    """Yield wrong choices whose words hold the right letter, and words alone."""
    if case.gold.kind != "choice" or not case.prompt.wrong:
        return
    letter, wrong = golds.letter(case.gold), case.write(case.other)
    words = _BEGINNINGS[letter]
    yield Attempt(text=words + ".", about=f"a word that begins with {letter}")
    yield Attempt(text=f"{words}, I do not know which one", about=f"words that begin with {letter}, and no choice")
    yield Attempt(text=f"{words}: {wrong}", about=f"a word that begins with {letter}, then a wrong choice")
    if letter == "A":
        yield Attempt(text=f"I think a good pick is {case.other}", about="the article before a wrong choice")
        yield Attempt(text="I need a moment to think about it", about="the article, and no choice")
    if letter == "I":
        yield Attempt(text=f"I think it is {case.other}", about="the pronoun before a wrong choice")
    rest = "/".join(case.letters[:5])
    if letter in case.letters[:5]:
        yield Attempt(text=case.write(rest), about="all options at once", control=case.right)
