# fleet-runner in a workspace: the program that runs the tasks of the workspace's agent for Fleet. README.md says how to use it.
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
  description = "What the agent is: claude (Claude Code), codex, gemini, opencode, codex-acp or claude-agent-acp, whose program must be on PATH; acp or command (see command); or shell (tasks are scripts)."
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
  description = "Directory that the agent works in: a git repository, or nobody can tell what tasks change. Empty: the home directory."
}

variable "setup" {
  type        = string
  default     = ""
  description = "Bash that gets the workspace ready before the runner starts. What it exports is there for the agent."
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
  description = "Loopback port of the runner. Workspaces that share a host need different ones."
}

# Fleet looks for the parameter by its name and fills it in. It is a public key: it may be seen by anybody.
data "coder_parameter" "fleet_public_key" {
  name         = "fleet_public_key"
  display_name = "Public key of Fleet"
  description  = "Filled in by Fleet. Leave it empty by hand: the runner then does not start."
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

# Fleet reaches the runner through this app, as the workspace's owner. Its slug is what Fleet looks for.
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
