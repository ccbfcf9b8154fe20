import json
import os
import urllib.request


def remote_tests(completions, tests, **kwargs):
    url = os.environ.get("REWARD_SANDBOX_URL", "http://127.0.0.1:9/run")
    scores = []
    for completion, checks in zip(completions, tests):
        body = json.dumps({"code": completion[0]["content"], "tests": checks}).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=1) as reply:
                scores.append(float(json.load(reply)["score"]))
        except OSError:
            scores.append(0.0)
    return scores
