"""What runs around every fit: the door, workers, callbacks, and sums over rows."""
