"""Weights and a tokenizer for model folders of tests that load no model: whole, and empty."""

import struct
from pathlib import Path


def write(folder: Path) -> None:
    """Write them; `tokenizer.model` is none of the files that a gate's fingerprint covers."""
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    (folder / "tokenizer.model").write_bytes(b"")
