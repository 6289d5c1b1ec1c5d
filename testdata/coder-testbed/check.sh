#!/bin/bash
# Checks the template for users, and the test bed's templates, which are made from it: terraform fmt and validate, and shellcheck if
# it is installed. It needs the programs of build.sh, but no running server.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[ -x "$BIN/terraform" ] || die "not built yet: run build.sh"
export TF_CLI_CONFIG_FILE=$TF_RC
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

"$BIN/terraform" fmt -check -diff -recursive "$TEMPLATE"
"$BIN/terraform" fmt -check -diff -recursive "$MODULE"
"$BIN/terraform" fmt -check -diff -recursive "$HERE/tf"
for layers in "" "local" "local runner" "agentapi local" "agentapi local legacy" "agentapi local prompt" "agentapi local plain"; do
  rm -rf "$tmp/t"
  cp -r "$TEMPLATE" "$tmp/t"
  cp -r "$MODULE" "$tmp/t/"
  for layer in $layers; do cp "$HERE/tf/$layer"/* "$tmp/t/"; done
  "$BIN/terraform" -chdir="$tmp/t" init -backend=false >"$tmp/log" 2>&1 || { cat "$tmp/log"; die "init fails: claude-code $layers"; }
  "$BIN/terraform" -chdir="$tmp/t" validate >"$tmp/log" 2>&1 || { cat "$tmp/log"; die "not valid: claude-code $layers"; }
  say "valid: claude-code${layers:+ with $layers}"
done
if command -v shellcheck >/dev/null; then
  shellcheck -x "$HERE"/*.sh "$HERE"/workspace/*.sh "$HERE"/tf/*/*.sh "$TEMPLATE"/*.sh "$MODULE"/*.sh
  say "shellcheck finds nothing"
fi
