"""A trainer that says whatever a trainer can say; it trains nothing."""

import ett_service as ett

ett.init(
    job="golden",
    gpus=8,
    torch=False,
    name="Golden",
    team="golden",
    model="llm-golden",
    cluster="fir",
    hardware="H100",
    kind="pretrain",
    code_version="4.2",
    image="trainer:4.2",
    owner="ada",
    parameters=7_000_000_000,
    precision="bf16",
    labels={"run": "nightly"},
)
with ett.phase("launcher_init"), ett.stage("device_init"):
    ett.restored(100, size=1_000)
with ett.phase("pt2_compile"), ett.stage("inductor"):
    pass
with ett.train_loop(range(101, 104)) as numbers:
    for number in ett.data(numbers):
        ett.step(number, samples=number * 8, tokens=number * 1_000, flops=number * 1e15)
    with ett.checkpoint(103, size=1_000):
        pass
    with ett.phase("evaluation"):
        pass
with ett.phase("shutdown"):
    pass
ett.end("failed", exit_code=1, exception="ValueError", message="loss is nan", final=True)
