"""The colours of previews: those of the pages and the explorer (`web/src/scatter/palette.ts`)."""

Rgb = tuple[int, int, int]

INK, MUTED, LINE = (26, 30, 35), (92, 101, 111), (228, 228, 222)
MISSING_LABEL = (140, 140, 140)
# Okabe and Ito's palette without black; yellow comes last.
_OKABE_ITO = (
    (0, 114, 178), (230, 159, 0), (0, 158, 115), (204, 121, 167), (86, 180, 233), (213, 94, 0),
    (221, 204, 50),
)  # fmt: skip
# The map "viridis" of matplotlib, at ten equally spaced places.
_VIRIDIS = (
    (68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142), (31, 158, 137),
    (53, 183, 121), (109, 205, 89), (180, 222, 44), (253, 231, 37),
)  # fmt: skip


def class_colour(number: int) -> Rgb:
    """Return the colour of a class: the palette, then darker, then lighter shades of it.

    >>> class_colour(0), class_colour(7), class_colour(14)
    ((0, 114, 178), (0, 63, 98), (140, 192, 220))
    """
    turn, place = divmod(number, len(_OKABE_ITO))
    base = _OKABE_ITO[place]
    if turn % 3 == 0:
        return base
    return _mix(base, (0, 0, 0), 0.45) if turn % 3 == 1 else _mix(base, (255, 255, 255), 0.55)


def scale_colour(share: float) -> Rgb:
    """Return the colour of a share from 0 to 1.

    >>> scale_colour(0), scale_colour(0.5), scale_colour(1)
    ((68, 1, 84), (35, 144, 140), (253, 231, 37))
    """
    place = share * (len(_VIRIDIS) - 1)
    low = min(int(place), len(_VIRIDIS) - 2)
    return _mix(_VIRIDIS[low], _VIRIDIS[low + 1], place - low)


def _mix(one: Rgb, other: Rgb, share: float) -> Rgb:
    red, green, blue = (int(a + (b - a) * share + 0.5) for a, b in zip(one, other, strict=True))
    return red, green, blue
