"""A training interpreter as far as its metadata goes: this Python, beside it what pip would have written of packages.

There is nothing to import in it, whatever the tests' own Python has (`-S`); a test that trains or samples takes the
real one (`engine_python`).
"""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from llm_finetuning.recipes import shared
from llm_finetuning.recipes.config import Shape

VERIFIED = shared.versions(Shape(kind="cpu", engine="transformers", processes=1))


def write(
    folder: Path,
    versions: Mapping[str, str] = VERIFIED,
    *,
    requires: Mapping[str, list[str]] | None = None,
    tags: Mapping[str, str] | None = None,
) -> Path:
    """Write the interpreter and return its program; torch, where it is among the versions, is a CPU build."""
    site = folder / "site"
    site.mkdir(parents=True)
    for name, version in versions.items():
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        wanted = "".join(f"Requires-Dist: {line}\n" for line in (requires or {}).get(name, []))
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{wanted}")
        (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: {(tags or {}).get(name, 'py3-none-any')}\n")
    if "torch" in versions:
        (site / "torch").mkdir()
        (site / "torch" / "__init__.py").write_text("raise RuntimeError('nothing but its version is looked at')\n")
        text = f"from typing import Optional\n__version__ = '{versions['torch']}+cpu'\ncuda: Optional[str] = None\n"
        (site / "torch" / "version.py").write_text(text)
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(site))} exec {shlex.quote(sys.executable)} -S "$@"\n')
    program.chmod(0o755)
    return program
