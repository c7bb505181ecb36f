"""All pages."""

from ett_service.pages import files, sign_in
from ett_service.pages.fleet import overview
from ett_service.pages.jobs import job, listing
from ett_service.pages.record import first_key
from ett_service.pages.regressions import finding
from ett_service.pages.regressions import listing as findings

ROUTERS = (
    sign_in.ROUTER,
    files.ROUTER,
    overview.ROUTER,
    listing.ROUTER,
    job.ROUTER,
    findings.ROUTER,
    finding.ROUTER,
    first_key.ROUTER,
)
