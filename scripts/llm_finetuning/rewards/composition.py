"""From the brief's list of rewards to the components that `score` and the trainer call.

A library reward's class may declare, beside its `range`: `file_options`, names of options that hold a path relative to
the brief (handed over as absolute, digested); `later_files`, those of them that a verb writes, so that one may not be
there yet; `unpaid`, the class that stands in where nothing is paid; `token_caps`, names of options that are a number of
tokens, by default and at most `sampling.max_completion_length`. An object may say `from_tokens`, the length up to which
it takes nothing.
"""

import ast
import contextlib
import importlib
import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from llm_finetuning import artifact
from llm_finetuning.brief import LoadedBrief, RewardBrief, nearest
from llm_finetuning.errors import Refusal
from llm_finetuning.rewards import LIBRARY, length_penalty
from llm_finetuning.rewards.contract import RewardFunction
from llm_finetuning.types import NOT_HANDED_ON, Component

ABSENT = "absent"  # the digest of a file that a verb has yet to write

_DEFAULT_RANGE = (0.0, 1.0)

_TRL_ARGUMENTS = ("prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric")


_WRAPPED = "`{use: math_answer, length_penalty: {from_tokens: 512, to_tokens: 1024, share: 0.5}}`"


def compose(loaded: LoadedBrief, columns: list[str], *, key: str = "rewards", pays: bool = True) -> list[Component]:
    """Return the brief's rewards ready to be called; `columns` are those that they will be handed.

    Refuses, all faults at once, for a name that is not in the library, options that do not fit, a file that does not
    import, a function that is not there or cannot take TRL's arguments, and two rewards of one name. `key` is where the
    list stands in the brief, for the refusals alone. Without `pays` a reward may lack what it needs to pay, such as a
    judge its record: for what only looks at a brief.
    """
    faults: list[str] = []
    components: list[Component] = []
    place_of_list = f"{loaded.run_dir / 'brief.yaml'}: {key}"
    for place, wanted in enumerate(loaded.brief.rewards):
        try:
            components.append(_component(loaded, wanted, f"{place_of_list}[{place}]", columns, pays=pays))
        except Refusal as refusal:
            faults.extend(refusal.lines)
    names = [component.name for component in components]
    faults.extend(
        f"{place_of_list}: {names.count(name)} are named `{name}`, whose metrics TRL would average into one; give each "
        "its own `name:`"
        for name in sorted({name for name in names if names.count(name) > 1})
    )
    if faults:
        raise Refusal(*faults)
    return components


def make_ready(components: Iterable[Component]) -> None:
    """Let each reward that needs machinery, such as a sandbox, say now whether it has it; raises MachineryFailure."""
    for component in components:
        ready = getattr(component.function, "ready", None)
        if ready is not None:
            ready()


def source_digests(loaded: LoadedBrief, *, later: bool = True) -> dict[str, str]:
    """Return the digest of every source file that decides what is paid, library code included.

    Without `later`, those that a verb writes are left out: for what pays nothing.
    """
    digests = {}
    for wanted in loaded.brief.rewards:
        written_later = _later_files(wanted)
        for file in (*wanted.files, *_files_in_options(wanted)):
            path = loaded.resolve(file)
            if file not in written_later:
                digests[file] = artifact.digest_file(path)
            elif later:
                digests[file] = artifact.digest_file(path) if path.exists() else ABSENT
        if wanted.file is not None:
            file = wanted.file.rpartition(":")[0]
            digests[file] = artifact.digest_file(loaded.resolve(file))
            folder = loaded.resolve(file).parent
            for neighbour in neighbours(loaded.resolve(file)):
                name = f"{neighbour.relative_to(folder)} (imported by {file})"
                digests[name] = artifact.digest_file(neighbour)
        else:
            digests["library:rewards"] = _room_digest("rewards")
            if wanted.use in LIBRARY:
                for room in getattr(_library_class(str(wanted.use)), "rooms", ()):
                    digests[f"library:{room}"] = _room_digest(room)
    return digests


def named_files(loaded: LoadedBrief) -> list[str]:
    """Return every file that the brief's rewards name, as the brief writes it: their own, their options', `files`."""
    named: dict[str, None] = {}
    for wanted in loaded.brief.rewards:
        own = [wanted.file.rpartition(":")[0]] if wanted.file is not None else []
        named.update(dict.fromkeys([*own, *wanted.files, *_files_in_options(wanted)]))
    return list(named)


def own_rewards(loaded: LoadedBrief) -> list[Path]:
    """Return the brief's own reward files."""
    return [loaded.resolve(wanted.file.rpartition(":")[0]) for wanted in loaded.brief.rewards if wanted.file]


