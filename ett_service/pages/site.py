"""All pages."""

from ett_service.pages import elsewhere, files, sign_in
from ett_service.pages.fleet import changes, checkpoints, overview, quality, what_if
from ett_service.pages.jobs import attempt, compiling, events, job, listing
from ett_service.pages.record import first_key, settings
from ett_service.pages.regressions import comparison, finding
from ett_service.pages.regressions import listing as findings

ROUTERS = (
    sign_in.ROUTER,
    files.ROUTER,
    overview.ROUTER,
    listing.ROUTER,
    job.ROUTER,
    attempt.ROUTER,
    compiling.ROUTER,
    events.ROUTER,
    findings.ROUTER,
    finding.ROUTER,
    first_key.ROUTER,
    comparison.ROUTER,
    changes.ROUTER,
    checkpoints.ROUTER,
    what_if.ROUTER,
    quality.ROUTER,
    settings.ROUTER,
    elsewhere.ROUTER,  # last: it matches what nothing else does
)
