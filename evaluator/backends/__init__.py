"""The kernel languages: what each needs of the machine, and how it is recognised."""
