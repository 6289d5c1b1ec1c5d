#!/usr/bin/env bash
# Starts Claude Code under AgentAPI: the workspace's startup script. The agent is ready when this ends.
# A home or an image that has claude and agentapi already starts at once, and needs no internet.
set -euo pipefail
umask 077
AGENTAPI=0.11.8
state=$HOME/.fleet
work=$HOME/work
url=http://127.0.0.1:$AGENT_PORT
export PATH=$HOME/.local/bin:$PATH CLAUDE_CONFIG_DIR=$state/claude
mkdir -p "$HOME/.local/bin" "$work" "$CLAUDE_CONFIG_DIR"

# --- programs
command -v claude >/dev/null || curl -fsSL https://claude.ai/install.sh | bash
if ! command -v agentapi >/dev/null; then
  arch=$(uname -m)
  case $arch in x86_64) arch=amd64 ;; aarch64) arch=arm64 ;; esac
  curl -fsSL -o "$state/agentapi" "https://github.com/coder/agentapi/releases/download/v$AGENTAPI/agentapi-linux-$arch"
  install -m 755 "$state/agentapi" "$HOME/.local/bin/agentapi"
fi

# The agent reports on itself through Coder's own MCP server, which also watches AgentAPI. It reads Coder's token for this
# workspace from a file, so that the token is in no environment and on no command line.
printf %s "$CODER_AGENT_TOKEN" > "$state/agent-token"
cat > "$state/mcp.json" <<JSON
{"mcpServers": {"coder": {"command": "$(command -v coder)", "args": ["exp", "mcp", "server", "--allowed-tools", "coder_report_task"], "alwaysLoad": true, "env": {
  "CODER_AGENT_URL": "$CODER_AGENT_URL",
  "CODER_AGENT_TOKEN_FILE": "$state/agent-token",
  "CODER_MCP_APP_STATUS_SLUG": "agentapi",
  "CODER_MCP_AI_AGENTAPI_URL": "$url"
}}}}
JSON

# --- the agent's environment
# What is not named here is gone for the agent and all that it runs: Coder's token, with which the owner's SSH key and
# git logins can be had, and GIT_SSH_COMMAND and GIT_ASKPASS, which have them. It uses accounts of its own.
spec=$(base64 -d <<< "$AGENT_SPEC_BASE64")
role=$AGENT_ROLE
for name in $(compgen -e); do
  case $name in
    HOME | USER | LANG | PATH | SHELL | TMPDIR | CLAUDE_CONFIG_DIR) ;;
    ANTHROPIC_API_KEY | ANTHROPIC_BASE_URL | GH_TOKEN) [ -n "${!name}" ] || unset "$name" ;;
    AGENT_PORT | AGENT_REPOSITORY | AGENT_PERMISSION_MODE) export -n "${name?}" ;;
    *) unset "$name" ;;
  esac
done
export TERM=xterm-256color DISABLE_AUTOUPDATER=1

# --- the project
if [ -n "${GH_TOKEN:-}" ]; then
  # shellcheck disable=SC2016 # git expands it, when it asks
  git config --global credential.helper '!f() { echo username=x-access-token; echo "password=$GH_TOKEN"; }; f'
fi
if [ -n "$AGENT_REPOSITORY" ] && [ ! -d "$work/.git" ]; then
  git clone -- "$AGENT_REPOSITORY" "$work"
fi

# --- the agent
case $role in
  operator) prompt="You are an operations engineer. You manage deployments, monitor systems and handle incidents. Look before you act, and prefer what can be undone." ;;
  manager) prompt="You are an engineering manager. You coordinate work, review specs and verify that results are what was asked for. You do not write the code yourself." ;;
  *) prompt="You are a software engineer. You write code, implement features and fix bugs, with tests, on a branch of your own, and open a pull request." ;;
esac
prompt+=$'\n\nReport your progress with coder_report_task: state "working" as you go, "idle" with a summary when a task is done, "failure" with the reason when it cannot be done.'
[ -z "$spec" ] || prompt+=$'\n\nYour specification:\n'$spec
printf '%s\n' "$prompt" > "$state/prompt.md"

# A first start asks questions: theme, trust in the folder, the key, the permission mode. The workspace is the answer.
key=${ANTHROPIC_API_KEY:-}
cat > "$CLAUDE_CONFIG_DIR/.claude.json" <<JSON
{"hasCompletedOnboarding": true, "bypassPermissionsModeAccepted": true, "theme": "dark",
 "customApiKeyResponses": {"approved": ["${key: -20}"]},
 "projects": {"$work": {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}}}
JSON

cd "$work"
setsid nohup agentapi server --type claude --port "$AGENT_PORT" --term-width 80 --term-height 1000 -- \
  claude --permission-mode "$AGENT_PERMISSION_MODE" --allowedTools mcp__coder__coder_report_task \
  --mcp-config "$state/mcp.json" --append-system-prompt-file "$state/prompt.md" </dev/null >"$state/agentapi.log" 2>&1 &
for _ in {1..240}; do
  [ "$(curl -sf "$url/status" | grep -c '"status":"stable"')" = 0 ] || exit 0
  kill -0 $! 2>/dev/null || break
  sleep 0.25
done
echo "AgentAPI does not get ready:"
tail -20 "$state/agentapi.log"
exit 1
