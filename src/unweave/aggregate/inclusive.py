"""KL(p(z) || q(z)), which penalises holes in q(z)."""

from __future__ import annotations

from torch import Tensor

from unweave.aggregate.estimators import exact
from unweave.core.tensors import Numbers, floating


def inclusive_kl(log_p: Numbers, log_q: Numbers) -> Tensor:
    """KL(p || q) ~ 1/S sum_s [log p(z_s) - log 1/N sum_n q(z_s|x_n)].  [Mathieu2019] app. B.

    log_p: (S,) = log p(z_s) with z_s ~ p; log_q: (S, N) = log q(z_s|x_n). The paper prints sums
    instead of both means: its value is S (KL - log N), with S times the gradient.
    """
    log_p, log_q = floating(log_p), floating(log_q)
    if log_p.dim() != 1 or log_q.dim() != 2 or len(log_p) != len(log_q) or not log_q.numel():
        raise ValueError(
            f"expected log_p (S,) and log_q[s, n] = log q(z_s|x_n) of shape (S, N), got "
            f"{tuple(log_p.shape)} and {tuple(log_q.shape)}; both belong to the same samples of p"
        )
    return (log_p - exact(log_q)).mean()
