"""The parts of the scripted harness. They import each other relatively, and nothing but the standard
library: they are run by their path, in a Python that knows no packages, since that starts fast."""
