"""Steer masked diffusion language models at generation time: you bring a reward, a tree search finds text for it.

    import treasure

    t = treasure.load("pocket")
    out = t.generate("One day, the old dog", reward="sentiment=negative", seed=0)
    print(out.text, out.reward, out.cost)

A reward is a specification, a Python function of TRL's signature, or arithmetic on both; a model is a name, or any
torch module that maps ids to logits. The same seed gives the same text as the command line and the server.
"""

from __future__ import annotations

import json as _json

from . import _treasure
from ._errors import Error, FileError, ModelError, RequestError, RewardError, SearchError, StoppedError
from ._models import from_callable, from_torch, presets
from ._results import Cost, Frame, FrameToken, Guess, Likelihood, Predicted, Rows, Sample, Samples, Score, Scores
from ._rewards import (
    Reward, at_least, at_most, cross_encoder, min, openrlhf, pipeline, product, reward, step, verl,
)
from ._session import Treasure, load

_facts = _json.loads(_treasure.facts())
__version__: str = _facts["version"]
#: The methods with their options and defaults.
methods = _facts["methods"]

__all__ = [
    "Cost", "Error", "FileError", "Frame", "FrameToken", "Guess", "Likelihood", "ModelError", "Predicted",
    "RequestError", "Reward", "RewardError", "Rows", "Sample", "Samples", "Score", "Scores", "SearchError",
    "StoppedError", "Treasure", "at_least", "at_most", "cross_encoder", "from_callable", "from_torch", "load", "methods",
    "openrlhf", "pipeline", "presets", "product", "reward", "step", "verl",
]
