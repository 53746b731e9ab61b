"""Settings for every test: one torch thread, so that two workers share two cores without quarrel."""

import torch

torch.set_num_threads(1)
