"""Estimators of the aggregate posterior q(z) = 1/N sum_n q(z|x_n).  [Kim2018] eq. 1.

All take a table of log-densities log_q[i, j, ...] = log q(z_i | x_j), where z_i was drawn from
q(z|x_i), and return log q(z_i) for every i and every trailing index (variables, groups).
"""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from unweave.core.hints import nearest
from unweave.core.tensors import Numbers, floating

Estimator = Literal["weighted", "stratified", "exact"]


def exact(log_q: Numbers) -> Tensor:
    """Compute log 1/N sum_j q(z_i|x_j) over the whole dataset: (S, N, ...) to (S, ...)."""
    log_q = floating(log_q)
    if log_q.dim() < 2 or not log_q.shape[1]:
        raise ValueError(
            f"expected log_q[i, j, ...] = log q(z_i|x_j) of shape (S, N, ...), got "
            f"{tuple(log_q.shape)}"
        )
    return torch.logsumexp(log_q, 1) - math.log(log_q.shape[1])


def weighted(log_q: Numbers, dataset_size: int) -> Tensor:
    """Compute log 1/(N B) sum_j q(z_i|x_j): (B, B, ...) to (B, ...).  [Chen2018] eq. 3.

    The weights sum to 1/N instead of 1, so the estimate is too low by up to log N (it is meant as a
    bound), by the same constant for the joint and for every marginal.
    """
    log_q = _checked(log_q, dataset_size)
    return torch.logsumexp(log_q, 1) + log_weights("weighted", log_q.shape[1], dataset_size).own


def stratified(log_q: Numbers, dataset_size: int) -> Tensor:
    """log [ q(z_i|x_i)/N + (N-1)/(N (B-1)) sum_{j != i} q(z_i|x_j) ].  [Esmaeili2019] eq. 13.

    (B, B, ...) to (B, ...). The density is unbiased when the other members of the batch are
    drawn from the rest of the dataset; its logarithm is biased downwards (Jensen).
    """
    log_q = _checked(log_q, dataset_size)
    batch = log_q.shape[1]
    if batch == 1:
        if dataset_size > 1:
            raise ValueError(
                "the stratified estimator needs at least two observations per batch, got 1; "
                "raise the batch size"
            )
        return log_q[:, 0]
    own, other = log_weights("stratified", batch, dataset_size)
    log_weight = torch.full((batch, batch), other, dtype=log_q.dtype, device=log_q.device)
    log_weight.fill_diagonal_(own)
    return torch.logsumexp(log_q + log_weight.reshape(batch, batch, *(1,) * (log_q.dim() - 2)), 1)


class LogWeights(NamedTuple):
    """Log-weights of q(z_i|x_i) and of every q(z_i|x_j), j != i, in an estimator's sum."""

    own: float
    other: float


def log_weights(estimator: Estimator, batch: int, dataset_size: int) -> LogWeights:
    """Return the log-weights of an estimator; "exact" averages over the batch.

    >>> log_weights("stratified", batch=2, dataset_size=2) == log_weights("exact", 2, 2)
    True
    """
    if estimator == "stratified":
        other = math.log((dataset_size - 1) / (dataset_size * (batch - 1)))
        return LogWeights(-math.log(dataset_size), other)
    each = -math.log(dataset_size * batch if estimator == "weighted" else batch)
    return LogWeights(each, each)


def estimate(log_q: Numbers, dataset_size: int, estimator: Estimator) -> Tensor:
    """Compute log q(z_i) with the named estimator; "exact" needs the whole dataset as batch."""
    log_q = _checked(log_q, dataset_size)
    if estimator == "exact":
        if log_q.shape[1] != dataset_size:
            raise ValueError(
                f"the exact q(z) needs all {dataset_size} observations in a batch, got "
                f"{log_q.shape[1]}; use batch_size={dataset_size}, or estimator=stratified"
            )
        return exact(log_q)
    named = {"weighted": weighted, "stratified": stratified}
    if estimator not in named:
        raise ValueError(f"{estimator!r} is not known: {nearest(estimator, [*named, 'exact'])}")
    return named[estimator](log_q, dataset_size)


def _checked(log_q: Numbers, dataset_size: int) -> Tensor:
    log_q = floating(log_q)
    if log_q.dim() < 2 or log_q.shape[0] != log_q.shape[1] or not log_q.numel():
        raise ValueError(
            f"expected log_q[i, j, ...] = log q(z_i|x_j) of shape (B, B, ...), got "
            f"{tuple(log_q.shape)}"
        )
    if dataset_size < log_q.shape[1]:
        raise ValueError(
            f"expected a dataset at least as large as the batch, got {dataset_size} < "
            f"{log_q.shape[1]}"
        )
    return log_q
