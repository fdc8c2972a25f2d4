"""What a metric is: the catalogue, bounds, sample efficiency, and curves in bounded memory."""
