"""Small plots as SVG: panels side by side, both axes logarithmic, a line for each series."""

import math
from html import escape

WIDTH, HEIGHT, MARGIN, LEGEND = 300, 190, 46, 15  # of one panel, in pixels
COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#c77700", "#557a95", "#7a4419", "#222222")


def scatter(panels, *, x, y, columns=3):
    """SVG text. ``panels`` has for each title its lines, and these for each label their points."""
    points = [point for lines in panels.values() for line in lines.values() for point in line]
    across, up = _axis(p[0] for p in points), _axis(p[1] for p in points)
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    width, top = columns * (WIDTH + MARGIN) + 10, rows * (HEIGHT + MARGIN) + 20
    height = top + LEGEND * math.ceil(len(labels) / columns) + 20
    size = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="10"'
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}><rect width="100%" height="100%" fill="white"/>']
    for i, (title, lines) in enumerate(panels.items()):
        left, above = MARGIN + i % columns * (WIDTH + MARGIN), 20 + i // columns * (HEIGHT + MARGIN)
        drawn.append(f'<g transform="translate({left} {above})">{_panel(title, lines, colours, across, up)}</g>')
    for i, label in enumerate(labels):
        left, above = MARGIN + i % columns * (WIDTH + MARGIN), top + LEGEND * (i // columns)
        line = f'<path d="M{left} {above}h22" {_stroke(label, colours)}/>'
        drawn.append(f'{line}<text x="{left + 28}" y="{above + 3}">{escape(label)}</text>')
    drawn.append(f'<text x="{MARGIN}" y="{height - 8}" fill="#555">across: {escape(x)}; up: {escape(y)}</text></svg>')
    return "\n".join(drawn) + "\n"


def _panel(title, lines, colours, across, up):
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>']
    parts.append(f'<text x="4" y="-6" font-weight="bold">{escape(title)}</text>')
    for power in range(across[0], across[1] + 1):
        left = _place(10**power, across) * WIDTH
        parts.append(f'<text x="{left:.0f}" y="{HEIGHT + 13}" text-anchor="middle">{10**power:,}</text>')
    for power in range(up[0], up[1] + 1):
        above = HEIGHT - _place(10**power, up) * HEIGHT
        parts.append(f'<path d="M0 {above:.0f}h{WIDTH}" stroke="#eee"/>')
        parts.append(f'<text x="-4" y="{above + 3:.0f}" text-anchor="end">{10**power:g}</text>')
    for label, points in lines.items():
        places = [(_place(a, across) * WIDTH, HEIGHT - _place(b, up) * HEIGHT) for a, b in sorted(points)]
        parts.append(f'<path d="M{"L".join(f"{a:.1f} {b:.1f}" for a, b in places)}" {_stroke(label, colours)}/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.5" fill="{colours[label]}"/>' for a, b in places]
    return "".join(parts)


def _stroke(label, colours):
    dashed = ' stroke-dasharray="5 3"' if "blocked" in label else ""
    return f'fill="none" stroke="{colours[label]}" stroke-width="1.5"{dashed}'


def _axis(values):
    """The powers of ten around all values."""
    found = [value for value in values if value > 0]
    return math.floor(math.log10(min(found))), max(math.ceil(math.log10(max(found))), 1)


def _place(value, axis):
    return (math.log10(value) - axis[0]) / max(axis[1] - axis[0], 1)
