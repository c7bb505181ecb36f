"""Who trains what, where; the published figures it is calibrated on; planted effects."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ett_service.demo.calendar import DAY, HOUR, MINUTE, Almanac

LLAMA3_DAYS = 54
LLAMA3_NODES = 16_384 // 8
LLAMA3_UNEXPECTED: Mapping[str, int] = {
    "faulty_gpu": 148,
    "gpu_hbm3_memory": 72,
    "software_bug": 54,
    "network_switch_cable": 35,
    "host_maintenance": 32,
    "gpu_sram_memory": 19,
    "gpu_system_processor": 17,
    "nic": 7,
    "nccl_watchdog": 7,
    "silent_data_corruption": 6,
    "gpu_thermal": 6,
    "ssd": 3,
    "power_supply": 3,
    "server_chassis": 2,
    "io_expansion_board": 2,
    "dependency": 2,
    "cpu": 2,
    "system_memory": 2,
}
"""Unexpected interruptions of Llama 3 405B, by root cause (arXiv 2407.21783, table 5)."""

LLAMA3_INTERRUPTIONS = sum(LLAMA3_UNEXPECTED.values())  #: 419, as printed
LLAMA3_OF_USERS = LLAMA3_UNEXPECTED["software_bug"]  #: what the taxonomy lays at a user's door
LLAMA3_INFRA_SHARE = 1 - LLAMA3_OF_USERS / LLAMA3_INTERRUPTIONS

LLAMA3_RATE = 1000 * LLAMA3_INTERRUPTIONS / (LLAMA3_DAYS * LLAMA3_NODES)
"""Interruptions a thousand node-days: 3.789."""

RSC1_RATE = 6.50
RSC2_RATE = 2.34
"""Failures a thousand node-days of jobs beyond 128 GPUs on Meta's two research clusters (arXiv
2410.21680)."""

RSC_PREEMPTED = 0.10
"""Share of job attempts on RSC-1 that ended preempted; 60 % completed, 24 % failed (ibid.)."""

PREEMPTIBLE_AFTER_HOURS = 2
"""How long a job on RSC runs before it may be preempted (ibid.)."""

PT2_SECONDS: Mapping[str, float] = {
    "dynamo": 100.64,
    "aot_dispatch": 248.03,
    "inductor": 1238.50,
    "autotune": 238.00,
}
PT2_REMAINDER_SECONDS = 0.41
PT2_ASYNC_WAIT_SECONDS = 843.95
"""A cold compile of one large model by stage, in the PyTorch compile-time write-up; waiting for
asynchronous compiles is part of ``inductor``."""

PT2_TOTAL_SECONDS = sum(PT2_SECONDS.values()) + PT2_REMAINDER_SECONDS

MEGACACHE_SAVES = 0.40
"""What a shared compile cache takes off a compile (the same write-up: about 40 %)."""

CHECKPOINT_BLOCKING_SECONDS = 15.0
"""Blocking of one save in the ETT% write-up's example of a checkpoint interval."""

FLEET_RATIO = 0.90
"""Fleet ETT% that the write-up reports for offline training."""

FLEET_RATIO_BOUNDS = (0.85, 0.92)

PEAK_FLOPS: Mapping[tuple[str, str], float] = {
    ("A100", "bf16"): 312e12,
    ("H100", "bf16"): 989.5e12,
    ("H100", "fp8"): 1979e12,
    ("H200", "bf16"): 989.5e12,
    ("H200", "fp8"): 1979e12,
}
"""Dense peak rates by hardware and precision, in operations a second (the vendor's data sheets)."""

MFU_BOUNDS = (0.35, 0.45)
"""Model FLOPs utilisation: Llama 3 405B reports 38 to 43 % (arXiv 2407.21783, table 4)."""


NODE = 8  #: accelerators


