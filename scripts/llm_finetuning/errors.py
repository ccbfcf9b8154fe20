"""The ways a command ends early, and the exit code each one stands for.

Anything else that reaches the top of the CLI is a defect of ours and keeps its traceback.
"""

EXIT_DONE = 0
EXIT_NO = 1  # done, and the answer is no: blocked, not ready, rejected
EXIT_BAD_INPUT = 2
EXIT_INSUFFICIENT = 3  # done, but too little evidence to answer
EXIT_MACHINERY = 4
EXIT_INTERRUPTED = 130  # the shell's convention for Ctrl-C: 128 + SIGINT


class Stop(Exception):  # noqa: N818  a refusal is an answer, not an error
    """A fault a person can act on; every line says what, where and how to mend it."""

    exit_code = EXIT_BAD_INPUT

    def __init__(self, *lines: str) -> None:
        """Take one line a fault, so that all faults of an input are listed at once."""
        super().__init__("\n".join(lines))
        self.lines = lines


class Refusal(Stop):
    """The input is wrong: a key, a file, a row, a user's reward."""

    exit_code = EXIT_BAD_INPUT


class Interrupted(Stop):
    """Ctrl-C where the line that was typed would begin anew; it names the one that goes on with what was written."""

    exit_code = EXIT_INTERRUPTED


class MachineryFailure(Stop):
    """The input may be right but the machinery failed; never turned into a score."""

    exit_code = EXIT_MACHINERY
