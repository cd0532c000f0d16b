"""What this node knows of the cluster, how it shows it to clients, and the log of state changes."""
