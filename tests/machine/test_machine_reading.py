"""What is read of a machine: by the driver's library or program, from the kernel's files, from the interpreter."""

import json
import os
import re
import socket
import struct
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import runs
import stub_interpreter
from llm_finetuning import brief
from llm_finetuning.machine import driver, host, model_files, reading
from llm_finetuning.machine.facts import Driver, Gpu, Process

MIB = 1024**2
GPUS = """\
0, GPU-aa, NVIDIA GeForce RTX 4090, 580.95.05, 8.9, 24564, 24052, [N/A], Default
1, GPU-bb, NVIDIA GB10, 580.95.05, 12.1, [N/A], [Not Supported], N/A, Prohibited
2, GPU-cc, NVIDIA A100-SXM4-80GB, 580.95.05, 8.0, 81920, [Insufficient Permissions], Enabled, Default
"""
PROCESSES = "GPU-aa, 4711, /opt/my, own/python, 19135\nGPU-bb, 12, [Not Found], [N/A]\n"


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with nothing but what a test puts there, and no binding of the driver's library."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(driver, "_on_bus", lambda: False)
    return tmp_path / "bin"


def test_what_the_program_says(bare: Path) -> None:
    """One GPU a line; a value that is refused, unknown or not supported is None, and never 0."""
    answers = bare.parent / "answers"
    answers.mkdir()
    (answers / "gpus").write_text(GPUS)
    (answers / "processes").write_text(PROCESSES)
    program(
        bare,
        "nvidia-smi",
        f'case "$1" in --query-gpu=*) cat {answers}/gpus ;; --query-compute-apps=*) cat {answers}/processes ;; esac',
    )
    found, gpus = driver.read()

    assert found == Driver(version="580.95.05", toolkits=found.toolkits)
    assert [(gpu.total_gib, gpu.free_gib, gpu.mig, gpu.prohibited) for gpu in gpus] == [
        (24564 / 1024, 24052 / 1024, False, False),
        (None, None, False, True),
        (80.0, None, True, False),
    ]
    assert [gpu.capability for gpu in gpus] == [(8, 9), (12, 1), (8, 0)]
    assert gpus[0].processes == (Process(pid=4711, name="/opt/my, own/python", memory_gib=19135 / 1024),)
    assert gpus[1].processes == (Process(pid=12, name="[Not Found]", memory_gib=None),)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("echo 'NVIDIA-SMI has failed because it could not communicate.'; exit 9", "nvidia-smi: NVIDIA-SMI has failed"),
        ("echo 'No devices were found'; exit 6", None),
        ("exit 3", "nvidia-smi: ended with 3"),
        ("echo 'Field \"mig.mode.current\" is not a valid field to query.'", "nvidia-smi: Field"),
    ],
)
def test_a_driver_that_does_not_answer(bare: Path, said: str, fault: str | None) -> None:
    """Its own words are kept; no devices are no fault."""
    program(bare, "nvidia-smi", said)
    found, gpus = driver.read()
    assert gpus == ()
    assert (found.fault or "").startswith(fault or "")
    assert (found.fault is None) == (fault is None)


def test_no_driver_at_all(bare: Path) -> None:
    """No program and no library: nothing is known, and nothing is at fault."""
    assert not bare.exists()
    assert driver.read() == (Driver(toolkits=driver._toolkits()), ())


class NVMLError(Exception):
    """Stands for the library's own."""


def library(**changes: Any) -> types.ModuleType:
    """Return a stand-in for `pynvml` with the functions and names of nvidia-ml-py 13; no driver is here to ask."""

    def refused(_: Any) -> Any:
        raise NVMLError

    module = types.ModuleType("pynvml")
    for name, value in {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"580.95.05",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda _: "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetUUID": lambda _: "GPU-aa",
        "nvmlDeviceGetMemoryInfo": lambda _: types.SimpleNamespace(total=80 << 30, free=60 << 30),
        "nvmlDeviceGetCudaComputeCapability": lambda _: (9, 0),
        "nvmlDeviceGetMigMode": refused,
        "nvmlDeviceGetComputeMode": lambda _: 2,
        "nvmlDeviceGetComputeRunningProcesses": lambda _: [
            types.SimpleNamespace(pid=os.getpid(), usedGpuMemory=19 << 30),
            types.SimpleNamespace(pid=1 << 22, usedGpuMemory=None),
        ],
        **{name: refused if value == "refused" else value for name, value in changes.items()},
    }.items():
        setattr(module, name, value)
    return module


