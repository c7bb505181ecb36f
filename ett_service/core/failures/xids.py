"""The numbers of NVIDIA's driver errors (Xid), as its public catalogue explains them.

What stands in neither table is a fault of the GPU, its links or its driver.
"""

from collections.abc import Mapping

from ett_service.core.words import Cause

XIDS: Mapping[Cause, Mapping[int, str]] = {
    Cause.GPU_MEMORY: {
        48: "double-bit ECC error",
        63: "row remapping or page retirement recorded",
        64: "row remapping or page retirement failed",
        92: "many single-bit ECC errors",
        94: "contained ECC error",
        95: "uncontained ECC error",
        140: "unrecovered ECC error",
        160: "memory channel retired",
        161: "memory channel not retired",
        171: "uncorrectable error in DRAM",
        172: "uncorrectable error in SRAM",
    },
    Cause.USER_CODE: {
        13: "exception of a kernel",
        31: "access to an address without a page",
        43: "channel stopped by an error of the program",
        69: "wrong class or method in a channel",
        137: "access without privilege over NVLink",
    },
}
"""Numbers that do not name the GPU itself."""

FOLLOWING_XIDS: Mapping[int, str] = {
    45: "channels removed after another error",
    154: "recovery that another error calls for",
}
"""Numbers that say nothing about what came first."""
