"""What a device does to an answer, and what its reports tell: one file per mechanism, the audit, the rounding."""
