# Installs fleet-runner in a workspace. It runs the tasks of the workspace's agent for Fleet. README.md says how to use this module.
terraform {
  required_version = ">= 1.4"
  required_providers {
    coder = {
      source  = "coder/coder"
      version = "~> 2.13"
    }
  }
}

variable "agent_id" {
  type        = string
  description = "The coder_agent in whose workspace tasks run."
}

variable "driver" {
  type        = string
  default     = "claude"
  description = "The agent's program, which must be on PATH: claude (Claude Code), codex, gemini, opencode, codex-acp or claude-agent-acp. Or acp or command (see the variable command), or shell (tasks are scripts)."
}

variable "command" {
  type        = list(string)
  default     = []
  description = "Program of the agent and its arguments, for the drivers acp and command, for example [\"my-agent\", \"acp\"]."
}

variable "args" {
  type        = list(string)
  default     = []
  description = "More arguments of fleet-runner serve, for example [\"-permission-mode\", \"bypassPermissions\"]."
}

variable "dir" {
  type        = string
  default     = ""
  description = "Directory that the agent works in; the home directory if it is empty. Fleet shows what tasks change only if it is in a git repository."
}

variable "setup" {
  type        = string
  default     = ""
  description = "Bash script that prepares the workspace before the runner starts. The agent gets the variables that it exports."
}

variable "url" {
  type        = string
  default     = ""
  description = "Where to get the program if it is not on PATH; {arch} becomes amd64 or arm64."
}

variable "sha256" {
  type        = map(string)
  default     = {}
  description = "Checksums of the program at url, for amd64 and arm64."
}

variable "port" {
  type        = number
  default     = 3285
  description = "Loopback port of the runner. Workspaces that share a host need different ports."
}

# Fleet finds the parameter by its name and sets it. It is a public key, so it is not secret.
data "coder_parameter" "fleet_public_key" {
  name         = "fleet_public_key"
  display_name = "Public key of Fleet"
  description  = "Fleet sets it. Leave it empty if you create a workspace yourself; the runner then does not start."
  type         = "string"
  default      = ""
  mutable      = true
  order        = 100
}

resource "coder_script" "fleet_runner" {
  agent_id     = var.agent_id
  display_name = "fleet-runner"
  run_on_start = true
  script = join("\n", [
    "#!/usr/bin/env bash",
    "export RUNNER_KEY=${base64encode(data.coder_parameter.fleet_public_key.value)}",
    "export RUNNER_ARGS=${base64encode(join("\n", concat(["-driver", var.driver, "-listen", "127.0.0.1:${var.port}"], var.dir == "" ? [] : ["-dir", var.dir], flatten([for word in var.command : ["-command", word]]), var.args)))}",
    "export RUNNER_SETUP=${base64encode(var.setup)}",
    "export RUNNER_URL=${base64encode(var.url)}",
    "export RUNNER_SHA256_amd64=${base64encode(lookup(var.sha256, "amd64", ""))}",
    "export RUNNER_SHA256_arm64=${base64encode(lookup(var.sha256, "arm64", ""))}",
    file("${path.module}/run.sh"),
  ])
}

# Fleet reaches the runner through this app, as the workspace's owner. Fleet finds the app by its slug.
resource "coder_app" "fleet_runner" {
  agent_id     = var.agent_id
  slug         = "fleet-runner"
  display_name = "fleet-runner"
  url          = "http://127.0.0.1:${var.port}"
  hidden       = true
  healthcheck {
    url       = "http://127.0.0.1:${var.port}/healthz"
    interval  = 2
    threshold = 15
  }
}
