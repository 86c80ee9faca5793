"""The console: pages for people, served by ``memtend serve`` under ``/console``, with forms that need no script.

``app.create_console`` makes its app. A page is a route in ``routes``, a template in ``templates``, and the operations
of ``memcore.service``; it asks for the verbs that the HTTP API asks for.
"""
