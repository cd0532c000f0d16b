"""The parts of ``broker/zookeeper/plane.py``: the control plane whose truth stands in ZooKeeper's znodes.

The active controller's side: ``election.py`` (election), ``writer.py`` (decisions into znodes), ``channels.py`` and
``batch.py`` (decisions to brokers), ``watching.py`` and ``admin_znodes.py`` (what others write). The broker's side:
``lifecycle.py`` (registration), ``controller_requests.py`` and ``translation.py`` (requests into records),
``settings.py``.
"""
