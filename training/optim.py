"""Muon for the hidden matrices, AdamW for the rest, and the warmup-stable-decay schedule."""

import torch

# Quintic polynomials that push singular values towards 1, steepest first.
QUINTICS = [(8.29, -23.6, 17.3), (4.11, -2.95, 0.545), (3.95, -2.91, 0.553), (3.29, -2.37, 0.464), (2.30, -1.67, 0.419)]


def orthogonalise(matrices, steps, dtype=torch.float32):
    """Batched Newton-Schulz iteration on (n, rows, columns) with rows <= columns."""
    x = matrices / (matrices.norm(dim=(1, 2), keepdim=True) * 1.02 + 1e-7)
    x = x.to(dtype)
    for a, b, c in QUINTICS[:steps]:
        gram = x @ x.transpose(1, 2)
        x = a * x + torch.baddbmm(b * gram, gram, gram, alpha=c) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised. `parts` splits a fused projection into its square or wide pieces."""

    def __init__(self, named, lr, momentum=0.95, weight_decay=0.0, steps=4, dtype=torch.float32):
        parameters = [parameter for _, parameter in named]
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, steps=steps))
        self.dtype = dtype
        self.parts = {id(p): 3 if "qkv" in name else 2 if "gate_up" in name else 1 for name, p in named}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shaped = {}
            for p in group["params"]:
                state = self.state[p]
                buffer = state.setdefault("momentum", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(buffer, group["momentum"])
                for index, piece in enumerate(update.chunk(self.parts[id(p)])):
                    tall = piece.shape[0] > piece.shape[1]
                    piece = piece.T if tall else piece
                    shaped.setdefault(piece.shape, []).append((p, index, tall, piece))
            for entries in shaped.values():
                flat = orthogonalise(torch.stack([piece for *_, piece in entries]), group["steps"], self.dtype)
                for (p, index, tall, piece), update in zip(entries, flat):
                    update = update.T if tall else update
                    target = p.chunk(self.parts[id(p)])[index]
                    target.mul_(1 - group["lr"] * group["weight_decay"])
                    target.add_(update, alpha=-group["lr"] * 0.2 * max(piece.shape) ** 0.5)


def build(model, kind, lr, betas=(0.9, 0.98), dtype=torch.float32):
    """Optimizers whose learning rates are comparable: Muon's update has the size of Adam's."""
    matrices = [(n, p) for n, p in model.named_parameters() if n.startswith("blocks.") and p.ndim == 2]
    others = [p for n, p in model.named_parameters() if not (n.startswith("blocks.") and p.ndim == 2)]
    if kind == "adamw":
        groups = [p for _, p in matrices] + others
        return [torch.optim.AdamW(groups, lr=lr, betas=betas, weight_decay=0.0, fused=True)]
    return [Muon(matrices, lr=lr, dtype=dtype), torch.optim.AdamW(others, lr=lr, betas=betas, weight_decay=0.0, fused=True)]


def schedule(progress, warmup=0.02, decay_from=0.7):
    """Share of the peak rate at `progress` in [0, 1]: warm up, hold, fall linearly to a hundredth."""
    if progress < warmup:
        return max(progress / warmup, 0.02)
    if progress < decay_from:
        return 1.0
    return max(0.01, (1 - progress) / (1 - decay_from))
