"""Settings of this node that are changed while it runs (KIP-226): the cluster's defaults, and over them its own.

Watches the committed metadata, has ``NodeConfig`` take the values over, and wakes whoever asked to hear of a key. Most
readers look a value up each time they need it and ask for nothing. Decides nothing: who may set what is decided in
``moldau.controller.configs``, which value wins in ``moldau.image.configs``. Defaults of topics:
``replicas/topic_log_configs.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from moldau.broker.config.node_config import NodeConfig
from moldau.image import Delta, Image
from moldau.image.configs import CLUSTER, ResourceType, is_sensitive, key_of
from moldau.model.config_key import shown
from moldau.model.dynamic_config import DYNAMIC_KEYS, PER_BROKER

log = logging.getLogger(__name__)


class DynamicConfig:
    """One node's settings as the image has them."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._own = (ResourceType.BROKER.value, str(config.node_id))
        self._everyones = (ResourceType.BROKER.value, CLUSTER)
        self._reactions: dict[str, list[Callable[[], object]]] = {}

    def react(self, key: str, act: Callable[[], object]) -> None:
        """Call ``act`` whenever the key's value has changed."""
        self._reactions.setdefault(key, []).append(act)

    def apply(self, image: Image, delta: Delta) -> None:
        """A committed batch changed something. A text that is no good value is named once, and passed over."""
        for (kind, name), before in delta.configs.items():
            _name_bad(kind, name, before, image.config(kind, name))
        if self._own not in delta.configs and self._everyones not in delta.configs:
            return
        known = {
            key: text
            for layer in (image.config(*self._everyones), image.config(*self._own))
            for key, text in layer.items()
            if key not in PER_BROKER and key in DYNAMIC_KEYS and DYNAMIC_KEYS[key].is_good(text)
        }
        for key in sorted(self._config.adopt(known)):
            log.info("%s is now %s", key, self._config[key])
            for act in self._reactions.get(key, ()):
                act()


def _name_bad(kind: int, name: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    for key, text in now.items():
        known = key_of(kind, key)
        if known is None or before.get(key) == text or known.is_good(text):
            continue
        value = "(hidden)" if is_sensitive(known) else shown(text)
        log.error(
            "%s %s has %s=%s, which is passed over: %s is expected",
            *(_kind_name(kind), name or "(all)", key, value, known.allowed()),
        )


def _kind_name(kind: int) -> str:
    return ResourceType(kind).name.lower().replace("_", " ")
