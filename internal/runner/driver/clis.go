package driver

// Known is an agent CLI that needs no configuration once it is installed.
type Known struct {
	Name        string // of the program, and of its project
	DisplayName string
	Options     Options
	Install     string // how to install it
}

// CLIs returns the known agent CLIs, Claude Code first.
//
// They may change files in the agent's directory. For anything else, the program's configuration or the project's decides.
func CLIs() []Known {
	return []Known{
		{
			Name: "claude", DisplayName: "Claude Code", Install: "npm install -g @anthropic-ai/claude-code",
			Options: Options{Kind: "claude"},
		},
		{
			Name: "codex", DisplayName: "Codex", Install: "npm install -g @openai/codex",
			Options: Options{Kind: "codex"},
		},
		{
			Name: "gemini", DisplayName: "Gemini CLI", Install: "npm install -g @google/gemini-cli",
			Options: Options{
				Kind: "acp", Command: []string{"gemini", "--acp"}, Keys: []string{"GEMINI_*", "GOOGLE_*"}, Tested: "0.61.0",
				// Otherwise it runs commands in a pseudo-terminal, which a confined program cannot create.
				Env: map[string]string{"GEMINI_PTY_INFO": "child_process"},
				// It names the files of a session by the minute, and starts to write before it reads existing ones.
				Minutes: true,
				// Otherwise it removes all files of a session when one of them is empty, and each start creates an
				// empty one.
				Home: map[string]string{".gemini/settings.json": `{"general":{"sessionRetention":{"enabled":false}}}` + "\n"},
			},
		},
		{
			Name: "opencode", DisplayName: "opencode", Install: "npm install -g opencode-ai",
			Options: Options{
				Kind: "acp", Command: []string{"opencode", "acp"}, Tested: "1.18.33",
				Keys: []string{"OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "OPENROUTER_API_KEY", "GROQ_API_KEY"},
				// Otherwise it never asks for permissions.
				Env: map[string]string{"OPENCODE_PERMISSION": `{"edit":"ask","bash":"ask","webfetch":"ask"}`},
			},
		},
		{
			Name: "codex-acp", DisplayName: "Codex over ACP", Install: "npm install -g @agentclientprotocol/codex-acp",
			Options: Options{
				Kind: "acp", Command: []string{"codex-acp"}, Keys: []string{"OPENAI_*", "CODEX_*"}, Tested: "2.6.0",
				// Otherwise another model answers its requests for permissions, and not the role.
				Env: map[string]string{"INITIAL_AGENT_MODE": "read-only", "NO_BROWSER": "1"},
			},
		},
		{
			Name: "claude-agent-acp", DisplayName: "Claude Code over ACP", Install: "npm install -g @agentclientprotocol/claude-agent-acp",
			Options: Options{
				Kind: "acp", Command: []string{"claude-agent-acp"}, Tested: "0.100.0",
				Keys: []string{"ANTHROPIC_*", "CLAUDE_*", "DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "DISABLE_ERROR_REPORTING"},
			},
		},
	}
}

// HowToInstall returns how to install the program; empty if unknown.
func HowToInstall(program string) string {
	for _, k := range CLIs() {
		if k.Name == program {
			return "install it with \"" + k.Install + "\""
		}
	}
	switch program {
	case "bash", "git":
		return "install the package \"" + program + "\" of your system"
	}
	return ""
}
