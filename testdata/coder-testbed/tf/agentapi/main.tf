# A workspace whose agent is a program in a terminal, behind AgentAPI, as in templates without fleet-runner. This replaces the
# main.tf of docs/templates/claude-code, and has the same parameters, presets and metadata.

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
  description  = "What this agent is for: objective, context, deliverables; or the path of a file that says so."
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
  os             = "linux"
  arch           = local.arch
  dir            = local.home
  startup_script = file("${path.module}/start.sh")
  # Coder expands $NAME in these values with the environment of its own agent, so free text is encoded as base64.
  env = {
    AGENT_ROLE        = data.coder_parameter.role.value
    AGENT_SPEC_BASE64 = base64encode(data.coder_parameter.spec.value)
    AGENT_PORT        = local.port
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

# Fleet reaches the agent through this app, as the workspace's owner. Fleet finds the app by its slug.
resource "coder_app" "agentapi" {
  agent_id     = coder_agent.main.id
  slug         = "agentapi"
  display_name = "AgentAPI"
  url          = "http://127.0.0.1:${local.port}"
  healthcheck {
    url       = "http://127.0.0.1:${local.port}/status"
    interval  = 2
    threshold = 15
  }
}
