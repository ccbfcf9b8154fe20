"""What counts as the address of a model server, for the brief and for the rewards that ask one."""

from urllib.parse import urlsplit


def is_address(url: str) -> bool:
    """Tell whether a text is an http or https address with a host, as in http://127.0.0.1:8000/v1."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port out of range, or brackets that do not close
        return False
