#!/usr/bin/env bash
# Runs a server on the default addresses, and prints commands to paste.
set -euo pipefail
cd "$(dirname "$0")/.."
fleet=$PWD/bin/fleet
cat <<TEXT
Fleet's live page is at http://127.0.0.1:8101/, and its API page at http://127.0.0.1:8101/docs. In another terminal:

  export PATH="$PWD/bin:\$PATH"
  fleet project list
  fleet agent create papi --project shell --spec "Try things"
  fleet task run papi "uname -a; date" --follow
  curl http://127.0.0.1:8101/v1/agents

Claude Code:
  claude mcp add --transport http fleet http://127.0.0.1:8101/mcp

Claude Desktop, Cursor (claude_desktop_config.json, mcp.json):
  {"mcpServers": {"fleet": {"command": "$fleet", "args": ["mcp"]}}}

Ctrl-C stops the server. Agents and their tasks continue, and the next server finds them again.

TEXT
exec "$fleet" serve
