"""The public Python API: `import kernelwright`. Every name is loaded on first use."""

from __future__ import annotations
