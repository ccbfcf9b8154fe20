"""The review page, driven in a real Chromium, and its server, asked directly."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import runs
from llm_finetuning.commands import status

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
CHROMIUM = os.environ.get("FINETUNE_TEST_CHROMIUM", "/usr/bin/chromium")

needs_browser = pytest.mark.skipif(not shutil.which(CHROMIUM), reason=f"{CHROMIUM} is not there; install chromium")

MARKUP = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\"><b>bold</b>"


def said(i: int, index: int) -> str:
    """Return what the pretended model says: reasoning, markup, code and formulas by turns."""
    right = 2 * i + 1
    return [
        f"<think>I add ${i}+{i + 1}$ and look twice.</think>The answer is $\\boxed{{{right}}}$.",
        f"{MARKUP} The answer is {right + 1}.",
        f"```python\nprint({right})\n```\nSo {right}.",
        f"I say {right}. \u202e Reversed.",
    ][index]


@pytest.fixture
def scored(tmp_path: Path, finetune: Callable[..., tuple[int, str, str]]) -> Path:
    """A run of eighty policy samples with scores, twenty prompts of four."""
    text = runs.BRIEF.replace("prompts: 15", "prompts: 20")
    folder = runs.write_run(tmp_path / "run", rows=20, text=text)
    runs.write_samples(folder, text_of=said, rows=20)
    assert finetune("score", folder)[0] == 0
    return folder


class Server:
    """A running `finetune review` and the address that it printed."""

    def __init__(self, folder: Path, reader: str = "ada", *more: str) -> None:
        """Start it and wait for its address."""
        program = "import sys; from llm_finetuning.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", program, "review", str(folder), "--reader", reader, "--no-open", *more]
        self.process = subprocess.Popen(command, cwd=SCRIPTS, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stderr
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/[\w-]+/", line)
        assert found, line + self.process.stderr.read()
        self.address = found.group()

    def end(self, how: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """End it and return its exit code and what it printed."""
        self.process.send_signal(how)
        out, _ = self.process.communicate(timeout=20)
        return self.process.returncode, out


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """A maker of servers, all ended after the test."""
    servers: list[Server] = []

    def start(*arguments: Any) -> Server:
        servers.append(Server(*arguments))
        return servers[-1]

    yield start
    for server in servers:
        with contextlib.suppress(ProcessLookupError):
            server.process.kill()
        server.process.communicate()


def labels_of(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "labels.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines[1:]]


# --- the server -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "x/", "api/overview", "%2e%2e/", "review.js"])
def test_without_the_key_nothing_is_told(scored: Path, serve: Callable[..., Server], path: str) -> None:
    """No page, no data and no file answers an address that does not begin with the key."""
    server = serve(scored)
    base = "/".join(server.address.split("/")[:3])
    answer = httpx.get(f"{base}/{path}")
    assert answer.status_code == 403
    assert "key" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_another_name_for_this_machine_reaches_nothing(scored: Path, serve: Callable[..., Server]) -> None:
    """A site whose name was pointed at the loopback address is turned away even with the key."""
    server = serve(scored)
    assert httpx.get(server.address, headers={"Host": "attacker.example:80"}).status_code == 403
    assert httpx.get(server.address).status_code == 200


def test_every_answer_carries_the_strict_headers(scored: Path, serve: Callable[..., Server]) -> None:
    """Page, script, data and errors alike."""
    server = serve(scored)
    for path, code in (("", 200), ("review.js", 200), ("api/overview", 200), ("api/items/900", 404), ("x.txt", 404)):
        answer = httpx.get(server.address + path)
        assert answer.status_code == code, path
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


def test_rewards_are_hidden_until_the_reader_has_decided(scored: Path, serve: Callable[..., Server]) -> None:
    """Neither what was paid nor why a sample was chosen is sent before the label is on the disk."""
    server = serve(scored)
    before = httpx.get(server.address + "api/items/0").json()
    assert not {"paid", "part", "why"} & before.keys()
    said = json.dumps([before, httpx.get(server.address + "api/overview").json()])
    assert not [word for word in ("reward", "random", "chosen") if word in said]
    after = httpx.post(server.address + "api/items/0/label", json={"verdict": "accept", "note": "fine"}).json()
    assert after["paid"]["values"][0]["name"] == "exact_answer"
    assert after["part"] == labels_of(scored)[0]["part"]
    assert labels_of(scored)[0]["verdict"] == "accept"
    assert labels_of(scored)[0]["part"] in ("random", "chosen")
    assert labels_of(scored)[0]["source"] == "page"


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        ("application/json", b'{"verdict": "maybe"}', 400),
        ("application/json", b"[", 400),
        ("application/json", b"[" * 100_000, 400),
        ("application/json", b'{"verdict": "accept", "note": 5}', 400),
        ("application/json", b'{"verdict": "accept", "note": "' + b"x" * 300_000 + b'"}', 400),
        ("text/plain", b'{"verdict": "accept"}', 415),
        ("application/x-www-form-urlencoded", b"verdict=accept", 415),
    ],
)
def test_what_is_no_label_is_refused(
    scored: Path, serve: Callable[..., Server], kind: str, body: bytes, code: int
) -> None:
    """Nothing is written for it; a form of another site cannot send JSON."""
    server = serve(scored)
    answer = httpx.post(server.address + "api/items/0/label", content=body, headers={"Content-Type": kind})
    assert answer.status_code == code
    assert labels_of(scored) == []


def test_two_readers_and_two_tabs_do_no_harm(scored: Path, serve: Callable[..., Server]) -> None:
    """Two servers write by turns; each reader's last label stands and every one is kept."""
    ada, bob = serve(scored, "ada"), serve(scored, "bob")
    for turn in range(15):
        for server in (ada, bob):
            sent = {"verdict": "accept" if turn % 2 else "reject", "note": f"turn {turn}"}
            assert httpx.post(f"{server.address}api/items/{turn % 5}/label", json=sent).status_code == 200
    labels = labels_of(scored)
    assert len(labels) == 30
    for reader in ("ada", "bob"):
        assert [label["note"] for label in labels if label["reader"] == reader] == [
            f"turn {turn}" for turn in range(15)
        ]
    assert httpx.get(ada.address + "api/items/4").json()["label"] == {"verdict": "reject", "note": "turn 14"}


