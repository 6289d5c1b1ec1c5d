# A project as in a real fleet: it has neither role nor spec, but a prompt, and presets that set a system prompt. The agent begins to
# work on the prompt as soon as it starts. Replaces the template's main.tf.
data "coder_provisioner" "me" {}
data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

data "coder_parameter" "prompt" {
  name      = "AI Prompt"
  type      = "string"
  form_type = "textarea"
  default   = ""
  mutable   = true
}

data "coder_parameter" "system_prompt" {
  name      = "system_prompt"
  type      = "string"
  form_type = "textarea"
  default   = ""
  mutable   = true
}

data "coder_workspace_preset" "coder" {
  name       = "Coder"
  parameters = { system_prompt = "You write code." }
}

data "coder_workspace_preset" "operator" {
  name       = "Operator"
  parameters = { system_prompt = "You keep it running." }
}

resource "coder_agent" "main" {
  os             = "linux"
  arch           = local.arch
  dir            = local.home
  startup_script = file("${path.module}/start.sh")
  env = {
    AGENT_PORT          = local.port
    AGENT_APP_SLUG      = "ccw"
    AGENT_PROMPT_BASE64 = base64encode(data.coder_parameter.prompt.value)
  }
}

resource "coder_app" "agentapi" {
  agent_id     = coder_agent.main.id
  slug         = "ccw"
  display_name = "Claude Code Web"
  url          = "http://127.0.0.1:${local.port}"
  healthcheck {
    url       = "http://127.0.0.1:${local.port}/status"
    interval  = 2
    threshold = 15
  }
}
