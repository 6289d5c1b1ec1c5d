// An MCP server with one tool, written with the TypeScript SDK in the usual way. `make bench` compares Fleet with it. It answers
// list_agents with the JSON from its standard input, and prints its address when it listens.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

const answer = JSON.parse(await text(process.stdin));
const sessions = new Map();

// With sessions, the SDK needs one server for each client. Without them, it would need one for each request, which is slower.
async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  const server = new McpServer({ name: 'bare', version: '1' });
  server.registerTool('list_agents', { description: 'List all agents.' }, async () => ({
    content: [{ type: 'text', text: JSON.stringify(answer) }],
    structuredContent: answer,
  }));
  await server.connect(transport);
  return transport;
}

const http = createServer(async (request, response) => {
  const transport = sessions.get(request.headers['mcp-session-id']) ?? (await open());
  await transport.handleRequest(request, response);
});
http.keepAliveTimeout = 0; // clients keep their connections while other servers are measured
http.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${http.address().port}`));
