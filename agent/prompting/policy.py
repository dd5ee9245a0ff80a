"""Limits of prompts: lengths of lists and texts, and the thresholds of remarks."""

from __future__ import annotations

from typing import Final

SOURCE_CONTEXT: Final = 2
"""Source lines shown before and after the line of an error."""
LONGEST_DIAGNOSTIC: Final = 400
"""Characters of a compiler message."""
COMPILER_NOTES: Final = 2
"""Compiler notes shown with an error."""
TF32_PRODUCTS: Final = 3
"""TF32 products of split operands that are as exact as one product in fp32."""
LAUNCH_BOUND_MS: Final = 0.02
"""Milliseconds below which launch overhead dominates a GPU kernel."""
WRONG_ELEMENTS: Final = 6
"""Wrong elements shown."""
ROUNDING_RATIO: Final = 5000
"""Error over its limit below which wrong values may be lost precision,"""
ROUNDING_SHARE: Final = 0.01
"""if more than this share of the elements is wrong."""
FINDINGS: Final = 4
"""Findings of the static checks shown."""
KERNELS: Final = 4
"""Kernels listed of those that ran."""
KERNELS_COUNTED: Final = 2
"""Kernels whose hardware counters are shown."""
WIDEST_SECTORS: Final = 16.5
"""Most sectors of a contiguous access with 16 bytes a thread."""
BANK_CONFLICTS: Final = 0.1
"""Share of bank conflicts above which they are mentioned."""
OUTPUT_LINES: Final = 15
"""Lines of a process's output shown."""
OUTPUT_CHARACTERS: Final = 1500
"""Characters of a process's output shown."""
EXEMPLAR_CHARACTERS: Final = 30_000
"""Characters shown of another kernel: twice the longest of the saved ones."""
TENSORS_LISTED: Final = 12
"""Tensors of one kind listed; the rest is summed up."""
OPERATORS_SHARE: Final = 0.7
"""Weight of operators in the similarity of problems; shapes weigh the rest."""
LEAST_SIMILARITY: Final = 0.1
"""Similarity of operators below which a kernel is not shown."""
