"""Whether the hub answers. Asked once, because its own client tries for half a minute a file when nobody does."""

import importlib.util
import os

HUB_WAIT_S = 4.0


def go_offline_when_silent(name: str) -> None:
    """Switch the hub client to its cache when `name` is a hub id and no hub answers; call it before heavy imports."""
    if not name.startswith("/") and not answers():
        from huggingface_hub import constants

        os.environ["HF_HUB_OFFLINE"] = "1"  # for libraries that are not yet imported
        constants.HF_HUB_OFFLINE = True


def answers() -> bool:
    """Return whether the hub answers within a few seconds; False where HF_HUB_OFFLINE switches it off."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().get(constants.ENDPOINT, timeout=HUB_WAIT_S)
    except _silence():
        return False
    return True


def _silence() -> tuple[type[Exception], ...]:
    """Return what the hub client's HTTP library raises: httpx from huggingface_hub 1.0, requests before."""
    if importlib.util.find_spec("httpx"):
        import httpx

        return OSError, httpx.HTTPError
    return (OSError,)  # those of requests are OSErrors
