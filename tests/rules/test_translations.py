"""The README in other languages says what README.md says: a change of one that misses the others is noticed."""

import re
from collections import Counter
from pathlib import Path

import pytest

from llm_finetuning.cli import VERBS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
TRANSLATIONS = sorted(ROOT.glob("README.*.md"))
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def name(path: Path) -> str:
    return path.name


def prose(text: str) -> str:
    """Return a text without its code blocks."""
    return FENCED.sub("", text)


def outline(text: str) -> list[str]:
    """Return what follows on what: headings with their level, paragraphs, lists with their length, tables, blocks."""
    kinds = []
    for block in re.split(r"\n{2,}", FENCED.sub("\n\nBLOCK\n\n", text).strip()):
        if heading := re.match(r"#+ ", block):
            kinds.append(heading[0].strip())
        elif items := re.findall(r"^(?:-|\d+\.) ", block, re.MULTILINE):
            kinds.append(f"list of {len(items)}")
        elif block.startswith(("|", "![")):
            kinds.append("table" if block[0] == "|" else "image")
        else:
            kinds.append("block" if block == "BLOCK" else "paragraph")
    return kinds


def code_spans(text: str) -> Counter[str]:
    return Counter(" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(text)))


def targets(text: str) -> Counter[str]:
    return Counter(re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", prose(text)))


def verb_rows(text: str) -> list[tuple[str, list[str]]]:
    """Return each row of the table of verbs: the verb, and the files and options that its cells name."""
    rows = re.findall(r"^\| (`\w+`) \|(.*)\|$", text, re.MULTILINE)
    return [(verb, [" ".join(re.findall(r"`[^`]+`", cell)) for cell in cells.split("|")]) for verb, cells in rows]


def figures(text: str) -> set[str]:
    """Return the numbers of two digits and more, which are written alike in every language."""
    words = re.sub(r"`[^`]+`|\([^)\s]+\)", "", prose(text))
    return {found for found in re.findall(r"\d+(?:\.\d+)*", words) if len(found) > 1}


def test_both_translations_are_there() -> None:
    """Traditional Chinese and Japanese."""
    assert [path.name for path in TRANSLATIONS] == ["README.ja.md", "README.zh-TW.md"]


@pytest.mark.parametrize("path", TRANSLATIONS, ids=name)
def test_a_translation_is_built_as_the_readme(path: Path) -> None:
    """Heading for heading, paragraph for paragraph, item for item."""
    assert outline(path.read_text("utf-8")) == outline(README)


@pytest.mark.parametrize("path", TRANSLATIONS, ids=name)
def test_code_is_not_translated(path: Path) -> None:
    """Blocks are the same to the letter and in the same order; so are commands and names within the text."""
    text = path.read_text("utf-8")
    assert FENCED.findall(text) == FENCED.findall(README)
    assert code_spans(text) == code_spans(README)


@pytest.mark.parametrize("path", TRANSLATIONS, ids=name)
def test_links_and_images_are_the_same(path: Path) -> None:
    """Nothing is linked or shown in one language alone."""
    assert targets(path.read_text("utf-8")) == targets(README)


@pytest.mark.parametrize("path", TRANSLATIONS, ids=name)
def test_each_verb_has_its_row(path: Path) -> None:
    """In the order of the road, with the files that it reads and writes."""
    rows = verb_rows(path.read_text("utf-8"))
    assert [verb for verb, _ in rows] == [f"`{verb}`" for verb in VERBS]
    assert rows == verb_rows(README)


@pytest.mark.parametrize("path", TRANSLATIONS, ids=name)
def test_figures_are_the_same(path: Path) -> None:
    """A number that was measured anew is changed in every language."""
    assert figures(README) - figures(path.read_text("utf-8")) == set()


@pytest.mark.parametrize("path", [ROOT / "README.md", *TRANSLATIONS], ids=name)
def test_languages_stand_at_the_top(path: Path) -> None:
    """The first line after the title leads to every language, this one among them."""
    top = path.read_text("utf-8").split("\n\n")[1]
    assert re.findall(r"\]\(([^)]+)\)", top) == ["README.md", "README.zh-TW.md", "README.ja.md"]