@dataclass(frozen=True, slots=True)
class Cluster:
    """*rate* counts failures of origin infra a thousand node-days."""

    name: str
    rate: float

    def between_failures_us(self, gpus: int) -> float:
        """Return the mean time between infra failures of a job of *gpus*, in microseconds."""
        return 1000 * DAY / (self.rate * max(1, gpus // NODE))


CLUSTERS = MappingProxyType(
    {
        "alder": Cluster("alder", RSC1_RATE),
        "birch": Cluster("birch", RSC2_RATE),
        "cedar": Cluster("cedar", LLAMA3_RATE * LLAMA3_INFRA_SHARE),
    }
)


@dataclass(frozen=True, slots=True)
class Stream:
    """Jobs of one kind: how many on a working day, on how many accelerators, how long."""

    kind: str
    a_day: float
    gpus: tuple[int, ...]
    hours: float  #: the median
    goes_first: bool = False  #: takes accelerators from jobs that do not


@dataclass(frozen=True, slots=True)
class Model:
    """A model and what starting and keeping it takes, in seconds; *pretrains_on* accelerators.

    *reports* names the running totals that its trainer reports.
    """

    name: str
    team: str
    cluster: str
    hardware: str
    parameters: int
    mfu: float
    init_s: float
    compile_s: float  #: cold
    save_s: float  #: the loop stands still for a save
    publish_s: float
    streams: tuple[Stream, ...]
    pretrains_on: int = 0
    pretrains_days: float = 0.0
    precision: str = "bf16"
    reports: frozenset[str] = frozenset({"tokens", "flops"})


def checkpoint_every_us(gpus: int) -> int:
    """Return how long a job of *gpus* trains between saves, in microseconds."""
    if gpus >= 1024:  # noqa: PLR2004 - the larger, the sooner something breaks
        return 30 * MINUTE
    return 75 * MINUTE if gpus >= 256 else 120 * MINUTE  # noqa: PLR2004


_BLOCKS = CHECKPOINT_BLOCKING_SECONDS
_TOKENS = frozenset({"tokens"})
_SAMPLES = frozenset({"samples"})
_BOTH = frozenset({"samples", "flops"})


def _small(kind: str, a_day: float, hours: float, *gpus: int) -> Stream:
    return Stream(kind, a_day, gpus, hours)


def _release(a_day: float, hours: float, *gpus: int) -> Stream:
    return Stream("finetune", a_day, gpus, hours, goes_first=True)


MODELS = (
    Model("llm-405b", "language", "alder", "H100", 405_000_000_000, 0.41, 290, 900, _BLOCKS, 1200,
          (_small("eval", 0.6, 1.2, 64),), 4096, 11.0),
    Model("llm-70b", "language", "birch", "A100", 70_000_000_000, 0.44, 210, 620, _BLOCKS, 900,
          (_release(1.0, 9.0, 256), _small("eval", 0.7, 1.2, 32)), 1024, 14.0),
    Model("llm-8b", "language", "alder", "H100", 8_000_000_000, 0.39, 120, 310, 9, 420,
          (_small("finetune", 1.8, 6.0, 64, 128), _small("ablation", 1.8, 9.0, 128, 256))),
    Model("code-34b", "code", "alder", "H100", 34_000_000_000, 0.40, 180, 480, _BLOCKS, 600,
          (_small("ablation", 1.8, 9.0, 256), _small("eval", 0.7, 0.8, 16)), 512, 12.0),
    Model("code-7b", "code", "alder", "H100", 7_000_000_000, 0.37, 110, 290, 8, 360,
          (_small("finetune", 2.2, 6.0, 32, 64, 128),), reports=_TOKENS),
    Model("moe-16b", "mixture", "birch", "A100", 16_000_000_000, 0.36, 150, 540, 11, 420,
          (_small("ablation", 3.8, 7.0, 128, 256), _small("eval", 0.9, 0.8, 8))),
    Model("moe-52b", "mixture", "birch", "A100", 52_000_000_000, 0.37, 190, 760, 14, 600,
          (_small("ablation", 2.8, 9.0, 256),)),
    Model("moe-141b", "mixture", "cedar", "H200", 141_000_000_000, 0.38, 230, 980, _BLOCKS, 900,
          (_small("ablation", 2.4, 9.0, 256), _small("eval", 0.8, 0.9, 32)), 768, 15.0, "fp8"),
    Model("vit-22b", "vision", "birch", "A100", 22_000_000_000, 0.42, 160, 380, 13, 480,
          (_small("finetune", 1.4, 7.0, 128),), 256, 10.0, reports=_BOTH),
    Model("diffusion-3b", "vision", "cedar", "H100", 3_000_000_000, 0.38, 130, 340, 7, 420,
          (_small("finetune", 1.4, 7.0, 64, 128), _small("eval", 0.6, 0.7, 8)), reports=_BOTH),
    Model("segment-1b", "vision", "birch", "A100", 1_000_000_000, 0.40, 90, 200, 5, 240,
          (_small("finetune", 1.4, 5.0, 32, 64),), reports=_SAMPLES),
    Model("asr-2b", "speech", "birch", "A100", 2_000_000_000, 0.41, 110, 230, 6, 300,
          (_small("finetune", 1.4, 6.0, 64, 128), _small("eval", 0.5, 0.6, 8)), reports=_SAMPLES),
    Model("tts-1b", "speech", "birch", "A100", 1_200_000_000, 0.39, 90, 210, 5, 240,
          (_small("ablation", 1.1, 7.0, 32, 64),), reports=_SAMPLES),
    Model("vlm-90b", "multimodal", "cedar", "H200", 90_000_000_000, 0.40, 240, 700, _BLOCKS, 900,
          (_release(1.0, 8.0, 256), _small("eval", 0.6, 0.9, 32)), 512, 16.0, "fp8"),
    Model("vlm-11b", "multimodal", "cedar", "H200", 11_000_000_000, 0.38, 140, 400, 10, 480,
          (_small("ablation", 2.2, 8.0, 128, 256),)),
    Model("ranker-800b", "recsys", "alder", "H100", 12_000_000_000, 0.36, 700, 640, 18, 1500,
          (_small("retrain", 2.5, 3.0, 512, 1024),), reports=_SAMPLES),
    Model("retrieval-200b", "recsys", "alder", "H100", 6_000_000_000, 0.36, 620, 560, 16, 1400,
          (_small("retrain", 1.8, 2.6, 512, 768),), reports=_SAMPLES),
    Model("ads-90b", "recsys", "cedar", "H100", 4_000_000_000, 0.36, 560, 520, 14, 1200,
          (_small("retrain", 1.4, 2.4, 256, 512),), reports=_SAMPLES),
    Model("protein-15b", "science", "cedar", "H200", 15_000_000_000, 0.43, 150, 420, 11, 420,
          (_small("ablation", 0.7, 10.0, 256),), 256, 8.0),
    Model("weather-1b", "science", "birch", "A100", 1_500_000_000, 0.45, 100, 260, 6, 300,
          (_small("ablation", 1.1, 9.0, 64, 128),), reports=_BOTH),
)  # fmt: skip

TEAMS = tuple(sorted({model.team for model in MODELS}))


SLOW_STORAGE_CLUSTER = "birch"
OUT_CLUSTER = "cedar"
SLOW_COMPILE_TEAM = "mixture"
GROWING_TEAM = "recsys"
QUICKER_STAGE = "train_module_creation"

COMPILE_FACTOR = 1.6
STORAGE_FACTOR = 2.2
GROWTH_FACTOR = 2.0
LAUNCHER_FACTOR = 0.5


class Planted:
    """What each planted effect does to a length or a number, at an instant in microseconds."""

    def __init__(self, almanac: Almanac) -> None:
        self._almanac = almanac
        self.slow_models = frozenset(m.name for m in MODELS if m.team == SLOW_COMPILE_TEAM)
        slow_from = almanac.planned("compile")
        self.slow_version, self.slow_from = next(
            (version, since) for version, since in almanac.releases if since >= slow_from
        )
        self.storage_from = almanac.planned("checkpoint") + 14 * HOUR
        self.growth_from = almanac.planned("mix")
        self.launched_at = almanac.planned("launch") + 9 * HOUR
        self.idle_launch_at = almanac.planned("idle_launch") + 9 * HOUR

    def compile_factor(self, model: str, code_version: str) -> float:
        """Return how much longer a compile of *model* takes with the code of *code_version*."""
        slow = model in self.slow_models and code_version >= self.slow_version
        return COMPILE_FACTOR if slow else 1.0

    def save_factor(self, cluster: str, at: int) -> float:
        """Return how much longer a save blocks the loop."""
        slow = cluster == SLOW_STORAGE_CLUSTER and at >= self.storage_from
        return STORAGE_FACTOR if slow else 1.0

    def arrival_factor(self, team: str, at: int) -> float:
        """Return how many times as many jobs a team starts."""
        return GROWTH_FACTOR if team == GROWING_TEAM and at >= self.growth_from else 1.0

    def launcher_factor(self, stage: str, at: int) -> float:
        """Return how much longer a stage of the launcher takes."""
        return LAUNCHER_FACTOR if stage == QUICKER_STAGE and at >= self.launched_at else 1.0


FILE = "ett.toml"
DATABASE = "ett.db"

PRICES: Mapping[str, float] = {"A100": 1.80, "H100": 3.50, "H200": 4.20}
"""Of the order that clouds ask for an hour of one accelerator, in dollars; nobody's offer."""

TARGETS: Mapping[str, float] = {"": FLEET_RATIO, GROWING_TEAM: 0.80}
"""ETT% that the fleet and single teams aim at."""


IMPACT_FLOOR = 0.0001
"""What the fleet is made slower by costs little of it; a search is to find it all the same."""


SETTLE_SECONDS = 1.0
"""All of the fleet is there by the time that it is searched."""


def settings_text(*, searches: bool = True) -> str:
    """Return the settings as TOML, for a server that runs where the file lies.

    While the fleet is being loaded, nothing is to be searched: half of it shows other changes.
    """
    lines = [f'database_url = "sqlite:///{DATABASE}"', 'currency = "USD"']
    for hardware, price in PRICES.items():
        lines += ["", "[[prices]]", f'hardware = "{hardware}"', "from = 2020-01-01"]
        lines += [f"per_gpu_hour = {price}"]
    for team, ratio in TARGETS.items():
        where = f'{{ team = "{team}" }}' if team else "{}"
        lines += ["", "[[targets]]", f"where = {where}", f"ett_ratio = {ratio}"]
    lines += ["", "[detection]", f"impact_floor = {IMPACT_FLOOR}"]
    lines += [f"settle_seconds = {SETTLE_SECONDS}"] if searches else ["enabled = false"]
    return "\n".join(lines) + "\n"
