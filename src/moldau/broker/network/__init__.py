"""The broker's network: listeners, their connections, and the one owner of request and response bytes.

``listener.py`` is what the connections of one listener share, ``connection.py`` one client, ``receive_buffer.py`` its
bytes until they are whole frames, ``memory.py`` how many bytes all of them may hold. Which requests there are, and what
they do, is ``broker/api``.
"""
