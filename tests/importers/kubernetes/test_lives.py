"""Which cycle each life of a pod belongs to."""

from ett_service.importers.kubernetes.lives import Attempts
from ett_service.importers.kubernetes.objects import pod_of, root_of
from tests.builders import kubernetes as k8s

JOB, SET = k8s.owner("Job", "llm"), k8s.owner("JobSet", "llm")


def cycles(*pods: k8s.Json, root: k8s.Json | None = None, evictions: int = 0) -> list[list[str]]:
    """The pods and restarts of each cycle, after its number."""
    attempts = Attempts(k8s.uid("llm"))
    for pod in pods:
        attempts.take(pod_of(pod), root_of(root) if root else None, evictions)
    return [
        [str(cycle.number), *sorted(f"{x.pod.meta.name}/{x.restart}" for x in cycle.lives.values())]
        for attempt in attempts
        for cycle in attempt.cycles
    ]


def worker(name: str, index: int, created: float, restart: int = 0) -> k8s.Json:
    return k8s.pod(name, SET, created, labels=k8s.jobset_labels("llm", index, restart))


def test_a_pod_that_takes_the_place_of_another_begins_a_cycle_and_the_others_join_it() -> None:
    pods = [worker("a0", 0, 0), worker("a1", 1, 0), worker("b1", 1, 50), worker("b0", 0, 51)]
    assert cycles(*pods) == [["0", "a0/0", "a1/0"], ["1", "b0/0", "b1/0"]]


def test_a_jobset_numbers_its_restarts_also_where_the_first_are_not_seen() -> None:
    assert cycles(worker("c0", 0, 0, restart=2), worker("c1", 1, 0, restart=2)) == [
        ["2", "c0/0", "c1/0"]
    ]
    pods = [worker("a0", 0, 0), worker("c0", 0, 9, restart=3)]
    assert cycles(*pods) == [["0", "a0/0"], ["3", "c0/0"]]


def test_evictions_and_failures_that_no_pod_shows_count() -> None:
    assert cycles(k8s.pod("d", JOB, 0), evictions=2) == [["2", "d/0"]]
    job = k8s.job("llm")
    job["status"]["failed"] = 3
    assert cycles(k8s.pod("d", JOB, 0), root=job) == [["3", "d/0"]]


def test_a_container_that_began_again_has_the_life_before_it_too() -> None:
    again = k8s.running(130, restarts=2, last=k8s.life(80, 100, 1))
    assert cycles(k8s.pod("a", JOB, 0, container=again)) == [["1", "a/1"], ["2", "a/2"]]


def test_a_life_whose_end_was_not_seen_is_over_when_the_next_one_begins() -> None:
    attempts = Attempts(k8s.uid("llm"))
    later = k8s.running(90, restarts=2, last=k8s.life(60, 80, 1))
    for container in (k8s.running(10), later):
        attempts.take(pod_of(k8s.pod("a", JOB, 0, container=container)), None, 0)
    (attempt,) = attempts
    lives = [next(iter(cycle.lives.values())) for cycle in attempt.cycles]
    assert [life.restart for life in lives] == [0, 1, 2]
    start = k8s.at(k8s.instant(0))
    ends = [life.over_at and round(life.over_at / 1e6 - start) for life in lives]
    assert ends == [60, 81, None]


def test_pods_of_a_job_without_indexes_take_the_place_of_one_that_is_over() -> None:
    job = k8s.job("llm", pods=2)
    pods = [
        k8s.pod("a", JOB, 0, container=k8s.running(1)),
        k8s.pod("b", JOB, 0, container=k8s.over(1, 9, 1)),
        k8s.pod("c", JOB, 10, container=k8s.running(11)),
    ]
    assert cycles(*pods, root=job) == [["0", "a/0", "b/0"], ["1", "c/0"]]


def test_an_in_place_restart_is_counted_by_its_annotation() -> None:
    first = worker("a0", 0, 0)
    again = worker("a0", 0, 0)
    again["metadata"]["annotations"] = {f"{k8s.JOBSET}/in-place-restart-attempt": "1"}
    assert cycles(first, again) == [["0", "a0/0"], ["1", "a0/1"]]


def test_what_was_read_of_a_life_once_stays() -> None:
    attempts = Attempts(k8s.uid("llm"))
    ended = k8s.pod("a", JOB, 0, container=k8s.over(10, 20, 3))
    unknown = k8s.pod("a", JOB, 0, container=k8s.waiting())
    for state in (k8s.pod("a", JOB, 0, container=k8s.running(10)), ended, unknown):
        attempts.take(pod_of(state), None, 0)
    later = k8s.pod("a", JOB, 0, container=k8s.running(40, restarts=2, last=k8s.life(30, 35, 1)))
    attempts.take(pod_of(later), None, 0)
    (attempt,) = attempts
    first = next(iter(attempt.cycles[0].lives.values()))
    assert first.ended is not None
    assert (first.ended.exit_code, len(attempt.cycles)) == (3, 3)
