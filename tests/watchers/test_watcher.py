"""Looking, sending what is new, and what is said of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ett_service.importers.importer import Fact, ImportedRun
from ett_service.watchers.watcher import Poll, Snapshot, Unavailable, Watcher


@dataclass
class Jobs:
    """A scheduler whose jobs are their marks."""

    name: str = "jobs"
    marks: dict[str, int] = field(default_factory=dict)
    is_whole: bool = True
    trouble: str = ""
    sent: int = 0  #: looks

    def look(self) -> Snapshot:
        if self.trouble:
            raise Unavailable(self.trouble)
        return Snapshot(dict(self.marks), self.is_whole, self._note_sent)

    def _note_sent(self) -> None:
        self.sent += 1

    def stop(self) -> None:
        """Nothing goes on between looks."""

    def runs(self, jobs: Iterable[str]) -> list[ImportedRun]:
        return [ImportedRun(Path(job), job, tuple(self._facts(job))) for job in jobs]

    def _facts(self, job: str) -> Iterator[Fact]:
        """Say as much as the mark is large."""
        for number in range(self.marks[job]):
            yield Fact({"id": f"{job}{number}", "job": job})


class Post:
    """Keeps what is sent, or refuses it."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.is_down = False

    def __call__(self, runs: Iterable[ImportedRun]) -> None:
        if self.is_down:
            raise Unavailable("the server cannot be reached")
        self.sent += [fact.event["id"] for run in runs for fact in run.facts]

    def take(self) -> list[str]:
        sent, self.sent = self.sent, []
        return sent


def watching(jobs: Jobs) -> tuple[Watcher, Post, list[str]]:
    post, warnings = Post(), list[str]()
    return Watcher(jobs, post, warnings.append, every_s=30), post, warnings


def test_only_what_has_changed_is_sent_again() -> None:
    jobs = Jobs(marks={"a": 1, "b": 1})
    watcher, post, _ = watching(jobs)
    watcher.try_to_poll()
    assert post.take() == ["a0", "b0"]
    jobs.marks = {"a": 2, "b": 1, "c": 1}
    watcher.try_to_poll()
    assert post.take() == ["a1", "c0"]
    watcher.try_to_poll()
    assert post.take() == []


def test_a_whole_look_forgets_what_is_gone_and_another_does_not() -> None:
    jobs = Jobs(marks={"a": 1, "b": 1}, is_whole=False)
    watcher, _, _ = watching(jobs)
    news = [watcher.poll().news]
    jobs.marks = {"b": 1}
    news.append(watcher.poll().news)
    jobs.marks, jobs.is_whole = {"a": 1}, True
    news.append(watcher.poll().news)
    jobs.marks = {"b": 1}
    news.append(watcher.poll().news)
    assert news == [2, 0, 0, 1]


def test_what_could_not_be_sent_is_sent_later() -> None:
    jobs = Jobs(marks={"a": 1})
    watcher, post, _ = watching(jobs)
    post.is_down = True
    assert not watcher.try_to_poll()
    assert jobs.sent == 0
    post.is_down = False
    assert watcher.try_to_poll()
    assert jobs.sent == 1
    assert post.take() == ["a0"]


def test_trouble_is_reported_once_and_so_is_its_end() -> None:
    jobs = Jobs(marks={"a": 1})
    watcher, _, warnings = watching(jobs)
    watcher.try_to_poll()
    jobs.trouble = "sacct failed"
    for _ in range(3):
        assert not watcher.try_to_poll()
    jobs.trouble = ""
    watcher.try_to_poll()
    watcher.try_to_poll()
    assert [line.split(" in ")[0] for line in warnings] == [
        "watching jobs: 1 jobs, 1 new or changed, 1 events sent",
        "sacct failed; nothing is lost, it is tried again",
        "watching jobs: 1 jobs, 0 new or changed, 0 events sent",
    ]


def test_each_look_is_reported() -> None:
    polls: list[Poll] = []
    watcher, _, _ = watching(Jobs(marks={"a": 1}))
    watcher.report = polls.append
    watcher.try_to_poll()
    watcher.try_to_poll()
    assert [(poll.jobs, poll.news, poll.events) for poll in polls] == [(1, 1, 1), (1, 0, 0)]
