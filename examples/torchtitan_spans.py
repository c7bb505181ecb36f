"""Train a tiny model under the spans of torchtitan's trainer, which need no change for the service.

TITAN_STRUCT_LOGGER_HANDLERS=ett_service.client.frameworks.torchtitan.factory ETT_JOB=tiny \
ETT_URL=http://127.0.0.1:8080 ETT_API_KEY=... python examples/torchtitan_spans.py FOLDER [STEPS]
"""

import sys

import torch
from torchtitan.observability import structured_logger as sl

folder, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8
sl.init_structured_logger("trainer", folder)
with sl.log_trace_span("build_model"):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, steps + 1):
    sl.set_step(step)
    with sl.log_trace_span("step"):
        with sl.log_trace_span("fetching_batch"):
            batch = torch.ones(2, 4)
        with sl.log_trace_span("fwd_bwd"):
            model(batch).sum().backward()
        with sl.log_trace_span("optim"):
            optimizer.step()
        if step % 4 == 0:
            with sl.log_trace_span("eval"):
                model(batch)
