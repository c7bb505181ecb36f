"""All pages."""

from ett_service.pages import files, sign_in
from ett_service.pages.fleet import overview
from ett_service.pages.jobs import job, listing

ROUTERS = (sign_in.ROUTER, files.ROUTER, overview.ROUTER, listing.ROUTER, job.ROUTER)
