"""The trusted process of one problem: inputs, expected values, clock and decision live here alone."""
