"""Engines that read answers and reports from files: one file per engine."""
