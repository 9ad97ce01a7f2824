"""Python text that emitters share: modules, expressions, literals, and kernels."""
