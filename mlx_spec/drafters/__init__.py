"""The drafters: one file each, one protocol."""
