"""``make reference``: write the pages of docs/reference anew."""

from reference.pages import PAGES

for page in PAGES:
    page.renew()
