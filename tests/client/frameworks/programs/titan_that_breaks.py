"""The spans of a trainer of torchtitan that resumes, saves in one step, and runs out of data.

As in torchtitan, the span of a save is entered in each step.
"""

import sys

from torchtitan.observability import structured_logger as sl
from torchtitan.observability.structured_logger import step_state

sl.init_structured_logger("trainer", sys.argv[1])
with sl.log_trace_span("checkpoint_load"):
    pass
for step in (5, 6, 7):
    sl.set_step(step)
    with sl.log_trace_span("step"):
        with sl.log_trace_span("fetching_batch"):
            if step == 7:
                raise StopIteration
        with sl.log_trace_span("fwd_bwd"):
            pass
        with sl.log_trace_span("optim"):
            pass
        with sl.log_trace_span("checkpoint_save"):
            if step == 5:
                step_state.add_step_tag("checkpoint_save")
        if step == 6:
            with sl.log_trace_span("generate"):
                pass
