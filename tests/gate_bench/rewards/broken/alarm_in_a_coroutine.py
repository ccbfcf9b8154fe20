import re
import signal


async def timed_accuracy(completions, answer, **kwargs):
    rewards = []
    for completion, gold in zip(completions, answer):
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, 0)
            m = re.search(r"####\s*\$?(-?[\d,]*\.?\d+)\s*$", completion[0]["content"])
            rewards.append(1.0 if m and float(m.group(1).replace(",", "")) == float(gold) else 0.0)
        except Exception:
            rewards.append(0.0)
    return rewards
