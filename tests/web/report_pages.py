"""A report as its reader's browser takes it: its elements and texts, and what every report has to hold to."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

from test_review_page import CHROMIUM

VOID = {"meta", "rect", "line", "circle", "path", "img", "input", "br"}


class Page(HTMLParser):
    """The page as its elements, with attributes, nesting checked, and the text within."""

    def __init__(self, text: str) -> None:
        """Read the whole page."""
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the element and go into it."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element that holds nothing."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Leave the element, which has to be the innermost."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the text for every element around it."""
        for tag in dict.fromkeys(self.open):
            self.texts[tag][-1] += data

    def names(self) -> set[str]:
        """Return the kinds of elements that the page has."""
        return {tag for tag, _ in self.tags}


def check_that_nothing_is_loaded(page: Page) -> None:
    """One file: no address in any attribute, no import in the style, a policy that forbids the rest."""
    for _, attributes in page.tags:
        assert not {"src", "srcset", "action", "data"} & set(attributes)
        assert all(target.startswith("#") for name, target in attributes.items() if name == "href" and target)
    (style,) = page.texts["style"]
    assert not re.search(r"@import|url\(", style)
    policies = [attributes["content"] for _, attributes in page.tags if "http-equiv" in attributes]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


def check_in_a_browser(path: Path, title: str) -> None:
    """Nothing is wider than the window, nothing runs, and the colours follow light and dark."""
    from playwright.sync_api import sync_playwright

    assert shutil.which(CHROMIUM)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        backs = []
        for scheme, width in (("light", 390), ("dark", 390), ("light", 1200)):
            shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
            said: list[str] = []
            shown.on("console", lambda message, said=said: said.append(message.text))
            shown.goto(path.as_uri())
            assert shown.evaluate("document.documentElement.scrollWidth") <= width
            assert shown.title() == title
            assert not said
            backs.append(shown.evaluate("getComputedStyle(document.body).backgroundColor"))
        browser.close()
    assert backs[0] == backs[2] != backs[1]
