// A step that waits for approval is approved once, and another one is declined by a new plan, with the SDK for TypeScript.
import assert from "node:assert/strict";
import { Kitfleet } from "@kitfleet/sdk";

const message = `open ${process.env.SITE}pay?by=typescript, tap the "Pay now" button, wait for the heading "Paid", extract the heading as receipt`;
const client = new Kitfleet();
await using agent = await client.agentSessions.create({ label: "approvals.ts – Käufer" });
const listed = async () => {
  const ids: string[] = [];
  for await (const { step, agent_session_id } of client.approvals.list({ limit: 1 })) if (agent_session_id === agent.id) ids.push(step.id);
  return ids;
};
const asked = await agent.send(message);
assert.deepEqual(await listed(), asked.waiting.map((step) => step.id));
const approved = await asked.approve("approved", { idempotencyKey: `${asked.turn_id}-1` });
// The answer was lost: the same message with the same key returns the same turn.
assert.deepEqual(await asked.approve("approved", { idempotencyKey: `${asked.turn_id}-1` }), approved);
assert.deepEqual(await listed(), []);

const declined = await agent.send(message);
assert.deepEqual(await listed(), declined.waiting.map((step) => step.id));
await agent.send("reload the page");
assert.deepEqual(await listed(), []);
const late = await declined.approve();
const statuses = (turn: typeof asked) => turn.intents.map((step) => step.status);
const payments = Number(await (await fetch(`${process.env.SITE}payments?by=typescript`)).text());
console.log(JSON.stringify({ payments, asked: statuses(asked), approved: statuses(approved), receipt: approved.results.at(-1), late: [late.kind, late.intents] }));
