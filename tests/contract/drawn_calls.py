"""Calls of the client as users may make them: mostly right, some far from it."""

from typing import Any

from hypothesis import strategies as st

from ett_service.client.lines import OUTCOMES, PHASES

Call = tuple[str, tuple[Any, ...], dict[str, Any]]

LONG = "x" * 20_000

#: Lone surrogates, controls and marks that no name may hold are among them.
texts = st.one_of(
    st.text(st.characters(categories=["L", "N", "P", "Z", "Cc", "Cf", "Cs"]), max_size=12),
    st.sampled_from(["", " ", ".", "..", "a/b", "\x00", "\ud800", "e\u0301", "\u202e", LONG]),
)
integers = st.one_of(
    st.integers(0, 1000),
    st.integers(),
    st.sampled_from([-1, 2**31, 2**53 - 1, 2**53, 2**63, 10**400]),
)
floats = st.floats(allow_nan=True, allow_infinity=True)
anything = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    floats,
    texts,
    st.binary(max_size=4),
    st.lists(st.none() | integers, max_size=3),
    st.dictionaries(texts, integers | texts | floats, max_size=3),
    st.just(3 + 4j),
)

phases = st.sampled_from([*PHASES]) | anything
stages = st.sampled_from(["save", "preproc_creation", "my own part"]) | anything
steps = st.integers(0, 10**6) | anything
totals = st.none() | steps | floats
facts = st.dictionaries(
    st.sampled_from(
        ["name", "team", "hardware", "submitted_at", "parameters", "labels", "unheard_of", "gpus"]
    ),
    anything | st.dictionaries(texts, texts, max_size=3),
    max_size=4,
)


def _call(name: str, *arguments: st.SearchStrategy[Any], **options: Any) -> Any:
    return st.tuples(
        st.just(name), st.tuples(*arguments), st.fixed_dictionaries({}, optional=options)
    )


ends = _call(
    "end",
    st.sampled_from(OUTCOMES) | anything,
    reason=anything,
    exit_code=anything,
    signal=st.integers(0, 64) | anything,
    exception=anything,
    message=anything,
    final=st.booleans(),
)

calls: st.SearchStrategy[list[Call]] = st.lists(
    st.one_of(
        _call("step", steps, samples=totals, tokens=totals, flops=totals),
        _call("phase", phases),
        _call("stage", stages, phase=st.none() | phases),
        _call("train_loop"),
        _call("leave"),
        _call("leave"),
        _call("checkpoint", steps, size=totals),
        _call("durable_when", steps),
        _call("restored", steps, size=totals),
        _call("data", st.just([1, 2])),
        st.builds(lambda members: ("init", (), members), facts),
        ends,
    ),
    max_size=12,
)
"""What a trainer does after its first ``init``."""

variables = st.fixed_dictionaries(
    {},
    optional={
        name: st.sampled_from(values)
        for name, values in {
            "ETT_LAUNCH": ["8041", "a b", "x" * 300, "\x07bell", "\u202eturned", "\udcff"],
            "ETT_ATTEMPT": ["0", "3", "-1", "99999999999999999999", "one"],
            "ETT_CYCLE": ["0", "2147483648"],
            "ETT_RANK": ["0", "1", "4294967296"],
            "ETT_GPUS": ["8", "99999999", "10000000000000000000"],
            "SLURM_JOB_ID": ["77", "\udc80"],
            "SLURM_RESTART_COUNT": ["1"],
            "SLURM_JOB_START_TIME": ["1", "1772366400", "99999999999999999999"],
            "SLURM_JOB_NUM_NODES": ["4", "5000000"],
            "TORCHELASTIC_RUN_ID": ["none", "run", "a/b"],
            "TORCHELASTIC_RESTART_COUNT": ["0", "2"],
            "WORLD_SIZE": ["2"],
        }.items()
    },
)
"""What stands in the environment."""
