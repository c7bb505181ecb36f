"""Real logs through the real command into a real server, against what is known of them."""

import json
import subprocess
from pathlib import Path

from tests.builders.clock import instant
from tests.builders.servers.processes import ETT, bare_environment
from tests.builders.servers.waiting import wait_for
from tests.contract.described import Json, Service, quoted
from tests.contract.test_timelines import us

PARTS = ("hardware_setup", "launcher_init", "train_loop", "eval_in_loop", "shutdown", "e2e")


def test_the_imported_logs_are_answered_to_the_millisecond(served: Service, corpus: Path) -> None:
    with served.project("mlperf") as service:
        environment = bare_environment() | {"ETT_URL": service.url, "ETT_API_KEY": service.key}
        logs = corpus / "mlperf" / "runs"
        command = [ETT, "import", "mlperf", "--json", str(logs)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        sent = json.loads(run.stdout)
        assert (sent["rejected"], len(sent["jobs"])) == (0, 58)
        wait_for(lambda: len(listed(service)) == 58)

        jobs = [service.read(f"/v1/jobs/{quoted(job['job'])}") for job in listed(service)]

    assert sorted(attempt_ms(a) for job in jobs for a in job["attempts"]) == reference_ms(corpus)
    assert {job["state"] for job in jobs} <= {"finished", "interrupted"}


def listed(service: Service) -> list[Json]:
    """Return the jobs of the project."""
    jobs: list[Json] = service.read("/v1/jobs?limit=1000")["jobs"]
    return jobs


def attempt_ms(attempt: Json) -> tuple[int, ...]:
    """Return what each part of one run took, in milliseconds."""
    spent = {name: us(seconds) for name, seconds in attempt["categories"].items()}
    evaluation = spent.get("evaluation", 0)
    by_part = {
        "hardware_setup": spent.get("hardware_setup", 0),
        "launcher_init": spent.get("launcher_init", 0),
        "train_loop": spent.get("effective_training", 0) + evaluation,
        "eval_in_loop": evaluation,
        "shutdown": spent.get("shutdown", 0),
        "e2e": instant(attempt["ended_at"]) - instant(attempt["started_at"]),
    }
    assert not any(part % 1000 for part in by_part.values())
    return tuple(by_part[part] // 1000 for part in PARTS)


def reference_ms(corpus: Path) -> list[tuple[int, ...]]:
    """Return the same of every run of the reference."""
    reference = json.loads((corpus / "mlperf" / "reference.json").read_text())
    runs = [run for system in reference.values() for run in system["runs"].values()]
    return sorted(tuple(run[f"{part}_ms"] or 0 for part in PARTS) for run in runs)


def test_logs_of_trainers_are_answered_as_their_references_say(
    served: Service, corpus: Path
) -> None:
    trace = corpus / "torch_samples" / "torch_trace_fwd_bwd_recompile.trimmed.log"
    outputs = corpus / "megatron_out"
    with served.project("trainer-logs") as service:
        environment = bare_environment() | {"ETT_URL": service.url, "ETT_API_KEY": service.key}
        for arguments in (
            ["torch-trace", str(trace), "--job", "compiles"],
            ["torch-trace", str(trace), "--job", "compiles"],  # which adds nothing
            ["megatron", str(outputs), "--timezone", "Europe/Paris"],
        ):
            command = [ETT, "import", *arguments]
            subprocess.run(command, env=environment, capture_output=True, check=True)
        reference = json.loads((outputs / "reference.json").read_text())
        wait_for(lambda: len(listed(service)) == 1 + len(reference))
        advice = service.read("/v1/jobs/compiles/compile-advice")
        spent = {
            job["job"].rpartition("-")[0]: job["categories"]["effective_training"]
            for job in (service.read(f"/v1/jobs/{quoted(each['job'])}") for each in listed(service))
        }

    assert advice["setting"] == "L['x'],L['h']"
    assert (advice["compiles"], advice["recompiles"], advice["compile_seconds"]) == (
        6,
        2,
        18.826005,
    )
    for name, expected in reference.items():
        if not expected["slurm_cancel"]:
            trained = spent[name.removesuffix(".out")]
            assert abs(trained - expected["sum_iteration_time_s"]) < 1e-3, name
