"""Words that mix scripts are read as the one that they look like, and no word of one script is touched."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_finetuning import look_alikes, overlap
from llm_finetuning.look_alikes import unmixed

QUESTION = "Which explorer reached the South Pole first, and in what year did he do so?"
DISGUISED = (
    "Whi\u0441h \u0435xplorer r\u0435\u0430ched the S\u043euth Pol\u0435 first, "
    "\u0430nd in wh\u0430t ye\u0430r did he d\u043e so?"
)


@pytest.mark.parametrize(
    ("disguised", "plain"),
    [
        ("\u0430pple", "apple"),
        ("\u0410PPLE", "APPLE"),
        ("\u041d\u0435ll\u03bf", "Hello"),  # two scripts at once, in one word
        ("\u039dewton", "Newton"),
        ("na\u0457ve", "naïve"),
        ("H2\u041e", "H2O"),
        ("\u0445_ax \u0430_b-\u0441d", "\u0445_ax \u0430_b-cd"),  # parts of a name are words of their own
        ("c\u043e\u0431\u0430\u043a\u0430", "\u0441\u043e\u0431\u0430\u043a\u0430"),  # the Latin letter is the stranger
        ("\u03c0\u03b1\u03b9\u03b4o", "\u03c0\u03b1\u03b9\u03b4\u03bf"),
    ],
)
def test_a_word_of_two_scripts_is_read_as_the_one_it_looks_like(disguised: str, plain: str) -> None:
    """In which all of its letters have a twin; whatever script the stranger is of."""
    assert unmixed(disguised) == plain


@pytest.mark.parametrize(
    "text",
    [
        "\u0441\u043e\u0440",  # rubbish, in Russian; every letter looks like a Latin one
        "\u041c\u043e\u0441\u043a\u0432\u0430 \u0438 Python: \u0432\u0435\u0440\u0441\u0438\u044f?",
        "\u0391\u0398\u0397\u039d\u0391 \u03ba\u03b1\u03b9 NATO, \u03c0\u03cc\u03c3\u03bf",
        "\u03b1x + \u03b2y = \u03c1V, 3\u03bcm",  # formulas
        "Android\u0430\u0431 USB-\u043a\u0430\u0431\u0435\u043b\u044c",
        "caf\u00e9 na\u00efve \u4e2d\u6587abc",
    ],
    ids=["Russian", "Russian and English", "Greek and English", "formulas", "truly mixed", "no other script"],
)
def test_what_is_no_disguise_stays(text: str) -> None:
    """A comparison that folded Russian into Latin letters would take two words for one."""
    assert unmixed(text) == text


@given(st.text(st.sampled_from("abcxyzO \u0430\u0441\u0431\u0416\u03bf\u03b1\u041e_-3"), max_size=30))
def test_nothing_but_mixed_words_changes_and_once_is_enough(text: str) -> None:
    """Length and the signs between words stay, and a second reading finds nothing."""
    once = unmixed(text)
    assert len(once) == len(text)
    assert unmixed(once) == once
    for before, after in zip(text, once, strict=True):
        assert before == after or (before.isalpha() and after.isalpha())


def test_each_pair_is_of_two_scripts_and_of_one_case() -> None:
    """A letter in the wrong row of the table would make two words one that do not look alike."""
    for script, letters in (("CYRILLIC", look_alikes._CYRILLIC), ("GREEK", look_alikes._GREEK)):
        assert len(set(letters.values())) == len(letters)
        for own, latin in letters.items():
            assert unicodedata.name(own).split()[0] == script
            assert unicodedata.name(latin).split()[0] == "LATIN"
            assert own.isupper() == latin.isupper()
            assert unicodedata.normalize("NFKC", own) == own


def test_a_leak_behind_look_alike_letters_is_seen() -> None:
    """As the very same text, in either direction; near copies of it are near."""
    plain, hidden = overlap.folded(QUESTION), overlap.folded(DISGUISED)
    assert overlap.across([plain], [hidden]).same == [(0, 0)]
    assert overlap.across([hidden], [plain]).same == [(0, 0)]
    longer = overlap.folded(DISGUISED + " Say it in words.")
    assert overlap.across([plain], [longer]) == overlap.across(
        [plain], [overlap.folded(QUESTION + " Say it in words.")]
    )
    zero_width = DISGUISED.replace("\u0441", "\u200b\u0441\u200b")  # no part of the word mixes scripts
    assert overlap.folded(zero_width) == plain


def test_texts_of_another_script_are_no_copies_of_what_they_look_like() -> None:
    """A Russian word is not the English one of the same shape."""
    assert overlap.folded("\u0441\u043e\u0440") != overlap.folded("cop")
    assert overlap.folded("\u0421\u041e\u0420") == overlap.folded("\u0441\u043e\u0440")
    assert overlap.folded("\u039d\u039f\u03a4\u039f\u03a3") == overlap.folded(
        "\u03bd\u03cc\u03c4\u03bf\u03c3".replace("\u03cc", "\u03bf")
    )
