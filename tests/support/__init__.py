"""What the tests share: an oracle, named priors, strategies, and services to test against."""
