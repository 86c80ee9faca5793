// The unmodified npm client of mem0 against the server that the arguments name: prints what each call answered.
import { MemoryClient } from "mem0ai";

const [host, apiKey] = process.argv.slice(2);
const client = new MemoryClient({ apiKey, host });
const answers = {};

async function refusal(call) {
  try {
    await call();
    return null;
  } catch (error) {
    return { name: error.constructor.name, code: error.errorCode ?? null, message: error.message };
  }
}

await client.ping();
answers.project = client.projectId;

const mara = { user_id: "mara" };
const [first] = (
  await client.add([{ role: "user", content: "I drink green tea in the morning" }], {
    userId: "mara",
    runId: "r1",
    metadata: { someMood: "calm" },
    infer: false,
  })
).results;
const [second] = (await client.add([{ role: "user", content: "I like jazz" }], { userId: "mara", infer: false })).results;
await client.add([{ role: "user", content: "I like the blues" }], { userId: "lena", infer: false });
answers.added = [first, second];

answers.search = (await client.search("what does she drink", { filters: mara, topK: 1 })).results;
answers.filtered = (
  await client.search("tea", { filters: { AND: [mara, { NOT: [{ run_id: "r1" }] }] } })
).results.map((one) => one.memory);
answers.listed = await client.getAll({ filters: mara, page: 1, pageSize: 1 });
answers.record = await client.get(first.id);

await client.update(first.id, { text: "I drink coffee", metadata: { someMood: "awake" } });
answers.updated = await client.get(first.id);
answers.history = (await client.history(first.id)).map((row) => [row.event, row.oldMemory, row.newMemory]);
answers.feedback = await client.feedback({ memoryId: second.id, feedback: "POSITIVE" });

await client.batchUpdate([{ memoryId: second.id, text: "I like opera" }]);
answers.batch = (await client.getAll({ filters: mara })).results.map((one) => one.memory).sort();
await client.batchDelete([second.id]);
await client.delete(first.id);
answers.deleted = (await client.getAll({ filters: mara })).count;
answers.gone = await refusal(() => client.get(first.id));

answers.users = (await client.users()).results.map((one) => [one.type, one.name, one.totalMemories]).sort();
await client.add([{ role: "user", content: "I like jazz" }], { userId: "mara", infer: false });
await client.deleteAll({ userId: "mara" });
answers.left = (await client.getAll({ filters: { user_id: "*" } })).results.map((one) => one.memory);
await client.deleteUsers({ userId: "lena" });
answers.empty = (await client.users()).count;

answers.drawn = (await client.add([{ role: "user", content: "I live in Lisbon" }], { userId: "nora" })).results;

answers.refused = {
  createMemoryExport: await refusal(() => client.createMemoryExport({ schema: {}, filters: mara })),
  getMemoryExport: await refusal(() => client.getMemoryExport({ filters: mara })),
  getProfile: await refusal(() => client.getProfile({ entityId: "mara" })),
  generateProfile: await refusal(() => client.generateProfile({ entityId: "mara" })),
  getProfileSettings: await refusal(() => client.getProfileSettings()),
  updateProfileSettings: await refusal(() => client.updateProfileSettings({ enabled: true })),
  sampleProfiles: await refusal(() => client.sampleProfiles()),
  getProfileJob: await refusal(() => client.getProfileJob("j1")),
  getProject: await refusal(() => client.getProject({ fields: ["customCategories"] })),
  updateProject: await refusal(() => client.updateProject({ customInstructions: "x" })),
  getWebhooks: await refusal(() => client.getWebhooks()),
  createWebhook: await refusal(() => client.createWebhook({ name: "n", url: "http://x", eventTypes: ["memory_add"] })),
  updateWebhook: await refusal(() => client.updateWebhook({ webhookId: "1", name: "n" })),
  deleteWebhook: await refusal(() => client.deleteWebhook({ webhookId: "1" })),
};
answers.unauthorised = await refusal(() => new MemoryClient({ apiKey: "mt_0_0", host }).search("tea", { filters: mara }));

console.log(JSON.stringify(answers));
