# A workspace with Claude Code, and with what Fleet needs: parameters for the role and the spec, fleet-runner, four metadata items.
# machine.tf says where the workspace runs. start.sh prepares it, and metadata.sh prints its metadata.

variable "anthropic_api_key" {
  type        = string
  default     = ""
  sensitive   = true
  description = "Key of the Anthropic API, for the agent only. If it is empty, log in once in the workspace."
}

variable "github_token" {
  type        = string
  default     = ""
  sensitive   = true
  description = "Token of the agent's own GitHub account, to clone, push and read pull requests. Never a person's."
}

variable "repository" {
  type        = string
  default     = ""
  description = "Git repository that agents work on, as an https URL. If it is empty, they work in an empty directory."
}

variable "model" {
  type        = string
  default     = ""
  description = "Model of the agent. If it is empty, Claude Code chooses."
}

variable "runner_url" {
  type        = string
  default     = ""
  description = "Where to get fleet-runner if it is not on PATH; {arch} becomes amd64 or arm64."
}

variable "runner_sha256" {
  type        = map(string)
  default     = {}
  description = "Checksums of fleet-runner at runner_url, for amd64 and arm64."
}

variable "permission_mode" {
  type        = string
  default     = "bypassPermissions"
  description = "Claude Code's permission mode. In any mode except bypassPermissions, it asks people before it does what is not allowed."
}

variable "refresh" {
  type        = number
  default     = 30
  description = "Seconds between two readings of the metadata."
}

data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

data "coder_parameter" "role" {
  name         = "role"
  display_name = "Role"
  description  = "What the agent of this workspace does."
  type         = "string"
  form_type    = "radio"
  default      = "coder"
  mutable      = true
  order        = 1
  option {
    name        = "Software Engineer"
    value       = "coder"
    description = "Writes code, implements features, fixes bugs"
  }
  option {
    name        = "Operations Engineer"
    value       = "operator"
    description = "Manages deployments, monitors systems, handles incidents"
  }
  option {
    name        = "Engineering Manager"
    value       = "manager"
    description = "Coordinates work, reviews specs, verifies agent alignment"
  }
}

data "coder_parameter" "spec" {
  name         = "spec"
  display_name = "Spec"
  description  = "What this agent is for: objective, context and deliverables, or the path of a file that has them."
  type         = "string"
  form_type    = "textarea"
  default      = ""
  mutable      = true
  order        = 2
}

# The agent's owner in Fleet, for workspaces that all belong to the Coder user of Fleet's token. With it, Fleet can find the owner again
# if it has lost its database.
data "coder_parameter" "fleet_owner" {
  name         = "fleet_owner"
  display_name = "Owner in Fleet"
  description  = "Fleet sets it. Leave it empty if you create a workspace yourself."
  type         = "string"
  default      = ""
  mutable      = true
  order        = 3
}

# The presets do not set spec, because a preset's value overrides the value in a request.
data "coder_workspace_preset" "coder" {
  name        = "Software Engineer"
  description = "Writes code, implements features, fixes bugs"
  default     = true
  parameters  = { role = "coder" }
}

data "coder_workspace_preset" "operator" {
  name        = "Operations Engineer"
  description = "Manages deployments, monitors systems, handles incidents"
  parameters  = { role = "operator" }
}

data "coder_workspace_preset" "manager" {
  name        = "Engineering Manager"
  description = "Coordinates work, reviews specs, verifies agent alignment"
  parameters  = { role = "manager" }
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = local.arch
  dir  = local.home
  # Coder expands $NAME in these values with the environment of its own agent, so free text is encoded as base64.
  env = {
    AGENT_ROLE        = data.coder_parameter.role.value
    AGENT_SPEC_BASE64 = base64encode(data.coder_parameter.spec.value)
    AGENT_REPOSITORY  = var.repository
    ANTHROPIC_API_KEY = var.anthropic_api_key
    GH_TOKEN          = var.github_token
  }

  dynamic "metadata" {
    for_each = [
      ["pull_request_url", "Pull request"],
      ["pull_request_status", "Pull request status"],
      ["check_status", "Check status"],
      ["agent_spec", "Agent spec"],
    ]
    content {
      key          = metadata.value[0]
      display_name = metadata.value[1]
      script       = "#!/bin/sh\nset -- ${metadata.value[0]}\n${file("${path.module}/metadata.sh")}"
      interval     = var.refresh
      timeout      = 10
      order        = metadata.key
    }
  }
}

# Fleet talks to the agent through this runner: a copy of docs/templates/fleet-runner.
module "fleet_runner" {
  source   = "./fleet-runner"
  agent_id = coder_agent.main.id
  port     = local.port
  dir      = "${local.home}/work"
  setup    = file("${path.module}/start.sh")
  args     = concat(["-permission-mode", var.permission_mode, "-model", var.model, "-prompt-file", "${local.home}/.fleet/prompt.md"], var.permission_mode == "bypassPermissions" ? [] : ["-ask"])
  url      = var.runner_url
  sha256   = var.runner_sha256
}
