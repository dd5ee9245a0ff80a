"""The providers `openai` and `openai-batch`: any endpoint that speaks OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from kernelwright.agent.providers.batch_api.batch_jobs import BatchJobs
from kernelwright.agent.providers.endpoint import OPENAI_URL, Endpoint
from kernelwright.agent.providers.openai_chat import OpenAIProvider
from kernelwright.agent.providers.prices import PriceTable
from kernelwright.agent.providers.provider_kind import ClientTerms, ProviderKind
from kernelwright.agent.records.messages import CompletionRequest, Provider


class OpenAI(ProviderKind):
    """A live endpoint that speaks OpenAI's protocol: OpenAI, vLLM, SGLang, OpenRouter and the like."""

    name: str = "openai"
    stream: bool = True

    key_variables: ClassVar[tuple[str, ...]] = ("KERNELWRIGHT_API_KEY", "OPENAI_API_KEY")
    url_variables: ClassVar[tuple[str, ...]] = ("KERNELWRIGHT_BASE_URL", "OPENAI_BASE_URL")
    default_url: ClassVar = OPENAI_URL
    bulk: ClassVar = "openai-batch"

    def open(self, endpoint: Endpoint, terms: ClientTerms) -> Provider:
        return OpenAIProvider(replace(endpoint, stream=self.stream), terms)


class OpenAIBatch(OpenAI):
    """The same endpoint through its Batch API: cheaper, answered within a day; for `generate`."""

    name: str = "openai-batch"

    def open_jobs(
        self, folder: Path, endpoint: Endpoint, prices: PriceTable, key: Callable[[CompletionRequest], str]
    ) -> BatchJobs:
        return BatchJobs(folder, replace(endpoint, name=self.name), prices=prices, key=key)
