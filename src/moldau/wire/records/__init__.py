"""Messages that live inside records: metadata, quorum control, groups and offsets."""
