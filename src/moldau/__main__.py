"""``python -m moldau``: the same as the ``moldau`` command."""

from moldau.admin.main import main

main()
