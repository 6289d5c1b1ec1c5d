#!/usr/bin/env bash
# machine.sh up|down|remove: replaces the template's script in the test bed. Terraform deletes its copy after a build, so this calls
# scripts that stay: up.sh after down.sh starts the same machine again, without Terraform.
set -euo pipefail
exec "${MACHINE_HOME%/ws/*}/lib/machine-$1.sh" "$MACHINE_HOME"
