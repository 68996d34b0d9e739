"""The place of the page at ``/``; what it shows comes from :mod:`rotta.serve.routes.looking`."""
