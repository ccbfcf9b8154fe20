"""What is never written down: values of variables that are named like credentials, and passwords in addresses.

Standard library only, because the supervisor uses it.
"""

import os
import re
from collections.abc import Mapping

SECRET_NAMES = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_KEY", re.IGNORECASE)
SHORTEST_SECRET = 6  # shorter values stand in ordinary words
USER_IN_ADDRESS = re.compile(rb"(\w://)[^/\s:@]+:[^/\s@]+@")
HIDDEN = b"[hidden]"


def secret_values(environ: Mapping[str, str]) -> list[bytes]:
    """Return the values of environment variables that are named like credentials, longest first."""
    values = {value.encode("utf-8", "surrogateescape") for name, value in environ.items() if SECRET_NAMES.search(name)}
    return sorted((value for value in values if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


def hide(text: bytes, secrets: list[bytes]) -> bytes:
    """Return text with credentials replaced."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return USER_IN_ADDRESS.sub(rb"\1" + HIDDEN + b"@", text)


def hidden(text: str) -> str:
    """Return text without this process's credentials."""
    return hide(text.encode("utf-8", "surrogatepass"), secret_values(os.environ)).decode("utf-8", "replace")
