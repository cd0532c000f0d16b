"""A node: requests, life with the controller, replicas, and the wiring of them all.

Start with ``node.py`` (two screens); ``network/`` has listeners and connections, ``api/`` has one file per request,
``controller/service.py`` and ``kraft/plane.py`` are the controller's side, ``data.py`` and ``replicas/manager.py`` the
data's.
"""
