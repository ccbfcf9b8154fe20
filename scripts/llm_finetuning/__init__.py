"""The package behind every `finetune` verb; importing it loads nothing but the standard library."""

import json
from pathlib import Path

PLUGIN_ROOT = Path(__file__).resolve().parents[2]


def version() -> str:
    """Return the product's version, which lives in `.claude-plugin/plugin.json` alone."""
    manifest = json.loads((PLUGIN_ROOT / ".claude-plugin" / "plugin.json").read_text("utf-8"))
    return str(manifest["version"])
