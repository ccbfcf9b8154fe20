"""Characters that nobody sees, in one list: what is shown, compared or judged has to agree on what is there."""

INVISIBLE = r"\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
"""The inside of a regular expression's character class.

Soft hyphen, marks of direction, letters of no width, invisible operators and annotation marks, which are Unicode's
format characters (category Cf) that stand in plain text; then the block of tags and supplementary variation selectors,
which can carry a whole hidden text. Left out are the format characters of single scripts, which are drawn or belong to
the spelling. It stands here because rewards are copied into every run and digested with all that they import of this
room. https://www.unicode.org/Public/UNIDATA/extracted/DerivedGeneralCategory.txt, Unicode 16.0.
"""
