// clients.mjs uses Fleet with the MCP clients of npm. Each client, in each of its modes and over each transport, does the whole job of
// a controller. The exit code is 0 if all results are correct.
//
//	node clients.mjs HTTP_URL GRPC_ADDRESS FLEET DIRECTORY
//
// The agents of the server at the two addresses are in the fake place, where tasks are scripts. So are those of the servers that this
// program starts itself, with their data in DIRECTORY.
import assert from "node:assert/strict";
import { join } from "node:path";
import * as sdk from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as SdkStdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as SdkHTTP } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as next from "@modelcontextprotocol/client";
import { StdioClientTransport as NextStdio } from "@modelcontextprotocol/client/stdio";

const [url, grpc, fleet, directory] = process.argv.slice(2);

const modern = "2026-07-28";
const clients = [
  {
    name: "sdk",
    open: () => new sdk.Client({ name: "judge", version: "1" }),
    http: (u) => new SdkHTTP(u), stdio: (s) => new SdkStdio(s),
    call: (c, tool, options) => c.callTool(tool, undefined, options),
  },
  ...[["client", {}, undefined], ["modern", { versionNegotiation: { mode: { pin: modern } } }, modern]].map(([name, options, version]) => ({
    name, version,
    open: () => new next.Client({ name: "judge", version: "1" }, options),
    http: (u) => new next.StreamableHTTPClientTransport(u), stdio: (s) => new NextStdio(s),
    call: (c, tool, options) => c.callTool(tool, options),
  })),
];

// stdio starts `fleet mcp`. The command's standard error is that of this program.
const stdio = (...args) => ({ command: fleet, args: ["mcp", ...args], env: { ...environment, FLEET_PLACES: "fake" }, stderr: "inherit", cwd: directory });
const environment = Object.fromEntries(["PATH", "HOME", "TMPDIR"].filter((k) => process.env[k]).map((k) => [k, process.env[k]]));
const transports = [
  ["http", (c) => c.http(new URL(url))],
  ["embedded", (c) => c.stdio(stdio("--embedded", "--data", join(directory, c.name)))],
  ["stdio", (c) => c.stdio(stdio("--server", grpc))],
];

// used are the tools that the job needs.
const used = [
  "create_agent", "delete_agent", "list_agent_projects", "list_agent_roles", "list_agents", "show_agent", "show_agent_task_history", "show_task",
  "start_agent_task", "stop_agent_task", "wait_tasks", "watch_fleet",
];

