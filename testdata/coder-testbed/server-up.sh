#!/bin/bash
# Starts the Coder server, unless it runs. up.sh calls this when the database is up.
# server-up.sh --kill first kills the running server, as a crash would. Tests use it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
t0=$SECONDS
[ "${1:-}" != --kill ] || stop_pids KILL 5 "$SERVER_PID"

if ! live_pid "$SERVER_PID" >/dev/null; then
  # the program that a template's init script downloads: http://.../bin/coder-linux-ARCH
  mkdir -p "$RUN/coder-cache/site/bin"
  ln -sf "$BIN/coder-slim" "$RUN/coder-cache/site/bin/coder-linux-$(dpkg --print-architecture)"
  # env -i: nothing of the caller's environment reaches the server, Terraform or the workspaces
  env -i PATH="$BIN:$PATH" HOME="$RUN/home" TMPDIR="$RUN/tmp" USER="$(id -un)" LANG=C.UTF-8 \
    CODER_HTTP_ADDRESS="127.0.0.1:$CODER_PORT" \
    CODER_ACCESS_URL="$URL" \
    CODER_PG_CONNECTION_URL="postgres://coder@127.0.0.1:$PG_PORT/coder?sslmode=disable" \
    CODER_CONFIG_DIR="$RUN/coder-config" \
    CODER_CACHE_DIRECTORY="$RUN/coder-cache" \
    CODER_TELEMETRY_ENABLE=false \
    CODER_UPDATE_CHECK=false \
    CODER_DERP_SERVER_STUN_ADDRESSES=disable \
    CODER_EXPERIMENTS=oauth2,mcp-server-http \
    CODER_PROVISIONER_TYPES=echo,terraform \
    CODER_PROVISIONER_DAEMONS=4 \
    CODER_PROVISIONER_DAEMON_POLL_INTERVAL=250ms \
    CODER_PROVISIONER_DAEMON_POLL_JITTER=50ms \
    CODER_PROVISIONER_FORCE_CANCEL_INTERVAL="${CODER_PROVISIONER_FORCE_CANCEL_INTERVAL:-10m}" \
    CODER_DANGEROUS_DISABLE_RATE_LIMITS=true \
    CODER_NO_FEATURE_WARNING=true \
    CODER_MAX_TOKEN_LIFETIME=8760h \
    CODER_MAX_ADMIN_TOKEN_LIFETIME=8760h \
    TF_CLI_CONFIG_FILE="$TF_RC" \
    setsid nohup "$BIN/coder" server </dev/null >"$TESTBED_DIR/logs/server.log" 2>&1 &
  record_pid "$SERVER_PID" $!
fi
for _ in $(seq 1 240); do
  curl -sf -o /dev/null "$URL/healthz" && break
  live_pid "$SERVER_PID" >/dev/null || { tail -5 "$TESTBED_DIR/logs/server.log" >&2; die "the server ended; its log is $TESTBED_DIR/logs/server.log"; }
  sleep 0.25
done
curl -sf -o /dev/null "$URL/healthz" || die "the server does not become healthy; its log is $TESTBED_DIR/logs/server.log"
say "Coder answers at $URL after $((SECONDS - t0)) s"
