"""A process under the referee's command, and how it is set up."""
