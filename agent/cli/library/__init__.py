"""Commands that read and write what was produced: problems, kernels, leaderboards, datasets."""
