"""Published figures that the fleet is calibrated on, each with its source.

A figure that a source prints beside parts that do not add up to it is taken from the parts.
"""

from collections.abc import Mapping

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
