"""Train on two workers of Ray Train, of which one breaks once and both are started again.

ETT_URL=http://127.0.0.1:8080 ETT_API_KEY=... python examples/ray_trainer.py FOLDER
"""

import sys
from pathlib import Path

import ray.train
from ray.train.torch import TorchTrainer

import ett_service as ett
from ett_service.client.frameworks.ray import EttUserCallback, recorded

mark = Path(sys.argv[1]).absolute() / "died"


def train() -> None:
    for step in ett.train_loop(range(1, 9)):
        ett.step(step)
        ray.train.report({"step": step})
        if step == 3 and ray.train.get_context().get_world_rank() == 1 and not mark.exists():
            mark.touch()
            raise RuntimeError("the first life ends here")


run = ray.train.RunConfig("tiny-ray", str(mark.parent), callbacks=[EttUserCallback()])
run.failure_config = ray.train.FailureConfig(max_failures=1)
workers = ray.train.ScalingConfig(num_workers=2)
TorchTrainer(recorded(train), scaling_config=workers, run_config=run).fit()