def _files_in_options(wanted: RewardBrief) -> list[str]:
    """Return the files that a library reward's options name, as the brief writes them."""
    if wanted.use is None or wanted.use not in LIBRARY:
        return []  # composing it says so
    given = [wanted.options.get(option) for option in getattr(_library_class(wanted.use), "file_options", ())]
    return [file for file in given if isinstance(file, str)]


def _later_files(wanted: RewardBrief) -> list[Any]:
    """Return the files in a library reward's options that a verb has yet to write."""
    if wanted.use is None or wanted.use not in LIBRARY:
        return []
    return [wanted.options.get(option) for option in getattr(_library_class(wanted.use), "later_files", ())]


def neighbours(path: Path) -> list[Path]:
    """Return the files beside a reward that it imports, and those that they import; read, never run.

    What is imported by a computed name is not found. Files that a reward reads are named in the brief under `files`.
    """
    folder, found, waiting = path.parent, dict.fromkeys([path]), [path]
    while waiting:
        for name in _imported_names(waiting.pop()):
            package = folder / name
            candidates = sorted(package.rglob("*.py")) if package.is_dir() else [folder / f"{name}.py"]
            for candidate in candidates:
                if candidate.is_file() and candidate not in found:
                    found[candidate] = None
                    waiting.append(candidate)
    return list(found)[1:]


def _imported_names(path: Path) -> set[str]:
    """Return the first part of every module name that a file imports; none for a file that does not parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return set()  # importing it will say so
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _room_digest(name: str) -> str:
    # All of it: the families share extraction and the contract, and a digest that misses one of them lies.
    room = Path(__file__).parents[1] / name
    sources = sorted(room.rglob("*.py"))
    return artifact.digest_value({str(source.relative_to(room)): artifact.digest_file(source) for source in sources})


def _component(loaded: LoadedBrief, wanted: RewardBrief, where: str, columns: list[str], *, pays: bool) -> Component:
    function = (
        _user_reward(loaded, wanted, where)
        if wanted.use is None
        else _library_reward(loaded, wanted, wanted.use, where, pays=pays)
    )
    _check_signature(function, where, columns)
    low, high = _range(wanted.range if wanted.range is not None else getattr(function, "range", _DEFAULT_RANGE), where)
    name = str(wanted.name or getattr(function, "__name__", type(function).__name__))
    cap = loaded.brief.sampling.max_completion_length
    _check_reach(function, cap, where)
    if wanted.length_penalty is not None:
        try:
            settings = wanted.length_penalty.model_dump()
            function = length_penalty.wrap(function, name=name, low=low, high=high, **settings)
        except ValueError as error:
            raise Refusal(f"{where}.length_penalty: {error}") from None
        _check_reach(function, cap, f"{where}.length_penalty")
    return Component(name=name, function=function, weight=wanted.weight, low=low, high=high)


def _check_reach(function: Callable[..., Any], cap: int, where: str) -> None:
    """Refuse a penalty that no completion is long enough for; such a reward says its `from_tokens`."""
    first = getattr(function, "from_tokens", None)
    if isinstance(first, int) and first >= cap:
        raise Refusal(
            f"{where}: it takes nothing up to {first} tokens, and no completion is longer than "
            f"sampling.max_completion_length ({cap}): it would never act; let it begin earlier"
        )


def _range(declared: Any, where: str) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in declared)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise Refusal(
            f"{where}: range {declared!r} is not (lowest, highest) in finite numbers; declare what it may pay"
        )
    return low, high


def _library_class(name: str) -> Any:
    module, class_name, _ = LIBRARY[name]
    return getattr(importlib.import_module(module), class_name)


def unpaid(loaded: LoadedBrief, wanted: RewardBrief, where: str) -> Callable[..., Any]:
    """Return a library reward that may lack what it needs to pay; refuses as `compose` does."""
    return _library_reward(loaded, wanted, str(wanted.use), where, pays=False)


def _library_reward(
    loaded: LoadedBrief, wanted: RewardBrief, name: str, where: str, *, pays: bool
) -> Callable[..., Any]:
    if name == "length_penalty":
        raise Refusal(f"{where}: `length_penalty` wraps a reward and is a key of its entry; write {_WRAPPED}")
    if name not in LIBRARY:
        raise Refusal(f"{where}: no reward `{name}` in the library; {nearest(name, list(LIBRARY))}")
    kind = _library_class(name)
    kind = kind if pays else getattr(kind, "unpaid", kind)
    known = inspect.signature(kind).parameters
    for option in wanted.options:
        if option not in known:
            raise Refusal(f"{where}: `{name}` has no option `{option}`; {nearest(option, list(known))}")
    options = {
        **_caps(kind, wanted.options, loaded.brief.sampling.max_completion_length, f"{where}: `{name}`"),
        **wanted.options,
        **_resolved_files(loaded, kind, wanted.options, f"{where}: `{name}`"),
    }
    for option, parameter in known.items():
        if option not in options and parameter.default is parameter.empty:
            raise Refusal(f"{where}: `{name}` needs the option `{option}`; add it under `options:`")
    try:
        reward: RewardFunction = kind(**options)
    except (TypeError, ValueError) as error:
        raise Refusal(f"{where}: options of `{name}`: {error}") from None
    if wanted.name is not None:
        reward.__name__ = wanted.name  # its reason column and TRL's metric carry the component's name
    return reward


def _caps(kind: Any, options: Mapping[str, Any], cap: int, where: str) -> dict[str, int]:
    """Return the completion cap for every option in `kind.token_caps`; refuses for one that lies above it."""
    names = getattr(kind, "token_caps", ())
    for option in names:
        value = options.get(option)
        if isinstance(value, int) and value > cap:
            raise Refusal(
                f"{where}: option `{option}`: {value} lies above sampling.max_completion_length ({cap}), which no "
                "completion passes; leave it out to take that value"
            )
    return dict.fromkeys(names, cap)


def _resolved_files(loaded: LoadedBrief, kind: Any, options: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the options in `kind.file_options` as absolute paths; refuses for one that is not a file."""
    resolved = {}
    for option in getattr(kind, "file_options", ()):
        file = options.get(option)
        if file is None:
            continue
        if not isinstance(file, str):
            raise Refusal(f"{where}: option `{option}`: {file!r} is not a path; write one relative to the brief")
        path = loaded.resolve(file)
        if not path.is_file() and option not in getattr(kind, "later_files", ()):
            raise Refusal(f"{where}: option `{option}`: no file {path}; correct it")
        resolved[option] = str(path)
    return resolved


