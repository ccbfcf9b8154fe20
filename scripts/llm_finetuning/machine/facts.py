"""What was read of a machine; memory and disk in GiB. None is always "not known", never nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that computes on a GPU."""

    pid: int
    name: str
    memory_gib: float | None  # None where the driver does not tell, as for those of other containers


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU, as its driver describes it."""

    index: int
    name: str
    uuid: str = ""
    capability: Capability | None = None
    total_gib: float | None = None  # None for GB10, whose driver answers N/A: its memory is the host's
    free_gib: float | None = None
    mig: bool = False  # cut into MIG instances
    prohibited: bool = False  # compute mode in which no process may use it
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The NVIDIA driver."""

    version: str | None = None  # None: there is none, or it does not answer
    fault: str | None = None  # what it said where it is there and does not answer
    hardware: bool = False  # whether the PCI bus shows an NVIDIA display or compute device
    toolkits: tuple[tuple[str, str], ...] = ()  # path of an assembler `ptxas` and its release, as in 13.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchDevice:
    """One device as torch sees it."""

    name: str
    capability: Capability
    total_gib: float
    free_gib: float
    integrated: bool  # its memory is the host's


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The torch of the training interpreter. Devices and architectures are known where torch was imported."""

    version: str
    cuda: str | None  # release that it was built for, as in 13.0; None for a build without CUDA
    imported: bool = False
    fault: str | None = None  # what its import or its look at the devices raised
    architectures: tuple[str, ...] = ()  # as in sm_90, compute_120
    devices: tuple[TorchDevice, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One installed package."""

    version: str
    platforms: tuple[str, ...] = ()  # of its wheel, as in manylinux_2_28_x86_64 or any
    requires: tuple[str, ...] = ()  # of the packages that are looked at, as in torch==2.13.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that will train."""

    path: str
    fault: str | None = None  # why it could not be asked
    managed: bool = False  # the launcher's own, into which a verb that needs a package installs it
    version: tuple[int, int] | None = None
    machine: str = ""  # as in x86_64
    encoding: str = "utf-8"  # of files that name none
    packages: Mapping[str, Package] = field(default_factory=dict)
    torch: Torch | None = None
    ptxas: tuple[tuple[str, str], ...] = ()  # assemblers that come with Triton, and their releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Memory of the host and of the container that this is."""

    total_gib: float | None = None
    free_gib: float | None = None
    available_gib: float | None = None  # page cache not counted as taken
    swap_gib: float = 0.0
    zram: bool = False  # swap that is kept, compressed, in the same memory
    early_oom: str | None = None  # a daemon that ends processes before memory runs out
    limit_gib: float | None = None  # of the cgroup; None without a limit
    used_gib: float | None = None  # of the cgroup, reclaimable file pages left out
    shm_gib: float | None = None  # size of /dev/shm
    container: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that the run will write to, or the nearest one above it that is there."""

    role: str  # as in checkpoints
    path: str
    free_gib: float | None
    writable: bool
    device: int | None = None  # of the disk; folders with the same share their room


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The files of a model, from their headers; weights are not read."""

    source: str
    folder: str | None  # None: a hub id that the cache does not hold
    faults: tuple[str, ...] = ()  # one line each: what is broken
    missing: tuple[str, ...] = ()  # one line each: what is not there, which a hub's client would fetch
    tokenizer: bool = True
    weights_gib: float = 0.0
    largest_gib: float = 0.0  # of the largest file of weights

    @property
    def hub(self) -> bool:
        """Whether the brief names a hub id."""
        return not self.source.startswith("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file of rows that the brief names, or a hub id."""

    name: str
    hub: bool = False
    cached: bool = True  # of a hub id: whether the cache holds it
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One machine, with the interpreter that will train on it."""

    system: str
    release: str
    architecture: str  # as in x86_64
    interpreter: Interpreter
    glibc: str | None = None
    driver: Driver = Driver()
    gpus: tuple[Gpu, ...] = ()
    host: Host = Host()
    folders: tuple[Folder, ...] = ()
    taken_ports: tuple[int, ...] = ()  # of those that the run will listen on
    environment: Mapping[str, str] = field(default_factory=dict)  # of the variables that matter; no secrets
    model: ModelFiles | None = None
    data: tuple[DataFile, ...] = ()

    @property
    def visible(self) -> tuple[Gpu, ...]:
        """The GPUs that CUDA_VISIBLE_DEVICES leaves, by index or UUID; empty is unset, as in launch.sh."""
        said = self.environment.get("CUDA_VISIBLE_DEVICES", "").strip()
        if not said:
            return self.gpus
        names = [name.strip() for name in said.split(",")]
        found = (self._named(name) for name in names)
        return tuple(gpu for gpu in found if gpu is not None)

    def _named(self, name: str) -> Gpu | None:
        return next((gpu for gpu in self.gpus if name == str(gpu.index) or (name and gpu.uuid.startswith(name))), None)

    @property
    def offline(self) -> bool:
        """Whether the hub's client is told to stay off the network."""
        return any(
            self.environment.get(name, "").lower() in ("1", "true", "yes", "on")
            for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
        )

    @property
    def container_room_gib(self) -> float | None:
        """What the container's limit leaves; None without a limit."""
        if self.host.limit_gib is None:
            return None
        return max(0.0, self.host.limit_gib - (self.host.used_gib or 0.0))
