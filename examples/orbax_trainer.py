"""Train a number with JAX and save it with Orbax; run it again, and it resumes.

ETT_URL=http://127.0.0.1:8080 ETT_API_KEY=... python examples/orbax_trainer.py FOLDER [STEPS]
"""

import sys
from pathlib import Path

import jax
import orbax.checkpoint as ocp

import ett_service as ett
from ett_service.client.frameworks.orbax import EttLogger

folder, steps = Path(sys.argv[1]).absolute(), int(sys.argv[2]) if len(sys.argv) > 2 else 8
options = ocp.CheckpointManagerOptions(save_interval_steps=4)
update = jax.jit(lambda state: {"x": state["x"] * 0.9})
with ocp.CheckpointManager(folder, options=options, logger=EttLogger(job="tiny-jax")) as manager:
    done, state = manager.latest_step() or 0, {"x": jax.numpy.ones(1024)}
    if done:
        state = manager.restore(done, args=ocp.args.StandardRestore(state))
    with ett.train_loop():
        for step in range(done + 1, steps + 1):
            state = update(state)
            ett.step(step)
            manager.save(step, args=ocp.args.StandardSave(state))
