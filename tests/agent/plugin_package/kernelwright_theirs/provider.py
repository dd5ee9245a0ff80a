"""A provider: answers from its settings, and needs a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelwright.agent.providers.endpoint import Endpoint
from kernelwright.agent.providers.provider_kind import ClientTerms, ProviderKind
from kernelwright.agent.records.messages import Completion, CompletionRequest, Provider, Usage

MODULE = """Here it is.

```python
# theirs
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return {}
```
"""


class Canned(ProviderKind):
    """Answers the expressions of its settings, turn by turn."""

    name: str = "theirs"
    expressions: tuple[str, ...] = ("x * 2",)

    key_variables: ClassVar = ("THEIR_KEY",)
    url_variables: ClassVar = ()
    default_url: ClassVar = "https://theirs.invalid/v1"
    default_models: ClassVar = ("their-model",)

    def open(self, endpoint: Endpoint, terms: ClientTerms) -> Provider:
        return _Client(endpoint, terms, self.expressions)


@dataclass(frozen=True)
class _Client:
    endpoint: Endpoint
    terms: ClientTerms
    expressions: tuple[str, ...]
    name: str = "theirs"

    async def complete(self, request: CompletionRequest) -> Completion:
        usage = Usage(prompt_tokens=1000, completion_tokens=100)
        price = self.terms.prices.find(request.model)
        return Completion(
            provider=self.name,
            model=request.model,
            text=MODULE.format(self.expressions[min(request.turn, len(self.expressions) - 1)]),
            finish_reason=f"key {self.endpoint.api_key}",
            usage=usage,
            cost_usd=None if price is None else float(price.cost_usd(usage)),
            seconds=0.1,
            completed_at="2026-01-01T00:00:00+00:00",
        )

    async def close(self) -> None:
        pass
