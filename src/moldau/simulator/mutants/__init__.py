"""Mutants: known mistakes, most of them Kafka's own, each a small patch that is in force inside ``with`` only.

A law that catches no mutant proves nothing, and a simulation in which mutants survive is too tame. ``make mutants``
hunts them all and prints mutant, bug, law and seeds to find. Normal runs import none of this. One file for each
machine's bugs; read next: mutant.py (what an entry is), hunt.py (the hunt), table.py (the command).
"""
