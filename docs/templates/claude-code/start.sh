# shellcheck shell=bash
# Prepares the workspace for Claude Code. The module fleet-runner runs this before it starts the runner, without Coder's own
# variables. The runner gets the variables that are exported here. If the home or the image already has claude, no internet is needed.
export PATH=$HOME/.local/bin:$PATH DISABLE_AUTOUPDATER=1
mkdir -p "$HOME/.fleet" "$HOME/work"
for name in ANTHROPIC_API_KEY GH_TOKEN; do
  [ -n "${!name:-}" ] || unset "$name"
done

# --- programs
command -v claude >/dev/null || curl -fsSL https://claude.ai/install.sh | bash

# --- the project
if [ -n "${GH_TOKEN:-}" ]; then
  # shellcheck disable=SC2016 # git expands it when it needs the login
  git config --global credential.helper '!f() { echo username=x-access-token; echo "password=$GH_TOKEN"; }; f'
fi
if [ -n "$AGENT_REPOSITORY" ] && [ ! -d "$HOME/work/.git" ]; then
  git clone -- "$AGENT_REPOSITORY" "$HOME/work"
fi

# --- the role; Fleet adds the spec to it
case $AGENT_ROLE in
  operator) prompt="You are an operations engineer. You manage deployments, monitor systems and handle incidents. Look before you act, and prefer what can be undone." ;;
  manager) prompt="You are an engineering manager. You coordinate work, review specs and verify that results are what was asked for. You do not write the code yourself." ;;
  *) prompt="You are a software engineer. You write code, implement features and fix bugs, with tests, on a branch of your own, and open a pull request." ;;
esac
printf '%s\n' "$prompt" > "$HOME/.fleet/prompt.md"
