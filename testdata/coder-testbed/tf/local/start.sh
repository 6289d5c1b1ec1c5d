#!/usr/bin/env bash
# The test bed's startup script, laid over the template's: the scripted agent, in place of Claude Code.
set -euo pipefail
exec "${HOME%/ws/*}/lib/start-agentapi.sh"
