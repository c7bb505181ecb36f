"""Operations of a training run, and the share of the accelerators' peak that they make use of.

``flops`` counts floating point operations, a teraflop is 10^12 of them. Peak rates are those of
one accelerator in teraflops a second, dense, for the precision that is trained in.
"""

from ett_service.core.domain import refuse_negative

TERA = 10**12
OPERATIONS_A_PARAMETER_AND_TOKEN = 6
"""Two for the forward pass and four for the backward pass (Kaplan et al., 2020)."""


def training_flops(parameters: int, tokens: int) -> int:
    """Operations to train a dense transformer: ``6 P D``.

    From Kaplan and others (arXiv 2001.08361). It leaves out attention over the context, which is
    small beside the parameters of large models, and anything computed again. Raises ValueError if
    an argument is negative.
    """
    refuse_negative(parameters=parameters, tokens=tokens)
    return OPERATIONS_A_PARAMETER_AND_TOKEN * parameters * tokens


def mfu_ratio(teraflops: float, attainable_teraflops: float) -> float | None:
    """MFU as a ratio: what the model needed, over what its accelerators could have done.

    As defined by Chowdhery and others (PaLM, arXiv 2204.02311): operations that are computed
    again, to save memory, do not count. What was attainable is the sum of peak rates times time,
    over all accelerators. None where nothing was. Raises ValueError if an argument is negative.
    """
    refuse_negative(teraflops=teraflops, attainable_teraflops=attainable_teraflops)
    return teraflops / attainable_teraflops if attainable_teraflops else None