def test_an_unwritable_disk_is_said_and_no_label_is_taken_for_saved(scored: Path, serve: Callable[..., Server]) -> None:
    """The answer is an error in words, not a saved label."""
    server = serve(scored)
    (scored / "labels.jsonl").rename(scored / "kept.jsonl")
    (scored / "labels.jsonl").mkdir()
    answer = httpx.post(server.address + "api/items/0/label", json={"verdict": "accept"}, timeout=20)
    assert answer.status_code == 500
    assert "labels.jsonl" in answer.text


def test_ctrl_c_ends_it_with_what_was_done(scored: Path, serve: Callable[..., Server]) -> None:
    """The summary counts the labels and names the next command."""
    server = serve(scored)
    httpx.post(server.address + "api/items/0/label", json={"verdict": "accept"})
    code, out = server.end()
    assert code == 0
    assert "1 labels added" in out
    assert "next: finetune " in out


def test_the_page_asks_for_what_the_command_line_asks_for(
    scored: Path, serve: Callable[..., Server], finetune: Callable[..., tuple[int, str, str]]
) -> None:
    """As the run stands when it is asked: first the audit that nobody made, then the next of the road."""
    server = serve(scored)
    asked = [httpx.get(server.address + "api/next").json()["next"]]
    finetune("audit", scored)
    asked.append(httpx.get(server.address + "api/next").json()["next"])
    assert asked == [f"finetune audit {scored}", status.next_command(scored)]
    assert asked[0] != asked[1]


