"""How a report becomes one self-contained page: every text of a model or a reader escaped and made visible."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from llm_finetuning import console

LONGEST = 20_000  # characters of one text

_PAGES = Path(__file__).parent / "pages"


def environment() -> Environment:
    """Return the templates of `pages/`; a name that a page lacks is an error, not nothing."""
    return Environment(
        loader=FileSystemLoader(_PAGES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _visible(value: Any) -> Any:
    """Show control characters of every text that is put into the page; what is markup already passes."""
    return console.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def shortened(rest: str) -> Callable[[str], str]:
    """Return what cuts a long text of a model or a data set; `rest` names the files that hold all of it."""

    def cut(text: str) -> str:
        more = len(text) - LONGEST
        return text if more <= 0 else f"{text[:LONGEST]}\n[... {more} more characters in {rest}]"

    return cut


def sentence(text: str) -> Markup:
    """Return a text of ours that begins a line; the name of an option stays as it is."""
    begins = text.split(" ", 1)[0]
    return coded(text if "_" in begins or "=" in begins else text[:1].upper() + text[1:])


def coded(text: str) -> Markup:
    """Return a text of ours as markup: what stands in back-quotes is code."""
    parts = console.visible(text).split("`")
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))
