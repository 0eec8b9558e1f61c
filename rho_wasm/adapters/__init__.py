"""The shapes of others: pure functions from this host's tools, calls and results to theirs, and back, a file each."""
