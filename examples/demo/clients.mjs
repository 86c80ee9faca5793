import { MemoryClient } from "mem0ai";

const { MEMTEND_URL: host, MEMTEND_KEY: apiKey } = process.env;
const memory = new MemoryClient({ host, apiKey });
await memory.add([{ role: "user", content: "I drink green tea in the morning" }], { userId: "mira", infer: false });
const { results } = await memory.search("what does she drink?", { filters: { user_id: "mira" } });
console.log(results[0].memory);
