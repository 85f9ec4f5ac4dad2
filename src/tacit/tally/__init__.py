"""What a collector keeps of reports: counts or sums for each group, and what they counted, merged in any order."""

from tacit.tally.by_group import GroupTally, Tally, keep, merge_all
from tacit.tally.counts import LARGEST_WEIGHT, SUMS, Counts
from tacit.tally.coverage import Coverage
from tacit.tally.sources import Sources

__all__ = ["LARGEST_WEIGHT", "SUMS", "Counts", "Coverage", "GroupTally", "Sources", "Tally", "keep", "merge_all"]
