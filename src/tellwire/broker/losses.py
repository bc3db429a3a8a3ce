"""What of the journal was lost, told until a person acknowledges it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tellwire.broker.engine import Engine
from tellwire.core.context import TellOperator
from tellwire.protocol.addresses import OPERATOR
from tellwire.protocol.operations.audit import Acknowledged, AcknowledgeLosses

log = logging.getLogger("tellwire.daemon")

ADVICE = "`tellwire audit --acknowledge` at a terminal ends this notice."


class Losses:
    """Tells the log at once and the operator as soon as there is one, once in each life of a broker."""

    def __init__(self, engine: Engine, words: list[str], acknowledge: Callable[[], int]) -> None:
        self._engine = engine
        self._acknowledge = acknowledge
        self._waits = bool(words)
        self.words = words
        for each in words:
            log.error("%s %s", each, ADVICE)

    def beat(self) -> None:
        """Tell the operator, if that is still to be done."""
        if self._waits and self._engine.state.find(OPERATOR) is not None:
            self._waits = False
            self._engine.submit_own(TellOperator(" ".join([*self.words, ADVICE])))

    def answer(self, _operation: AcknowledgeLosses) -> Acknowledged:
        """A person knows."""
        count = self._acknowledge()
        log.warning("the operator acknowledged what was lost: %s", " ".join(self.words))
        self.words, self._waits = [], False
        return Acknowledged(count=count)
