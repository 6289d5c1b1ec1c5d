#!/usr/bin/env bash
# Replaces the template's script in the test bed: starts the scripted agent in place of Claude Code.
set -euo pipefail
exec "${HOME%/ws/*}/lib/start-agentapi.sh"
