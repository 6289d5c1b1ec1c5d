# Where the workspace runs: here, as a process on the host of Coder's provisioner. Replace this file for containers or virtual
# machines; README.md has one for Docker. It must set three values for main.tf, and give the agent its token. The machine must get
# nothing else from Terraform's environment, which has the owner's secrets.
terraform {
  required_version = ">= 1.4"
  required_providers {
    coder = {
      source  = "coder/coder"
      version = "~> 2.13"
    }
  }
}

variable "root" {
  type        = string
  default     = "/var/lib/coder-workspaces"
  description = "Directory on the host for the workspaces' homes."
}

locals {
  arch = data.coder_provisioner.me.arch
  home = "${var.root}/${data.coder_workspace.me.id}"
  # All workspaces share the host's ports. The port is below the range that Linux uses for outgoing connections.
  port = 20000 + parseint(substr(sha1(data.coder_workspace.me.id), 0, 6), 16) % 10000
}

# The home: kept when the workspace stops, removed when it is deleted.
resource "terraform_data" "home" {
  input = local.home
  provisioner "local-exec" {
    when        = destroy
    interpreter = ["bash", "${path.module}/machine.sh"]
    command     = "remove"
    environment = { MACHINE_HOME = self.input }
  }
}

# The machine. Each start creates a new one, because the agent has a new token.
resource "terraform_data" "machine" {
  count            = data.coder_workspace.me.start_count
  depends_on       = [terraform_data.home]
  triggers_replace = [coder_agent.main.token]
  input            = local.home
  provisioner "local-exec" {
    interpreter = ["bash", "${path.module}/machine.sh"]
    command     = "up"
    environment = {
      MACHINE_HOME = self.input
      MACHINE_NAME = "${data.coder_workspace_owner.me.name}/${data.coder_workspace.me.name}"
      MACHINE_INIT = coder_agent.main.init_script
      AGENT_TOKEN  = coder_agent.main.token
    }
  }
  provisioner "local-exec" {
    when        = destroy
    interpreter = ["bash", "${path.module}/machine.sh"]
    command     = "down"
    environment = { MACHINE_HOME = self.input }
  }
}
