"""``python -m moldau.cluster.kills``: the kill suite."""

import sys

from moldau.cluster.kills.command import main, stop_on_term

if __name__ == "__main__":
    stop_on_term()
    sys.exit(main(sys.argv[1:]))
