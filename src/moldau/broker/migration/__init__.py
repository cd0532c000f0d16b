"""The way from ZooKeeper to the quorum, on the quorum's controllers (KIP-866).

``stages.py`` decides what comes next (pure), ``driver.py`` carries it out while this controller rules, ``claiming.py``
takes /controller, ``mode.py`` speaks for brokers that are still in ZooKeeper mode. What an image is in znodes:
``moldau.zookeeper``. What brokers in that mode do: ``broker/zookeeper/presenting.py``.
"""
