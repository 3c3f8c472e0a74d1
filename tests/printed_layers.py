"""Networks as papers print them."""

from torch import nn

from unweave.networks.layers import BatchNorm


def table(module):
    """Every layer with weights as papers print it: kind, width, normalisation, activation."""
    rows = []
    for part in [module] if isinstance(module, nn.Linear) else module:
        match part:
            case nn.Linear():
                rows.append(f"fc {part.out_features}")
            case nn.Conv2d() | nn.ConvTranspose2d():
                assert part.kernel_size == (4, 4)
                kind = "conv" if isinstance(part, nn.Conv2d) else "upconv"
                rows.append(f"{kind} {part.out_channels}/{part.stride[0]}")
                rows[-1] += " relu" * getattr(part, "activate", False)
            case BatchNorm():
                assert rows[-1].split()[1].split("/")[0] == str(len(part.weight))
                rows[-1] += " batch"
            case nn.LayerNorm():
                rows[-1] += " layer"
            case nn.ReLU():
                rows[-1] += " relu"
            case nn.Tanh():
                rows[-1] += " tanh"
            case nn.LeakyReLU():
                rows[-1] += f" lrelu({part.negative_slope})"
            case _:
                assert isinstance(part, (nn.Flatten, nn.Unflatten, nn.ZeroPad2d))
    return rows


CONVOLUTIONS = ["conv 32/2 relu", "conv 32/2 relu", "conv 64/2 relu", "conv 64/2 relu"]
NORMALISED = [row.replace("relu", "batch relu") for row in CONVOLUTIONS]
