"""``python -m moldau.cluster.migration_drill``: the migration drill."""

import sys

from moldau.cluster.migration_drill.drill import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
