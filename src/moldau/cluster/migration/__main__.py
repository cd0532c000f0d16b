"""``python -m moldau.cluster.migration``: the migration drill."""

import sys

from moldau.cluster.migration.drill import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
