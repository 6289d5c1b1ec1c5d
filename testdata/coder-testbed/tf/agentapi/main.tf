# A workspace with a program in a terminal that AgentAPI serves, as templates without fleet-runner have it. Laid over the
# main.tf of docs/templates/claude-code, whose parameters, presets and metadata it shares.

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

# Whose agent it is, when all workspaces belong to the Coder user of Fleet's token: Fleet can then be rebuilt from Coder alone.
data "coder_parameter" "fleet_owner" {
  name         = "fleet_owner"
  display_name = "Owner in Fleet"
  description  = "Filled in by Fleet. Leave it empty by hand."
  type         = "string"
  default      = ""
  mutable      = true
  order        = 3
}

# The presets leave spec alone: a preset's value would win over the one that a request gives.
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
  # Coder expands $NAME in these values, with the environment of its own agent: free text goes through as base64.
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

# Fleet talks to the agent through this app, as the workspace's owner. Its slug is what Fleet looks for.
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
