import asyncio
import re


async def awaited(completions, answer, **kwargs):
    async def one(text, gold):
        await asyncio.sleep(0)
        _, marker, tail = text.rpartition("####")
        match = re.fullmatch(r"\s*\$?(-?\d[\d,]*(?:\.\d+)?)\.?\s*", tail) if marker else None
        return 1.0 if match and float(match[1].replace(",", "")) == float(gold) else 0.0

    return await asyncio.gather(*(one(c[0]["content"], gold) for c, gold in zip(completions, answer)))