def test_a_port_that_is_taken_is_refused(scored: Path, serve: Callable[..., Server]) -> None:
    """One line that names the option."""
    port = serve(scored).address.split(":")[2].split("/")[0]
    program = "import sys; from llm_finetuning.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "review", str(scored), "--reader", "bob", "--no-open", "--port", port]
    done = subprocess.run(command, cwd=SCRIPTS, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert f"--port {port}" in done.stderr


# --- the page in a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a screen."""
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        found = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A tab in which nothing but the page's own server may be asked, and no error may be printed."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    tab = context.new_page()
    tab.faults = []
    tab.on("pageerror", lambda error: tab.faults.append(str(error)))
    tab.on("request", lambda request: tab.faults.append(request.url) if "127.0.0.1" not in request.url else None)
    yield tab
    context.close()


def until(page: Any, expression: str) -> None:
    """Wait until an expression holds; asked from outside, since the page's own policy forbids to evaluate text."""
    deadline = time.monotonic() + 15
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, (expression, page.text_content("#said"), page.text_content("#where"))
        time.sleep(0.01)


def ready(page: Any, address: str) -> None:
    page.goto(address)
    until(page, "document.getElementById('where').textContent.startsWith('Sample')")


def press(page: Any, key: str) -> None:
    """Press a verdict's key and wait until the page says that it is saved."""
    page.evaluate("document.getElementById('said').textContent = ''")
    page.keyboard.press(key)
    until(page, "/saved|not answer|Not saved/.test(document.getElementById('said').textContent)")


@needs_browser
def test_sixty_samples_by_keyboard_and_a_server_killed_on_the_way(
    scored: Path, serve: Callable[..., Server], page: Any
) -> None:
    """What the page called saved is on the disk, what was not is said, and the reader goes on where they were."""
    server = serve(scored)
    ready(page, server.address)
    keys = "araur" * 12
    for key in keys[:23]:
        press(page, key)
    saved = page.evaluate("state.items.filter((item) => item.verdict).length")
    server.process.kill()
    server.process.wait()
    press(page, "a")
    assert "was not saved" in page.text_content("#said")
    assert len(labels_of(scored)) == saved == 23

    server = serve(scored)
    ready(page, server.address)
    assert page.text_content("#where") == "Sample 24 of 60"
    for key in keys[23:]:
        press(page, key)

    labels = labels_of(scored)
    assert len({label["sample_id"] for label in labels}) == 60
    assert [label["verdict"][0] for label in labels] == list(keys)
    assert page.is_visible("#done")
    until(page, "document.getElementById('command').textContent.includes('finetune')")
    assert page.text_content("#command") == status.next_command(scored)
    assert page.faults == []


@needs_browser
def test_a_completion_full_of_markup_stays_text(scored: Path, serve: Callable[..., Server], page: Any) -> None:
    """No element of a completion is made, no script of it runs, hidden signs are shown."""
    ready(page, serve(scored).address)
    page.fill("#search", "onerror")
    until(page, "state.matches && state.matches.has(state.place)")
    until(page, "document.getElementById('completion').textContent.includes('onerror')")
    assert "<script>document.title = 'taken'</script>" in page.text_content("#completion")
    assert page.query_selector("#completion img, #completion b, #completion script") is None
    page.fill("#search", "Reversed")
    until(page, "document.getElementById('completion').textContent.includes('Reversed')")
    assert "<U+202E>" in page.text_content("#completion")
    assert "taken" not in page.title()
    assert page.faults == []


@needs_browser
def test_notes_back_filter_and_folded_reasoning(scored: Path, serve: Callable[..., Server], page: Any) -> None:
    """The keyboard alone reaches all of it; the rewards appear once the reader has decided."""
    ready(page, serve(scored).address)
    page.keyboard.press("n")
    page.keyboard.type("reads well, a and r are letters here")
    page.keyboard.press("Escape")
    press(page, "a")
    assert labels_of(scored)[0]["note"] == "reads well, a and r are letters here"
    assert page.text_content("#where") == "Sample 2 of 60"
    assert not page.is_visible("#paid-box")
    assert not page.is_visible("#part")
    page.keyboard.press("k")
    until(page, "document.getElementById('where').textContent === 'Sample 1 of 60'")
    assert page.is_visible("#paid-box")
    assert page.text_content("#part") in ("drawn at random", "chosen, since errors may hide here")
    assert "exact_answer" in page.text_content("#paid")
    assert page.get_attribute("#accept", "aria-pressed") == "true"
    page.select_option("#filter", "noted")
    assert page.text_content("#found") == "1 shown"
    page.select_option("#filter", "all")
    page.fill("#search", "look twice")
    until(page, "document.querySelector('#completion details') !== null")
    page.keyboard.press("Escape")
    assert page.get_attribute("#completion details", "open") is None
    page.keyboard.press("t")
    assert page.get_attribute("#completion details", "open") is not None
    assert page.inner_text("#completion .math").startswith("$\\boxed{")
    assert page.faults == []


@needs_browser
@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("light", 1100, "light"), ("dark", 1100, "dark"), ("phone", 360, "light")]
)
def test_readable_everywhere(
    scored: Path, serve: Callable[..., Server], browser: Any, tmp_path: Path, name: str, width: int, scheme: str
) -> None:
    """Nothing is cut off at phone width, text stands out in either scheme; FINETUNE_TEST_PICTURES keeps pictures."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    ready(page, serve(scored).address)
    press(page, "a")
    page.keyboard.press("k")
    page.wait_for_selector("#paid-box:visible")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    colours = page.evaluate("['color', 'backgroundColor'].map((name) => getComputedStyle(document.body)[name])")
    assert contrast(*colours) > 7
    kept = Path(os.environ.get("FINETUNE_TEST_PICTURES", tmp_path))
    page.screenshot(path=kept / f"review-{name}.png")
    context.close()


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two CSS colours (WCAG 2.2)."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@needs_browser
def test_a_screen_reader_finds_its_way(scored: Path, serve: Callable[..., Server], page: Any) -> None:
    """Landmarks, headings, a live status, and a name for every control."""
    ready(page, serve(scored).address)
    for selector in ("main", "header", "footer", "h1", "[role=status][aria-live=polite]", "[role=search]"):
        assert page.query_selector(selector) is not None, selector
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, input, select, textarea, progress')]"
        ".filter((it) => !(it.textContent.trim() || it.ariaLabel || it.labels?.length)).map((it) => it.outerHTML)"
    )
    assert nameless == []
    assert page.get_attribute("html", "lang") == "en"


def test_a_reader_is_not_kept_waiting(scored: Path, serve: Callable[..., Server]) -> None:
    """A label is on the disk and answered within a fifth of a second."""
    server = serve(scored)
    with httpx.Client() as client:
        client.get(server.address)
        begun = time.monotonic()
        for place in range(20):
            client.post(f"{server.address}api/items/{place}/label", json={"verdict": "accept"})
        assert (time.monotonic() - begun) / 20 < 0.2