// judge does the job over one connection. After the client has listed the tools, it checks each structuredContent against the tool's
// output schema, and throws if it does not match.
async function judge(kind, transport, connect) {
  const c = kind.open();
  await c.connect(connect(kind));
  if (kind.version) assert.equal(c.getNegotiatedProtocolVersion(), kind.version);
  assert.equal(c.getServerVersion().name, "fleet");
  assert.match(c.getInstructions(), /wait_tasks/);

  const list = (await c.listTools()).tools;
  const names = list.map((t) => t.name);
  assert.deepEqual(used.filter((name) => !names.includes(name)), []);
  for (const t of list) assert.equal(t.outputSchema?.type, "object", t.name);

  const call = async (name, args, options) => {
    const r = await kind.call(c, { name, arguments: args }, options);
    if (r.isError) return r;
    assert.deepEqual(JSON.parse(r.content[0].text), r.structuredContent, name);
    return r.structuredContent;
  };
  // progressing calls a tool, and returns its answer and the texts of the progress notifications before it.
  const progressing = async (name, args) => {
    const seen = [];
    const answer = await call(name, args, { onprogress: (p) => seen.push(p) });
    seen.forEach((p, i) => assert.equal(p.progress, i + 1, `${name}: progress out of order`));
    return { answer, texts: seen.map((p) => p.message) };
  };
  const failing = async (name, args, reason) => {
    const r = await call(name, args);
    assert.equal(r.isError, true, `${name} does not fail`);
    assert.equal(r.structuredContent, undefined, "an error has no structured content");
    const e = JSON.parse(r.content[0].text);
    assert.deepEqual(Object.keys(e).sort(), ["details", "error", "message"]);
    assert.equal(e.error, reason);
    return e;
  };

  const prefix = `${kind.name}-${transport}`;
  const { projects } = await call("list_agent_projects", {});
  assert.deepEqual(projects.map((p) => p.name), ["DataOne", "Setup"]);
  const { roles } = await call("list_agent_roles", { project: "Setup" });
  assert.deepEqual(roles.map((r) => r.name), ["coder", "operator", "manager"]);

  // Create many agents at the same time. The progress of each call must be the events of its agent.
  let progress = 0;
  await Promise.all(Array.from({ length: 10 }, async (_, i) => {
    const name = `${prefix}-${i}`;
    const { answer, texts } = await progressing("create_agent", { name, project: "Setup", spec: "Be judged" });
    assert.equal(answer.agent.status, "idle");
    assert.equal(answer.agent.role, "coder");
    const { events } = await call("watch_fleet", { agent_name: name });
    assert.deepEqual(texts, events.map((e) => e.text), "progress of create_agent");
    progress += texts.length;
  }));
  const agent_name = `${prefix}-0`;

  // Follow a task from its start to its history. Its output must come as progress.
  const lines = 300;
  const start = { agent_name, task_description: `repeat ${lines} line\npayload the whole of it\ncost 0.25 3\ndone All is well`, request_id: `${prefix}-start` };
  const { task } = await call("start_agent_task", start);
  assert.equal(task.source, "ai_controller");
  assert.deepEqual((await call("start_agent_task", start)).task, task, "the same request_id gives the same task");
  // The events do not fit into one answer, so each call continues where the previous one ended.
  const events = [];
  for (let cursor = "0"; events.at(-1)?.type !== "task_ended"; ) {
    const { answer, texts } = await progressing("watch_fleet", { task_id: task.id, follow: true, cursor });
    assert.deepEqual(texts.slice(0, answer.events.length), answer.events.map((e) => e.text || e.type.replaceAll("_", " ")), "progress of watch_fleet");
    events.push(...answer.events);
    cursor = answer.cursor;
    progress += texts.length;
  }
  const output = events.filter((e) => e.type === "task_output").map((e) => e.text).join("");
  assert.equal(output.match(/line \d+/g).length, lines);
  const waited = await call("wait_tasks", { task_ids: [task.id] });
  assert.equal(waited.done, true);
  assert.equal(waited.tasks[0].status, "completed");
  const history = await call("show_agent_task_history", { agent_name });
  assert.deepEqual(history.tasks.map((t) => [t.id, t.summary, t.status]), [[task.id, "All is well", "completed"]]);
  assert.deepEqual([history.total_count, history.page, history.page_size, history.total_pages], [1, 1, 20, 1]);
  const shown = (await call("show_task", { task_id: task.id, include_payload: true })).task;
  assert.deepEqual([shown.payload, shown.cost_usd, shown.turns], ["the whole of it", 0.25, 3]);

  // Stop a running task, and cancel a wait.
  const long = (await call("start_agent_task", { agent_name, task_description: "work 1h" })).task;
  const giveUp = new AbortController();
  const hanging = call("wait_tasks", { task_ids: [long.id] }, { signal: giveUp.signal });
  giveUp.abort("enough");
  await assert.rejects(hanging, /enough/);
  const busy = await failing("start_agent_task", { agent_name, task_description: "echo" }, "AGENT_BUSY");
  assert.match(busy.message, new RegExp(agent_name));
  const stopped = await progressing("stop_agent_task", { agent_name });
  assert.equal(stopped.answer.task.status, "stopped");
  assert.equal(stopped.answer.agent_status, "idle");
  assert.ok(stopped.texts.length > 0);

  // Errors must be results that say what to do.
  assert.match((await failing("create_agent", { name: "x", project: "Nowhere", spec: "s" }, "PROJECT_NOT_FOUND")).message, /DataOne.*Setup/);
  await failing("create_agent", { name: "invalid@name", project: "Setup", spec: "s" }, "INVALID_NAME");
  await failing("create_agent", { name: agent_name.toUpperCase(), project: "Setup", spec: "s" }, "AGENT_EXISTS");
  await failing("show_agent", { agent_name: "nobody" }, "AGENT_NOT_FOUND");
  await failing("stop_agent_task", { agent_name }, "NO_RUNNING_TASK");
  await failing("show_agent_task_history", { agent_name, page: 0 }, "INVALID_PAGE");
  await failing("list_agents", { colour: "red" }, "INVALID_ARGUMENT");

  const deleted = await call("delete_agent", { agent_name });
  assert.equal(deleted.deleted_agent.name, agent_name);
  const { agents } = await call("list_agents", {});
  assert.equal(agents.filter((a) => a.name.startsWith(prefix)).length, 9);
  await c.close();
  console.log(`${prefix}: ${list.length} tools, ${progress} of ${progress} pieces of progress`);
}

for (const [transport, connect] of transports) {
  for (const kind of clients) {
    try {
      await judge(kind, transport, connect);
    } catch (cause) {
      throw new Error(`${kind.name} over ${transport}`, { cause });
    }
  }
}
