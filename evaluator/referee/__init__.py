"""The trusted process of one problem: inputs, expected values, clock, comparison and decision live here alone."""
