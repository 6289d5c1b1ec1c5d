# Starts fleet-runner and keeps it running. The variables RUNNER_* are settings from main.tf, in base64.
set -euo pipefail
umask 077
for name in KEY ARGS SETUP URL SHA256_amd64 SHA256_arm64; do
  variable=RUNNER_$name
  printf -v "$name" %s "$(base64 -d <<< "${!variable}")"
  unset "$variable"
done
state=$HOME/.local/state/fleet-runner
mkdir -p "$state/bin"
if [ -z "$KEY" ]; then
  echo "fleet-runner is not started: this workspace was not made by Fleet, which fills in fleet_public_key"
  exit 0
fi

# --- one runner for each workspace
exec 9> "$state/lock"
flock -n 9 || exit 0

# --- the environment: with these variables, a program could fetch the owner's SSH key and git logins
for name in $(compgen -e); do
  case $name in CODER_* | GIT_ASKPASS | GIT_SSH_COMMAND) unset "$name" ;; esac
done
# shellcheck disable=SC1090 # the script is a variable of the template
source <(printf '%s\n' "$SETUP")

# --- the program: from PATH, else from the URL, with the checksum that the template names
program=$(command -v fleet-runner || true)
if [ -z "$program" ]; then
  case $(uname -m) in
    x86_64) arch=amd64 sum=$SHA256_amd64 ;;
    aarch64 | arm64) arch=arm64 sum=$SHA256_arm64 ;;
    *) echo "there is no fleet-runner for $(uname -m)" >&2 && exit 1 ;;
  esac
  if [ -z "$URL" ] || [ -z "$sum" ]; then
    echo "fleet-runner is not on PATH: install it in the image, or set url and sha256 ($arch) of the module" >&2
    exit 1
  fi
  program=$state/bin/fleet-runner-$sum
  if [ ! -x "$program" ]; then
    curl -fsSL --retry 3 -o "$program.new" "${URL//"{arch}"/$arch}"
    sha256sum --status -c - <<< "$sum  $program.new" || { echo "fleet-runner from $URL has another checksum than the template names" >&2 && exit 1; }
    chmod 700 "$program.new"
    mv "$program.new" "$program"
  fi
fi

# --- start it, and start it again whenever it ends
mapfile -t args <<< "$ARGS"
export FLEET_PUBLIC_KEY=$KEY
# shellcheck disable=SC2016 # the inner shell expands it
setsid nohup bash -c 'while :; do "$@" 9>&-; sleep 1; done' fleet-runner "$program" serve "${args[@]}" < /dev/null >> "$state/log" 2>&1 &
