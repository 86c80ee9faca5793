"""Every page of docs/reference that the code decides."""

from reference import api, cli, configuration, jobs

PAGES = (cli.PAGE, configuration.PAGE, api.PAGE, jobs.PAGE)
