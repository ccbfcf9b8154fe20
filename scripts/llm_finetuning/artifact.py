"""The only module that opens an artifact: header, digests, atomic replace, append.

Line 1 of every JSONL artifact, and `header` of every JSON one, name the schema, the maker's version and each parent
with its SHA-256. A reader refuses an unknown schema and a changed parent, and says which verb to run again.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from llm_finetuning import version
from llm_finetuning.errors import MachineryFailure, Refusal
from llm_finetuning.pipeline import DRIFT, TRANSCRIPTS, run_of, schema_of, verb_for

T = TypeVar("T")

SCHEMA_PREFIX = "llm-finetuning/"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What an artifact is and what it was made from."""

    schema: str
    maker: str
    parents: dict[str, str]  # parent's name -> SHA-256
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Artifact(Generic[T]):
    """A file that was read: its header and its records."""

    path: Path
    header: Header
    records: list[T]


def digest_bytes(data: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def digest_value(value: Any) -> str:
    """Return the SHA-256 of a JSON value, independent of key order and layout."""
    return digest_bytes(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file; a missing or unreadable one is a refusal."""
    try:
        with path.open("rb") as stream:
            digest = hashlib.sha256()
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    except OSError as error:
        raise Refusal(f"{path}: {_os_words(error)}; check the path and its permissions") from None
    return digest.hexdigest()


def header_for(path: Path, parents: Mapping[str, str], settings: Mapping[str, Any] | None = None) -> Header:
    """Return the header a new artifact of this name gets."""
    return Header(
        schema=SCHEMA_PREFIX + schema_of(path),
        maker=version(),
        parents=dict(parents),
        settings=dict(settings or {}),
    )


def write_lines(path: Path, header: Header, records: Iterable[Any]) -> None:
    """Write a whole JSONL artifact at once; readers see the old file or the new one, never a part."""
    lines = [_encode({"header": dataclasses.asdict(header)})]
    lines.extend(_encode(dataclasses.asdict(record)) for record in records)
    _replace(path, b"".join(lines))


def write_json(path: Path, header: Header, record: Any) -> None:
    """Write a whole JSON artifact at once."""
    body = {"header": dataclasses.asdict(header), **dataclasses.asdict(record)}
    _replace(path, (_dumps(body, indent=2) + "\n").encode())


def write_text(path: Path, text: str) -> None:
    """Write a file that is not an artifact (a brief, a data set) with the same all-or-nothing promise."""
    _replace(path, text.encode())


def read_lines(path: Path, record: type[T], *, without: Sequence[str] = ()) -> Artifact[T]:
    """Read a JSONL artifact; a half-written last line (a killed writer) is left out, any other fault is refused.

    The fields named in `without` are read as None: token ids of many samples take more memory than all the rest.
    """
    lines = _complete_lines(_read(path))
    header = _header(path, lines[0]) if lines else None
    if header is None:
        raise Refusal(f"{path}: empty or cut in its first line; remove it and run `{_again(path)}`")
    adapter = _adapter(record)
    blank = dict.fromkeys(without)
    records = [_decode(path, number, line, adapter, blank) for number, line in enumerate(lines[1:], 2) if line.strip()]
    return Artifact(path, header, records)


def ends_cut(path: Path) -> bool:
    """Tell whether the last line of a JSONL artifact is half written, as a killed writer leaves it."""
    data = _read(path)
    return bool(data) and not data.endswith(b"\n") and len(_complete_lines(data)) == data.count(b"\n")


def read_json(path: Path, record: type[T]) -> Artifact[T]:
    """Read a JSON artifact, which holds one record."""
    try:
        body = json.loads(_read(path))
        header = _adapter(Header).validate_python(body.pop("header"))
        return Artifact(path, _known(path, header), [_adapter(record).validate_python(body)])
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise Refusal(f"{path}: not a whole {path.name} ({_first_line(error)}); run `{_again(path)}`") from None


class Stale(Refusal):
    """An artifact that was made from something else than what is there now."""

    def __init__(self, path: Path, changed: str, again: str) -> None:
        """Name what changed, as `changed_parents` says it, and what to do."""
        super().__init__(f"{path}: {changed} changed since it was made; {again}")
        self.path = path
        self.changed = tuple(changed.split(", "))


def check_parents(artifact: Path, header: Header, current: Mapping[str, str]) -> None:
    """Refuse an artifact that was made from something else than what is there now."""
    changed = changed_parents(header.parents, current)
    if changed:
        raise Stale(artifact, changed, f"run `{_again(artifact)}`")


def changed_parents(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the names of what differs, in words; empty when nothing does."""
    return ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))