def _user_reward(loaded: LoadedBrief, wanted: RewardBrief, where: str) -> Callable[..., Any]:
    file, _, function_name = str(wanted.file).rpartition(":")
    path = loaded.resolve(file)
    if not path.is_file():
        raise Refusal(f"{where}: no file {path}; correct `file:`")
    module = _import_file(path, where)
    function = module.get(function_name)
    if not callable(function):
        defined = [name for name, value in module.items() if callable(value) and not name.startswith("_")]
        raise Refusal(f"{where}: {path} has no function `{function_name}`; {nearest(function_name, defined)}")
    return function  # type: ignore[no-any-return]


def _import_file(path: Path, where: str) -> Mapping[str, Any]:
    # Named after its path, so that two files of one name do not become one module.
    name = f"finetune_reward_{artifact.digest_bytes(str(path).encode())[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refusal(f"{where}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    before = set(sys.modules)
    try:
        # Compiled from the bytes that are there, never from a cache: an edit within one second keeps size and time.
        code = compile(path.read_bytes(), str(path), "exec")
        with importable_from(path.parent), contextlib.redirect_stdout(sys.stderr):
            exec(code, vars(module))  # noqa: S102  the user's own reward
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  sys.exit() in a reward file is a fault of the file
        del sys.modules[name]
        raise Refusal(f"{place_of(error, path)}: does not import: {words_of(error)}") from None
    finally:
        _forget_neighbours(path.parent, before)
    return vars(module)


def _forget_neighbours(folder: Path, before: set[str]) -> None:
    """Let the next reward import its own neighbour of the same name."""
    for name in set(sys.modules) - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file and Path(file).is_relative_to(folder) and not name.startswith("finetune_reward_"):
            del sys.modules[name]


def folders_of(loaded: LoadedBrief) -> set[Path]:
    """Return the folders of the brief's own reward files."""
    return {path.parent for path in own_rewards(loaded)}


@contextlib.contextmanager
def importable_from(folder: Path) -> Iterator[None]:
    """Let a reward file import its neighbours, as it could when run as a program."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def place_of(error: BaseException, path: Path) -> str:
    """Return FILE:LINE of the last frame inside `path`, or of the syntax error."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{path}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def words_of(error: BaseException) -> str:
    """Return an exception as `Kind: first line`."""
    first = str(error).splitlines()[0] if str(error).strip() else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _check_signature(function: Callable[..., Any], where: str, columns: list[str]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # written in C; calling it will tell
    arguments = dict.fromkeys([*_TRL_ARGUMENTS, *(column for column in columns if column not in NOT_HANDED_ON)])
    try:
        signature.bind(**arguments)
    except TypeError as error:
        takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values())
        mend = f"the data set has {', '.join(columns) or 'no further columns'}" if takes_all else "add **kwargs"
        raise Refusal(f"{where}: cannot be called as TRL calls a reward ({error}); {mend}") from None
