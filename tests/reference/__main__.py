"""``make reference``: write anew what the code decides of the docs."""

from reference.pages import PAGES

for page in PAGES:
    page.renew()
