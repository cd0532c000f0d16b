"""``python -m moldau.cluster.chaos``: the chaos suite, in namespaces of its own where they are permitted."""

import sys

from moldau.cluster.chaos.command import MODULE, main
from moldau.cluster.chaos.net import enclosed
from moldau.cluster.kills.command import stop_on_term

if __name__ == "__main__":
    stop_on_term()
    status = enclosed(MODULE, sys.argv[1:])
    sys.exit(main(sys.argv[1:]) if status is None else status)
