"""A node: requests, life with the controller, replicas, and the wiring of them all.

Start with ``node.py`` (two screens); ``network/`` has listeners and connections, ``api/`` has one file per request,
``office.py`` and ``quorum_plane.py`` are the controller's side, ``data.py`` and ``replicas.py`` the data's.
"""
