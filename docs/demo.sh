#!/usr/bin/env bash
# Runs the main job from nothing: a server, two agents in two roles, real work in a real git repository, a task that is
# stopped half-way, and the history through the CLI, REST and MCP. Leaves nothing behind.
set -euo pipefail
cd "$(dirname "$0")/.."
fleet=$PWD/bin/fleet
dir=$(mktemp -d)
server=
begun=$SECONDS

cleanup() {
	[ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
	rm -rf "$dir"
}
trap cleanup EXIT

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
show() { printf '\033[2m$ %s\033[0m\n' "$*" && "$@"; }

say "A git repository with a Go program in it"
repo=$dir/calc
mkdir "$repo"
cat >"$repo/go.mod" <<<$'module calc\n\ngo 1.22'
cat >"$repo/calc.go" <<<$'package calc\n\nfunc Add(a, b int) int { return a + b }'
git -C "$repo" init -q -b main
git -C "$repo" config user.name demo
git -C "$repo" config user.email demo@example.com
git -C "$repo" add .
git -C "$repo" commit -qm "A calculator that adds"
git -C "$repo" log --oneline

say "A server, with the repository as a project"
cache=$(go env GOCACHE) # agents compile faster with the cache of this user, which they could not write otherwise
mkdir -p "$cache"
cat >"$dir/fleet.yaml" <<YAML
http: 127.0.0.1:0
grpc: 127.0.0.1:0
data: $dir/data
local:
  projects:
    - name: calc
      display_name: Calculator
      description: A small Go module
      repository: $repo
      driver: shell
      env: {GOCACHE: "$cache"}
      write: ["$cache"]
YAML
cat "$dir/fleet.yaml"
: >"$dir/log"
"$fleet" serve --config "$dir/fleet.yaml" 2>>"$dir/log" &
server=$!
until grep -q 'server started' "$dir/log"; do
	kill -0 "$server" || { cat "$dir/log" >&2; exit 1; }
	sleep 0.05
done
http=$(grep -o 'http=[^ ]*' "$dir/log" | head -1 | cut -d= -f2)
FLEET_SERVER=$(grep -o 'grpc=[^ ]*' "$dir/log" | head -1 | cut -d= -f2)
export FLEET_SERVER
show "$fleet" project list
show "$fleet" role list calc

say "Two agents in two roles, each with a working copy of its own"
show "$fleet" agent create ada --project calc --role coder --spec "Extend the calculator, with tests"
show "$fleet" agent create otto --project calc --role operator --spec "Watch the calculator"

say "ada writes code, tests it and commits it, while we watch"
show "$fleet" task run ada - --follow <<'TASK'
echo "working in $(git rev-parse --show-toplevel | xargs basename) on branch $(git branch --show-current)"
printf '\nfunc Mul(a, b int) int { return a * b }\n' >>calc.go
cat >calc_test.go <<'GO'
package calc

import "testing"

func TestMul(t *testing.T) {
	if got := Mul(6, 7); got != 42 {
		t.Fatalf("Mul(6, 7) = %d", got)
	}
}
GO
go test -v ./...
git add .
git -c user.name=ada -c user.email=ada@example.com commit -qm "The calculator multiplies"
git show --stat --oneline | tee "$FLEET_PAYLOAD"
echo "Mul is there, tested and committed" >"$FLEET_SUMMARY"
TASK

say "otto starts a long task, and is stopped half-way"
show "$fleet" task run otto 'for i in $(seq 100); do echo "looking, $i"; sleep 0.2; done'
sleep 1
show "$fleet" agent list
show "$fleet" task stop otto

say "The history, by command line, curl and MCP"
show "$fleet" task list ada
show "$fleet" task list otto
task=$("$fleet" task list ada -o json | grep -o '"id": "[^"]*"' | head -1 | cut -d'"' -f4)
show "$fleet" task show "$task" --payload
show curl -sS "http://$http/v1/tasks/$task?include_payload=true"
echo
show curl -sS "http://$http/mcp" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
	-d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"show_agent_task_history","arguments":{"agent_name":"otto"}}}'
echo

say "Both agents are deleted; the commits of ada stay on a branch of the repository"
show "$fleet" agent delete ada otto --yes
git -C "$repo" branch -v

printf '\nDone in %d s.\n' $((SECONDS - begun))
