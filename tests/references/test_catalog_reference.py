"""The catalogue of models names what the planner knows, with the numbers it has now, and says when it is old."""

import re
from datetime import date

import catalog_reference
import pytest
from catalog_reference import FAMILIES, READ, Family

import public_configs
from llm_finetuning.planning import architecture

MODELS = [(family, model) for family in FAMILIES for model in family.models]


def test_the_page_is_the_planners() -> None:
    """A planner that changed has written its page anew: python tests/references/catalog_reference.py."""
    assert catalog_reference.PAGE.read_text("utf-8") == catalog_reference.page()


def test_the_page_shows_each_answer() -> None:
    """The table is no good where one machine takes every run, or none does."""
    cells = set(re.findall(r"(?<=\| )(?:rtx4090|l40s|h100|h200|-)(?: \+ spark)?(?= \|)", catalog_reference.sizes()))
    assert {"rtx4090 + spark", "l40s + spark", "h100 + spark", "h200 + spark", "h200", "-"} <= cells


@pytest.mark.parametrize(("family", "model"), MODELS, ids=[model for _, model in MODELS])
def test_every_family_is_known_to_the_planner(family: Family, model: str) -> None:
    """`plan` answers for each; the shapes are read from the config, not from the name."""
    config = public_configs.CONFIGS[model]
    text = config.get("text_config", config)

    assert architecture.known(text["model_type"]), family.name
    assert architecture.read(config).total > 0
    assert f"`{config['model_type']}`" in catalog_reference.PAGE.read_text("utf-8")


def test_parameters_are_those_of_the_name() -> None:
    """A name says its size in billions or millions; vision parts and embeddings make up the rest."""
    for _, model in MODELS:
        said = re.search(r"-(\d+(?:\.\d+)?)([BbM])", model)
        if said:
            billions = float(said[1]) / (1000 if said[2] == "M" else 1)
            assert catalog_reference.shape(model).total / 1e9 == pytest.approx(billions, rel=0.35), model


def test_licences_name_their_source() -> None:
    """What was not read somewhere is not claimed."""
    assert all(family.licence and family.source and family.maker for family in FAMILIES)
    assert len({model for _, model in MODELS}) == len(MODELS)


def later(months: int, day: int = READ.day) -> date:
    years, month = divmod(READ.month - 1 + months, 12)
    return date(READ.year + years, month + 1, day)


@pytest.mark.parametrize(
    ("today", "is_stale"),
    [
        (READ, False),
        (later(catalog_reference.MONTHS, READ.day - 1), False),
        (later(catalog_reference.MONTHS), True),
        (later(catalog_reference.MONTHS + 12), True),
    ],
    ids=["today", "a day short", "the day", "a year over"],
)
def test_an_old_date_is_said(today: date, is_stale: bool) -> None:
    """From the stated number of months on there is a warning that says what to do; it breaks no build by itself."""
    said = catalog_reference.staleness(today)

    assert bool(said) == is_stale
    assert all("look them up again" in line and str(READ) in line for line in said)


def test_checking_writes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`--check` warns on standard error alone."""
    monkeypatch.setattr(catalog_reference, "PAGE", catalog_reference.PAGE.with_name("not-there.md"))
    monkeypatch.setattr(catalog_reference, "READ", date(2020, 1, 31))
    catalog_reference.main(["--check"])

    assert capsys.readouterr().err.startswith("warning: not-there.md: families and licences were read on 2020-01-31, ")
    assert not catalog_reference.PAGE.exists()


def test_the_page_says_its_date() -> None:
    """A reader sees how old it is, and after how long it is stale."""
    text = catalog_reference.PAGE.read_text("utf-8").replace("\n", " ")
    assert f"{READ:%d %B %Y}" in text
    assert f"more than {catalog_reference.MONTHS} months old" in text
