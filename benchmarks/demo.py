"""How soon ``ett demo`` is ready: sixty days made, taken in over HTTP and aggregated.

The floor is making the events alone, in this process; the goal is the promised minute.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from ett_service.demo.generator import generate

GOAL_SECONDS = 60.0
ETT = str(Path(sys.executable).with_name("ett"))


def main() -> int:
    """Measure, print, and return 1 if the goal is missed."""
    began = time.monotonic()
    generated = generate(seed=7, days=60, end_us=time.time_ns() // 1000)
    floor = time.monotonic() - began
    command = [ETT, "demo", "--no-serve", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    printed = json.loads(done.stdout)
    seconds = printed["seconds"]
    events = printed["counts"]["events"]
    assert abs(events / generated.truth["counts"]["events"] - 1) < 0.01  # noqa: PLR2004
    print(f"making {events:,} events alone    {floor:6.1f} s")
    print(
        f"ready to be looked at         {seconds:6.1f} s, {events / seconds:,.0f} events a second"
    )
    print(f"of the promised minute        {seconds / GOAL_SECONDS:6.2f} (goal: at most 1)")
    return int(seconds > GOAL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
