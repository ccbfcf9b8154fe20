"""What nobody sees is one list, and whatever shows, compares or judges texts goes by it."""

import json
import re
import unicodedata

import pytest

from llm_finetuning import console, overlap
from llm_finetuning.rewards.invisible import INVISIBLE
from llm_finetuning.rewards.judges import prompt

LISTED = [character for character in map(chr, range(0x110000)) if re.fullmatch(f"[{INVISIBLE}]", character)]
OF_ONE_SCRIPT = ("ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN", "SHORTHAND", "MUSICAL")
"""Format characters that are drawn, or that the spelling of one script needs."""


def test_every_format_character_of_plain_text_is_in_the_list() -> None:
    """And nothing that has a form of its own: what is listed is a format character, a selector or not yet assigned."""
    missing = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cf"} - set(LISTED)
    assert all(unicodedata.name(character).startswith(OF_ONE_SCRIPT) for character in missing)
    assert {unicodedata.category(character) for character in LISTED} == {"Cf", "Cn", "Mn"}
    of_marks = [character for character in LISTED if unicodedata.category(character) == "Mn"]
    assert all(unicodedata.name(character).startswith("VARIATION SELECTOR-") for character in of_marks)


def test_all_that_goes_by_the_list_knows_each_of_them() -> None:
    """A terminal shows it, a comparison passes it over, a judge sees its number."""
    text = "".join(LISTED)
    assert console.visible(f"4{text}2") == "4" + "".join(f"<U+{ord(one):04X}>" for one in LISTED) + "2"
    assert overlap.folded(f"4{text}2") == "42"
    line = prompt.quoted({"response": text})
    assert line.isascii()
    assert json.loads(line)["response"] == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31m\r\x00\x0b", "\u241b[31m\u240d\u2400\u240b"),
        ("\x7f\x85\x9f\xa0", "<U+007F><U+0085><U+009F>\xa0"),
        ("\ud800 \udfff", "<U+D800> <U+DFFF>"),
        ("42\u200b \u202e", "42<U+200B> <U+202E>"),
        ("1\u00ad2 \u2062 \U000e0041", "1<U+00AD>2 <U+2062> <U+E0041>"),
        ("\u2028\u2764\ufe0f é 中", "\u2028\u2764\ufe0f é 中"),
    ],
)
def test_a_terminal_obeys_nothing_and_hides_nothing(text: str, shown: str) -> None:
    """Control characters as pictures or numbers, all that has no width as numbers, and the rest as it is."""
    assert console.visible(text) == shown