class Appender(Generic[T]):
    """An artifact open for appending, by one process at a time."""

    def __init__(self, stream: IO[bytes], path: Path, header: Header, records: list[T]) -> None:
        """Hold an open, locked file; `appending` makes one."""
        self._stream = stream
        self.path = path
        self.header = header
        self.records = records

    def append(self, records: Iterable[T]) -> None:
        """Add records; they are on the disk when this returns."""
        added = list(records)
        try:
            self._stream.write(b"".join(_encode(dataclasses.asdict(record)) for record in added))  # type: ignore[call-overload]
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise MachineryFailure(f"{self.path}: {_os_words(error)}; what was written before is kept") from None
        self.records.extend(added)


@contextlib.contextmanager
def appending(path: Path, header: Header, record: type[T]) -> Iterator[Appender[T]]:
    """Open an artifact for appending: made with `header` if new, its half-written last line cut off if not.

    Refuses when another process is appending. The caller compares the header it finds with its own.
    """
    try:
        # Not "ab+": a half-written tail has to be overwritten, which append mode cannot.
        stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "rb+")
    except OSError as error:
        raise Refusal(f"{path}: {_os_words(error)}; check the folder and its permissions") from None
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            verb = verb_for(path)
            raise Refusal(f"{path}: another `{verb}` is writing it; wait for it or stop it, then run again") from None
        whole = _complete_lines(stream.read())
        stream.seek(0)
        stream.write(b"".join(line + b"\n" for line in whole))
        stream.truncate()
        stream.flush()
        if whole:
            found = read_lines(path, record)
            yield Appender(stream, path, found.header, found.records)
        else:
            appender: Appender[T] = Appender(stream, path, header, [])
            stream.write(_encode({"header": dataclasses.asdict(header)}))
            stream.flush()
            yield appender


def _header(path: Path, line: bytes) -> Header:
    try:
        return _known(path, _adapter(Header).validate_python(json.loads(line)["header"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Refusal(
            f"{path}:1: no header of ours ({_first_line(error)}); move the file away and run `{_again(path)}`"
        ) from None


def _known(path: Path, header: Header) -> Header:
    expected = SCHEMA_PREFIX + schema_of(path)
    if header.schema != expected:
        raise Refusal(
            f"{path}: schema {header.schema}, this version reads {expected}; "
            f"move the file away and run `{_again(path)}`"
        )
    return header


def _again(path: Path) -> str:
    verb, run_dir = verb_for(path), Path(run_of(path))
    if verb == "evaluate":
        name = path.name.removesuffix(TRANSCRIPTS).removesuffix(".json")
        return shell_line(verb, run_dir, "--name", name.removesuffix(DRIFT))
    if verb == "compare":
        return shell_line(verb, run_dir, "BASE", "CANDIDATE")
    return shell_line(verb, run_dir, *(["--fresh"] if path.name == "samples.jsonl" else []))


def shell_line(verb: str, run_dir: Path, *options: str) -> str:
    """Return a `finetune` call ready to paste into a shell, whatever letters the folder's name has."""
    return shlex.join(["finetune", verb, str(run_dir), *options])


def _decode(path: Path, number: int, line: bytes, adapter: TypeAdapter[T], blank: Mapping[str, None]) -> T:
    try:
        body = json.loads(line)
        if blank and isinstance(body, dict):
            body.update(blank)
        return adapter.validate_python(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(
            f"{path}:{number}: not a record of this file ({_first_line(error)}); restore the line or remove it"
        ) from None


def _complete_lines(data: bytes) -> list[bytes]:
    """Split at newlines; what follows the last newline counts if it is whole, which a line cut by a kill is not."""
    *lines, tail = data.split(b"\n")
    try:
        json.loads(tail)
    except (ValueError, RecursionError):
        return lines
    return [*lines, tail]  # an editor or a copy dropped the last newline


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise Refusal(f"{path}: not there yet; run `{_again(path).removesuffix(' --fresh')}`") from None
    except OSError as error:
        raise Refusal(f"{path}: {_os_words(error)}; check the path and its permissions") from None


def _replace(path: Path, data: bytes) -> None:
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as stream:
            temporary = Path(stream.name)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        raise MachineryFailure(f"{path}: {_os_words(error)}; the file that was there before is kept") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _encode(value: Any) -> bytes:
    return (_dumps(value) + "\n").encode()


def _dumps(value: Any, *, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate out of somebody's data: escape it, keep it
        text = json.dumps(value, allow_nan=False, indent=indent)
    return text


_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}  # building one takes longer than reading a small artifact


def _adapter(record: type[T]) -> TypeAdapter[T]:
    if record not in _ADAPTERS:
        _ADAPTERS[record] = TypeAdapter(record)
    return _ADAPTERS[record]


def _os_words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        fault = error.errors()[0]
        return f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
