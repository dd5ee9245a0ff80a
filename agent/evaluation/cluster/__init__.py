"""Evaluation on the nodes of a Ray cluster; nothing here is imported unless `--engine ray` asks for it."""