def test_what_the_library_says(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the binding is installed the driver's library is asked; what one device refuses is not known of it."""
    del bare
    monkeypatch.setitem(sys.modules, "pynvml", library())
    found, (gpu,) = driver.read()
    assert found.version == "580.95.05"
    first, second = gpu.processes
    assert (first.pid, first.memory_gib) == (os.getpid(), 19.0)
    assert first.name == Path("/proc/self/comm").read_text().strip()
    assert (second.name, second.memory_gib) == ("?", None)
    assert gpu == Gpu(
        index=0,
        name="NVIDIA H100 80GB HBM3",
        uuid="GPU-aa",
        capability=(9, 0),
        total_gib=80.0,
        free_gib=60.0,
        prohibited=True,
        processes=(first, second),
    )


def test_memory_that_the_library_does_not_tell(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML_ERROR_NOT_SUPPORTED, as GB10 has it, leaves a GPU whose memory is not known."""
    del bare
    monkeypatch.setitem(sys.modules, "pynvml", library(nvmlDeviceGetMemoryInfo="refused"))
    _, (gpu,) = driver.read()
    assert (gpu.name, gpu.total_gib, gpu.free_gib) == ("NVIDIA H100 80GB HBM3", None, None)


def test_the_program_is_asked_where_the_library_fails(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A binding without its library, or of another driver, is no word about the machine."""

    def missing() -> None:
        raise NVMLError

    monkeypatch.setitem(sys.modules, "pynvml", library(nvmlInit=missing))
    program(bare, "nvidia-smi", "echo broken; exit 9")
    assert driver.read()[0].fault == "nvidia-smi: broken"


def test_an_assembler_says_its_release(tmp_path: Path) -> None:
    """As `ptxas --version` prints it; another program says none."""
    program(tmp_path / "bin", "ptxas", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    program(tmp_path / "bin", "other", "echo hello")
    assert driver.assembler(f"{tmp_path}/bin/ptxas") == (f"{tmp_path}/bin/ptxas", "13.0")
    assert driver.assembler(f"{tmp_path}/bin/other") is None
    assert driver.assembler(f"{tmp_path}/bin/none") is None


def test_an_assembler_that_is_chosen_is_looked_at(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that Triton's variable names, beside the toolkit's and that on PATH."""
    program(bare.parent / "other", "ptxas", "echo 'Cuda compilation tools, release 12.8, V12.8.93'")
    program(bare, "ptxas", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    monkeypatch.setenv("TRITON_PTXAS_BLACKWELL_PATH", f"{bare.parent}/other/ptxas")
    toolkits = dict(driver.read()[0].toolkits)
    assert toolkits[f"{bare.parent}/other/ptxas"] == "12.8"
    assert toolkits[f"{bare}/ptxas"] == "13.0"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


CGROUPS: list[Any] = [
    ("none", {}, None, None),
    ("no limit", {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None, None),
    (
        "version 2",
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": f"{800 * MIB}\n",
            "sys/fs/cgroup/memory.current": f"{300 * MIB}\n",
            "sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {100 * MIB}\n",
        },
        800,
        200,
    ),
    (
        "the tightest of the line",
        {
            "proc/self/cgroup": "0::/slice/job\n",
            "sys/fs/cgroup/slice/job/memory.max": "max\n",
            "sys/fs/cgroup/slice/memory.max": f"{500 * MIB}\n",
            "sys/fs/cgroup/slice/memory.current": f"{100 * MIB}\n",
            "sys/fs/cgroup/memory.max": f"{900 * MIB}\n",
            "sys/fs/cgroup/memory.current": f"{100 * MIB}\n",
        },
        500,
        100,
    ),
    (
        "version 1",
        {
            "proc/self/cgroup": "9:name=systemd:/\n4:memory:/box\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": f"{640 * MIB}\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": f"{64 * MIB}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        640,
        64,
    ),
    (
        "version 1 without a limit",
        {
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{64 * MIB}\n",
        },
        None,
        None,
    ),
    (
        "version 1 within a container, which sees its own cgroup as the root",
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{640 * MIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{64 * MIB}\n",
        },
        640,
        64,
    ),
]


@pytest.mark.parametrize(("files", "limit", "used"), [c[1:] for c in CGROUPS], ids=[c[0] for c in CGROUPS])
def test_the_limit_of_a_container(tmp_path: Path, files: dict[str, str], limit: int | None, used: int | None) -> None:
    """Both versions of cgroups; file pages that the kernel would drop do not count as used."""
    found = host.cgroup(tree(tmp_path, files))
    assert found == (None if limit is None else limit * MIB, None if used is None else used * MIB)


def test_the_host_from_the_kernels_files(tmp_path: Path) -> None:
    """Memory, swap, zram and a daemon that ends processes early."""
    files = {
        "proc/meminfo": "MemTotal: 2097152 kB\nMemFree: 524288 kB\nMemAvailable: 1048576 kB\nSwapTotal: 1048576 kB\n",
        "proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 1048576 0 100\n",
        "proc/17/comm": "earlyoom\n",
        ".dockerenv": "",
    }
    found = host.read(tree(tmp_path, files))
    assert (found.total_gib, found.free_gib, found.available_gib, found.swap_gib) == (2.0, 0.5, 1.0, 1.0)
    assert (found.zram, found.early_oom, found.container, found.shm_gib) == (True, "earlyoom", True, None)


def test_this_host() -> None:
    """On the machine of the tests, whatever it is, the figures are of the right order."""
    found = host.read()
    assert found.total_gib is not None
    assert 0.1 < found.total_gib < 1 << 20
    assert found.available_gib is not None
    assert 0 < found.available_gib <= found.total_gib


def test_a_taken_port() -> None:
    """A port that somebody listens on is found, a free one is not."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert host.taken((port,)) == (port,)
    assert host.taken((port,)) == ()


def test_a_folder_that_will_be_made(tmp_path: Path) -> None:
    """Its room is that of the nearest folder above it; a file in its way cannot be written into."""
    found = host.folder("checkpoints", tmp_path / "not" / "there")
    assert (found.writable, found.path) == (True, f"{tmp_path}/not/there")
    assert found.free_gib is not None
    (tmp_path / "file").touch()
    assert not host.folder("checkpoints", tmp_path / "file" / "below").writable


def test_no_secret_is_kept() -> None:
    """The report holds the variables that matter and no token."""
    assert host.variables({"HF_TOKEN": "hf_x", "HF_HOME": "/h", "WANDB_API_KEY": "k"}) == {"HF_HOME": "/h"}


def shard(path: Path, *, cut: int = 0) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(16)
    path.write_bytes(data[: len(data) - cut])


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def whole(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    for number in (1, 2):
        shard(folder / f"model-0000{number}-of-00002.safetensors")
    names = {f"w{number}": f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
BROKEN: list[Any] = [
    ("whole", lambda f: None, "", ""),
    ("cut short", lambda f: shard(f / "model-00002-of-00002.safetensors", cut=5), "its header speaks of", ""),
    (
        "longer than its header",
        lambda f: grown(f / "model-00002-of-00002.safetensors"),
        "speaks of",
        "",
    ),
    (
        "no header",
        lambda f: (f / "model-00001-of-00002.safetensors").write_bytes(b"\xff" * 20),
        "no whole safetensors",
        "",
    ),
    ("empty", lambda f: (f / "model-00001-of-00002.safetensors").write_bytes(b""), "no whole safetensors", ""),
    (
        "header of no JSON",
        lambda f: (f / "model-00001-of-00002.safetensors").write_bytes(struct.pack("<Q", 3) + b"abc"),
        "JSONDecodeError",
        "",
    ),
    ("a pointer", lambda f: (f / "model-00001-of-00002.safetensors").write_text(POINTER), "Git LFS pointer", ""),
    (
        "a shard is missing",
        lambda f: (f / "model-00002-of-00002.safetensors").unlink(),
        "",
        "00002-of-00002.safetensors: is missing",
    ),
    ("no weights", lambda f: [path.unlink() for path in f.glob("model*")], "", "has no weights"),
    (
        "unreadable index",
        lambda f: (f / "model.safetensors.index.json").write_text("{"),
        "index.json: cannot be read",
        "",
    ),
    ("no config", lambda f: (f / "config.json").unlink(), "has no config.json", ""),
    ("broken config", lambda f: (f / "config.json").write_text("{"), "cannot be read as JSON", ""),
    ("config of a list", lambda f: (f / "config.json").write_text("[]"), "holds no JSON object", ""),
    (
        "an adapter",
        lambda f: ((f / "config.json").unlink(), (f / "adapter_config.json").write_text("{}")),
        "holds an adapter",
        "",
    ),
]


@pytest.mark.parametrize(("breaks", "fault", "missing"), [c[1:] for c in BROKEN], ids=[c[0] for c in BROKEN])
def test_a_models_files(tmp_path: Path, breaks: Any, fault: str, missing: str) -> None:
    """A file that is not whole is told from one that is not there; of what is whole the sizes are known."""
    folder = tmp_path / "model"
    whole(folder)
    breaks(folder)
    found = model_files.read(str(folder))
    assert fault in "; ".join(found.faults)
    assert missing in "; ".join(found.missing)
    assert bool(found.faults) == bool(fault)
    assert bool(found.missing) == bool(missing)
    if not fault and not missing:
        sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
        assert found.weights_gib == sum(sizes) / 1024**3
        assert found.largest_gib == max(sizes) / 1024**3
        assert found.tokenizer


def test_a_model_in_the_hubs_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub id is looked for where the hub's client keeps it; without weights there, they are missing."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert model_files.read("some/model").folder is None
    snapshot = tmp_path / "models--some--model" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    whole(snapshot)
    refs = tmp_path / "models--some--model" / "refs"
    refs.mkdir()
    (refs / "main").write_text("abc")
    found = model_files.read("some/model")
    assert (found.folder, found.faults, found.missing, found.hub) == (str(snapshot), (), (), True)
    assert model_files.hub_data("a/rows").cached is False
    (tmp_path / "datasets--a--rows").mkdir()
    assert model_files.hub_data("a/rows").cached is True


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("rows.jsonl", b'{"a": 1}\n', None),
        ("rows.jsonl", b"", "is empty"),
        ("rows.jsonl", POINTER.encode(), "Git LFS pointer"),
        ("rows.parquet", b"PAR1....PAR1", None),
        ("rows.parquet", b"PAR1....", "no whole Parquet file"),
        ("rows.jsonl", None, "no such file"),
    ],
)
def test_a_file_of_rows(tmp_path: Path, name: str, content: bytes | None, fault: str | None) -> None:
    """There, not empty, no pointer, and a Parquet file with both its ends."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    found = model_files.data_file(name, tmp_path / name)
    assert (found.fault is None) == (fault is None)
    assert fault is None or fault in (found.fault or "")


def test_an_interpreter_by_its_metadata(tmp_path: Path) -> None:
    """Versions, wheels and bounds come from what pip wrote; torch is not imported."""
    versions = {"torch": "2.13.0", "transformers": "5.17.0", "vllm": "0.31.0"}
    python = stub_interpreter.write(
        tmp_path,
        versions,
        requires={"vllm": ["transformers<5.18.0,>=5.10.4", "numpy", 'torch==1; extra == "x"']},
        tags={"vllm": "cp38-abi3-manylinux_2_28_x86_64.manylinux_2_27_x86_64"},
    )
    found = reading.asked(str(python), devices=False)
    assert found.fault is None
    assert found.version == sys.version_info[:2]
    assert found.encoding.lower().replace("-", "") == "utf8"
    assert {name: package.version for name, package in found.packages.items()} == versions
    assert found.packages["vllm"].platforms == ("manylinux_2_27_x86_64", "manylinux_2_28_x86_64")
    assert found.packages["vllm"].requires == ("transformers<5.18.0,>=5.10.4",)
    assert found.torch is not None
    assert (found.torch.version, found.torch.cuda, found.torch.imported) == ("2.13.0+cpu", None, False)


def test_a_torch_that_does_not_import(tmp_path: Path) -> None:
    """Asked for the devices, it is imported, and what it raises is kept."""
    python = stub_interpreter.write(tmp_path, {"torch": "2.13.0"})
    (tmp_path / "site/torch/__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open')\n")
    found = reading.asked(str(python), devices=True)
    assert found.torch is not None
    assert (found.torch.version, found.torch.fault) == ("2.13.0+cpu", "ImportError: libcudart.so.12: cannot open")


CUDA_TORCH = """
import types, os
version = types.SimpleNamespace(cuda="13.0")
_C = types.SimpleNamespace(_cuda_getArchFlags=lambda: "sm_80 sm_120 compute_120")
class cuda:
    def device_count():
        assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        return 0 if "CUDA_VISIBLE_DEVICES" in os.environ else 1
    def get_device_properties(index):
        return types.SimpleNamespace(name="NVIDIA GB10", major=12, minor=1, is_integrated=1)
    def mem_get_info(index):
        FAULT
        return 44_580_000_000, 128_501_256_192
"""
"""What the engine asks of a torch built for CUDA, under the names of torch 2.13; no such device is here."""


@pytest.mark.parametrize("fault", [None, "raise RuntimeError('CUDA error: out of memory\\nmore')"])
def test_what_torch_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None) -> None:
    """Devices in the order of the driver, an empty CUDA_VISIBLE_DEVICES as none; a device that fails is a fault."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    python = stub_interpreter.write(tmp_path, {"torch": "2.13.0"})
    (tmp_path / "site/torch/__init__.py").write_text(CUDA_TORCH.replace("FAULT", fault or "pass"))
    torch = reading.asked(str(python), devices=True).torch
    assert torch is not None
    assert torch.imported
    assert (torch.cuda, torch.architectures) == ("13.0", ("sm_80", "sm_120", "compute_120"))
    if fault:
        assert (torch.fault, torch.devices) == ("RuntimeError: CUDA error: out of memory", ())
        return
    (device,) = torch.devices
    assert (device.name, device.capability, device.integrated) == ("NVIDIA GB10", (12, 1), True)
    assert device.total_gib == pytest.approx(119.676, abs=1e-3)
    assert device.free_gib == pytest.approx(41.518, abs=1e-3)


def test_the_real_training_interpreter(engine_python: str) -> None:
    """The installed torch's own version.py is read as it is."""
    found = reading.asked(engine_python, devices=False)
    assert found.torch is not None
    assert re.match(r"\d+\.\d+", found.torch.version)
    assert found.packages["torch"].version == found.torch.version
    assert "trl" in found.packages


@pytest.mark.parametrize("named", ["/not/there", "false"])
def test_an_interpreter_that_does_not_answer(named: str) -> None:
    """It is a fault of the machine to be told, no end of the check."""
    found = reading.asked(named, devices=False)
    assert found.fault
    assert found.version is None


def test_held_out_rows_are_looked_at(tmp_path: Path) -> None:
    """The rows to train on, and those to evaluate on where the brief names some."""
    text = runs.BRIEF.replace("id: id}", "id: id, evaluation: held.jsonl}")
    loaded = brief.load(runs.write_run(tmp_path / "run", text=text))
    assert [(found.name, found.fault is None) for found in reading.data(loaded)] == [
        ("data.jsonl", True),
        ("held.jsonl", False),
    ]
