"""Bytes <-> messages: schemas, generated codecs, frames, record batches. Pure: no socket, no clock.

Read schema.py (how a message says what it is), codec.py (how that becomes code), frames.py, batch.py; messages/ has one
file per api key and records/ what lives inside records.
"""

from moldau.wire import codec as codec  # gives Message.decode and Message.encode what they need
