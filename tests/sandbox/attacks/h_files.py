import json
import tempfile
from pathlib import Path


def keep(value):
    with tempfile.NamedTemporaryFile("w+", suffix=".json") as file:
        json.dump(value, file)
        file.flush()
        return json.loads(Path(file.name).read_text())


def lines(n):
    Path("numbers.txt").write_text("\n".join(map(str, range(n))))
    return len(Path("numbers.txt").read_text().splitlines())
