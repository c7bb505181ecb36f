"""Train a tiny model with Accelerate; run it again, and it resumes.

ETT_URL=http://127.0.0.1:8080 ETT_API_KEY=... python examples/accelerate_trainer.py FOLDER [STEPS]
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator

import ett_service as ett
from ett_service.client.frameworks.accelerate import EttTracker

folder, steps = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 8
accelerator = Accelerator(cpu=True, log_with=EttTracker(job="tiny-linear"))
accelerator.init_trackers("tiny")
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
done = max((int(saved.name) for saved in folder.glob("*")), default=0)
if done:
    accelerator.load_state(str(folder / str(done)))
    ett.restored(done)  # Accelerate does not know the step
for step in range(done + 1, steps + 1):
    accelerator.backward(model(torch.ones(2, 4)).sum())
    optimizer.step()
    accelerator.log({}, step=step)
    if step % 4 == 0:
        accelerator.save_state(str(folder / str(step)))
accelerator.end_training()
