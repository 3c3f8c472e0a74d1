"""Mathieu et al., the workshop paper that preceded [Mathieu2019].  [Mathieu2018].

Its experiments are those of the later paper, with other widths in table 1a.
"""

from unweave.presets.mathieu2019 import pinwheels, priors

PRESETS = (*priors("mathieu2018", "1", 32), *pinwheels("mathieu2018", "2"))
