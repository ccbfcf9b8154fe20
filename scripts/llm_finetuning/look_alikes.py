"""Letters of another script that look like Latin ones, and the words that hide them."""

import re

# Pairs that common typefaces draw alike, as Unicode's table of confusable characters has them (UTS 39, confusables.txt,
# Unicode 16.0). Those that only resemble each other are left out, above all Greek letters that formulas have beside
# Latin ones: of \u03b1x and ax neither is a disguise of the other.
_CYRILLIC = dict(
    zip(
        "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u04cf\u043e\u0440\u051b\u0455\u0475\u051d\u0445\u0443\u0451\u0457"
        "\u0410\u0412\u0421\u0415\u050c\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u051a\u0405\u0422\u0474\u051c\u0425\u0423"
        "\u0401\u0407",
        "acdehijlopqsvwxyëïABCEGHIJKMOPQSTVWXYËÏ",
        strict=True,
    )
)
_GREEK = dict(
    zip(
        "\u03bf\u03bd\u03f3\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7",
        "ovjABEZHIKMNOPTYX",
        strict=True,
    )
)
_TO_LATIN = str.maketrans(_CYRILLIC | _GREEK)
_FROM_LATIN = [str.maketrans({latin: own for own, latin in letters.items()}) for letters in (_CYRILLIC, _GREEK)]

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_CYRILLIC_OR_GREEK = re.compile(r"[\u0370-\u052f]")
_SCRIPTS = (_LATIN, re.compile(r"[\u0400-\u052f]"), re.compile(r"[\u0370-\u03ff]"))
_WORD = re.compile(r"[^\W_]+")


def unmixed(text: str) -> str:
    """Return the text with each word that mixes Latin with Cyrillic or Greek letters in the one script it can be of.

    Only where all of its letters have a twin there: a word that is truly of two scripts stays, as does one of a single
    script, whatever it looks like. Its parts between `-` or `_` are words of their own.
    """
    if not (_CYRILLIC_OR_GREEK.search(text) and _LATIN.search(text)):
        return text
    return _WORD.sub(_of_one_script, text)


def _of_one_script(found: re.Match[str]) -> str:
    word = found.group()
    if word.isascii() or not (_CYRILLIC_OR_GREEK.search(word) and _LATIN.search(word)):
        return word
    read = (word.translate(table) for table in (_TO_LATIN, *_FROM_LATIN))
    return next((one for one in read if sum(bool(script.search(one)) for script in _SCRIPTS) == 1), word)
