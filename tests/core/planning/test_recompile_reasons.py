"""Reasons as PyTorch 2.13 and older ones word them."""

import pytest

from ett_service.core.planning.recompile_reasons import (
    HINTS,
    Source,
    cause_of,
    mark_dynamic_line,
    setting_entry,
    source_name,
    source_of,
)


@pytest.mark.parametrize(
    ("reason", "source"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 6", Source("L['x']", 0)),
        (
            "0/1: tensor 'd['m']' size mismatch at index 2. expected 3, actual 4",
            Source("L['d']['m']", 2),
        ),
        (
            "0/1: tensor 'L['x']' size mismatch at index 1. expected 3, actual 4",
            Source("L['x']", 1),
        ),
        (
            "3/0: tensor 's._buffers['rb']' size mismatch at index 0. expected 3, actual 4",
            Source("L['s']._buffers['rb']", 0),
        ),
        ("0/0: tensor 'x' stride mismatch at index 0. expected 8, actual 16", Source("L['x']")),
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 11, actual 10",
            Source("L['x']", 0),
        ),
        ("0/1: k == 2        # return x * k  # train.py:8 in forward", Source("L['k']")),
        ("0/1: k == -2", Source("L['k']")),
        ("0/0: k == 0", Source("L['k']")),
        ("[0/1]: L['k'] == 3  # y = x", Source("L['k']")),
        ("!0/0/1: lens[0] == 3", Source("L['lens'][0]")),
        ("0/0: G['STEPS'] == 3    # def g(x): return x*STEPS", Source("G['STEPS']")),
        ("0/1: s._modules['sub'].k == 3", Source("L['s']._modules['sub'].k")),
        ("0/1: self.scale == 3", Source("L['self'].scale")),
    ],
)
def test_a_source_that_a_setting_makes_dynamic_is_named_as_torch_asks_for_it(
    reason: str, source: Source
) -> None:
    assert cause_of(reason) == source


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 6, actual 1", "size_0_or_1"),
        ("0/0: tensor 'x' size mismatch at index 0. expected 0, actual 6", "size_0_or_1"),
        ("0/0: 2 <= x.size()[0]  # f(x)", "size_0_or_1"),
        ("0/0: 2 <= x.size()[0] <= 5  # if x.shape[0]>5:", "branch_on_size"),
        ("0/1: 6 <= x.size()[0]  # if x.shape[0]>5: return x*2", "branch_on_size"),
        ("0/1: y.size()[0] == x.size()[0]  # (unknown var s17)", "branch_on_size"),
        ("0/1: x.size()[0] == 8", "branch_on_size"),
        ("0/0: tensor 'x' stride mismatch at index 0. expected 3, actual 1", "stride"),
        ("0/0: tensor 'x' dtype mismatch. expected Float, actual Double", "dtype"),
        ("0/0: tensor 'x' rank mismatch. expected 2, actual 3", "rank"),
        (
            "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0",
            "requires_grad",
        ),
        ("0/0: k == 0.5     # x * k", "float"),
        ("2/0: self.param_groups[0]['lr'] == 1e-05", "float"),
        ("0/0: k == 'a'     # if k", "constant"),
        ("0/0: k == True    # if k", "constant"),
        ("0/0: k is None    # if k", "constant"),
        ("0/0: len(l) == 1  # sum(l)", "length"),
        ("0/0: len(d) != 1", "length"),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "grad_mode"),
        ("0/0: ___check_obj_id(L['f'], 140)", "object"),
        ("0/0: Cache line invalidated because L['f'] got deallocated", "object"),
        ("0/0: something quite new", "other"),
        ("", "other"),
    ],
)
def test_what_no_dynamic_source_stops_is_known_by_its_kind(reason: str, kind: str) -> None:
    assert cause_of(reason) == kind
    assert kind == "other" or kind in HINTS


def test_a_name_of_a_local_variable_gets_its_source() -> None:
    assert source_name("d['m'].x") == "L['d']['m'].x"
    assert source_name("L['x']") == "L['x']"
    assert source_name("G['x']") == "G['x']"


def test_a_source_that_torch_has_seen_vary_may_have_a_dimension() -> None:
    assert source_of("L['x']:1") == Source("L['x']", 1)
    assert source_of("L['k']") == Source("L['k']")


def test_a_name_with_a_comma_or_a_space_is_written_as_a_pattern() -> None:
    assert setting_entry("L['d']['m']") == "L['d']['m']"
    assert setting_entry("L['d']['a b,c']") == r"L\['d'\]\['a.b.c'\]$"


@pytest.mark.parametrize(
    ("name", "dims", "line"),
    [
        ("L['x']", (0,), "torch._dynamo.mark_dynamic(x, 0)"),
        ("L['d']['m']", (0, 2), "torch._dynamo.mark_dynamic(d['m'], [0, 2])"),
        ("L['self'].mask", (1,), "torch._dynamo.mark_dynamic(self.mask, 1)"),
        ("G['MASK']", (1,), "torch._dynamo.mark_dynamic(MASK, 1)"),
        ("L['k']", (), None),
    ],
)
def test_a_tensor_is_marked_in_the_words_of_the_code(
    name: str, dims: tuple[int, ...], line: str | None
) -> None:
    assert mark_dynamic_line(name, dims) == line
