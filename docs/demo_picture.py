"""Draw what the demo printed: `scripts/finetune demo --quick 2>&1 | python docs/demo_picture.py > docs/demo.svg`.

The picture begins at the gate's first answer; of its findings it shows those that block and counts those that warn.
Bars are left out, and the folder of the model, which is each machine's own, is shown where it usually is. It names no
font from the network, so that it looks the same offline.
"""

import re
import sys

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

FRAME = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}" role="img"
 aria-label="The end of finetune demo">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
 font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs>{lines}<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath></defs>
<rect width="{terminal_width}" height="{terminal_height}" rx="8" fill="#1b1b1f"/>
<g transform="translate(12, 12) scale(0.975)">{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">{matrix}</g></g>
</svg>
"""
LEFT_OUT = ("scoring:", "sampling:", "probing:", "the model is in ", "`finetune` is not on your PATH")
MARKS = {
    r"BLOCKS": "bold red",
    r"^gate: blocked|blocked$": "bold red",
    r"open$|answer under the right reward: open": "bold green",
    r"^\d\. .*": "bold",
}


def main() -> None:
    """Read the demo's output and print the picture."""
    said = re.sub(r"/\S*(?=/models/)", "~/.local/share/llm-finetuning", sys.stdin.read())
    shown = said[said.index("gate: blocked") :].rstrip()
    said_lines = [line for line in shown.splitlines() if not line.startswith(LEFT_OUT)]
    lines = [line for line in said_lines if not line.startswith("  warns ")]
    last = max(place for place, line in enumerate(lines) if line.startswith("  BLOCKS"))
    lines.insert(last + 1, f"  ... and {len(said_lines) - len(lines)} findings that warn")
    console = Console(record=True, width=128, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for line in lines:
        text = Text(line)
        for pattern, style in MARKS.items():
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=False)
    sys.stdout.write(console.export_svg(title="", theme=MONOKAI, code_format=FRAME, unique_id="demo"))


if __name__ == "__main__":
    main()
