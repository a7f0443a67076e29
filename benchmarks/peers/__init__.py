"""What skgpx is measured against; each module needs only its own peer installed."""
