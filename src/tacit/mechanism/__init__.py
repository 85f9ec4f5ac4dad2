"""What a device does to an answer, and what its reports tell: one file per mechanism, the audit, the rounding."""

from tacit.mechanism.auditing import audit, belief, satisfies
from tacit.mechanism.block_design import BlockDesign
from tacit.mechanism.core_tail import CoreTail
from tacit.mechanism.errors import gain, mse, total_mse, unbiased_variance
from tacit.mechanism.levels import Audit, Belief, Level, Notion
from tacit.mechanism.plane_circle import PlaneCircle
from tacit.mechanism.protocol import Covered, Kept, Mechanism, NotEstimableError, PlainEstimator, Reading, Received
from tacit.mechanism.rounding import PrivacyError, round_channel
from tacit.mechanism.set_levels import SetLevel
from tacit.mechanism.shuffled_circle import ShuffledCircle
from tacit.mechanism.table import Channel, mean_absolute_error
from tacit.mechanism.unary_encoding import UnaryEncoding

#: Every mechanism that a plan can hold. A new one is a file and a line here.
KINDS: dict[str, type[Mechanism]] = {
    Channel.kind: Channel,
    CoreTail.kind: CoreTail,
    ShuffledCircle.kind: ShuffledCircle,
    PlaneCircle.kind: PlaneCircle,
    BlockDesign.kind: BlockDesign,
    UnaryEncoding.kind: UnaryEncoding,
}

__all__ = [
    "KINDS",
    "Audit",
    "Belief",
    "BlockDesign",
    "Channel",
    "CoreTail",
    "Covered",
    "Kept",
    "Level",
    "Mechanism",
    "NotEstimableError",
    "Notion",
    "PlainEstimator",
    "PlaneCircle",
    "PrivacyError",
    "Reading",
    "Received",
    "SetLevel",
    "ShuffledCircle",
    "UnaryEncoding",
    "audit",
    "belief",
    "gain",
    "mean_absolute_error",
    "mse",
    "round_channel",
    "satisfies",
    "total_mse",
    "unbiased_variance",
]
