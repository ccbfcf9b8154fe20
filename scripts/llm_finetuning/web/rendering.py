"""How a report becomes one self-contained page: every text of a model or a reader escaped and made visible."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from llm_finetuning import console

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
