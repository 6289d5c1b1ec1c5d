# A project whose tasks are shell scripts, with fleet-runner. Replaces the template's main.tf.
data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

variable "refresh" {
  type = number
}

data "coder_parameter" "role" {
  name    = "role"
  type    = "string"
  default = "coder"
  mutable = true
  option {
    name  = "Software Engineer"
    value = "coder"
  }
  option {
    name  = "Operations Engineer"
    value = "operator"
  }
  option {
    name  = "Engineering Manager"
    value = "manager"
  }
}

data "coder_parameter" "spec" {
  name      = "spec"
  type      = "string"
  form_type = "textarea"
  default   = ""
  mutable   = true
}

data "coder_parameter" "fleet_owner" {
  name    = "fleet_owner"
  type    = "string"
  default = ""
  mutable = true
}

resource "coder_agent" "main" {
  os   = "linux"
  arch = local.arch
  dir  = local.home
  env = {
    AGENT_ROLE        = data.coder_parameter.role.value
    AGENT_SPEC_BASE64 = base64encode(data.coder_parameter.spec.value)
  }

  dynamic "metadata" {
    for_each = ["pull_request_url", "pull_request_status", "check_status", "agent_spec"]
    content {
      key      = metadata.value
      script   = "#!/bin/sh\nset -- ${metadata.value}\n${file("${path.module}/metadata.sh")}"
      interval = var.refresh
      timeout  = 10
    }
  }
}

module "fleet_runner" {
  source   = "./fleet-runner"
  agent_id = coder_agent.main.id
  driver   = "shell"
  args     = ["-ask"]
  port     = local.port
  dir      = "${local.home}/work"
  setup    = file("${path.module}/start.sh")
}
