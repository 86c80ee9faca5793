"""mem0's own client against `memtend serve`: run it beside `memtend up`, with mem0ai installed.

Put the key that `memtend keys create` prints into MEM0_API_KEY, and the address of `serve` into MEM0_HOST.
"""

import os

# Before the import: mem0 reports to its makers by default.
os.environ["MEM0_TELEMETRY"] = "false"

from mem0 import MemoryClient  # see above

client = MemoryClient(host=os.environ.get("MEM0_HOST", "http://127.0.0.1:8321"))

client.add("I drink green tea in the morning", user_id="mara", metadata={"from": "chat"}, infer=False)
client.add("The meeting was moved to Friday", user_id="lena", infer=False)

results = client.search("what does she drink?", filters={"user_id": "mara"})["results"]
for found in results:
    print(f"{found['score']:.3f}  {found['memory']}  {found['metadata']}")

memory_id = results[0]["id"]
client.update(memory_id, text="I drink coffee in the morning")
for row in client.history(memory_id):
    print(f"{row['event']:6}  {row['new_memory']}")

client.delete_all(user_id="mara")
client.delete_all(user_id="lena")
print(f"{client.get_all(filters={'user_id': '*'})['count']} memories left")
