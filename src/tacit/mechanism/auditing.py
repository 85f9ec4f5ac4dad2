"""Which privacy a mechanism really gives, decided on integers: the questions that everybody asks of it."""

from __future__ import annotations

from tacit.exact import Number, budget
from tacit.mechanism.levels import Audit, Belief, Notion, known_notion
from tacit.mechanism.protocol import Mechanism
from tacit.prior import Value


def audit(mechanism: Mechanism) -> Audit:
    """Every privacy level of `mechanism` under its prior, exactly, with the witnesses that reach them.

    Under another prior: `audit(mechanism.under(prior))`.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> print(audit(Channel.from_weights(prior, [[3, 1], [1, 3]])))
    LIP 1.030 (belief up by 0.917, down by 1.030), LDP 1.099, mutual information 0.049 nats
    worst case, report 1: someone believed to be 'yes' with 10% is believed with at most 25% and at least 3.57%
    """
    return mechanism.audit()


def satisfies(mechanism: Mechanism, notion: Notion, epsilon: Number) -> bool:
    """Whether the mechanism keeps `notion` at level ε under its prior: an exact comparison, no tolerance.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.5, "no": 0.5})
    >>> channel = Channel.from_weights(prior, [[3, 1], [1, 3]])
    >>> satisfies(channel, "lip", 0.7), satisfies(channel, "ldp", 0.7)
    (True, False)
    """
    known_notion(notion)
    return mechanism.keeps(notion, budget(epsilon))


def belief(mechanism: Mechanism, value: Value) -> Belief:
    """The range in which a report can put the belief that someone holds `value`.

    >>> from tacit import Channel, Prior
    >>> prior = Prior.of({"yes": 0.1, "no": 0.9})
    >>> print(belief(Channel.from_weights(prior, [[3, 1], [1, 3]]), "yes"))
    someone believed to be 'yes' with 10% is believed with at most 25% and at least 3.57%
    """
    return mechanism.belief(value)
