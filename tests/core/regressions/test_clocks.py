"""The three clocks of a regression run, stop and break their promise when they should."""

from ett_service.core.intervals import HOUR_US
from ett_service.core.regressions.clocks import Moments, ResponseTime, ResponseTimes, Sla, clocks

SLA = Sla(detect_us=96 * HOUR_US, acknowledge_us=24 * HOUR_US, resolve_us=168 * HOUR_US)


def at(hours: int) -> int:
    return hours * HOUR_US


def test_before_it_fires_only_its_detection_is_awaited() -> None:
    assert clocks(Moments(at(10)), SLA, at(40)) == ResponseTimes(
        ResponseTime(at(30), SLA.detect_us, runs=True), None, None
    )


def test_while_it_fires_the_others_run_from_there() -> None:
    times = clocks(Moments(at(10), firing_us=at(106)), SLA, at(131))
    assert times == ResponseTimes(
        ResponseTime(at(96), SLA.detect_us, runs=False),
        ResponseTime(at(25), SLA.acknowledge_us, runs=True),
        ResponseTime(at(25), SLA.resolve_us, runs=True),
    )
    breached = [time and time.breached for time in (times.detect, times.acknowledge, times.resolve)]
    assert breached == [False, True, False]


def test_each_clock_stops_at_its_own_moment() -> None:
    times = clocks(Moments(0, at(1), acknowledged_us=at(3), resolved_us=at(8)), SLA, at(1000))
    assert times == ResponseTimes(
        ResponseTime(at(1), SLA.detect_us, runs=False),
        ResponseTime(at(2), SLA.acknowledge_us, runs=False),
        ResponseTime(at(7), SLA.resolve_us, runs=False),
    )


def test_being_resolved_ends_what_nobody_acknowledged() -> None:
    times = clocks(Moments(0, at(1), resolved_us=at(8)), SLA, at(1000))
    assert times.acknowledge == ResponseTime(at(7), SLA.acknowledge_us, runs=False)
    assert clocks(Moments(0, resolved_us=at(8)), SLA, at(1000)).detect == ResponseTime(
        at(8), SLA.detect_us, runs=False
    )


def test_an_onset_after_it_fired_takes_no_time() -> None:
    times = clocks(Moments(at(9), firing_us=at(8)), SLA, at(10))
    assert times.detect == ResponseTime(0, SLA.detect_us, runs=False)


def test_what_began_before_the_first_search_was_not_detected_late() -> None:
    begun = Moments(at(10), firing_us=at(200), written_us=at(240), searched_us=at(240))
    times = clocks(begun, SLA, at(250))
    assert times.detect is None
    assert times.acknowledge == ResponseTime(at(10), SLA.acknowledge_us, runs=True)
    since = clocks(begun._replace(searched_us=at(10)), SLA, at(250))
    assert since.detect == ResponseTime(at(190), SLA.detect_us, runs=False)


def test_nobody_is_late_before_the_run_that_fired_it_was_written() -> None:
    times = clocks(Moments(0, at(24), written_us=at(240)), SLA, at(250))
    assert times == ResponseTimes(
        ResponseTime(at(24), SLA.detect_us, runs=False),
        ResponseTime(at(10), SLA.acknowledge_us, runs=True),
        ResponseTime(at(10), SLA.resolve_us, runs=True),
    )
