"""Several providers in order: the next is asked when one cannot answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.agent.records.messages import Completion, CompletionRequest, Provider, ProviderError


@dataclass(frozen=True, slots=True)
class Choice:
    """One provider of a fallback list."""

    provider: Provider
    model: str | None = None
    """Its own name of the model; None asks for the name in the request."""


class FallbackProvider:
    """Asks each provider in turn until one answers; where one failed for good, that model is not asked again.

    A completion carries the name and the model of whoever answered.
    """

    def __init__(self, choices: Sequence[Choice]) -> None:
        self.name = ",".join(choice.provider.name for choice in choices)
        self._choices = tuple(choices)
        self._gone: dict[tuple[int, str], ProviderError] = {}
        """Place in the list and model to why that is not asked again."""

    async def complete(self, request: CompletionRequest) -> Completion:
        errors: list[ProviderError] = []
        for index, choice in enumerate(self._choices):
            asked = request if choice.model is None else request.model_copy(update={"model": choice.model})
            place = index, asked.model
            if place not in self._gone:
                try:
                    return await choice.provider.complete(asked)
                except ProviderError as error:
                    errors.append(error)
                    if error.fatal:
                        self._gone[place] = error
            else:
                errors.append(self._gone[place])
        raise ProviderError("; then ".join(map(str, errors)), fatal=all(error.fatal for error in errors))

    async def close(self) -> None:
        for choice in self._choices:
            await choice.provider.close()
