#!/usr/bin/env bash
# Shows one exchange of each of the other toolsets, over MCP with curl: contracts, conversations, providers, subagents. The
# model is a stub on a loopback port that says what its prompts tell it to say, so no key is needed and nothing costs money.
# docs/use/toolsets.md shows what this prints. Leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."
fleet=$PWD/bin/fleet
dir=$(mktemp -d)
pids=()

cleanup() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done || true
	rm -rf "$dir"
}
trap cleanup EXIT

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

: >"$dir/model"
"$PWD/bin/model-stub" >>"$dir/model" &
pids+=($!)
until [ -s "$dir/model" ]; do sleep 0.05; done
model=$(cat "$dir/model")

mkdir -p "$dir/agents/reviewer" "$dir/definitions"
cat >"$dir/agents/reviewer/agent.md" <<'MD'
---
name: reviewer
description: Reviews a change and says what is wrong with it
driver: command
command: [bash, -c, 'sed -n "s/^review: //p"']
allowed_callers: [main]
timeout_ms: 10000
---
You review changes.
MD
cat >"$dir/definitions/pirate.yaml" <<YAML
version: "2"
agents:
  root:
    model: stub
    description: Speaks like a pirate
    instruction: Speak like a pirate.
models:
  stub: {provider: openai, model: stub-large, base_url: $model/v1}
YAML
cat >"$dir/fleet.yaml" <<YAML
http: 127.0.0.1:0
grpc: 127.0.0.1:0
data: $dir/data
lifecycle:
  driver: cagent
  document: |
    version: "2"
    agents:
      root: {model: stub, description: works on one contract, instruction: Do what the contract says.}
    models:
      stub: {provider: openai, model: stub-large, base_url: $model/v1}
sessions: {agents_dir: $dir/definitions}
subagents: {dir: $dir/agents}
providers:
  agents:
    - {name: stub, kind: api, protocol: openai, base_url: $model/v1, keys: [STUB_KEY], model: stub-large, description: The stub of this demonstration, capabilities: [text_completion]}
YAML
: >"$dir/log"
STUB_KEY=sk-stub OPENAI_API_KEY=sk-stub "$fleet" serve --config "$dir/fleet.yaml" 2>>"$dir/log" &
pids+=($!)
until grep -q 'server started' "$dir/log"; do
	kill -0 "${pids[1]}" || { cat "$dir/log" >&2; exit 1; }
	sleep 0.05
done
http=http://$(grep -o 'http=[^ ]*' "$dir/log" | head -1 | cut -d= -f2)

# call TOOLSET TOOL ARGUMENTS calls a tool and keeps its result, the JSON in the one text of its content.
call() {
	printf '\033[2m%s  %s %s\033[0m\n' "/mcp/$1" "$2" "$3"
	local answer
	answer=$(curl -sS "$http/mcp/$1" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
		-d "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"$2\",\"arguments\":$3}}")
	result=$(sed -n 's/.*"structuredContent":\(.*\)}}$/\1/p' <<<"$answer" | sed "s#$http#http://127.0.0.1:8101#g")
	[ -n "$result" ] || { echo "$answer" >&2 && exit 1; }
	echo "$result"
}
field() { grep -o "\"$1\":\"[^\"]*\"" <<<"$result" | head -1 | cut -d'"' -f4; }

say "Contracts: an agent works on one contract, and reports its end"
call lifecycle agent_start '{"contract":"List the birds of the pond.\nmodel: tool agent_complete {\"summary\":\"Two kinds live there.\",\"payload\":\"mallard\\ngreylag goose\\n\"}"}'
id=$(field agent_id)
until call lifecycle agent_status "{\"agent_ids\":[\"$id\"]}" && [ "$(field status)" != running ]; do sleep 0.2; done
printf '\033[2m$ curl --compressed .../api/agents/ID/payload\033[0m\n'
curl -sS --compressed "$http/api/agents/$id/payload"

say "Sessions: an agent that is defined in a file remembers what was said"
call sessions list_agents '{"source":"files"}'
call sessions create_agent_session '{"agent":"pirate.yaml","session_name":"at the pond"}'
session=$(field agent_session_id)
call sessions send_message "{\"agent_session_id\":\"$session\",\"message\":\"Hello.\nmodel: say Arr, two ducks!\"}"
call sessions send_message "{\"agent_session_id\":\"$session\",\"message\":\"How many were they?\nmodel: say Two, as I said, matey.\"}"
call sessions close_agent_session "{\"agent_session_id\":\"$session\"}"

say "Providers: one request to one of many"
call providers probe_agent_status '{"agent_name":"stub"}'
call providers execute_agent_request '{"agent_name":"stub","prompt":"Say hello.\nmodel: say Hello!","config":{"temperature":0.7},"timeout":30}'

say "Subagents: agents/NAME/agent.md defines an agent with permissions of its own"
call subagents list_subagents '{}'
call subagents run_subagent '{"agent_name":"reviewer","prompt":"review: The loop never ends."}'
