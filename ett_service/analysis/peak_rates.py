"""What one accelerator can do at most: teraflops a second, dense, from the makers' data sheets.

Where a sheet states a figure "with sparsity", half of it stands here. NVIDIA: data sheets of the
A100, H100 (SXM; the PCIe card has a name of its own), H200, B200 (HGX, a GPU's eighth of the
board), GB200 (NVL72, a GPU's part), L40S and V100. AMD: data sheets of the MI250X, MI300X and
MI325X. Google: "System architecture" pages of Cloud TPU.
"""

from typing import NamedTuple


class PeakRate(NamedTuple):
    """The most of one kind of accelerator in one precision."""

    hardware: str
    precision: str
    teraflops: float  #: a second


_SHEETS: dict[str, dict[str, float]] = {
    "V100": {"fp16": 125, "fp32": 15.7},
    "A100": {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5},
    "H100": {"fp8": 1979, "bf16": 989.5, "fp16": 989.5, "tf32": 494.7, "fp32": 67},
    "H100-PCIe": {"fp8": 1513, "bf16": 756.5, "fp16": 756.5, "tf32": 378, "fp32": 51},
    "H200": {"fp8": 1979, "bf16": 989.5, "fp16": 989.5, "tf32": 494.7, "fp32": 67},
    "B200": {"fp8": 4500, "bf16": 2250, "fp16": 2250, "tf32": 1125, "fp32": 75},
    "GB200": {"fp8": 5000, "bf16": 2500, "fp16": 2500, "tf32": 1250, "fp32": 80},
    "L40S": {"fp8": 733, "bf16": 362, "fp16": 362, "tf32": 183, "fp32": 91.6},
    "MI250X": {"bf16": 383, "fp16": 383, "fp32": 47.9},
    "MI300X": {"fp8": 2614.9, "bf16": 1307.4, "fp16": 1307.4, "tf32": 653.7, "fp32": 163.4},
    "MI325X": {"fp8": 2614.9, "bf16": 1307.4, "fp16": 1307.4, "tf32": 653.7, "fp32": 163.4},
    "TPU-v4": {"bf16": 275},
    "TPU-v5e": {"bf16": 197},
    "TPU-v5p": {"bf16": 459},
    "TPU-v6e": {"bf16": 918},
}

PEAK_RATES: tuple[PeakRate, ...] = tuple(
    PeakRate(hardware, precision, teraflops)
    for hardware, sheet in _SHEETS.items()
    for precision, teraflops in sheet.items()
)
