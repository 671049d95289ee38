"""Two runs side by side, and one run on two days: what differs, and whether that is more than chance."""
