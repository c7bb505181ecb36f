"""A notice as Prometheus and Alertmanager see an alert: labels, annotations, links."""

from ett_service.notifications.notice import Notice
from ett_service.notifications.wording import exact, word

ALERT = "EttRegressionActive"
_CLUSTER = "cluster"


def labels(notice: Notice, most: int) -> dict[str, str]:
    """What identifies it; parts without a value are left out, as Alertmanager does."""
    subject = notice.finding.series.subject
    told = {
        "alertname": ALERT,
        "cluster": notice.cohort.get(_CLUSTER, ""),
        "cohort": cohort_label(notice),
        "phase": subject.phase,
        "stage": subject.stage,
        "cause": subject.cause,
        "metric": subject.metric.value,
        "severity": notice.severity,
        "project": notice.project,
        "test": "true" if notice.is_test else "",
    }
    return {name: exact(value, most) for name, value in told.items() if value}


def cohort_label(notice: Notice) -> str:
    """Values of the dimensions beside the cluster, which has a label of its own."""
    return " ".join(value for name, value in notice.cohort.items() if name != _CLUSTER and value)


def summary(notice: Notice, most: int) -> dict[str, str]:
    """One line for people."""
    return {"summary": word(notice, most).headline}


def annotations(notice: Notice, most: int) -> dict[str, str]:
    """What people read, and where they read on."""
    told = word(notice, most)
    sentences = [
        told.remark,
        f"{told.what}: {told.how_much}.",
        f"Since {told.since}.",
        f"Associated with {told.associated}.",
        f"Costs {told.cost}.",
        *(f"Example: {name}." for name, _ in told.examples),
        f"More: {told.more}",
    ]
    found = {
        "summary": told.headline,
        "description": " ".join(filter(None, sentences)),
        "runbook_url": notice.runbook,
        "dashboard_url": notice.link,
    }
    return {name: value for name, value in found.items() if value}
