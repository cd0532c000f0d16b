"""A node's settings: server.properties, what is changed while it runs, and what topics' logs run under."""
