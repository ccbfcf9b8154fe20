"""What the host asks of a box when it starts one."""

import os
from dataclasses import dataclass
from typing import Any, Literal

from llm_finetuning.sandbox.box import landlock
from llm_finetuning.sandbox.box.rooms import ROOMS

_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, slots=True)
class Setup:
    """The level, and what is to be seen from inside."""

    level: Literal["namespaces", "landlock", "declared"]
    host: int  # process id of the trainer
    drop_root: bool  # whether the box's own user is to be one that nobody else has
    visible: list[tuple[str, str]]  # files and folders: on the host, in the box
    hidden: list[str]  # folders within them, by their place in the box
    path: list[str]  # of modules, in the box
    packages: list[str]  # names to load ahead
    folder: str  # on the host's disk, of this box alone; empty with namespaces
    landlock_at_most: int | None  # the version to treat the kernel as; None for its own
    probe: dict[str, Any]  # what `probe.attempt` is to try

    @property
    def has_namespaces(self) -> bool:
        """Say whether the box has namespaces of its own."""
        return self.level == "namespaces"

    def landlock_rules(self) -> dict[str, int]:
        """Return a Landlock rule set by room, empty where the kernel has none; raises OSError if the level needs it."""
        if self.level == "declared":
            return {}
        if not landlock.version() and self.has_namespaces:
            return {}
        seen = self._seen()
        work = "" if self.has_namespaces else self.folder
        return {
            room: landlock.rule_set(seen | {f"{work}/{room}": landlock.EVERYTHING_BUT_RUN}, self.landlock_at_most)
            for room in ROOMS
        }

    def judge_rules(self) -> int | None:
        """Return the Landlock rule set of the judge, which watches the folders where there are no namespaces."""
        if self.level != "landlock":
            return None
        return landlock.rule_set(
            self._seen() | {"/proc": landlock.READ, self.folder: landlock.READ}, self.landlock_at_most
        )

    def _seen(self) -> dict[str, int]:
        """Return the rights by path that every program has: to read what is visible, and the harmless devices."""
        seen = dict.fromkeys(_DEVICES, landlock.READ_FILE | landlock.WRITE_FILE)
        if self.has_namespaces:
            return seen | {here: landlock.READ for _, here in self.visible}
        for there, _ in self.visible:
            covered = [path for path in self.hidden if path.startswith(there + "/")]
            if not covered:
                seen[there] = landlock.READ
                continue
            # A rule opens all that lies beneath, so what lies beside the hidden folder is named piece by piece.
            seen[there] = landlock.READ_DIR
            pieces = (f"{there}/{name}" for name in os.listdir(there))  # noqa: PTH208  pathlib is not loaded here
            seen |= {piece: landlock.READ for piece in pieces if piece not in covered}
        return seen
