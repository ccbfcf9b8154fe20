"""What the skills' references on recipes say is what the recipes say now."""

from pathlib import Path

import pytest
import recipes_reference


@pytest.mark.parametrize("path", recipes_reference.pages(), ids=lambda path: path.parts[-3])
def test_the_page_is_the_recipes(path: Path) -> None:
    """A recipe that changed has written its page anew: python tests/references/recipes_reference.py."""
    assert path.read_text("utf-8") == recipes_reference.pages()[path]


def test_the_page_tells_the_methods_apart() -> None:
    """SimPO's beta is another number than DPO's, and an adapter's rate than that of all weights."""
    shown = "\n".join(recipes_reference.preferences())

    assert "| `beta` | 0.1 | 0.1 | 0.1 | 2 |" in shown
    assert "| reference model kept | yes | yes | no | no |" in shown
    assert "| `learning_rate` | 2e-05 | 0.0002 | 0.0002 |" in "\n".join(recipes_reference.supervised())
