"""``python -m moldau.admin.demo``: the same as ``moldau demo``."""

from moldau.admin.demo.command import demo

demo(prog_name="moldau demo")
