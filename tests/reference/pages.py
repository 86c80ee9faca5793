"""Every page of docs that the code decides."""

from reference import api, cli, configuration, events, files, jobs, work

PAGES = (cli.PAGE, configuration.PAGE, api.PAGE, jobs.PAGE, events.PAGE, files.PAGE, work.PAGE)
