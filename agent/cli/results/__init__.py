"""Commands that read and write what was produced: runs, attempts, kernels, leaderboards, datasets."""
