"""A node and the active controller: being it, reaching it, registering with it, and noticing dead brokers."""
