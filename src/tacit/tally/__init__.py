"""What a collector keeps of reports: counts or sums for each group, and what they counted, merged in any order."""

from tacit.mechanism.kept import LARGEST_WEIGHT, SUMS, Counts, Coverage, Kept
from tacit.tally._tally import Sources, Tally, merge_all

__all__ = ["LARGEST_WEIGHT", "SUMS", "Counts", "Coverage", "Kept", "Sources", "Tally", "merge_all"]
