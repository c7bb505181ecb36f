"""What was marked in the week, and what the numbers rest on."""

from ett_service.charts.units import count, duration, percent
from ett_service.report.gather import Gathered
from ett_service.report.groups import share
from ett_service.report.page import Section, table


def markers(gathered: Gathered) -> Section:
    """List deploys, launches and maintenance of the week, in order."""
    found = sorted(gathered.markers["markers"], key=lambda marker: (marker["at"], marker["id"]))
    rows = [
        (
            _minute(marker["at"]),
            _minute(marker["end"]) if marker["end"] else "",
            marker["kind"],
            marker["title"],
            ", ".join(f"{name}={value}" for name, value in sorted(marker["labels"].items())),
        )
        for marker in found
    ]
    note = () if rows else ("Nothing was marked.",)
    return Section("Markers of the week", note, table=table("at|to|kind|what|labels", rows))


def quality(gathered: Gathered) -> Section:
    """Tell how much of the week is known how well."""
    now = gathered.now["total"]
    unattributed = share(now["categories"].get("unattributed", 0.0), now["e2e_seconds"])
    rows = [
        ("inside an attempt, under no phase (unattributed)", percent(unattributed)),
        (
            "jobs of unknown accelerators, in no weighted number",
            count(now["jobs_without_accelerators"]),
        ),
        ("their wall time", duration(now["unweighted_seconds"])),
        ("cohorts summed up as the smallest", count(gathered.now["other_cohorts"])),
        ("excluded time", "left out" if gathered.now["exclusions"] == "left_out" else "included"),
    ]
    return Section("What the numbers rest on", table=table("|#", rows))


def _minute(instant: str) -> str:
    return instant[:16].replace("T", " ")
