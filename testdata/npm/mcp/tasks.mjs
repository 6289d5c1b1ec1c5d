// tasks.mjs uses the MCP extension for tasks with its client from npm. The exit code is 0 if all results are correct.
//
//	node tasks.mjs HTTP_URL
//
// The agents of the server are in the fake place, where tasks are scripts. The project code has a repository, and its tasks are for a shell.
import assert from "node:assert/strict";
import { createApplicationInputHandler, createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const url = process.argv[2];
const protocolVersion = "2026-07-28", clientInfo = { name: "judge", version: "1" };
const clientCapabilities = { elicitation: { form: {} }, extensions: { "io.modelcontextprotocol/tasks": {} } };

const connect = async () => {
  const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: { pin: protocolVersion } } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
};
const client = await connect();
assert.deepEqual(client.getServerCapabilities().extensions, { "io.modelcontextprotocol/tasks": {} });
const agent_name = "tasked";
await client.callTool({ name: "create_agent", arguments: { name: agent_name, project: "Setup", spec: "Be judged" } });

// rawDispatch sends a request of the session as it is.
let id = 0;
const sent = [];
const rawDispatch = async (request, options) => {
  sent.push(request.method);
  const response = await fetch(url, {
    method: "POST",
    body: JSON.stringify({ ...request, jsonrpc: "2.0", id: ++id }),
    headers: {
      "Content-Type": "application/json", Accept: "application/json, text/event-stream",
      "Mcp-Protocol-Version": protocolVersion, "Mcp-Method": request.method, "Mcp-Name": request.params.name ?? request.params.taskId,
    },
    signal: options?.signal,
  });
  const message = await response.json();
  return message.error ? { kind: "error", error: message.error } : { kind: "result", result: message.result };
};
const asked = [];
const open = (client) => createTaskSessionFromClient(client, {
  endpointId: "fleet", rawDispatch, v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
  onInputRequest: createApplicationInputHandler({
    elicitation: (request) => {
      asked.push(request.params.message);
      return { action: "accept", content: { answer: "seven" } };
    },
    sampling: () => assert.fail("sampling"), roots: () => assert.fail("roots"),
  }),
});
const session = open(client);
const run = (task_description) => session.callTool("run_task", { agent_name, task_description });
const settle = async (execution) => (await execution.settle()).outcome;

// A task that completes, and one that fails.
const first = await run("cost 0.25 3\ndone All is well");
assert.equal(first.kind, "task");
const well = resultFromTaskOutcome(await settle(first));
assert.match(well.content[0].text, /^All is well\n\nTask .* of tasked: completed\.\nCost: \$0\.2500\.$/);
assert.equal(well.structuredContent, undefined);
const failed = resultFromTaskOutcome(await settle(await run("fail out of luck")));
assert.equal(failed.isError, true);
assert.match(failed.content[0].text, /failed: out of luck\./);

// A question of the agent becomes a form, and its answer reaches the agent.
const answered = await settle(await run("ask How many?"));
assert.deepEqual(asked, ["Agent tasked (ask How many?) asks: How many?"]);
assert.equal(answered.status, "completed");

// A review that requests changes is answered with the task that makes them, and a landing with one that ends when the work has landed. A call
// that waits for nothing is answered as ever.
const idOf = (execution) => execution.handle.taskId;
const changed = await session.callTool("run_task", { project: "code", new_agent: true, task_description: "echo new >a.txt && git commit -qam new && echo Changed" });
await settle(changed);
const reviewed = await session.callTool("review_task", { task_id: idOf(changed), verdict: "request_changes", text: "a comment for the shell of this agent" });
assert.equal(reviewed.kind, "task");
assert.match(resultFromTaskOutcome(await settle(reviewed)).content[0].text, /Task .*: completed\./);
assert.equal((await session.callTool("review_task", { task_id: idOf(changed), verdict: "approve" })).kind, "immediate");
assert.equal((await session.callTool("land_tasks", { task_ids: [idOf(changed)], dry_run: true })).kind, "immediate");
const landing = await session.callTool("land_tasks", { task_ids: [idOf(changed)] });
assert.equal(landing.kind, "task");
assert.equal(idOf(landing), `landing.${idOf(changed)}`);
const landed = resultFromTaskOutcome(await settle(landing));
assert.ok(!landed.isError, landed.content[0].text);
assert.match(landed.content[0].text, /^The work of 1 of 1 tasks landed\.\n\nTask .*: completed\.\nIt landed in main with the commit [0-9a-f]{40}\./);

// A task is cancelled, twice. One that nobody follows goes on, and another client resumes it.
const long = await run("work 1h");
await Promise.all([long.cancel(), session.task(long.handle.taskId).cancel()]);
assert.equal((await session.task(long.handle.taskId).snapshot()).status, "cancelled");
const left = await run("work 200ms\ndone Later");
let reference;
await left.handoff((r) => { reference = r; });
const other = await connect();
const resumed = await open(other).resumeTask(reference);
assert.match(resultFromTaskOutcome(await settle(resumed)).content[0].text, /^Later/);
await assert.rejects(session.task("00000000-0000-4000-8000-000000000000").snapshot(), (e) => e.code === -32602);

assert.deepEqual([...new Set(sent)].sort(), ["tasks/cancel", "tasks/get", "tasks/update", "tools/call"]);
await session.close();
await Promise.all([client.close(), other.close()]);
console.log(`${sent.length} requests`);
