"""What a device does to an answer, and what its reports tell: a folder for each mechanism, the audit, the rounding."""

from tacit.mechanism.auditing import Audit, Belief, Level, Notion, SetLevel, audit, belief, satisfies
from tacit.mechanism.block_design import BlockDesign
from tacit.mechanism.kept import Counts, Coverage, Kept
from tacit.mechanism.many_values import ManyValues
from tacit.mechanism.protocol import (
    Mechanism,
    NotEstimableError,
    PlainEstimator,
    Reading,
    gain,
    mse,
    unbiased_variance,
)
from tacit.mechanism.repeated import Layers, Repeated, joint_level, layered, layered_level, persistent
from tacit.mechanism.rounding import PrivacyError, round_channel
from tacit.mechanism.table import Channel
from tacit.mechanism.tiers import Tiers

#: Every mechanism that a plan can hold. A new one is a folder and a line here.
KINDS: dict[str, type[Mechanism]] = {
    Channel.kind: Channel,
    ManyValues.kind: ManyValues,
    BlockDesign.kind: BlockDesign,
    Tiers.kind: Tiers,
}

__all__ = [
    "KINDS", "Audit", "Belief", "BlockDesign", "Channel", "Counts", "Coverage", "Kept", "Layers", "Level", "ManyValues",
    "Mechanism", "NotEstimableError", "Notion", "PlainEstimator", "PrivacyError", "Reading", "Repeated", "SetLevel",
    "Tiers", "audit", "belief", "gain", "joint_level", "layered", "layered_level", "mse", "persistent", "round_channel",
    "satisfies", "unbiased_variance",
]  # fmt: skip
