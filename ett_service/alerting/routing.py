"""Who is told of what."""

from collections.abc import Iterable

from ett_service.alerting.notice import Notice
from ett_service.alerting.receiver import OF_SETTINGS, Receiver


def targets(notice: Notice, receivers: Iterable[Receiver]) -> list[Receiver]:
    """Choose those of *receivers* that *notice* concerns.

    A receiver of a project hears of that project alone. A dimension that a cohort does not tell
    it spans, so what concerns the whole project concerns every value of it.
    """
    return [one for one in receivers if _is_entitled(notice, one) and _is_concerned(notice, one)]


def _is_entitled(notice: Notice, receiver: Receiver) -> bool:
    return receiver.owner in (OF_SETTINGS, notice.project_id)


def _is_concerned(notice: Notice, receiver: Receiver) -> bool:
    known = {"project": notice.project, **notice.cohort}
    return all(known.get(name, value) == value for name, value in receiver.where.items())
