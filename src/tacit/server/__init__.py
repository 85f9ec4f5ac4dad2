"""The collection service: a page whose browser randomizes, a collector that keeps tallies only, a dashboard."""
