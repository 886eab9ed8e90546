"""Send an order as free text and its date to the guarded endpoint; the model's name binds the procedure."""

import json
import os

from openai import OpenAI

client = OpenAI(base_url=f"http://127.0.0.1:{os.environ.get('STEPGUARD_PORT', '8000')}/v1", api_key="unused")
reply = client.chat.completions.create(
    model="invoice-eu",
    messages=[
        {
            "role": "user",
            "content": "Same as my last orders: twelve hinges at 3.35 and 4 oak panels, 61.20 each.",
        }
    ],
    extra_body={"stepguard": {"inputs": {"order_date": "2026-06-01"}}},
)
print("answer:", json.loads(reply.choices[0].message.content or ""))
report = reply.model_extra["stepguard"]
print("outcome:", report["outcome"], "after", report["attempts"], "attempts")
for violation in report["violations"]:
    print(f"cut at step {violation['step']}: {violation['kind']}")
print("steps:", ", ".join(f"{n} {name}" for name, n in report["steps"].items() if n))
