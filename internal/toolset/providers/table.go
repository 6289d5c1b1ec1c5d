package providers

import (
	"slices"

	"fleet/internal/fleet"
)

// builtinProviders returns the built-in table of providers. It leaves out the CLI providers whose driver is not in drivers.
// Settings.Agents can change and remove entries, and add others.
func builtinProviders(drivers []fleet.Driver) []Provider {
	thinkingCapabilities := append(defaultCapabilitiesOf(KindAPI), CapabilityExtendedThinking)
	executionCapabilities := append(defaultCapabilitiesOf(KindCLI), CapabilityCodeExecution)
	all := []Provider{
		{
			Name: "claude", Kind: KindAPI, Description: "Claude models of Anthropic, by the Messages API",
			Protocol: ProtocolAnthropic, BaseURL: "https://api.anthropic.com", KeyVariables: []string{"ANTHROPIC_API_KEY"},
			Model: "claude-sonnet-4-5", Capabilities: thinkingCapabilities,
		},
		{
			Name: "openai", Kind: KindAPI, Description: "GPT models of OpenAI, by the Chat Completions API",
			Protocol: ProtocolOpenAI, BaseURL: "https://api.openai.com/v1", Vendor: "openai", KeyVariables: []string{"OPENAI_API_KEY"},
			Model: "gpt-4.1",
		},
		{
			Name: "codex", Kind: KindAPI, Description: "Codex models of OpenAI for code, through the Responses API",
			Protocol: ProtocolResponses, BaseURL: "https://api.openai.com/v1", Vendor: "openai", KeyVariables: []string{"OPENAI_API_KEY"},
			Model: "gpt-5-codex", Capabilities: thinkingCapabilities,
		},
		{
			Name: "o1", Kind: KindAPI, Description: "The reasoning model o1 of OpenAI, by the Chat Completions API",
			Protocol: ProtocolOpenAI, BaseURL: "https://api.openai.com/v1", Vendor: "openai", KeyVariables: []string{"OPENAI_API_KEY"},
			Model: "o1", Capabilities: thinkingCapabilities,
		},
		{
			Name: "deepseek", Kind: KindAPI, Description: "DeepSeek models, by DeepSeek's API",
			Protocol: ProtocolOpenAI, BaseURL: "https://api.deepseek.com/v1", Vendor: "deepseek", KeyVariables: []string{"DEEPSEEK_API_KEY"},
			Model: "deepseek-chat",
		},
		{
			Name: "qwen", Kind: KindAPI, Description: "Qwen models of Alibaba, by Model Studio's API",
			Protocol: ProtocolOpenAI, BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", Vendor: "qwen",
			KeyVariables: []string{"DASHSCOPE_API_KEY", "QWEN_API_KEY"}, Model: "qwen-plus",
		},
		{
			Name: "gemini", Kind: KindAPI, Description: "Gemini models of Google, through their OpenAI-compatible API",
			Protocol: ProtocolOpenAI, BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", Vendor: "google",
			KeyVariables: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, Model: "gemini-2.5-flash", Capabilities: thinkingCapabilities,
		},
		{
			Name: "mistral", Kind: KindAPI, Description: "Mistral models, through Mistral's API (La Plateforme)",
			Protocol: ProtocolOpenAI, BaseURL: "https://api.mistral.ai/v1", Vendor: "mistral", KeyVariables: []string{"MISTRAL_API_KEY"},
			Model: "mistral-large-latest",
		},
		{
			Name: "grok", Kind: KindAPI, Description: "Grok models of xAI",
			Protocol: ProtocolOpenAI, BaseURL: "https://api.x.ai/v1", Vendor: "xai", KeyVariables: []string{"XAI_API_KEY"}, Model: "grok-4",
		},
		{
			Name: "claude-code", Kind: KindCLI, Description: "Claude Code, the coding agent of Anthropic, on the server's machine",
			Driver: "claude",
		},
		{
			Name: "codex-cli", Kind: KindCLI, Description: "Codex, the coding agent of OpenAI, on the server's machine",
			Driver: "codex", Capabilities: executionCapabilities,
		},
		{
			Name: "gemini-cli", Kind: KindCLI, Description: "Gemini CLI, the coding agent of Google, on the server's machine",
			Driver: "gemini",
		},
		{
			Name: "opencode", Kind: KindCLI, Description: "opencode, a coding agent for any model, on the server's machine",
			Driver: "opencode", Capabilities: executionCapabilities,
		},
		{
			Name: "qwen-code", Kind: KindCLI, Description: "Qwen Code, the coding agent of Alibaba, on the server's machine",
			Driver: "command", Command: []string{"qwen", "--approval-mode", "auto-edit"},
			KeyVariables: []string{"DASHSCOPE_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"},
		},
		{
			Name: "goose", Kind: KindCLI, Description: "goose, a general agent for any model, on the server's machine",
			Driver: "command", Command: []string{"goose", "run", "--quiet", "--no-session", "-i", "-"}, Capabilities: executionCapabilities,
			KeyVariables: []string{"GOOSE_PROVIDER", "GOOSE_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"},
		},
		{
			Name: "aider", Kind: KindCLI, Description: "aider, a pair programmer for any model, on the server's machine",
			Driver: "command",
			Command: []string{
				"aider", "--yes-always", "--no-git", "--no-stream", "--no-pretty", "--no-check-update", "--analytics-disable",
				"--message-file", "{{.BriefFile}}",
			},
			KeyVariables: []string{"AIDER_MODEL", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY"},
		},
		{
			Name: "ollama", Kind: KindLocal, Description: "Models of an Ollama server on the server's machine",
			Protocol: ProtocolOllama, BaseURL: "http://127.0.0.1:11434", Model: "llama3.2",
		},
	}
	all = slices.DeleteFunc(all, func(p Provider) bool { return p.Kind == KindCLI && p.resolveDriver(drivers) != nil })
	for i := range all {
		if err := all[i].complete(drivers); err != nil {
			panic("providers: the table has a bad entry " + all[i].Name + ": " + err.Error()) // a test checks every entry
		}
	}
	return all
}
