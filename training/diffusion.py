"""The masked-diffusion objective, its bound on held-out text, and the random-order sampler."""

import torch
import torch.nn.functional as F


def mask_windows(ids, shares, mask_id, generator):
    """Hide round(share * (length - 1)) positions of each row, never the first; returns noisy ids and the mask."""
    rows, length = ids.shape
    count = (shares * (length - 1)).round().clamp(1, length - 1).long()
    rank = torch.rand(rows, length - 1, generator=generator).argsort(1).argsort(1)
    hidden = torch.cat([torch.zeros(rows, 1, dtype=torch.bool), rank < count[:, None]], 1)
    return ids.masked_fill(hidden, mask_id), hidden


def masked_loss(states, table, ids, hidden, smallest_share=0.0):
    """Mean over rows of the mean cross-entropy of the hidden positions.

    With shares uniform on (0, 1] this is the NELBO per token (CE / t); rows that hide less than
    `smallest_share` are weighted as if they hid that much, which tames the noise of 1 / t.
    """
    logits = states[hidden] @ table.T
    loss = F.cross_entropy(logits.float(), ids[hidden], reduction="none")
    count = hidden.sum(1).clamp(min=smallest_share * (ids.shape[1] - 1))
    weight = (1.0 / count)[:, None].expand_as(hidden)[hidden]
    return (loss * weight).sum() / len(ids)


@torch.no_grad()
def nelbo(model, ids, strata=32, seed=0, chunk=64):
    """NELBO in nats per token of each row, `strata` stratified mask shares a row, first token given.

    Returns (rows,) bounds and (rows, strata) mean cross-entropies at the shares used.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = ids.repeat_interleave(strata, 0)
    level = torch.arange(strata).repeat(len(ids))
    shares = (level + torch.rand(len(rows), generator=generator)) / strata
    length = ids.shape[1]
    hidden = torch.rand(len(rows), length, generator=generator) < shares[:, None]
    hidden[:, 0] = False
    bound, mean = [], []
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        noisy = rows[part].masked_fill(hidden[part], model.mask_id)
        logits = model.hidden(noisy)[hidden[part]] @ model.wte.weight.T
        logits[:, model.mask_id] = -torch.inf
        loss = torch.zeros(noisy.shape)
        loss[hidden[part]] = F.cross_entropy(logits, rows[part][hidden[part]], reduction="none")
        bound.append(loss.sum(1) / shares[part] / (length - 1))
        mean.append(loss.sum(1) / hidden[part].sum(1).clamp(min=1))
    return torch.cat(bound).view(-1, strata).mean(1), torch.cat(mean).view(-1, strata)


@torch.no_grad()
def sample(model, rows, length, prompt, seed, temperature=1.0):
    """Random-order unmasking: one position a step, a token drawn from the model's distribution."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((rows, length), model.mask_id)
    ids[:, : len(prompt)] = torch.tensor(prompt)
    free = length - len(prompt)
    order = len(prompt) + torch.rand(rows, free, generator=generator).argsort(1)
    each = torch.arange(rows)
    for step in range(free):
        position = order[:, step]
        logits = model.hidden(ids)[each, position] @ model.wte.weight.T / temperature
        logits[:, model.mask_id] = -torch.inf
        ids[each, position] = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
    return ids
