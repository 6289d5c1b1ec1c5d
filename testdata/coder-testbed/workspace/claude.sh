#!/bin/bash
# claude: starts the real Claude Code in workspaces of the test bed. Its model is the stub whose address is in ~/model-url, else
# in the test bed's own file model-url.
# IS_SANDBOX says that the workspace is a sandbox; otherwise Claude Code refuses the template's permission mode to root.
set -euo pipefail
ROOT=${HOME%/ws/*}
export ANTHROPIC_API_KEY=sk-stub CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 DISABLE_ERROR_REPORTING=1 IS_SANDBOX=1
ANTHROPIC_BASE_URL=$(cat "$HOME/model-url" 2>/dev/null || cat "$ROOT/model-url")
export ANTHROPIC_BASE_URL
exec "$ROOT/claude/node_modules/.bin/claude" "$@"
