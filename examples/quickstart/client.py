"""Ask for a procedure to be carried out, and show the steps as they are verified."""

import os

from openai import OpenAI

client = OpenAI(base_url=f"http://127.0.0.1:{os.environ.get('STEPGUARD_PORT', '8000')}/v1", api_key="unused")
stream = client.chat.completions.create(
    model="chain",
    messages=[{"role": "user", "content": "Please carry out the procedure."}],
    extra_body={"stepguard": {"inputs": {"a": 14, "b": 8}}},
    temperature=0,
    stream=True,
)
for chunk in stream:
    for choice in chunk.choices:
        step = getattr(choice.delta, "reasoning_content", None)
        if step:
            print(step, end="", flush=True)
        if choice.delta.content:
            print(f"answer: {choice.delta.content}")
    report = getattr(chunk, "stepguard", None)
    if report:
        print(f"outcome: {report['outcome']}")
        print("steps:", ", ".join(f"{n} {name}" for name, n in report["steps"].items() if n))
