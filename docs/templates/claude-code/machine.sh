#!/usr/bin/env bash
# machine.sh up|down|remove: starts, stops or removes the machine of a workspace, which is a process on this host with everything
# that it starts. MACHINE_HOME is its home. "up" also needs AGENT_TOKEN, and MACHINE_INIT, the script that starts Coder's agent.
set -euo pipefail
uuid='^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
[[ ${MACHINE_HOME##*/} =~ $uuid ]] || { echo "not the home of a workspace: $MACHINE_HOME" >&2; exit 1; }
own=$MACHINE_HOME/.fleet

# processes prints the pids of the workspace's processes. Each of them has this home in its environment, however it was started.
# grep fails if a process ends meanwhile, so its exit code is ignored.
processes() { { grep -lszxF "HOME=$MACHINE_HOME" /proc/[0-9]*/environ || true; } | cut -d/ -f3; }

# down ends the processes with TERM. It kills those that are left after five seconds.
down() {
  local signal try pids
  for signal in TERM KILL; do
    for try in {1..50}; do
      pids=$(processes)
      [ -n "$pids" ] || return 0
      # shellcheck disable=SC2086 # one word each
      [ "$try" != 1 ] || kill "-$signal" $pids 2>/dev/null || true
      sleep 0.1
    done
  done
  echo "still running: $pids" >&2
  return 1
}

# up starts Coder's agent with a new environment, because Terraform's has the owner's session token and SSH key.
up() {
  umask 077
  mkdir -p "$own/tmp" "$own/coder"
  printf '%s\n' "$MACHINE_INIT" > "$own/init.sh"
  (
    token=$AGENT_TOKEN
    for name in $(compgen -e); do
      case $name in PATH | USER | LANG) ;; *) unset "$name" ;; esac
    done
    export HOME=${own%/.fleet} SHELL=/bin/bash TERM=xterm-256color CODER_AGENT_TOKEN=$token
    # One host has many agents, so each gets files of its own and free ports.
    export TMPDIR=$own/tmp BINARY_DIR=$own/coder CODER_AGENT_LOG_DIR=$own CODER_AGENT_DEVCONTAINERS_ENABLE=false
    export CODER_AGENT_PPROF_ADDRESS=127.0.0.1:0 CODER_AGENT_PROMETHEUS_ADDRESS=127.0.0.1:0 CODER_AGENT_DEBUG_ADDRESS=127.0.0.1:0
    cd "$HOME"
    exec setsid sh "$own/init.sh"
  ) </dev/null >"$own/machine.log" 2>&1 &
}

case $1 in
  up) down && up ;; # down first, because a killed agent may have left processes
  down) down ;;
  remove) down && rm -rf -- "$MACHINE_HOME" ;;
  *) echo "usage: machine.sh up|down|remove" >&2 && exit 2 ;;
esac
