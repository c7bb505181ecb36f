import math
from collections.abc import Callable

import pytest

from ett_service.core.errors import (
    OutOfDomain,
    refuse_negative,
    refuse_no_share,
    refuse_not_positive,
)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (refuse_negative, [0.0, 1.0, math.inf], [-1e-9, math.nan]),
        (refuse_not_positive, [1e-9, math.inf], [0.0, -1.0, math.nan]),
        (refuse_no_share, [1e-9, 1.0], [0.0, 1.000001, -1.0, math.inf, math.nan]),
    ],
)
def test_numbers_outside_a_formulas_domain_are_refused_by_name(
    check: Callable[..., None], good: list[float], bad: list[float]
) -> None:
    for value in good:
        check(price=value)
    for value in bad:
        with pytest.raises(OutOfDomain, match="price is") as refused:
            check(price=value)
        assert refused.value.name == "price"
