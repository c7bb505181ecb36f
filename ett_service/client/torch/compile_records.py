"""What torch records of a compile, as our stages and facts; nothing here needs torch."""

from typing import Any

Stages = list[tuple[str, int]]

_CACHES = ("aotautograd", "inductor_fx")
_LONGEST_TEXT = 1_000


def laid_out(stages: Stages, start: int, limit: int) -> list[tuple[str, int, int]]:
    """Lay stages of which only the lengths are known end to end, inside their compile.

    Where they are longer than it, the first gives way: torch's clock starts before its callback.
    """
    excess = max(0, start + sum(length for _, length in stages) - limit)
    placed = []
    for name, length in stages:
        cut = min(length, excess)
        excess -= cut
        if length > cut:
            placed.append((name, start, start + length - cut))
            start += length - cut
    return placed


def stages_of(record: dict[str, Any]) -> Stages:
    """Split a compile into exclusive stages, in microseconds; they add up to its duration.

    torch's own figures are inclusive: dynamo holds AOT dispatch, that holds inductor, and that
    the wait for compilers. Where AOT's cache hits, its time is the loading of what it found.
    """
    if record.get("is_runtime"):
        return [("autotune", record.get("runtime_triton_autotune_time_us") or 0)]
    whole = record.get("duration_us") or 0
    backward = record.get("backward_cumulative_compile_time_us") or 0
    aot = min(record.get("aot_autograd_cumulative_compile_time_us") or backward, whole)
    inductor = min(record.get("inductor_cumulative_compile_time_us") or 0, aot or whole)
    wait = min(record.get("triton_compile_time_us") or 0, inductor)
    if record.get("is_forward") is False:
        aot = whole
    dispatch = "cache_load" if record.get("aotautograd_local_cache_hit_count") else "aot_dispatch"
    return [
        ("dynamo", whole - aot),
        (dispatch, aot - inductor),
        ("inductor", inductor - wait),
        ("async_compile_wait", wait),
    ]


def recorded_facts(record: dict[str, Any]) -> dict[str, object]:
    """Return what of a compile is short and holds no source code: caches, breaks, reasons."""
    facts: dict[str, object] = {
        "compile_id": record.get("compile_id"),
        "function": record.get("co_name"),
        "direction": "backward" if record.get("is_forward") is False else "forward",
        "fx_cache_hits": record.get("inductor_fx_local_cache_hit_count"),
        "fx_cache_misses": record.get("inductor_fx_local_cache_miss_count"),
        "aot_cache_hits": record.get("aotautograd_local_cache_hit_count"),
        "aot_cache_misses": record.get("aotautograd_local_cache_miss_count"),
        "compile_cache": _cache_of(record),
        "graph_breaks": record.get("num_graph_breaks"),
        "recompile_reason": first_line(record.get("recompile_reason")),
        "compile_autotune_us": record.get("compile_time_autotune_time_us") or None,
        "kernels": _if_short(record.get("triton_kernel_compile_times_us")),
        "fail_type": record.get("fail_type"),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _cache_of(record: dict[str, Any]) -> str | None:
    """Say whether a compile found everything in torch's caches, something, or nothing.

    None where it looked into none.
    """
    hits = misses = 0
    for cache in _CACHES:
        (near, near_missed), (far, far_missed) = (
            [record.get(f"{cache}_{where}_cache_{what}_count") or 0 for what in ("hit", "miss")]
            for where in ("local", "remote")
        )
        hits += near + far
        # What the local cache lacks is looked for in the remote one, where there is one.
        misses += far_missed if far or far_missed else near_missed
    if not hits and not misses:
        return None
    return "mixed" if hits and misses else "warm" if hits else "cold"


def _if_short(text: object) -> str | None:
    return text if isinstance(text, str) and len(text) <= _LONGEST_TEXT else None


def first_line(text: object) -> str | None:
    """Return the first line of a text, cut at 200 characters; None if there is none."""
    return str(text).strip().partition("\n")[0][:200] if text else None
