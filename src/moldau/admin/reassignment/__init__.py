"""Making and carrying out reassignment plans; the commands are in ``moldau.admin.reassign``."""
