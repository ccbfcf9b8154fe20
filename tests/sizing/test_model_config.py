"""Where a model's config.json is found: its folder, or the hub's cache."""

import json
from pathlib import Path

import pytest

from llm_finetuning.errors import Refusal
from llm_finetuning.sizing import model_config
from llm_finetuning.sizing.unknown import Unknown

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache that holds one model."""
    folder = tmp_path / "hub" / "models--some--model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "snapshots" / COMMIT / "config.json").write_text(json.dumps({"torch_dtype": "torch.float16"}))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("revision", [None, "main", COMMIT])
def test_a_hub_id_is_looked_up_in_the_cache(cache: Path, revision: str | None) -> None:
    """By branch or by commit; nothing is downloaded."""
    found = model_config.read("some/model", revision)
    assert found.path.is_relative_to(cache)
    assert found.dtype == "float16"


@pytest.mark.parametrize(("source", "revision"), [("other/model", None), ("some/model", "v2")])
def test_a_hub_id_that_is_not_there_is_unknown(cache: Path, source: str, revision: str | None) -> None:
    """The line says how it gets there."""
    assert cache
    with pytest.raises(Unknown, match="`finetune sample` downloads the model, or name a folder"):
        model_config.read(source, revision)


def test_a_folder_is_read_or_refused(tmp_path: Path) -> None:
    """None is unknown; one that is no JSON object is a file to mend."""
    with pytest.raises(Unknown, match=r"has no config\.json"):
        model_config.read(str(tmp_path))
    for text in ("{", "[1]"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(Refusal, match=r"config\.json"):
            model_config.read(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"dtype": "bfloat16"}}))
    assert model_config.read(str(tmp_path)).dtype == "bfloat16"
